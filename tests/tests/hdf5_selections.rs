//! Random programs that write chunked datasets through parallel HDF5: the same file as natively,
//! whatever is done with chunks.

use aggio_tests::{
    Directory, Finished, Job, Program, compile_with, factor, installed, library, skip,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The program for each MPI whose HDF5 is there.
fn programs() -> Vec<(&'static str, Program)> {
    let mut all = Vec::new();
    for mpi in installed() {
        let package = format!("hdf5-{}", mpi.name);
        let options = Command::new("pkg-config").args(["--cflags", "--libs", &package]).output();
        let Some(options) = options.ok().filter(|options| options.status.success()) else {
            skip(&format!("{package} is missing (tests/setup.sh check)"));
            continue;
        };
        let options = String::from_utf8_lossy(&options.stdout).into_owned();
        let options: Vec<&str> = options.split_whitespace().collect();
        all.push((mpi.name, compile_with("hdf5_selections.c", &mpi, &options)));
    }
    all
}

/// What hints ask for, in turn: what costs less, all chunks together, chunk by chunk.
const HINTS: [&str; 6] = [
    "",
    ":aggio_chunk_opt_num=0",
    ":aggio_chunk_opt_ratio=100",
    ":aggio_chunk_opt_ratio=0",
    ":aggio_chunk_opt_num=6:aggio_chunk_opt_ratio=30",
    ":aggio_chunks=disable",
];

fn run(program: &Program, place: &Path, seed: usize, hints: Option<&str>) -> Finished {
    let ranks = 2 + seed as u32 % 6;
    let mut job = Job::new(program).ranks(ranks).directory(place).argument("x.h5");
    job = job.argument(seed.to_string());
    if let Some(hints) = hints {
        job = job.preload(library().as_deref()).variable("AGGIO_REPORT", "json");
        job = job.variable("AGGIO_HINTS", format!("*:aggio_small_reads=automatic{hints}"));
    }
    let finished = job.limit(Duration::from_secs(120)).run();
    assert!(finished.succeeded(), "seed {seed}, {hints:?}: {}", finished.report());
    finished
}

/// What `h5dump` tells of the file: properties and data.
fn dump(place: &Path) -> Vec<u8> {
    let dumped = Command::new("h5dump").args(["-p", "x.h5"]).current_dir(place).output();
    let dumped = dumped.expect("h5dump starts");
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    dumped.stdout
}

#[test]
fn random_programs_leave_the_file_that_they_leave_natively() {
    if library().is_none() {
        return;
    }
    let seeds = 12 * factor();
    for (mpi, program) in programs() {
        let began = Instant::now();
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for seed in 1..=seeds {
            let (native, served) = (Directory::new(), Directory::new());
            let hints = HINTS[(seed + seed / 6) % HINTS.len()];
            run(&program, native.path(), seed, None);
            let finished = run(&program, served.path(), seed, Some(hints));
            assert!(dump(served.path()) == dump(native.path()), "seed {seed}, {hints}");
            for (name, count) in finished.json_report().expect("a report") {
                *sums.entry(name).or_default() += count;
            }
        }
        for name in ["chunks_alone", "chunks_exchanged", "calls_linked", "calls_of_a_chunk"] {
            assert!(sums[name] > 0, "{mpi}: {name} is 0 in {seeds} programs");
        }
        aggio_tests::told("HDF5 programs with random selections", mpi, seeds, began);
    }
}
