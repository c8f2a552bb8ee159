//! Random programs that write chunked datasets through parallel HDF5: the same file as natively,
//! for every way of writing chunks.

use aggio_tests::hosts::Plan;
use aggio_tests::{
    Directory, Family, Finished, Job, Mpi, Program, compile_with_hdf5, factor, installed, library,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The program for each MPI with HDF5.
fn programs() -> Vec<(Mpi, Program)> {
    let mut all = Vec::new();
    for mpi in installed() {
        let Some(program) = compile_with_hdf5("hdf5_selections.c", &mpi) else { continue };
        all.push((mpi, program));
    }
    all
}

/// The hints, in turn: the cheaper way, all chunks together, chunk by chunk.
const HINTS: [&str; 6] = [
    "",
    ":aggio_tune=chunk_opt_num=0",
    ":aggio_tune=chunk_opt_ratio=100",
    ":aggio_tune=chunk_opt_ratio=0",
    ":aggio_tune=chunk_opt_num=6 chunk_opt_ratio=30",
    ":aggio_chunks=disable",
];

/// The hints for the program of this seed.
fn hints(seed: usize) -> &'static str {
    HINTS[(seed + seed / 6) % HINTS.len()]
}

fn job(program: &Program, place: &Path, seed: usize) -> Job {
    Job::new(program).directory(place).argument("x.h5").argument(seed.to_string())
}

/// The same with the library.
fn served(job: Job, seed: usize) -> Job {
    let job = job.preload(library().as_deref()).variable("AGGIO_REPORT", "json");
    job.variable("AGGIO_HINTS", format!("*:aggio_tune=small_reads=automatic{}", hints(seed)))
}

fn run(job: Job, seed: usize) -> Finished {
    let finished = job.limit(Duration::from_secs(120)).run();
    assert!(finished.succeeded(), "seed {seed}, {}: {}", hints(seed), finished.report());
    finished
}

/// The content of the file that the program of this seed leaves natively; the same with any MPI.
fn truth(all: &[(Mpi, Program)], ranks: u32, seed: usize) -> Vec<u8> {
    let place = Directory::new();
    run(job(&all[0].1, place.path(), seed).ranks(ranks), seed);
    dump(place.path())
}

/// The output of `h5dump` for the file: properties and data.
fn dump(place: &Path) -> Vec<u8> {
    let dumped = Command::new("h5dump").args(["-p", "x.h5"]).current_dir(place).output();
    let dumped = dumped.expect("h5dump starts");
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    dumped.stdout
}

#[test]
fn random_programs_leave_the_file_that_they_leave_natively() {
    let all = programs();
    if library().is_none() || all.is_empty() {
        return;
    }
    let (seeds, began) = (3 * factor(), Instant::now());
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 1..=seeds {
        let ranks = 2 + seed as u32 % 6;
        let truth = truth(&all, ranks, seed);
        for (mpi, program) in &all {
            let place = Directory::new();
            let finished = run(served(job(program, place.path(), seed), seed).ranks(ranks), seed);
            assert!(dump(place.path()) == truth, "seed {seed}, {}, {}", hints(seed), mpi.name);
            for (name, count) in finished.json_report().expect("a report") {
                *sums.entry(name).or_default() += count;
            }
        }
    }
    for name in ["chunks_alone", "chunks_exchanged", "calls_linked", "calls_of_a_chunk"] {
        assert!(sums[name] > 0, "{name} is 0 in {seeds} programs");
    }
    aggio_tests::told("HDF5 programs with random selections", "each MPI", seeds, began);
}

#[test]
fn random_programs_on_two_hosts_leave_the_file_that_they_leave_on_one() {
    let all = programs();
    if library().is_none() || all.is_empty() {
        return;
    }
    let agent = Path::new(env!("CARGO_BIN_EXE_aggio-test-host"));
    let Some(cluster) = Plan::new(2, 2).start_if_possible(agent) else { return };
    for seed in 1..=2 * factor() {
        let truth = truth(&all, cluster.ranks(), seed);
        for (mpi, program) in &all {
            let place = Directory::new();
            let mut job = served(job(program, place.path(), seed), seed).on(&cluster);
            if mpi.family == Family::OpenMpi {
                // Debian switches off the only one-sided component of Open MPI that works over TCP.
                job = job.variable("OMPI_MCA_osc", "pt2pt");
            }
            run(job, seed);
            assert!(dump(place.path()) == truth, "seed {seed}, {}, {}", hints(seed), mpi.name);
        }
    }
}
