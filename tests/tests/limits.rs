//! Jobs to which the system grants little: descriptors, sizes of files, memory.

use aggio_tests::{Directory, Finished, Job, Mpi, compile, installed, library};

/// Runs `tests/programs/short_of.c` under the library.
fn short_of(what: &str, mpi: &Mpi, ranks: u32) -> Option<Finished> {
    let library = library()?;
    let directory = Directory::new();
    let job = Job::new(&compile("short_of.c", mpi)).ranks(ranks).preload(Some(&library));
    Some(job.argument(directory.path().join("file")).argument(what).run())
}

fn succeeds_short_of(what: &str) {
    for mpi in installed() {
        for ranks in [1, 3] {
            let Some(finished) = short_of(what, &mpi, ranks) else { return };
            let good = finished.succeeded() && finished.stdout.lines().any(|line| line == "ok");
            assert!(good, "{what}, {}, {ranks} ranks: {}", mpi.name, finished.report());
        }
    }
}

#[test]
fn an_open_file_takes_one_descriptor() {
    succeeds_short_of("descriptors");
}

#[test]
fn a_limit_of_file_sizes_does_not_count_what_ranks_share() {
    succeeds_short_of("sizes");
}
