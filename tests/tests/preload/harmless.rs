//! Preloaded into programs that are no MPI programs, and switched off, the library changes nothing.

use aggio_tests::{Directory, Job, compile, installed, library, skip};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};

/// Everyday programs; each prints the same every time.
const COMMANDS: &[&[&str]] = &[
    &["/bin/ls", "-l", "/usr/lib"],
    &["/bin/bash", "-c", "cd /usr; for i in 1 2 3; do echo $i | cat; done; (exit 3)"],
    &[
        "/usr/bin/python3",
        "-S",
        "-c",
        "import os, sys; print(sorted(os.listdir('/usr'))); sys.exit(4)",
    ],
    &["/usr/bin/git", "--version"],
    &["/usr/bin/gcc", "-E", "-x", "c", "/usr/include/stdio.h"],
    &["/usr/bin/mpirun.openmpi", "--allow-run-as-root", "-n", "1", "/bin/echo", "hello"],
    // MPICH's launcher at times dies of SIGPIPE when its processes end at once.
    &["/usr/bin/mpirun.mpich", "-n", "2", "/bin/sh", "-c", "echo hello; sleep 0.3"],
];

fn run(command: &[&str], library: Option<&Path>) -> Output {
    let mut child = Command::new(command[0]);
    child.args(&command[1..]).env_remove("LD_PRELOAD").env_remove("AGGIO_TESTS");
    child.env_remove("AGGIO_LIBRARY");
    if let Some(library) = library {
        child.env("LD_PRELOAD", library);
    }
    child.output().unwrap_or_else(|error| panic!("{}: {error}", command[0]))
}

#[test]
fn everyday_programs_print_the_same_with_the_library() {
    let Some(library) = library() else { return };
    for command in COMMANDS {
        if !Path::new(command[0]).exists() {
            skip(&format!("{} is not installed (tests/setup.sh check)", command[0]));
            continue;
        }
        let (without, with) = (run(command, None), run(command, Some(&library)));
        assert_eq!(without, with, "{command:?}");
    }
}

#[test]
fn no_thread_and_no_open_descriptor_appears() {
    let Some(library) = library() else { return };
    let script =
        "import os; print(len(os.listdir('/proc/self/task')), sorted(os.listdir('/proc/self/fd')))";
    let command = ["/usr/bin/python3", "-S", "-c", script];
    let (without, with) = (run(&command, None), run(&command, Some(&library)));
    assert_eq!(without, with);
    assert!(String::from_utf8_lossy(&with.stdout).starts_with("1 "), "more than one thread");
}

/// A traced run: how often each system call was made, and the files that were opened.
fn trace(command: &[&str], library: &Path) -> (BTreeMap<String, usize>, BTreeSet<String>) {
    let directory = Directory::new();
    let log = directory.path().join("trace");
    let preload = format!("LD_PRELOAD={}", library.display());
    let status = Command::new("strace")
        .args(["-f", "-qq", "-o"])
        .arg(&log)
        .args(["/usr/bin/env", "-u", "AGGIO_TESTS", "-u", "AGGIO_LIBRARY", &preload])
        .args(command)
        .output();
    let status = status.unwrap_or_else(|error| panic!("strace: {error}")).status;
    assert!(status.success(), "{command:?} {status}");
    let (mut calls, mut files) = (BTreeMap::new(), BTreeSet::new());
    for line in std::fs::read_to_string(&log).unwrap().lines() {
        let line = line.split_once(' ').map_or(line, |(_, rest)| rest.trim_start());
        let Some((name, rest)) = line.split_once('(') else { continue };
        *calls.entry(name.to_owned()).or_insert(0) += 1;
        if name == "openat" {
            files.insert(rest.split('"').nth(1).unwrap_or("").to_owned());
        }
    }
    (calls, files)
}

/// System calls that the loader may make for this library beyond those for an empty one.
const MORE_LOADS: usize = 8;

/// A library with nothing in it, for the cost of preloading as such.
fn empty_library(directory: &Directory) -> std::path::PathBuf {
    let path = directory.path().join("empty.so");
    let built = Command::new("gcc")
        .args(["-shared", "-fPIC", "-Wl,--no-as-needed", "-x", "c", "/dev/null", "-lgcc_s", "-o"])
        .arg(&path)
        .output()
        .expect("gcc starts");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    path
}

#[test]
fn a_program_without_mpi_makes_the_system_calls_it_makes_with_an_empty_library() {
    let Some(library) = library() else { return };
    let directory = Directory::new();
    let empty = empty_library(&directory);
    // Mapping a bigger file takes more of the loader's calls; nothing else may differ.
    let loader = [
        "mmap",
        "mprotect",
        "munmap",
        "read",
        "pread64",
        "openat",
        "close",
        "fstat",
        "newfstatat",
        "brk",
    ];
    for command in [["/bin/ls", "/usr"], ["/bin/cat", "/etc/hostname"]] {
        let (mut expected, mut allowed) = trace(&command, &empty);
        let (mut calls, files) = trace(&command, &library);
        allowed.insert(library.display().to_string());
        let opened: Vec<_> =
            files.difference(&allowed).filter(|name| !name.contains(".so")).collect();
        assert!(opened.is_empty(), "{command:?} opened {opened:?}");
        let of_loader = |calls: &mut BTreeMap<String, usize>| -> usize {
            loader.iter().filter_map(|name| calls.remove(*name)).sum()
        };
        let (loads, expected_loads) = (of_loader(&mut calls), of_loader(&mut expected));
        assert!(loads <= expected_loads + MORE_LOADS, "{command:?} {loads} {expected_loads}");
        assert_eq!(calls, expected, "{command:?}");
    }
}

/// The system calls on the data file, without the addresses in them.
fn calls_on_data(mpi: &aggio_tests::Mpi, library: Option<&Path>) -> Vec<String> {
    let data = Directory::new();
    let (file, log) = (data.path().join("data"), data.path().join("trace"));
    let program = compile("individual.c", mpi);
    let traced = aggio_tests::Program { path: "/usr/bin/strace".into(), mpi: mpi.clone() };
    let mut job = Job::new(&traced)
        .argument("-f")
        .argument("-qq")
        .argument("-y")
        .argument("-P")
        .argument(&file);
    job = job.argument("-o").argument(&log);
    if let Some(library) = library {
        job = job.argument("-E").argument(format!("LD_PRELOAD={}", library.display()));
    }
    let finished = job.variable("AGGIO", "off").argument(&program.path).argument(&file).run();
    let lines = std::fs::read_to_string(&log).unwrap_or_else(|_| panic!("{}", finished.report()));
    let place = data.path().display().to_string();
    let without_process =
        |line: &str| line.split_once(' ').map_or("", |(_, rest)| rest).trim().to_owned();
    lines.lines().map(|line| without_process(line).replace(&place, "")).collect()
}

#[test]
fn switched_off_the_mpi_library_serves_every_call_as_before() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let (without, with) = (calls_on_data(&mpi, None), calls_on_data(&mpi, Some(&library)));
        assert!(without.len() > 10, "{without:?}");
        assert_eq!(without.len(), with.len(), "{}", mpi.name);
        for (a, b) in without.iter().zip(&with) {
            let call = |line: &str| line.split(['(', '<']).next().unwrap_or("").to_owned();
            assert_eq!(call(a), call(b), "{}", mpi.name);
        }
    }
}
