//! Predictions of `aggio simulate` beside the counts of real jobs: the same patterns, the same
//! numbers.
//!
//! The table of all cases is left in `tmp/predicted.md` of the target directory.

use aggio_patterns::{Access, Pattern};
use aggio_tests::hosts::{Cluster, Plan};
use aggio_tests::{Directory, Job, Mpi, compile, installed, library};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const AGENT: &str = env!("CARGO_BIN_EXE_aggio-test-host");

/// Jobs use the assumed costs of the file system, as the simulator does, and not the time of a
/// request on the machine of the test. The last ones have gaps that nobody fills: the number of
/// writes is an upper bound.
const PATTERNS: &[&str] = &[
    "contiguous,bytes=4M",
    "interleaved,piece=1K,bytes=4M",
    "blocks,array=128x128x32,element=8",
    "columns,arrays=64,rows=64,width=16,lead=256",
    "records,record=70000,bytes=2M",
    "variables,count=5,piece=64K",
    "strided,piece=1K,hole=1K,bytes=2M",
    "random,slot=2K,bytes=512K,seed=3",
];

/// The cost of one pattern in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    /// Messages with data, and their data bytes.
    messages: u64,
    bytes: u64,
    /// Requests to the file.
    requests: u64,
}

/// The predictions for one pattern, and whether that of requests is more than an upper bound.
type Predicted = (Counts, bool);

/// Where the ranks of a job are.
#[derive(Clone, Copy)]
struct Shape {
    ranks: u32,
    hosts: u32,
}

const ON_ONE_HOST: [Shape; 4] = [
    Shape { ranks: 2, hosts: 1 },
    Shape { ranks: 4, hosts: 1 },
    Shape { ranks: 8, hosts: 1 },
    Shape { ranks: 16, hosts: 1 },
];

const ON_SEVERAL: [Shape; 4] = [
    Shape { ranks: 2, hosts: 2 },
    Shape { ranks: 4, hosts: 2 },
    Shape { ranks: 8, hosts: 4 },
    Shape { ranks: 16, hosts: 4 },
];

fn pattern(text: &str) -> Pattern {
    text.parse().expect(text)
}

fn direction(writes: bool) -> &'static str {
    if writes { "write" } else { "read" }
}

/// The numbers that `described.c` reads.
fn described(access: &Access) -> String {
    let view = &access.view;
    let mut pieces = Vec::new();
    view.filetype.for_each_piece(0, &mut |piece| pieces.push((piece.offset, piece.len)));
    let calls: Vec<_> = access.calls.iter().map(|call| (call.position, call.bytes)).collect();
    let mut text = format!("{} {}\n", view.displacement, view.extent);
    for pairs in [pieces, calls] {
        text.push_str(&format!("{}\n", pairs.len()));
        pairs.iter().for_each(|(first, second)| text.push_str(&format!("{first} {second}\n")));
    }
    text
}

impl Shape {
    /// The counts of a real job: of each pattern, those of its writes and those of its reads.
    fn counted(self, mpi: &Mpi, library: &Path, cluster: Option<&Cluster>) -> Vec<[Counts; 2]> {
        let data = Directory::new();
        let mut job = Job::new(&compile("described.c", mpi))
            .ranks(self.ranks)
            .preload(Some(library))
            .variable("AGGIO_REPORT", "json")
            .variable("AGGIO_TEST_COSTS", "assumed")
            .argument(data.path());
        if let Some(cluster) = cluster {
            job = job.on(cluster);
        }
        for (number, text) in PATTERNS.iter().enumerate() {
            for rank in 0..self.ranks {
                let access = pattern(text).access(rank.into(), self.ranks.into());
                let file = data.path().join(format!("{number}.{rank}"));
                std::fs::write(file, described(&access)).expect("a description is written");
            }
            job = job.argument(number.to_string());
        }
        let finished = job.run();
        let right = finished.succeeded() && finished.stdout.lines().any(|line| line == "ok");
        assert!(right, "{}: {}", mpi.name, finished.report());
        let reports = finished.json_reports();
        assert_eq!(reports.len(), 2 * PATTERNS.len(), "{}", finished.report());
        reports.chunks(2).map(|both| [counts(&both[0], true), counts(&both[1], false)]).collect()
    }

    /// The output of `aggio simulate` for all patterns, on a file system of such blocks.
    fn predicted(self, aggio: &Path, block: u64, writes: bool) -> Vec<Predicted> {
        let mut command = Command::new(aggio);
        command.args(["simulate", "--json", "--machine", "cluster", "--ranks"]);
        command.arg(self.ranks.to_string());
        command.args(["--set", &format!("ranks_per_node={}", self.ranks / self.hosts)]);
        command.args(["--set", &format!("block_size={block}")]);
        // As the library assumes of a local file system: `agg_core::plan::cost`.
        command.args(["--set", "request_latency=1024ns", "--set", "target_bandwidth=4000000000"]);
        if !writes {
            command.arg("--read");
        }
        let output = command.args(PATTERNS).output().expect("the program starts");
        assert!(output.status.success(), "{output:?}");
        let all: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let patterns = all["machines"][0]["patterns"].as_array().expect("patterns").iter();
        patterns.map(|pattern| prediction(&pattern["outcomes"][0]["plans"][0])).collect()
    }
}

