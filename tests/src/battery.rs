//! The programs that check themselves, and running one of them.

use crate::{Directory, Job, Mpi, compile};
use std::path::Path;
use std::time::Duration;

/// Source file and number of ranks.
pub const PROGRAMS: &[(&str, u32)] = &[
    ("atomic.c", 4),
    ("communicators.c", 3),
    ("cplusplus.cc", 2),
    ("cxxhandlers.cc", 2),
    ("deferred.c", 4),
    ("ends.c", 4),
    ("errors.c", 4),
    ("explicit.c", 4),
    ("freed.c", 3),
    ("gaps.c", 4),
    ("handlers.c", 2),
    ("holes.c", 2),
    ("individual.c", 4),
    ("largecount.c", 3),
    ("manage.c", 4),
    ("modes.c", 4),
    ("mpif.f", 4),
    ("orders.c", 4),
    ("overlap.c", 4),
    ("progress.c", 4),
    ("representations.c", 3),
    ("requests.c", 4),
    ("reuse.c", 4),
    ("sessions.c", 3),
    ("shared.c", 4),
    ("split.c", 4),
    ("threads.c", 2),
    ("types.c", 2),
    ("unclosed.c", 3),
    ("closed_at_end.c", 3),
    ("usempi.f90", 3),
    ("usempif08.f90", 4),
    ("views.c", 4),
];

/// The full report of a failure; `None` if the program succeeded.
pub fn failure(source: &str, ranks: u32, mpi: &Mpi, library: Option<&Path>) -> Option<String> {
    failure_with(source, ranks, mpi, library, &[])
}

/// As [`failure`], with environment variables and their values.
pub fn failure_with(
    source: &str,
    ranks: u32,
    mpi: &Mpi,
    library: Option<&Path>,
    variables: &[(&str, &str)],
) -> Option<String> {
    let data = Directory::new();
    let mut job = Job::new(&compile(source, mpi)).ranks(ranks).argument(data.path().join("data"));
    for (name, value) in variables {
        job = job.variable(name, value);
    }
    let finished = job.preload(library).limit(Duration::from_secs(120)).run();
    let content = finished.stdout.lines().any(|line| line == "ok" || line.starts_with("ok:"));
    (!content || !finished.succeeded())
        .then(|| format!("{source} with {ranks} ranks on {}: {}", mpi.name, finished.report()))
}
