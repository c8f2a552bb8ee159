//! Random MPI-IO programs as real MPI jobs: no byte, count or file pointer differs from the
//! oracle's.

use aggio_tests::{Directory, Job, Mpi, compile, factor, installed, library, names_in};
use std::time::Duration;

/// Cases for each number of ranks from 1 on; 500 in all. In `make check` a quarter of them is run,
/// each on one MPI, in `make check-long` ten times as many on all of them.
const CASES: [u32; 8] = [80, 80, 80, 80, 60, 40, 40, 40];

/// Cases with staged writes, of the same programs; none with one rank, which waits for no other.
const STAGED: [u32; 8] = [0, 12, 10, 8, 6, 4, 4, 4];

/// When staged bytes are drained, and how many.
const HINTS: [&str; 4] = [
    "*:aggio_tune=defer_always=true",
    "*:aggio_tune=defer_always=true:aggio_defer_drain=idle",
    "*:aggio_tune=defer_always=true:aggio_defer_drain=later",
    "*:aggio_tune=defer_always=true defer_buffer=2000 defer_spill=0",
];

/// The seeds of an MPI that is number `turn` of `mpis`, of `cases`: the first, and how many.
fn seeds(ranks: u32, cases: u32, turn: u32, mpis: u32) -> (u32, u32) {
    let first = ranks * 100_000;
    if factor() > 1 {
        return (first, cases * factor() as u32);
    }
    let share = cases.div_ceil(4 * mpis);
    (first + turn * share, share)
}

/// Runs `cases` programs from `first` on, which must agree with the oracle; with variables, writes
/// are staged, which looks by system calls would end.
fn agree(mpi: &Mpi, ranks: u32, (first, cases): (u32, u32), variables: &[(&str, &str)]) {
    let directory = Directory::new();
    let mode = if variables.is_empty() { None } else { Some("alone") };
    let job = Job::new(&compile("differential.c", mpi))
        .ranks(ranks)
        .argument(directory.path())
        .argument(first.to_string())
        .argument(cases.to_string());
    let job = mode.iter().fold(job, |job, mode| job.argument(mode));
    let job =
        job.preload(library().as_deref()).limit(Duration::from_secs(u64::from(60 + 2 * cases)));
    let set = |job: Job, (name, value): &(&str, &str)| job.variable(name, value);
    let finished = variables.iter().fold(job, set).run();
    let verdict = format!("{cases} cases, 0 mismatches");
    assert!(
        finished.succeeded() && finished.stdout.contains(&verdict),
        "{} on {ranks} ranks {variables:?}: {}",
        mpi.name,
        finished.report()
    );
}

#[test]
fn random_programs_read_and_write_exactly_what_the_oracle_says() {
    if library().is_none() {
        return;
    }
    let mpis = installed();
    for (turn, mpi) in (0..).zip(&mpis) {
        for (ranks, cases) in (1..).zip(CASES) {
            agree(mpi, ranks, seeds(ranks, cases, turn, mpis.len() as u32), &[]);
        }
    }
}

#[test]
fn so_do_programs_whose_writes_are_staged() {
    if library().is_none() {
        return;
    }
    let mpis = installed();
    for (turn, mpi) in (0..).zip(&mpis) {
        for (ranks, cases) in (1..).zip(STAGED).filter(|(_, cases)| *cases > 0) {
            let stages = Directory::new();
            let directory = stages.path().to_str().expect("UTF-8");
            let in_memory = (turn + ranks) % 2 == 0;
            let place = if in_memory { "memory" } else { directory };
            let variables = [
                ("AGGIO_DEFER", "*"),
                ("AGGIO_HINTS", HINTS[(turn + ranks) as usize % HINTS.len()]),
                ("AGGIO_STAGE", place),
            ];
            agree(mpi, ranks, seeds(ranks, cases, turn, mpis.len() as u32), &variables);
            assert_eq!(names_in(stages.path()), [""; 0], "{} on {ranks} ranks", mpi.name);
        }
    }
}
