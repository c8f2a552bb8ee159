//! MPI programs that write blob containers.

use aggio_tests::battery::{PROGRAMS, failure_with};
use aggio_tests::{installed_for, library};

/// Programs that demand a feature that containers lack: a limit on the length of files (it holds
/// for the logs).
const REFUSED: &[&str] = &["overlap.c"];

#[test]
fn every_program_of_the_battery_is_content_with_containers() {
    let Some(library) = library() else { return };
    let mut reports = Vec::new();
    let programs = PROGRAMS.iter().filter(|(name, _)| !REFUSED.contains(name));
    for (row, (source, ranks)) in programs.enumerate() {
        for mpi in installed_for(row) {
            let variables = [("AGGIO_BLOB", "*"), ("AGGIO_STRICT", "1")];
            reports.extend(failure_with(source, *ranks, &mpi, Some(&library), &variables));
        }
    }
    assert!(reports.is_empty(), "{}", reports.join("\n"));
}
