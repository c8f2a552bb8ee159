//! Predictions compared with counts: the engine carries out the calls of a pattern, its ranks are
//! threads on hosts that are names, and the output of `aggio simulate` for as many ranks is
//! compared.
//!
//! The table of all cases is left in `tmp/counted.md` of the target directory.

#[path = "../../src/simulate/engine.rs"]
#[allow(dead_code)]
mod engine;

mod disk;
mod watched;

use agg_core::datatype::Datatype;
use agg_core::driver::Driver;
use agg_core::exchange::{self, Habits, PlanCache, Request, Scene};
use agg_core::hints::Hints;
use agg_core::memory::Memory;
use agg_core::plan::aggregators;
use agg_core::report::Counters;
use agg_core::tags::Tags;
use agg_core::task::block_on;
use agg_core::transport::{ThreadTransport, Transport};
use aggio_patterns::Pattern;
use disk::Disk;
use std::process::Command;
use std::sync::Arc;
use watched::{Traffic, Watched};

/// Of one pattern on so many ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Messages with data, and their data bytes.
    messages: u64,
    bytes: u64,
    /// Messages without data.
    control: u64,
    /// Requests to the file.
    requests: u64,
}

struct Case {
    ranks: u64,
    per_node: u64,
    pattern: &'static str,
    writes: bool,
}

/// The last ones have gaps that nobody fills: the number of requests is an upper bound.
const PATTERNS: &[&str] = &[
    "contiguous,bytes=4M",
    "interleaved,piece=1K,bytes=4M",
    "interleaved,piece=47008,bytes=4M",
    "blocks,array=128x128x32,element=8",
    "columns,arrays=64,rows=64,width=16,lead=256",
    "records,record=4700,bytes=512K",
    "variables,count=5,piece=8K",
    "strided,piece=1K,hole=1K,bytes=2M",
    "random,slot=2K,bytes=512K,seed=3",
];

impl Case {
    fn hosts(&self) -> Vec<String> {
        (0..self.ranks).map(|rank| format!("node{}", rank / self.per_node)).collect()
    }

    /// Carries out the calls, all ranks at the same time.
    fn counted(&self) -> Counts {
        let pattern: Pattern = self.pattern.parse().expect(self.pattern);
        let disk = Disk::new(pattern.span(self.ranks));
        let traffic = Arc::new(Traffic::default());
        let of_ranks: Vec<(u64, u64)> = std::thread::scope(|scope| {
            let start = |ranks: Arc<ThreadTransport>| {
                let watched = Watched::new(ranks, &traffic);
                let (pattern, disk) = (&pattern, &disk);
                scope.spawn(move || self.play(&watched, pattern, disk))
            };
            let group = ThreadTransport::group_on(self.hosts());
            let threads: Vec<_> = group.into_iter().map(start).collect();
            threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect()
        });
        let messages = of_ranks.iter().map(|counts| counts.0).sum();
        let bytes = of_ranks.iter().map(|counts| counts.1).sum();
        let requests = if self.writes { disk.writes() } else { disk.reads() };
        Counts { messages, bytes, control: traffic.messages() - messages, requests }
    }

    /// One rank's calls; its messages with data, and their bytes.
    fn play(&self, transport: &Watched, pattern: &Pattern, disk: &Arc<Disk>) -> (u64, u64) {
        let access = pattern.access(transport.rank() as u64, self.ranks);
        let view = engine::view(&access.view).expect("a view");
        let (hints, tags) = (Hints::default(), Tags::new(transport.max_tag()));
        let (counters, plan_cache) = (Counters::default(), PlanCache::default());
        let (driver, facts) = (disk::Access::new(disk), disk.facts());
        let aggregators = aggregators::from_hints(transport.hosts(), &hints).expect("ranks");
        let scene = Scene {
            logs: false,
            staged: false,
            elides: false,
            transport,
            driver: &driver as &dyn Driver,
            atomic: None,
            aggregators: &aggregators,
            facts: &facts,
            hints: &hints,
            counters: &counters,
            habits: &Habits::default(),
            plan_cache: &plan_cache,
            map: None,
        };
        for call in &access.calls {
            let mut data = vec![7u8; call.bytes as usize];
            // SAFETY: `data` lives, and nobody else touches it, until the call has ended.
            let memory = unsafe { Memory::new(data.as_mut_ptr(), Datatype::bytes(call.bytes), 1) };
            let request = Ok(Request { view: &view, position: call.position, memory: &memory });
            let tags = tags.next();
            let idle = |waits| transport.idle(waits);
            let outcome = match self.writes {
                true => block_on(exchange::write(scene, request, &tags), idle),
                false => block_on(exchange::read(scene, request, &tags), idle),
            };
            assert_eq!((outcome.bytes, outcome.result), (call.bytes, Ok(())));
        }
        let totals = counters.totals();
        (totals.messages, totals.message_bytes)
    }

