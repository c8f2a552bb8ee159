//! Measures the benefit of repeating a collective call: threads on two nodes write and read the
//! same pattern over and over, with and without memory of past calls, by turns:
//! `cargo run --release -p agg-core --example repeat_speed -- DIRECTORY`.

use agg_core::datatype::Datatype;
use agg_core::driver::{self, Driver, OpenHow};
use agg_core::exchange::{self, Habits, PlanCache, Request, Scene};
use agg_core::hints::{Hints, Switch};
use agg_core::memory::Memory;
use agg_core::plan::aggregators;
use agg_core::report::Counters;
use agg_core::tags::Tags;
use agg_core::task::block_on;
use agg_core::transport::{ThreadTransport, Transport};
use agg_core::view::{Representation, View};
use agg_core::{Error, Result};
use std::time::Instant;

const RANKS: usize = 4;
/// Calls with and without memory that follow each other, and how often.
const CALLS: usize = 20;
const ROUNDS: usize = 31;

/// Pieces of a rank, dealt by turns; of one length, or of 1 to 24 bytes.
fn pattern(rank: usize, pieces: u64, regular: bool) -> Result<View> {
    let piece = |i: u64| {
        let place = (i * RANKS as u64 + rank as u64) * 24;
        (if regular { 24 } else { 1 + (i * 7 + i / 5) % 24 }, place as i64)
    };
    let pieces: Vec<(u64, i64)> = (0..pieces).map(piece).collect();
    let filetype = Datatype::hindexed(&pieces, &Datatype::bytes(1))?;
    View::new(0, Datatype::bytes(1), filetype, Representation::Native, true)
}

/// Seconds of the same calls without and with memory, medians.
fn play(
    transport: &ThreadTransport,
    file: &dyn Driver,
    view: &View,
    write: bool,
) -> Result<[f64; 2]> {
    let mut data = vec![7u8; view.filetype().size() as usize];
    // SAFETY: `data` outlives the calls.
    let memory = unsafe { Memory::new(data.as_mut_ptr(), Datatype::bytes(data.len() as u64), 1) };
    let (counters, facts, tags) =
        (Counters::default(), file.facts(), Tags::new(transport.max_tag()));
    let mut hints = Hints::default();
    (hints.romio_cb_read, hints.romio_cb_write) = (Switch::Enable, Switch::Enable);
    let aggregators = aggregators::from_hints(transport.hosts(), &hints)?;
    let kept = PlanCache::default();
    let call = |plan_cache: &PlanCache| {
        let scene = Scene {
            logs: false,
            staged: false,
            elides: false,
            transport,
            driver: file,
            atomic: None,
            aggregators: &aggregators,
            facts: &facts,
            hints: &hints,
            counters: &counters,
            habits: &Habits::default(),
            plan_cache,
            map: None,
        };
        let (block, idle) = (tags.next(), |n| transport.idle(n));
        let request = Ok(Request { view, position: 0, memory: &memory });
        match write {
            true => block_on(exchange::write(scene, request, &block), idle).result,
            false => block_on(exchange::read(scene, request, &block), idle).result,
        }
    };
    let mut times: [Vec<f64>; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (with, times) in times.iter_mut().enumerate() {
            let start = Instant::now();
            for _ in 0..CALLS {
                if with == 1 { call(&kept)? } else { call(&PlanCache::default())? }
            }
            times.push(start.elapsed().as_secs_f64() / CALLS as f64);
        }
    }
    Ok(times.map(|mut times| {
        times.sort_unstable_by(f64::total_cmp);
        times[times.len() / 2]
    }))
}

/// The times of the slowest rank on this number of nodes; with 0 the ranks share no memory.
fn measure(path: &str, nodes: usize, pieces: u64, regular: bool, write: bool) -> Result<[f64; 2]> {
    let how =
        OpenHow { path: path.into(), create: true, read: true, write: true, ..OpenHow::default() };
    let file = driver::open(&how)?;
    let group = match nodes {
        0 => ThreadTransport::group_without_memory(RANKS),
        _ => ThreadTransport::group_on(
            (0..RANKS).map(|rank| format!("host{}", rank * nodes / RANKS)).collect(),
        ),
    };
    let all = std::thread::scope(|scope| {
        let start = |transport: std::sync::Arc<ThreadTransport>| {
            let file = &*file;
            scope.spawn(move || {
                play(&transport, file, &pattern(transport.rank(), pieces, regular)?, write)
            })
        };
        let ranks: Vec<_> = group.into_iter().map(start).collect();
        ranks.into_iter().filter_map(|rank| rank.join().ok()).collect::<Result<Vec<_>>>()
    })?;
    Ok([0, 1].map(|with| all.iter().map(|times| times[with]).fold(0.0, f64::max)))
}

fn main() -> Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "/dev/shm".into());
    let path = format!("{directory}/repeat_speed.{}", std::process::id());
    for (write, nodes) in [(true, 2), (false, 2), (true, 1), (false, 1), (true, 0), (false, 0)] {
        for (regular, pieces) in
            [(true, 100), (true, 10_000), (false, 100), (false, 1000), (false, 10_000)]
        {
            let [without, with] = measure(&path, nodes, pieces, regular, write)?;
            println!(
                "{}, {nodes} nodes, {} {} pieces a rank: {:.0} us, repeated {:.0} us: {:.2}",
                if write { "write" } else { "read" },
                pieces,
                if regular { "equal" } else { "odd" },
                without * 1e6,
                with * 1e6,
                with / without,
            );
        }
    }
    std::fs::remove_file(&path).map_err(|cause| Error::os("unlink", &cause))
}
