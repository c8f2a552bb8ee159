//! Who opens a file: counted as system calls.

use aggio_tests::{Directory, Job, Mpi, Program, compile, installed, library};
use std::path::Path;

const RANKS: u32 = 4;

/// The system calls that name the data file or open it in another way, of all ranks.
fn opens(mpi: &Mpi, library: &Path, hints: &str) -> Vec<String> {
    let data = Directory::new();
    let (file, log) = (data.path().join("data"), data.path().join("trace"));
    let program = compile("deferred.c", mpi);
    let strace = Program { path: "/usr/bin/strace".into(), mpi: mpi.clone() };
    let preload = format!("LD_PRELOAD={}", library.display());
    let calls = "trace=openat,open,creat,openat2,pidfd_getfd";
    let mut job = Job::new(&strace).ranks(RANKS).variable("AGGIO_HINTS", hints);
    for argument in ["-f", "-ff", "-qq", "-y", "-e", calls, "-E", &preload, "-o"] {
        job = job.argument(argument);
    }
    let finished =
        job.argument(&log).argument(&program.path).argument(&file).argument("collective").run();
    let good = finished.stdout.lines().any(|line| line == "ok");
    assert!(good && finished.succeeded(), "{}: {}", mpi.name, finished.report());
    let traces = std::fs::read_dir(data.path()).expect("the folder is there").flatten();
    let traces = traces.filter(|entry| entry.file_name().to_string_lossy().starts_with("trace"));
    let name = file.display().to_string();
    let lines: String =
        traces.map(|entry| std::fs::read_to_string(entry.path()).unwrap()).collect();
    lines.lines().filter(|line| line.contains(&name)).map(str::to_owned).collect()
}

#[test]
fn one_rank_opens_the_file_and_the_others_take_its_descriptor() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let calls = opens(&mpi, &library, "");
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
        let calls = opens(&mpi, &library, "aggio_deferred_open=disable");
        assert_eq!(calls.len(), RANKS as usize, "{}: {calls:#?}", mpi.name);
    }
}
