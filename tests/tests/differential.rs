//! Random MPI-IO programs as real MPI jobs: no byte, count or file pointer differs from the
//! oracle's.

use aggio_tests::{Directory, Job, compile, factor, installed, library};
use std::time::Duration;

/// Cases for each number of ranks from 1 on; 500 in all. In `make check` each is run on one MPI, in
/// `make check-long` ten times as many on all of them.
const CASES: [u32; 8] = [80, 80, 80, 80, 60, 40, 40, 40];

/// The seeds of an MPI that is number `turn` of `mpis`: the first, and how many.
fn seeds(ranks: u32, turn: u32, mpis: u32) -> (u32, u32) {
    let (first, cases) = (ranks * 100_000, CASES[ranks as usize - 1]);
    if factor() > 1 {
        return (first, cases * factor() as u32);
    }
    let share = cases.div_ceil(mpis);
    (first + turn * share, share)
}

#[test]
fn random_programs_read_and_write_exactly_what_the_oracle_says() {
    let Some(library) = library() else { return };
    let mpis = installed();
    for (turn, mpi) in (0..).zip(&mpis) {
        let program = compile("differential.c", mpi);
        for ranks in 1..=CASES.len() as u32 {
            let directory = Directory::new();
            let (first, cases) = seeds(ranks, turn, mpis.len() as u32);
            let finished = Job::new(&program)
                .ranks(ranks)
                .argument(directory.path())
                .argument(first.to_string())
                .argument(cases.to_string())
                .preload(Some(&library))
                .limit(Duration::from_secs(u64::from(60 + 2 * cases)))
                .run();
            let verdict = format!("{cases} cases, 0 mismatches");
            assert!(
                finished.succeeded() && finished.stdout.contains(&verdict),
                "{} on {ranks} ranks: {}",
                mpi.name,
                finished.report()
            );
        }
    }
}
