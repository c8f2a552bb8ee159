//! Writing jobs that are killed: two processes at their system calls, and any job anywhere.
//! `make check-long` kills them at every call, `make check` at some of them.

mod random;
mod ranks;
pub(crate) mod sample;
mod sealing;
mod verify;
mod writers;

use aggio_tests::{Directory, factor};
use std::path::Path;
use verify::{content_of, fsck, recovered, verify};
use writers::{Kill, NOBODY, Records, Writers, engine, mapping, ordinary};

const RECORDS: Records = Records { count: 6, length: 1000 };
/// Each is stored to memory or written, before and after the file has grown: its calls are many.
const MAPPED: Records = Records { count: 4, length: 1500 };

/// Every so many calls are tried where there is little time.
const STEP: usize = 8;
/// The same for jobs that make many calls and wait for the disk.
const STEP_OF_MAPPED: usize = 11;

/// The job can be run again on the files of a killed one, and ends with everything.
fn run_again(writers: &Writers, folder: &Path, records: Records, what: &str) {
    let said = writers.run(folder, records, NOBODY);
    assert!(said.starts_with("ended"), "{what}, again: {said}");
    verify(folder, records, what);
    fsck(folder, what);
    assert_eq!(
        content_of(&folder.join("data")).map(|bytes| bytes.len() as u64),
        Some(records.total()),
        "{what}"
    );
}

/// The program that repairs the files after a kill.
#[derive(Clone, Copy, Debug)]
enum Mend {
    /// The next job.
    Nobody,
    Repair,
    Recover,
}

/// Kills the job, checks the files, runs it again; returns whether it had ended before.
fn kill(writers: &Writers, records: Records, kill: Kill, mend: Mend) -> bool {
    let directory = Directory::new();
    let said = writers.run(directory.path(), records, kill);
    let what = format!("{records:?}, {kill:?}: {said}");
    assert!(!said.starts_with("hung"), "{what}");
    verify(directory.path(), records, &what);
    match mend {
        Mend::Nobody => {}
        Mend::Repair => fsck(directory.path(), &what),
        Mend::Recover => recovered(directory.path(), &what),
    }
    verify(directory.path(), records, &what);
    run_again(writers, directory.path(), records, &what);
    said.starts_with("ended")
}

fn at_calls(writers: &Writers, records: Records, all: bool, step: usize) {
    let step = if factor() > 1 { 1 } else { step };
    for (kills, number) in (1..).step_by(step).enumerate() {
        // Every third time the job meets the files as the kill left them, else as a repair left
        // them.
        let mend = [Mend::Nobody, Mend::Repair, Mend::Recover][kills % 3];
        if kill(writers, records, Kill { number, all }, mend) {
            assert!(number > 100, "the job makes more calls than {number}");
            let aside = verify::ASIDE.get();
            assert!(aside * 100 <= number, "{aside} times of {number} bytes were kept aside");
            return;
        }
    }
}

#[test]
fn a_container_keeps_what_was_acknowledged_when_one_of_two_writers_is_killed_at_any_call() {
    at_calls(&engine(), RECORDS, false, STEP);
}

#[test]
fn a_container_keeps_what_was_acknowledged_when_both_writers_are_killed_at_any_call() {
    at_calls(&engine(), RECORDS, true, STEP);
}

#[test]
fn so_does_the_container_of_an_ordinary_program() {
    let Some(writers) = ordinary("AGGIO_BLOB", "") else { return };
    at_calls(&writers, RECORDS, false, STEP);
}

#[test]
fn so_does_the_container_of_an_ordinary_program_all_of_which_is_killed() {
    let Some(writers) = ordinary("AGGIO_BLOB", "") else { return };
    at_calls(&writers, RECORDS, true, STEP);
}

#[test]
fn so_does_a_container_whose_bytes_are_stored_to_memory() {
    let Some(writers) = mapping() else { return };
    at_calls(&writers, MAPPED, false, STEP_OF_MAPPED);
}

#[test]
fn so_does_a_container_whose_bytes_are_stored_to_memory_if_both_are_killed() {
    let Some(writers) = mapping() else { return };
    at_calls(&writers, MAPPED, true, STEP_OF_MAPPED);
}

#[test]
fn so_does_the_spool_of_a_container_in_mode_close() {
    let Some(writers) = ordinary("AGGIO_BLOB", ":close") else { return };
    at_calls(&writers, RECORDS, false, STEP);
}

#[test]
fn so_does_the_spool_of_a_container_in_mode_causal() {
    let Some(writers) = ordinary("AGGIO_BLOB", ":causal") else { return };
    at_calls(&writers, RECORDS, true, STEP);
}

#[test]
fn so_does_the_spool_of_a_file_in_mode_close() {
    let Some(writers) = ordinary("AGGIO_POSIX", ":close") else { return };
    at_calls(&writers, RECORDS, false, STEP);
}

#[test]
fn so_does_the_spool_of_a_file_in_mode_causal() {
    let Some(writers) = ordinary("AGGIO_POSIX", ":causal") else { return };
    at_calls(&writers, RECORDS, true, STEP);
}

#[test]
fn so_does_a_file_in_mode_posix() {
    let Some(writers) = ordinary("AGGIO_POSIX", ":posix") else { return };
    at_calls(&writers, RECORDS, false, STEP);
}
