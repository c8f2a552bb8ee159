//! MPI programs whose writes wait until the file is synchronised or closed (`AGGIO_DEFER`).

use aggio_tests::battery::{PROGRAMS, failure_with};
use aggio_tests::{Directory, Job, compile, installed, library};

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

#[test]
fn a_checkpoint_of_a_hundred_collective_writes_reaches_the_file_in_a_few_requests() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let data = Directory::new();
        let finished = Job::new(&compile("checkpoint.c", &mpi))
            .ranks(4)
            .argument(data.path().join("data"))
            .argument("20")
            .argument("5")
            .variable("AGGIO_DEFER", "*")
            .variable("AGGIO_REPORT", "json")
            .variable("AGGIO_COSTS", "assumed")
            .preload(Some(&library))
            .run();
        assert!(finished.succeeded(), "{}: {}", mpi.name, finished.report());
        let report = finished.json_report().expect("a report");
        // Every rank's 100 writes wait; one flush of each rank writes 409,600 bytes.
        assert_eq!((report["deferred"], report["flushes"]), (400, 4), "{}", mpi.name);
        assert!(report["writes_out"] <= 5, "{}: {} requests", mpi.name, report["writes_out"]);
    }
}
