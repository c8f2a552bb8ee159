//! MPI programs whose writes wait until the file is synchronised or closed (`AGGIO_DEFER`).

use aggio_tests::battery::{PROGRAMS, failure_with};
use aggio_tests::{installed, library};

/// Programs in which a rank reads alone, or another program looks at, what a rank has written and not synchronised.
const REFUSED: &[&str] = &["deferred.c", "explicit.c", "gaps.c", "overlap.c", "requests.c"];

#[test]
fn every_program_of_the_battery_is_content_when_its_writes_wait() {
    let Some(library) = library() else { return };
    let mut reports = Vec::new();
    for mpi in installed() {
        for (source, ranks) in PROGRAMS.iter().filter(|(name, _)| !REFUSED.contains(name)) {
            let variables = [("AGGIO_DEFER", "*"), ("AGGIO_STRICT", "1")];
            reports.extend(failure_with(source, *ranks, &mpi, Some(&library), &variables));
        }
    }
    assert!(reports.is_empty(), "{}", reports.join("\n"));
}
