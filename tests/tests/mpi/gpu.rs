//! Buffers in the memory of graphics processors, with stand-ins for the drivers' libraries.

use aggio_tests::coupling::Coupling;
use aggio_tests::{
    Directory, Finished, Job, Mpi, compile, compile_library, compile_with, installed,
    installed_for, library, names_in,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// File names of the libraries, and how the stand-in becomes them.
const CUDA: (&str, &str) = ("libcuda.so.1", "-DCUDA");
const OTHERS: [(&str, &str); 3] = [
    ("libamdhip64.so.5", "-DHIP=5"),
    ("libamdhip64.so.6", "-DHIP=6"),
    ("libze_loader.so.1", "-DLEVEL_ZERO"),
];

/// Writes wait at any cost; on the file systems of tests it would not be worth it.
const ALWAYS: (&str, &str) = ("AGGIO_HINTS", "*:aggio_tune=defer_always=true");

fn driver((name, option): (&str, &str)) -> PathBuf {
    compile_library("gpu_driver.c", name, &[option])
}

/// Runs `tests/programs/gpu.c`.
fn run(mpi: &Mpi, ranks: u32, kind: (&str, &str), variables: &[(&str, &str)]) -> Option<Finished> {
    let library = library()?;
    let directory = Directory::new();
    let job = Job::new(&compile("gpu.c", mpi)).ranks(ranks).preload(Some(&library));
    let job = job.argument(directory.path().join("data")).argument(driver(kind));
    let job = variables.iter().fold(job, |job, (name, value)| job.variable(name, value));
    Some(job.variable("AGGIO_STRICT", "1").limit(Duration::from_secs(180)).run())
}

fn succeeds(mpi: &Mpi, ranks: u32, kind: (&str, &str), variables: &[(&str, &str)]) {
    let Some(finished) = run(mpi, ranks, kind, variables) else { return };
    let good = finished.succeeded() && finished.stdout.lines().any(|line| line == "ok");
    assert!(good, "{kind:?}, {ranks} ranks, {variables:?}, {}: {}", mpi.name, finished.report());
}

#[test]
fn every_read_and_write_takes_buffers_in_memory_of_cuda() {
    for mpi in installed() {
        for ranks in [1, 4] {
            succeeds(&mpi, ranks, CUDA, &[]);
        }
    }
}

#[test]
fn every_read_and_write_takes_buffers_in_memory_of_hip_and_level_zero() {
    for (row, kind) in OTHERS.into_iter().enumerate() {
        for mpi in installed_for(row) {
            succeeds(&mpi, 3, kind, &[]);
        }
    }
}

#[test]
fn writes_that_wait_hold_the_bytes_of_the_device() {
    for (row, stage) in ["none", "memory"].into_iter().enumerate() {
        for mpi in installed_for(row) {
            succeeds(&mpi, 4, CUDA, &[("AGGIO_DEFER", "*"), ("AGGIO_STAGE", stage), ALWAYS]);
        }
    }
    for mpi in installed_for(1) {
        let stages = Directory::new();
        let place = stages.path().to_str().expect("UTF-8");
        succeeds(&mpi, 4, CUDA, &[("AGGIO_DEFER", "*"), ("AGGIO_STAGE", place), ALWAYS]);
        assert_eq!(names_in(stages.path()), [""; 0]);
    }
}

#[test]
fn containers_and_coupled_files_hold_the_bytes_of_the_device() {
    for mpi in installed_for(0) {
        succeeds(&mpi, 4, CUDA, &[("AGGIO_BLOB", "*")]);
    }
    for mpi in installed_for(1) {
        let Some(coupling) = Coupling::of("*.dat") else { return };
        let (mpirun, program) = (mpi.mpirun().display(), compile("gpu.c", &mpi));
        let words = [program.path.as_path(), Path::new("new.dat"), &driver(CUDA)];
        let [program, file, driver] = words.map(Path::display);
        let told = coupling.run(&format!("{mpirun} -n 2 {program} {file} {driver} long"));
        assert!(told.lines().any(|line| line == "ok"), "{told}");
    }
}

#[test]
fn fortran_programs_may_pass_memory_of_the_device() {
    let Some(library) = library() else { return };
    let driver = driver(CUDA);
    for mpi in installed() {
        let directory = Directory::new();
        let linked = driver.to_str().expect("UTF-8");
        let program = compile_with("gpu.f90", &mpi, &[linked]);
        let job = Job::new(&program).ranks(2).preload(Some(&library));
        let finished = job.argument(directory.path().join("data")).run();
        let good = finished.succeeded() && finished.stdout.lines().any(|line| line.trim() == "ok");
        assert!(good, "{}: {}", mpi.name, finished.report());
    }
}
