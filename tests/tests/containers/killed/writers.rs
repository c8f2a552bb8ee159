//! A job of two processes that write records of one file by turns, and how it is killed.

use aggio_tests::{compile_plain, library};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The records of each of the two processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Records {
    /// How many.
    pub(crate) count: u64,
    /// Bytes of each.
    pub(crate) length: u64,
}

impl Records {
    /// Bytes of the file when the job ended.
    pub(crate) fn total(self) -> u64 {
        2 * self.count * self.length
    }

    /// The byte that a record is full of; never 0.
    pub(crate) fn value(process: u64, record: u64) -> u8 {
        (1 + (7 * record + process) % 255) as u8
    }
}

/// The killed processes, and the system call of the job at which they are killed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kill {
    /// The call, counted from 1 over all processes.
    pub(crate) number: u64,
    /// Whether every process is killed, or only the one that makes the call.
    pub(crate) all: bool,
}

/// Nobody is killed.
pub(crate) const NOBODY: Kill = Kill { number: u64::MAX, all: false };

/// A program that writes, and its settings.
pub(crate) struct Writers {
    program: PathBuf,
    /// The library, the variable with the rule for the data, and the text after its pattern.
    served: Option<(PathBuf, &'static str, &'static str)>,
}

/// The writers of containers that use the engine itself.
pub(crate) fn engine() -> Writers {
    Writers { program: env!("CARGO_BIN_EXE_aggio-test-writers").into(), served: None }
}

/// An ordinary program, with its file served by a rule in `variable`.
pub(crate) fn ordinary(variable: &'static str, how: &'static str) -> Option<Writers> {
    let served = Some((library()?, variable, how));
    Some(Writers { program: compile_plain("two_writers.c", &[]), served })
}

/// A program that stores to memory, which is mapped to its file, a container.
pub(crate) fn mapping() -> Option<Writers> {
    let served = Some((library()?, "AGGIO_BLOB", ""));
    Some(Writers { program: compile_plain("mapping_writers.c", &[]), served })
}

impl Writers {
    /// Runs the job in `folder`; returns the message of `aggio-test-kill`.
    pub(crate) fn run(&self, folder: &Path, records: Records, kill: Kill) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aggio-test-kill"));
        if kill.all {
            command.arg("--all");
        }
        command.arg(kill.number.to_string());
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
        command.args([records.count.to_string(), records.length.to_string()]);
        let output = command.output().expect("the program starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}
