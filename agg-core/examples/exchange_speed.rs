//! How fast threads write interleaved blocks through aggregators, beside each thread writing one
//! contiguous part: `cargo run --release -p agg-core --example exchange_speed -- DIRECTORY MIB`.

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

#[derive(Clone, Copy)]
struct Pattern {
    block: u64,
    total: u64,
    mode: Switch,
    write: bool,
}

fn rank_view(rank: usize, pattern: Pattern) -> Result<View> {
    let (rank, ranks) = (rank as u64, RANKS as u64);
    if pattern.block == 0 {
        return View::new(
            rank * pattern.total / ranks,
            Datatype::bytes(1),
            Datatype::bytes(1),
            Representation::Native,
            true,
        );
    }
    let block = Datatype::bytes(pattern.block);
    let filetype = block.resized(0, (pattern.block * ranks) as i64)?;
    View::new(rank * pattern.block, Datatype::bytes(1), filetype, Representation::Native, true)
}

fn play(transport: &ThreadTransport, file: &dyn Driver, pattern: Pattern) -> Result<f64> {
    let view = rank_view(transport.rank(), pattern)?;
    let mut data = vec![transport.rank() as u8; (pattern.total / RANKS as u64) as usize];
    // SAFETY: `data` outlives the call.
    let memory = unsafe { Memory::new(data.as_mut_ptr(), Datatype::bytes(data.len() as u64), 1) };
    let (counters, facts) = (Counters::default(), file.facts());
    let mut hints = Hints::default();
    (hints.romio_cb_read, hints.romio_cb_write) = (pattern.mode, pattern.mode);
    let scene = Scene {
        logs: false,
        staged: false,
        elides: false,
        transport,
        driver: file,
        atomic: None,
        aggregators: &aggregators::from_hints(transport.hosts(), &hints)?,
        facts: &facts,
        hints: &hints,
        counters: &counters,
        habits: &Habits::default(),
        plan_cache: &PlanCache::default(),
        map: None,
    };
    let tags = Tags::new(transport.max_tag());
    let start = Instant::now();
    let block = tags.next();
    let request = Ok(Request { view: &view, position: 0, memory: &memory });
    let outcome = if pattern.write {
        block_on(exchange::write(scene, request, &block), |n| transport.idle(n))
    } else {
        block_on(exchange::read(scene, request, &block), |n| transport.idle(n))
    };
    outcome.result?;
    Ok(start.elapsed().as_secs_f64())
}

/// Processor seconds of this process.
fn processor() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live structure for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Best wall seconds and processor seconds of a few runs.
fn measure(path: &str, pattern: Pattern) -> Result<(f64, f64)> {
    let how =
        OpenHow { path: path.into(), create: true, read: true, write: true, ..OpenHow::default() };
    let file = driver::open(&how)?;
    let (mut best, mut work) = (f64::MAX, f64::MAX);
    for _ in 0..3 {
        if pattern.write {
            file.set_size(0)?;
        }
        let before = processor();
        let times = std::thread::scope(|scope| {
            let ranks: Vec<_> = ThreadTransport::group(RANKS)
                .into_iter()
                .map(|transport| {
                    scope.spawn({
                        let file = &*file;
                        move || play(&transport, file, pattern)
                    })
                })
                .collect();
            ranks
                .into_iter()
                .map(|rank| rank.join().unwrap_or(Ok(f64::MAX)))
                .collect::<Result<Vec<_>>>()
        })?;
        work = work.min(processor() - before);
        best = best.min(times.into_iter().fold(0.0, f64::max));
    }
    Ok((best, work))
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| "/dev/shm".into());
    let mib: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(256);
    let path = format!("{directory}/exchange_speed.{}", std::process::id());
    let total = mib << 20;
    for write in [true, false] {
        let mut limit = 0.0;
        for block in [0, 8, 64, 1024, 65536, 1 << 20] {
            let mode = if block == 0 { Switch::Disable } else { Switch::Automatic };
            let (time, work) = measure(&path, Pattern { block, total, mode, write })?;
            let speed = mib as f64 / time;
            limit = if block == 0 { speed } else { limit };
            println!(
                "write {write}, blocks of {block:8}: {speed:7.0} MiB/s, {:.2} of contiguous; \
                    {:6.0} \
                 processor ms per GiB",
                speed / limit,
                work * 1024e3 / mib as f64,
            );
        }
    }
    std::fs::remove_file(&path).map_err(|cause| Error::os("unlink", &cause))
}
