//! MPI jobs that write a container while one rank is killed.

use super::verify::{content_of, fsck, verify};
use super::writers::Records;
use aggio_tests::{Directory, Finished, Job, Mpi, Program, compile, factor, installed, library};
use std::path::{Path, PathBuf};

const RECORDS: Records = Records { count: 9, length: 3000 };

/// Runs two ranks in `folder`; rank 1 is killed at its system call `number`.
fn run(program: &Program, folder: &Path, number: Option<u64>, library: &Path) -> Finished {
    let killer = Program {
        path: PathBuf::from(env!("CARGO_BIN_EXE_aggio-test-kill")),
        mpi: program.mpi.clone(),
    };
    let job = match number {
        None => Job::new(program),
        Some(number) => {
            let job = Job::new(&killer).argument("--rank").argument("1");
            job.argument(number.to_string()).argument(&program.path)
        }
    };
    let data = folder.join("data");
    job.ranks(2)
        .argument(&data)
        .argument(folder.join("acknowledged"))
        .argument(RECORDS.count.to_string())
        .argument(RECORDS.length.to_string())
        .variable("AGGIO_BLOB", &data)
        .preload(Some(library))
        .run()
}

/// How many system calls rank 1 makes, about.
fn calls(program: &Program, library: &Path) -> u64 {
    let directory = Directory::new();
    let finished = run(program, directory.path(), Some(u64::MAX), library);
    let said = finished.stdout.split("ended after ").nth(1).unwrap_or_default();
    let number = said.split(' ').next().and_then(|word| word.parse().ok());
    number.unwrap_or_else(|| panic!("{}", finished.report()))
}

fn kills(mpi: &Mpi, library: &Path, jobs: u64) {
    let program = compile("ranks_write.c", mpi);
    let calls = calls(&program, library);
    for job in 0..jobs {
        // The file is written in the last calls of a rank; most before them start MPI.
        let number = if job % 3 == 0 { calls * job / jobs } else { calls - calls * job / jobs / 3 };
        let directory = Directory::new();
        let finished = run(&program, directory.path(), Some(number.max(1)), library);
        let what = format!("{}, call {number} of {calls}: {}", mpi.name, finished.report());
        assert!(finished.status.is_some(), "a rank is left waiting: {what}");
        verify(directory.path(), RECORDS, &what);
        fsck(directory.path(), &what);
        let again = run(&program, directory.path(), None, library);
        assert!(again.succeeded(), "{what}\nagain: {}", again.report());
        verify(directory.path(), RECORDS, &what);
        fsck(directory.path(), &what);
        let length = content_of(&directory.path().join("data")).map(|bytes| bytes.len() as u64);
        assert_eq!(length, Some(RECORDS.total()), "{what}");
    }
}

#[test]
fn a_container_keeps_what_was_acknowledged_when_a_rank_is_killed() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        kills(&mpi, &library, 6 * factor() as u64);
    }
}