fn prediction(plan: &serde_json::Value) -> Predicted {
    let number = |name: &str| plan[name].as_u64().expect(name);
    let (messages, bytes, requests) = (number("messages"), number("bytes"), number("requests"));
    (Counts { messages, bytes, requests }, plan["requests_exact"] == true)
}

fn counts(report: &BTreeMap<String, u64>, writes: bool) -> Counts {
    let (used, unused) = match writes {
        true => ("writes_out", "reads_out"),
        false => ("reads_out", "writes_out"),
    };
    assert_eq!(report[unused], 0, "{report:?}");
    let (messages, bytes) = (report["messages"], report["message_bytes"]);
    Counts { messages, bytes, requests: report[used] }
}

/// The counts must be as predicted, but that messages also say which bytes they hold: some words,
/// or a bit for each byte.
fn compare(counted: Counts, (predicted, exact): Predicted, what: &str) {
    let words = predicted.bytes..=predicted.bytes * 9 / 8 + 64 * predicted.messages;
    assert!(words.contains(&counted.bytes), "{what}: {counted:?}, {predicted:?}");
    assert_eq!(counted.messages, predicted.messages, "{what}: {counted:?}, {predicted:?}");
    let requests =
        if exact { predicted.requests..=predicted.requests } else { 1..=predicted.requests };
    assert!(requests.contains(&counted.requests), "{what}: {counted:?}, {predicted:?}");
}

/// The table of all cases: a row for each that MPIs have the same numbers for.
#[derive(Default)]
struct Table(Vec<Row>);

struct Row {
    pattern: usize,
    text: String,
    mpis: Vec<String>,
}

impl Table {
    fn add(&mut self, pattern: usize, text: String, mpi: &Mpi) {
        let known = self.0.iter_mut().find(|row| row.text == text);
        match known {
            Some(row) => row.mpis.push(mpi.name.clone()),
            None => self.0.push(Row { pattern, text, mpis: vec![mpi.name.clone()] }),
        }
    }

    fn markdown(mut self) -> String {
        self.0.sort_by_key(|row| row.pattern);
        let line = |row: &Row| format!("{} {} |\n", row.text, row.mpis.join(", "));
        format!("{INTRODUCTION}{}", self.0.iter().map(line).collect::<String>())
    }
}

fn both(predicted: u64, counted: u64) -> String {
    if predicted == counted { counted.to_string() } else { format!("{predicted} / {counted}") }
}

/// The cells of a row but the last one.
fn cells(place: &str, counted: Counts, (predicted, exact): Predicted) -> String {
    let bound = if exact { "" } else { "≤ " };
    let messages = both(predicted.messages, counted.messages);
    let bytes = both(predicted.bytes, counted.bytes);
    let requests = both(predicted.requests, counted.requests);
    format!("| {place} | {messages} | {bytes} | {bound}{requests} |")
}

/// Compares one job with its predictions.
fn check(mpi: &Mpi, shape: Shape, library: &Path, cluster: Option<&Cluster>, table: &mut Table) {
    let aggio = beside(library);
    let block = std::env::temp_dir().metadata().expect("there is one").blksize();
    let counted = shape.counted(mpi, library, cluster);
    let Shape { ranks, hosts } = shape;
    for (place, writes) in [true, false].into_iter().enumerate() {
        let predicted = shape.predicted(&aggio, block, writes);
        for (number, text) in PATTERNS.iter().enumerate() {
            let (counted, predicted) = (counted[number][place], predicted[number]);
            let case = format!("`{text}` | {} | {ranks} | {hosts}", direction(writes));
            compare(counted, predicted, &format!("{case}, {}", mpi.name));
            table.add(number, cells(&case, counted, predicted), mpi);
        }
    }
}

/// The `aggio` command of the same build.
fn beside(library: &Path) -> PathBuf {
    let aggio = library.with_file_name("aggio");
    assert!(aggio.exists(), "{} has not been built", aggio.display());
    aggio
}

const INTRODUCTION: &str = "\n## Predictions beside counts of real jobs\n\n\
     MPI jobs on one host and across hosts made of namespaces; what the library itself reports \
     (`AGGIO_REPORT=json`) of one \
     file, written by collective calls and then read. To be read as the table before.\n\n\
     | pattern | direction | ranks | hosts | messages with data | their bytes | requests | MPI |\n\
     |---|---|--:|--:|--:|--:|--:|---|\n";

#[test]
fn a_real_job_sends_and_stores_what_is_predicted() {
    let Some(library) = library() else { return };
    let mut table = Table::default();
    for mpi in installed() {
        for shape in ON_ONE_HOST {
            check(&mpi, shape, &library, None, &mut table);
        }
    }
    for shape in ON_SEVERAL {
        let plan = Plan::new(shape.hosts, shape.ranks / shape.hosts);
        let Some(cluster) = plan.start_if_possible(Path::new(AGENT)) else { return };
        for mpi in installed() {
            check(&mpi, shape, &library, Some(&cluster), &mut table);
        }
    }
    let file = concat!(env!("CARGO_TARGET_TMPDIR"), "/predicted.md");
    std::fs::write(file, table.markdown()).expect("a file");
}
