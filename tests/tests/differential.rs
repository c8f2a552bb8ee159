//! Random MPI-IO programs as real MPI jobs: no byte, count or file pointer differs from the
//! oracle's.

use aggio_tests::{Directory, Job, compile, factor, installed, library};
use std::time::Duration;

/// Cases for each number of ranks from 1 on; 500 in all.
const CASES: [u32; 8] = [80, 80, 80, 80, 60, 40, 40, 40];

#[test]
fn random_programs_read_and_write_exactly_what_the_oracle_says() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let program = compile("differential.c", &mpi);
        for (ranks, cases) in (1..).zip(CASES) {
            let directory = Directory::new();
            let cases = cases * factor() as u32;
            let finished = Job::new(&program)
                .ranks(ranks)
                .argument(directory.path())
                .argument((ranks * 100_000).to_string())
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
