//! Files as MPI objects: handles, error handlers, the life of the process; in C and in Fortran.

use aggio_tests::{Directory, Family, Finished, Job, Mpi, Program, compile, installed, library};
use std::collections::BTreeMap;

/// Runs a program that prints `ok` when it found nothing wrong, with a file name as its argument.
fn run(
    source: &str,
    mpi: &Mpi,
    ranks: u32,
    more: &[&str],
    variables: &[(&str, &str)],
) -> Option<Finished> {
    let library = library()?;
    let directory = Directory::new();
    let mut job = Job::new(&compile(source, mpi)).ranks(ranks).preload(Some(&library));
    job = job.argument(directory.path().join("file"));
    for argument in more {
        job = job.argument(argument);
    }
    for (name, value) in variables {
        job = job.variable(name, value);
    }
    Some(job.run())
}

/// The program finds nothing wrong with 1 and with 3 ranks.
fn passes(source: &str) {
    for mpi in installed() {
        for ranks in [1, 3] {
            let Some(finished) = run(source, &mpi, ranks, &[], &[]) else { return };
            let good = finished.succeeded() && finished.stdout.lines().any(|line| line == "ok");
            assert!(good, "{}, {ranks} ranks: {}", mpi.name, finished.report());
        }
    }
}

#[test]
fn everything_of_an_open_file_that_moves_no_data() {
    passes("handles.c");
}

#[test]
fn error_handlers_are_inherited_kept_and_called() {
    passes("errhandlers.c");
}

#[test]
fn a_handler_written_with_mpif_h_gets_the_fortran_handle() {
    passes("errhandler_mpif.f90");
}

#[test]
fn a_handler_written_with_mpi_f08_gets_the_fortran_handle() {
    passes("errhandler_f08.f90");
}

/// The results of calls with a handler that changed the code, by the text of the call.
fn answers(finished: &Finished) -> BTreeMap<String, String> {
    let lines = finished.stdout.lines().filter_map(|line| line.rsplit_once(": "));
    lines.map(|(call, answer)| (call.to_owned(), answer.to_owned())).collect()
}

#[test]
fn a_handler_that_changes_the_code_has_the_effect_that_it_has_natively() {
    for (mpi, leaving) in installed().iter().flat_map(|mpi| [(mpi, "success"), (mpi, "other")]) {
        let directory = Directory::new();
        let job = Job::new(&compile("swallowed.c", mpi)).argument(directory.path().join("file"));
        let native = job.argument(leaving).argument("native").run();
        let Some(finished) = run("swallowed.c", mpi, 2, &[leaving], &[]) else { return };
        let (native, ours) = (answers(&native), answers(&finished));
        assert!(native.len() >= 16, "{}: {native:?}", mpi.name);
        for (call, answer) in native {
            assert_eq!(ours.get(&call), Some(&answer), "{}: {call}", mpi.name);
        }
        let of_close_and_handlers = ["MPI_File_close(", "MPI_File_set_errhandler("];
        for (call, answer) in &ours {
            let left = mpi.family == Family::Mpich
                || of_close_and_handlers.iter().any(|name| call.starts_with(name));
            let expected = if left { "left, 1 called" } else { "kept, 1 called" };
            assert_eq!(answer, expected, "{}: {call}", mpi.name);
        }
        assert!(finished.succeeded() && ours.len() >= 26, "{}", finished.report());
    }
}

#[test]
fn a_fortran_handler_that_forgives_has_the_effect_of_one_in_c() {
    for mpi in installed() {
        let Some(finished) = run("swallowed.f90", &mpi, 2, &[], &[]) else { return };
        let word = if mpi.family == Family::Mpich { "left" } else { "kept" };
        let expected = format!("MPI_File_open: {word}, 1 called\nMPI_File_seek: {word}, 1 called");
        assert!(finished.succeeded(), "{}: {}", mpi.name, finished.report());
        assert_eq!(finished.stdout.trim(), expected, "{}", mpi.name);
    }
}

#[test]
fn files_left_open_are_closed_without_a_word_to_other_ranks() {
    for mpi in installed() {
        let Some(finished) = run("left_open.c", &mpi, 3, &[], &[]) else { return };
        assert!(finished.succeeded(), "{}: {}", mpi.name, finished.report());
        assert!(finished.stderr.contains("still open when MPI ends"), "{}", finished.report());
    }
}

#[test]
fn a_fatal_error_ends_the_job_and_says_why() {
    for mpi in installed() {
        for how in ["fatal", "abort"] {
            let Some(library) = library() else { return };
            let directory = Directory::new();
            let said = directory.path().join("said");
            // A launcher may lose the output of a rank just before it ends the job.
            let shell = Program { path: "/bin/sh".into(), mpi: mpi.clone() };
            let job = Job::new(&shell).ranks(2).preload(Some(&library)).argument("-c");
            let job = job.argument("exec \"$@\" 2>>\"$0\"").argument(&said);
            let job = job.argument(compile("errhandlers.c", &mpi).path);
            let finished = job.argument(directory.path().join("file")).argument(how).run();
            assert!(!finished.succeeded(), "{}: {}", mpi.name, finished.report());
            assert!(!finished.stdout.contains("still here"), "{}", finished.report());
            let said = std::fs::read_to_string(&said).unwrap_or_default();
            assert!(said.contains("MPI_File_seek: "), "{said} {}", finished.report());
        }
    }
}

#[test]
fn switched_off_or_excluded_files_are_the_native_librarys() {
    for mpi in installed() {
        for variable in [("AGGIO", "off"), ("AGGIO_EXCLUDE", "*"), ("AGGIO_INCLUDE", "/nowhere/*")]
        {
            let Some(finished) = run("left_open.c", &mpi, 2, &[], &[variable]) else { return };
            assert!(!finished.stderr.contains("aggio"), "{variable:?}: {}", finished.report());
        }
    }
}

#[test]
fn a_bad_setting_is_told_once_and_fatal_if_strict() {
    for mpi in installed() {
        let bad = ("AGGIO_REPORT", "perhaps");
        let Some(finished) = run("errhandlers.c", &mpi, 2, &[], &[bad]) else { return };
        assert!(finished.succeeded(), "{}: {}", mpi.name, finished.report());
        assert_eq!(finished.stderr.matches("AGGIO_REPORT").count(), 1, "{}", finished.report());
        let strict = ("AGGIO_STRICT", "1");
        let Some(finished) = run("errhandlers.c", &mpi, 2, &[], &[bad, strict]) else { return };
        assert!(!finished.succeeded(), "{}: {}", mpi.name, finished.report());
        assert!(finished.stderr.contains("AGGIO_REPORT"), "{}", finished.report());
    }
}
