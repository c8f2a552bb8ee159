//! A writing job of two processes, killed at every one of its system calls.

use agg_core::blob::{Container, is_container};
use aggio_tests::{Directory, compile_plain, library};
use std::path::{Path, PathBuf};
use std::process::Command;

const RECORDS: u64 = 6;
const LENGTH: u64 = 1000;

/// A program that writes, and what it is run with.
struct Writers {
    program: PathBuf,
    /// The library, and the variable whose rule names the data, with what follows its pattern.
    served: Option<(PathBuf, &'static str, &'static str)>,
}

impl Writers {
    /// Runs the job in `folder`, killed at system call `number`; what `aggio-test-kill` says.
    fn run(&self, folder: &Path, number: u64, all: bool) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aggio-test-kill"));
        if all {
            command.arg("--all");
        }
        command.arg(number.to_string());
        let data = folder.join("data");
        if let Some((library, variable, how)) = &self.served {
            // `env`, so that the killer itself runs without the library.
            let spool = folder.join("spool");
            std::fs::create_dir_all(&spool).expect("a directory");
            command.arg("/usr/bin/env");
            command.arg(format!("LD_PRELOAD={}", library.display()));
            command.arg(format!("AGGIO_SPOOL={}", spool.display()));
            command.arg(format!("{variable}={}{how}", data.display()));
        }
        command.arg(&self.program).args([&data, &folder.join("acknowledged")]);
        let output = command.args([RECORDS.to_string(), LENGTH.to_string()]).output();
        let output = output.expect("the program starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

/// The records that were acknowledged, as (process, record).
fn acknowledged(folder: &Path) -> Vec<(u64, u64)> {
    let text = std::fs::read_to_string(folder.join("acknowledged")).unwrap_or_default();
    let complete = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let written = complete.filter_map(|line| line.strip_prefix("w "));
    let pair = |line: &str| {
        let (process, record) = line.trim().split_once(' ').expect("two numbers");
        (process.parse().expect("a number"), record.parse().expect("a number"))
    };
    written.map(pair).collect()
}

fn value(process: u64, record: u64) -> u8 {
    (1 + (7 * record + process) % 255) as u8
}

/// All bytes of the file, if the job was not killed before it was made.
fn content(folder: &Path) -> Option<Vec<u8>> {
    let path = folder.join("data");
    if !path.exists() {
        return None;
    }
    if !is_container(&path) {
        return std::fs::read(&path).ok();
    }
    let reader = Container::open(&path).and_then(|it| it.reader()).expect("it opens after a kill");
    let mut bytes = vec![0; reader.size() as usize];
    let read = reader.read_at(&mut bytes, 0).expect("its bytes can be read");
    assert_eq!(read, bytes.len());
    Some(bytes)
}

/// Acknowledged records are there, others whole or not at all.
fn verify(folder: &Path, what: &str) {
    if folder.join("spool").exists() {
        let done = agg_core::spool::recover(&folder.join("spool")).expect("spools can be read");
        assert!(done.iter().all(|one| one.error.is_none()), "{what}: {done:?}");
    }
    let acknowledged = acknowledged(folder);
    let Some(bytes) = content(folder) else {
        assert!(acknowledged.is_empty(), "{what}: nothing is there of {acknowledged:?}");
        return;
    };
    for (process, record) in acknowledged {
        let start = ((2 * record + process) * LENGTH) as usize;
        let found = bytes.get(start..start + LENGTH as usize);
        let right = found.is_some_and(|all| all.iter().all(|b| *b == value(process, record)));
        assert!(right, "{what}: record {record} of process {process} was acknowledged");
    }
    for (place, record) in bytes.chunks(LENGTH as usize).enumerate() {
        let (process, number) = (place as u64 % 2, place as u64 / 2);
        let whole = record.iter().all(|byte| *byte == value(process, number));
        let nothing = record.iter().all(|byte| *byte == 0);
        assert!(whole || nothing, "{what}: record {number} of process {process} is torn");
    }
}

/// The job can be run again on what a kill left, and ends with everything.
fn run_again(writers: &Writers, folder: &Path, what: &str) {
    let said = writers.run(folder, u64::MAX, false);
    assert!(said.starts_with("ended"), "{what}, again: {said}");
    verify(folder, what);
    assert_eq!(content(folder).map(|bytes| bytes.len() as u64), Some(2 * RECORDS * LENGTH));
}

fn at_every_call(writers: &Writers, all: bool) {
    let mut number = 0;
    loop {
        number += 1;
        let directory = Directory::new();
        let said = writers.run(directory.path(), number, all);
        let what = format!("call {number}, {said}");
        assert!(!said.starts_with("hung"), "{what}");
        verify(directory.path(), &what);
        run_again(writers, directory.path(), &what);
        if said.starts_with("ended") {
            assert!(number > 100, "{what}: the job makes more calls than that");
            return;
        }
    }
}

/// The writers of containers that use the engine itself.
fn engine() -> Writers {
    Writers { program: env!("CARGO_BIN_EXE_aggio-test-writers").into(), served: None }
}

/// An ordinary program, whose file is served as `variable` says.
fn ordinary(variable: &'static str, how: &'static str) -> Option<Writers> {
    let served = Some((library()?, variable, how));
    Some(Writers { program: compile_plain("two_writers.c", &[]), served })
}

#[test]
fn a_container_keeps_what_was_acknowledged_when_one_of_two_writers_is_killed_at_any_call() {
    at_every_call(&engine(), false);
}

#[test]
fn a_container_keeps_what_was_acknowledged_when_both_writers_are_killed_at_any_call() {
    at_every_call(&engine(), true);
}

#[test]
fn so_does_the_container_of_an_ordinary_program() {
    let Some(writers) = ordinary("AGGIO_BLOB", "") else { return };
    at_every_call(&writers, false);
}

#[test]
fn so_does_the_spool_of_a_file_in_mode_close() {
    let Some(writers) = ordinary("AGGIO_POSIX", ":close") else { return };
    at_every_call(&writers, false);
}
