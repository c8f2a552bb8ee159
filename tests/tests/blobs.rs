//! MPI programs whose files become blob containers.

use aggio_tests::battery::{PROGRAMS, failure_with};
use aggio_tests::{installed, library};

/// Programs that look at their file, or remove it, past MPI-IO, by system calls on its name.
const PAST_MPI_IO: &[&str] = &[
    "deferred.c",
    "explicit.c",
    "gaps.c",
    "individual.c",
    "manage.c",
    "modes.c",
    "overlap.c",
    "representations.c",
    "reuse.c",
    "shared.c",
    "types.c",
    "views.c",
];

#[test]
fn every_program_of_the_battery_is_content_with_containers() {
    let Some(library) = library() else { return };
    let mut reports = Vec::new();
    for mpi in installed() {
        for (source, ranks) in PROGRAMS.iter().filter(|(name, _)| !PAST_MPI_IO.contains(name)) {
            let variables = [("AGGIO_BLOB", "*"), ("AGGIO_STRICT", "1")];
            reports.extend(failure_with(source, *ranks, &mpi, Some(&library), &variables));
        }
    }
    assert!(reports.is_empty(), "{}", reports.join("\n"));
}
