//! `PNETCDF_HINTS`: MPI programs under the library ask PnetCDF for MPI-IO, unless the user chose
//! otherwise.

use aggio_tests::{Job, compile, installed, library};
use std::process::Command;

/// The variable's value in a program under every MPI: when it is loaded, in its child, and when MPI
/// has started.
fn values(variables: &[(&str, &str)]) -> Vec<[String; 3]> {
    let Some(library) = library() else { return Vec::new() };
    let run = |mpi| {
        let job = Job::new(&compile("environment.c", &mpi)).preload(Some(&library));
        let job = variables.iter().fold(job, |job, (name, value)| job.variable(name, value));
        let finished = job.run();
        assert!(finished.succeeded(), "{}: {}", mpi.name, finished.report());
        ["loaded", "child", "started"].map(|when| {
            let line =
                finished.stdout.lines().find_map(|line| line.strip_prefix(&format!("{when}=[")));
            line.and_then(|line| line.strip_suffix(']')).expect("every moment is told").to_owned()
        })
    };
    installed().into_iter().map(run).collect()
}

fn assert_always(variables: &[(&str, &str)], expected: &str) {
    for found in values(variables) {
        assert_eq!(found, [expected; 3], "{variables:?}");
    }
}

#[test]
fn an_mpi_program_asks_for_mpi_io_from_its_beginning() {
    assert_always(&[], "nc_driver=mpiio");
}

#[test]
fn hints_of_the_user_stay_before_the_wish() {
    assert_always(&[("PNETCDF_HINTS", "cb_nodes=2;x=y")], "cb_nodes=2;x=y;nc_driver=mpiio");
}

#[test]
fn a_layer_that_the_user_chose_is_kept() {
    for own in ["nc_driver=gio", "cb_nodes=2;nc_driver=gio"] {
        assert_always(&[("PNETCDF_HINTS", own)], own);
    }
}

#[test]
fn switched_off_nothing_is_set() {
    assert_always(&[("AGGIO", "no")], "(unset)");
    assert_always(&[("AGGIO", "no"), ("PNETCDF_HINTS", "a=b")], "a=b");
}

#[test]
fn a_program_without_mpi_has_the_environment_that_it_was_given() {
    let Some(library) = library() else { return };
    let mut command = Command::new("/usr/bin/env");
    command.env("LD_PRELOAD", &library).env_remove("PNETCDF_HINTS");
    let output = command.output().expect("env starts");
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("LD_PRELOAD=") && !text.contains("PNETCDF_HINTS"), "{text}");
}