    /// The prediction, and whether that of requests is more than an upper bound.
    fn predicted(&self) -> (Counts, bool) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aggio"));
        command.args(["simulate", "--json", "--machine", "cluster", "--ranks"]);
        command.arg(self.ranks.to_string()).args(disk::MACHINE);
        command.arg("--set").arg(format!("ranks_per_node={}", self.per_node));
        if !self.writes {
            command.arg("--read");
        }
        let output = command.arg(self.pattern).output().expect("the program starts");
        assert!(output.status.success(), "{output:?}");
        let all: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let plan = &all["machines"][0]["patterns"][0]["outcomes"][0]["plans"][0];
        let number = |name: &str| plan[name].as_u64().expect(name);
        let counts = Counts {
            messages: number("messages"),
            bytes: number("bytes"),
            control: number("control_messages"),
            requests: number("requests"),
        };
        (counts, plan["requests_exact"] == true)
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for pattern in PATTERNS {
        for (ranks, per_node) in [(2, 1), (4, 4), (4, 2), (8, 2), (12, 5), (16, 16), (16, 4)] {
            for writes in [true, false] {
                cases.push(Case { ranks, per_node, pattern, writes });
            }
        }
    }
    cases
}

fn both(predicted: u64, counted: u64) -> String {
    if predicted == counted { counted.to_string() } else { format!("{predicted} / {counted}") }
}

#[test]
fn a_real_call_sends_and_stores_what_is_predicted() {
    let mut table = String::from(
        "\n## Predictions beside counts of real calls\n\n\
         The engine carries out the calls, its ranks are threads on nodes that have names only, \
         and a \
         request takes 262 us. Where two numbers differ the first one is predicted: bytes grow by \
         what \
         tells the receiver their places, and requests for pieces with gaps between them have an \
         upper \
         bound (`≤`).\n\n\
         | pattern | direction | ranks | on nodes of | messages with data | their bytes | other \
         messages | requests |\n\
         |---|---|--:|--:|--:|--:|--:|--:|\n",
    );
    for case in cases() {
        let (counted, (predicted, exact)) = (case.counted(), case.predicted());
        let direction = if case.writes { "write" } else { "read" };
        let Case { ranks, per_node, pattern, .. } = case;
        let what = format!("{direction} {pattern}, {ranks} ranks on nodes of {per_node}");
        let requests = match exact {
            true => counted.requests,
            false => predicted.requests,
        };
        assert!(counted.requests <= predicted.requests, "{what}: {counted:?}, {predicted:?}");
        // Messages also say which bytes they hold: some words, or a bit for each byte.
        let words = predicted.bytes..=predicted.bytes * 9 / 8 + 64 * predicted.messages;
        assert!(words.contains(&counted.bytes), "{what}: {counted:?}, {predicted:?}");
        assert_eq!(Counts { requests, bytes: predicted.bytes, ..counted }, predicted, "{what}");
        let bound = if exact { "" } else { "≤ " };
        table.push_str(&format!(
            "| `{pattern}` | {direction} | {ranks} | {per_node} | {} | {} | {} | {bound}{} |\n",
            both(predicted.messages, counted.messages),
            both(predicted.bytes, counted.bytes),
            both(predicted.control, counted.control),
            both(predicted.requests, counted.requests),
        ));
    }
    std::fs::write(concat!(env!("CARGO_TARGET_TMPDIR"), "/counted.md"), table).expect("a file");
}
