//! Jobs under low limits of the system, which behave as docs/limits.md describes.

use aggio_tests::{
    Directory, Family, Finished, Job, Mpi, Program, compile, compile_shim, installed, library,
    repository,
};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Runs `tests/programs/short_of.c` under the library.
fn short_of(what: &str, mpi: &Mpi, ranks: u32) -> Option<Finished> {
    let library = library()?;
    let directory = Directory::new();
    let job = Job::new(&compile("short_of.c", mpi)).ranks(ranks).preload(Some(&library));
    Some(job.argument(directory.path().join("file")).argument(what).run())
}

fn succeeds_short_of(what: &str) {
    for mpi in installed() {
        for ranks in [1, 3] {
            let Some(finished) = short_of(what, &mpi, ranks) else { return };
            let good = finished.succeeded() && finished.stdout.lines().any(|line| line == "ok");
            assert!(good, "{what}, {}, {ranks} ranks: {}", mpi.name, finished.report());
        }
    }
}

#[test]
fn an_open_file_takes_one_descriptor() {
    succeeds_short_of("descriptors");
}

#[test]
fn a_limit_of_file_sizes_does_not_count_what_ranks_share() {
    succeeds_short_of("sizes");
}

#[test]
fn without_memory_calls_end_alike_and_the_process_lives() {
    let Some(library) = library() else { return };
    let shim = compile_shim("allocations_shim.c");
    let preloaded = [library.as_os_str(), shim.as_os_str()].join(OsStr::new(":"));
    for mpi in installed() {
        let directory = Directory::new();
        let job = Job::new(&compile("no_memory.c", &mpi)).ranks(3);
        let job = job.variable("LD_PRELOAD", &preloaded).argument(directory.path().join("file"));
        let finished = job.limit(Duration::from_secs(60)).run();
        let good = finished.succeeded() && finished.stdout.lines().any(|line| line == "ok");
        assert!(good, "{}: {}", mpi.name, finished.report());
    }
}

#[test]
fn a_process_without_the_library_is_told_of_at_the_first_open() {
    let Some(library) = library() else { return };
    // Debian's MPICH cannot spawn processes.
    for mpi in installed().into_iter().filter(|mpi| mpi.family == Family::OpenMpi) {
        // The first rank of the job is there, or it is not; one of the waiting ranks reports it.
        for ranks in [1, 3] {
            let directory = Directory::new();
            let job = Job::new(&compile("spawned.c", &mpi)).ranks(ranks).preload(Some(&library));
            let job = job.argument(directory.path().join("file"));
            let job = if ranks > 1 { job.argument("last") } else { job };
            let finished = job.limit(Duration::from_secs(25)).run();
            let told = finished.stderr.matches("MPI_Comm_spawn").count();
            assert_eq!(told, 1, "{}", finished.report());
        }
    }
}

/// A test program that was compiled with AddressSanitizer into `directory`.
fn sanitized(source: &str, mpi: &Mpi, directory: &Path) -> Program {
    let source = repository().join("tests/programs").join(source);
    let path = directory.join("sanitized");
    let mut compiler = Command::new(mpi.compiler(&source));
    compiler.args(["-g", "-O1", "-fsanitize=address", "-o"]).arg(&path).arg(&source);
    assert!(compiler.status().is_ok_and(|status| status.success()), "{compiler:?}");
    Program { path, mpi: mpi.clone() }
}

#[test]
fn a_program_with_address_sanitizer_runs_with_its_runtime_first() {
    let Some(library) = library() else { return };
    let runtime = Command::new("gcc").arg("-print-file-name=libasan.so").output();
    let runtime = runtime.map(|found| String::from_utf8_lossy(&found.stdout).trim().to_owned());
    let Some(runtime) = runtime.ok().filter(|runtime| runtime.starts_with('/')) else {
        aggio_tests::skip("gcc has no AddressSanitizer");
        return;
    };
    let preloaded = [OsStr::new(&runtime), library.as_os_str()].join(OsStr::new(":"));
    for mpi in installed() {
        let directory = Directory::new();
        let program = sanitized("explicit.c", &mpi, directory.path());
        let job = Job::new(&program).ranks(2).argument(directory.path().join("file"));
        let job = job.variable("ASAN_OPTIONS", "detect_leaks=0");
        let finished = job.variable("LD_PRELOAD", &preloaded).run();
        let good = finished.succeeded() && finished.stdout.lines().any(|line| line == "ok");
        assert!(good, "{}: {}", mpi.name, finished.report());
    }
}
