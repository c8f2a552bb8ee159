//! Faults in system calls: the right class on every rank, true counts, no hang, a usable file.

use aggio_tests::faults::{self, BYTES, Case, RANKS, Result, Seen};
use aggio_tests::{installed_for, library};

/// How many bytes the exchange after the fault may have written over.
const OVERWRITTEN: u64 = 16 * RANKS as u64;

fn check(case: &Case, result: &Result) -> std::result::Result<(), String> {
    if result.ranks.len() != RANKS as usize {
        return Err(format!("{} ranks reported", result.ranks.len()));
    }
    for (&rank, report) in &result.ranks {
        let concerned = match case.seen {
            Seen::Nowhere => false,
            Seen::There => rank == case.rank,
            Seen::Everywhere => true,
        };
        let class = if concerned { case.class } else { "SUCCESS" };
        if report.class != class {
            return Err(format!("rank {rank} returned {} instead of {class}", report.class));
        }
        if !matches!(report.later.as_str(), "OK" | "-") {
            return Err(format!("later calls failed on rank {rank} with {}", report.later));
        }
        let moves = case.mode.contains("write") || case.mode.contains("read");
        if moves && !concerned && report.bytes != BYTES {
            return Err(format!("rank {rank} moved {} bytes", report.bytes));
        }
        if case.mode.contains("write") {
            let stored = result.stored[rank];
            if report.bytes < stored || report.bytes > stored + OVERWRITTEN {
                return Err(format!(
                    "rank {rank} says {} bytes, the file holds {stored}",
                    report.bytes
                ));
            }
        }
    }
    Ok(())
}

fn run_all(pick: impl Fn(&Case) -> bool) {
    let Some(library) = library() else { return };
    let mut failures = Vec::new();
    for (row, case) in faults::cases().iter().filter(|case| pick(case)).enumerate() {
        // Faults come in pairs; each of the two is seen by both MPIs.
        for mpi in installed_for(row + row / 2) {
            let result = faults::run(case, &mpi, Some(&library), &[]);
            if let Err(why) = check(case, &result) {
                let report = result.finished.report();
                failures
                    .push(format!("{}: {} {}: {why}\n{report}", mpi.name, case.mode, case.plan));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn a_failing_independent_write_is_told_where_it_happens_with_the_bytes_stored() {
    run_all(|case| case.mode.contains("write") && case.seen == Seen::There);
}

#[test]
fn a_failing_collective_write_ends_with_one_class_on_every_rank() {
    run_all(|case| case.mode.contains("write") && case.seen == Seen::Everywhere);
}

#[test]
fn a_failing_read_is_told_to_all_whom_it_concerns() {
    run_all(|case| case.mode.contains("read") && case.seen != Seen::Nowhere);
}

#[test]
fn short_and_interrupted_transfers_are_completed() {
    run_all(|case| case.seen == Seen::Nowhere);
}

#[test]
fn errors_of_open_close_sync_and_resize_reach_every_rank() {
    run_all(|case| !case.mode.contains("read") && !case.mode.contains("write"));
}
