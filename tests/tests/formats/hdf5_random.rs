//! Random HDF5 files: the reader finds the same as HDF5 itself, in old and new versions.

mod compare;
mod truth;

use aggio_tests::{Directory, factor, installed, newer_hdf5, skip, tool};
use compare::Met;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Files that one process of the generator makes; they are compared and removed.
const BATCH: usize = 50;
const SOURCE: &str = "hdf5_random.c";

/// So many files, `short` in `make check`, else `long` times the factor of the random tests.
fn files(short: usize, long: usize) -> usize {
    if factor() == 1 { short } else { long * factor() }
}

/// The generator with Debian's HDF5, which has headers for parallel builds only.
fn debian() -> Option<PathBuf> {
    let mpi = installed().into_iter().next()?;
    let headers = format!("/usr/include/hdf5/{}", mpi.name);
    if !Path::new(&headers).exists() {
        skip("HDF5 is missing (tests/setup.sh check)");
        return None;
    }
    let libraries = format!("-L/usr/lib/x86_64-linux-gnu/hdf5/{}", mpi.name);
    let options = [&format!("-I{headers}"), &libraries, "-lhdf5"];
    Some(aggio_tests::compile_with(SOURCE, &mpi, &options).path)
}

/// Makes so many files, and compares each with HDF5's description of it.
fn compare(generator: &Path, files: usize, options: &[&str], of: &str) -> Met {
    let began = Instant::now();
    let mut met = Met::default();
    for first in (1..=files).step_by(BATCH) {
        let place = Directory::new();
        let count = BATCH.min(files + 1 - first);
        let mut command = Command::new(generator);
        command.arg(place.path()).arg(first.to_string()).arg(count.to_string()).args(options);
        let run = command.output().expect("the generator runs");
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{}", said.chars().take(4000).collect::<String>());
        for number in first..first + count {
            compare::file(&place.path().join(format!("{number}.h5")), &mut met);
        }
        // Debian's h5ls supports neither the newest formats nor the files of HDF5 2.
        if first % (20 * BATCH) == 1 && options.is_empty() && of != "HDF5 2" {
            listed(&place.path().join(format!("{first}.h5")));
        }
    }
    aggio_tests::told("random files", of, files, began);
    println!("{met}");
    met
}

/// The names and kinds of objects that `h5ls` lists are those that `aggio stat` does.
fn listed(file: &Path) {
    let Some(aggio) = tool() else { return };
    let run = |program: &Path, arguments: &[&str]| {
        let run = Command::new(program).args(arguments).arg(file).output().expect("it runs");
        assert!(run.status.success(), "{run:?}");
        String::from_utf8(run.stdout).expect("a text")
    };
    let listed = run(Path::new("h5ls"), &["-r"]);
    let told = run(&aggio, &["stat"]);
    // The first line is the file's own.
    let told = told.split_once('\n').map_or("", |(_, rest)| rest);
    let names = |text: &str, of: &str| {
        let lines = text.lines().map(str::trim_start).filter(|line| line.starts_with('/'));
        let all: Vec<String> = lines
            .filter(|line| line.contains(of))
            .filter_map(|line| Some(line.split_whitespace().next()?.replace('\\', "")))
            .collect();
        all
    };
    assert_eq!(names(&listed, " Dataset {").len(), names(told, ", fill ").len());
    let mut all = [names(&listed, " "), names(told, " ")];
    all.iter_mut().for_each(|names| names.sort_unstable());
    assert_eq!(all[0], all[1], "{}", file.display());
}

#[test]
fn the_reader_finds_what_hdf5_1_10_finds() {
    let Some(generator) = debian() else { return };
    let met = compare(&generator, files(100, 1000), &[], "HDF5 1.10");
    assert!(met.is_enough(), "{met}");
}

/// The generator with a newer HDF5.
fn newer(version: &str) -> Option<PathBuf> {
    let mpi = installed().into_iter().next()?;
    Some(newer_hdf5(version, SOURCE, &mpi)?.path)
}

#[test]
fn the_reader_finds_what_hdf5_1_14_finds() {
    let Some(generator) = newer("1.14") else { return };
    let met = compare(&generator, files(50, 700), &[], "HDF5 1.14");
    assert!(met.is_enough(), "{met}");
    compare(&generator, files(20, 300), &["latest"], "HDF5 1.14, newest formats");
}

#[test]
fn the_reader_finds_what_hdf5_2_finds() {
    let Some(generator) = newer("2") else { return };
    compare(&generator, files(50, 300), &[], "HDF5 2");
    compare(&generator, files(20, 300), &["latest"], "HDF5 2, newest formats");
}
