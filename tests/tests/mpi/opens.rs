//! Ranks that open a file: counted as system calls, collective calls and messages.

use aggio_tests::battery::failure;
use aggio_tests::{Directory, Job, Mpi, calls_on, compile, compile_shim, installed, library};
use std::path::Path;

const RANKS: u32 = 4;

/// The system calls that name the data file or open it in another way, of all ranks.
fn opens(mpi: &Mpi, library: &Path, program: &str, argument: &str, hints: &str) -> Vec<String> {
    let data = Directory::new();
    let file = data.path().join("data");
    let kinds = "openat,open,creat,openat2,pidfd_getfd";
    let program = compile(program, mpi);
    let variables = [("AGGIO_HINTS", hints)];
    let (finished, calls) =
        calls_on(&file, kinds, &program, &[argument], (RANKS, library), &variables);
    let good = finished.stdout.lines().any(|line| line == "ok");
    assert!(good && finished.succeeded(), "{}: {}", mpi.name, finished.report());
    calls
}

#[test]
fn one_rank_opens_the_file_and_the_others_take_its_descriptor() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let calls = opens(&mpi, &library, "deferred.c", "collective", "");
        let (taken, opened): (Vec<_>, Vec<_>) =
            calls.iter().partition(|call| call.contains("pidfd_getfd"));
        assert_eq!(opened.len(), 1, "{}: {calls:#?}", mpi.name);
        assert!(taken.len() < RANKS as usize, "{}: {calls:#?}", mpi.name);
    }
}

#[test]
fn every_rank_opens_the_file_if_a_hint_says_so() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let calls =
            opens(&mpi, &library, "deferred.c", "collective", "aggio_tune=deferred_open=disable");
        assert_eq!(calls.len(), RANKS as usize, "{}: {calls:#?}", mpi.name);
    }
}

#[test]
fn a_thousand_opens_are_a_thousand_system_calls_of_all_ranks_together() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let calls = opens(&mpi, &library, "reopen.c", "1000", "");
        assert_eq!(calls.len(), 1000, "{}: {:#?}", mpi.name, calls.last());
    }
}

#[test]
fn the_file_that_is_deleted_on_close_is_the_one_that_was_opened_wherever_the_program_is() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let report = failure("elsewhere.c", 3, &mpi, Some(&library));
        assert!(report.is_none(), "{}", report.unwrap_or_default());
    }
}

/// Collective calls and messages of all ranks of a job that opens and closes a file so often.
fn collectives_and_messages(mpi: &Mpi, library: &Path, times: u64) -> (u64, u64) {
    let data = Directory::new();
    let shim = compile_shim("collective_shim.c");
    let finished = Job::new(&compile("reopen.c", mpi))
        .ranks(RANKS)
        .argument(data.path().join("data"))
        .argument(times.to_string())
        .variable("LD_PRELOAD", format!("{}:{}", library.display(), shim.display()))
        .run();
    let mut sum = (0, 0);
    let mut told = 0;
    for line in finished.stderr.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["collectives", collectives, "messages", messages] = words[..] {
            let number = |text: &str| text.parse::<u64>().expect("a number");
            sum = (sum.0 + number(collectives), sum.1 + number(messages));
            told += 1;
        }
    }
    assert!(finished.succeeded() && told >= RANKS, "{}: {}", mpi.name, finished.report());
    sum
}

#[test]
fn opening_again_needs_no_collective_call_and_two_messages_for_each_rank_but_one() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let (once, often) = (
            collectives_and_messages(&mpi, &library, 1),
            collectives_and_messages(&mpi, &library, 1000),
        );
        // The objects of the first open stay with the communicator.
        assert!(once.0 >= RANKS.into(), "{}: {once:?}: nothing is counted", mpi.name);
        assert_eq!(often.0, once.0, "{}", mpi.name);
        let each = 2 * u64::from(RANKS - 1);
        assert!(often.1 <= once.1 + 999 * each, "{}: {once:?}, {often:?}", mpi.name);
    }
}
