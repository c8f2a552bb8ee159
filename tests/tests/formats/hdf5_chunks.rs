//! Chunked datasets that parallel HDF5 writes: the same file as natively, by fewer bytes.

use aggio_tests::{
    Directory, Finished, Job, Mpi, Program, compile_with_hdf5, installed, installed_for, library,
};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The program for each MPI with HDF5.
fn programs(source: &str) -> Vec<Program> {
    let all: Vec<Mpi> = installed();
    all.iter().filter_map(|mpi| compile_with_hdf5(source, mpi)).collect()
}

/// Runs the program with `arguments` in `place`, where it leaves the file `x.h5`.
fn run(program: &Program, ranks: u32, place: &Path, arguments: &str, aggio: bool) -> Finished {
    let mut job = Job::new(program).ranks(ranks).directory(place).argument("x.h5");
    for argument in arguments.split_whitespace() {
        job = job.argument(argument);
    }
    if aggio {
        job = job.preload(library().as_deref()).variable("AGGIO_REPORT", "json");
    }
    let finished = job.limit(Duration::from_secs(120)).run();
    assert!(finished.succeeded(), "{arguments}: {}", finished.report());
    finished
}

/// The output of `h5dump` for the file: properties and data.
fn dump(place: &Path) -> String {
    let dumped = Command::new("h5dump").args(["-p", "x.h5"]).current_dir(place).output();
    let dumped = dumped.expect("h5dump starts");
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    String::from_utf8_lossy(&dumped.stdout).into_owned()
}

/// The same run with the library, and the counts in its reports of writing the file.
fn counts_of(program: &Program, arguments: &str) -> impl Fn(&str) -> u64 + use<> {
    let place = Directory::new();
    let finished = run(program, 4, place.path(), &format!("{arguments} read=0"), true);
    let report = finished.json_report().expect("a report");
    move |name: &str| report.get(name).copied().unwrap_or_else(|| panic!("no {name}"))
}

const SMALL: &str = "side=64 chunk=16";

#[test]
fn every_mode_leaves_the_file_that_it_leaves_natively() {
    if library().is_none() {
        return;
    }
    let rows = [
        "mode=independent layout=rows cell=3",
        "mode=independent layout=columns fill=7",
        "mode=collective layout=rows",
        "mode=collective layout=blocks fill=7",
        "mode=collective layout=columns steps=4",
        "mode=collective layout=rows fill=never idle=1",
        "mode=collective layout=blocks deflate=6",
        "mode=multi layout=rows",
        "mode=multi layout=columns idle=2",
        "mode=multi0 layout=blocks metadata=1",
        "mode=multi0 layout=rows idle=1 steps=2",
        "mode=multi0 layout=rows deflate=1",
    ];
    for (row, arguments) in rows.into_iter().enumerate() {
        for mpi in installed_for(row) {
            let Some(program) = compile_with_hdf5("hdf5_chunks.c", &mpi) else { return };
            let arguments = format!("{SMALL} {arguments}");
            let (native, served) = (Directory::new(), Directory::new());
            run(&program, 4, native.path(), &arguments, false);
            run(&program, 4, served.path(), &arguments, true);
            assert_eq!(dump(served.path()), dump(native.path()), "{arguments}");
        }
    }
}

#[test]
fn a_dataset_with_the_default_fill_value_is_written_once() {
    if library().is_none() {
        return;
    }
    const DATA: u64 = 512 * 512 * 4;
    for program in programs("hdf5_chunks.c") {
        for mode in ["independent", "collective", "multi", "multi0"] {
            for layout in ["rows", "blocks"] {
                let arguments = format!("mode={mode} layout={layout} side=512 chunk=64");
                let count = counts_of(&program, &arguments);
                assert!(count("bytes_written") >= 2 * DATA, "HDF5 writes the fill value");
                let out = count("bytes_written_out");
                assert!(out <= DATA + DATA / 20, "{arguments}: {out} bytes reach the file");
                assert!(count("bytes_reserved") >= DATA - DATA / 20, "{arguments}");
            }
        }
    }
}

#[test]
fn a_dataset_that_grows_is_written_once_in_each_step() {
    if library().is_none() {
        return;
    }
    const DATA: u64 = 8 * 512 * 512 * 4;
    for program in programs("hdf5_chunks.c") {
        let count = counts_of(&program, "mode=collective side=512 chunk=64 steps=8");
        let out = count("bytes_written_out");
        assert!(out <= DATA + DATA / 20, "{out} bytes reach the file");
    }
}

#[test]
fn ranks_wait_for_each_other_at_few_of_the_views_that_are_set_for_chunks() {
    if library().is_none() {
        return;
    }
    for program in programs("hdf5_chunks.c") {
        for mode in ["multi", "multi0"] {
            let count = counts_of(&program, &format!("mode={mode} layout=rows side=512 chunk=64"));
            // Two for each of 64 chunks, on four ranks; all meet at the first 8 and at one of 32.
            let alone = count("views_alone");
            assert!(alone >= 4 * (128 - 8) * 31 / 32, "{mode}: {alone}");
            assert!(count("writes_out") <= 64 + 20, "one request for each chunk, and few others");
        }
    }
}

#[test]
fn two_requests_of_a_node_for_each_mib_open_a_file_of_many_datasets() {
    let Some(library) = library() else { return };
    const DATASETS: &str = "200";
    for program in programs("hdf5_many.c") {
        let place = Directory::new();
        let job = |what| {
            let job = Job::new(&program).directory(place.path()).argument("x.h5");
            job.argument(what).argument(DATASETS)
        };
        let made = job("make").run();
        assert!(made.succeeded(), "{}", made.report());
        let file = place.path().join("x.h5");
        // A file that has just changed is not cached.
        std::thread::sleep(Duration::from_millis(2100));
        let mib = std::fs::metadata(&file).expect("its size").len().div_ceil(1 << 20);
        for (what, more) in [("read", 0), ("together", 0), ("reread", 4 * 20)] {
            let read = job(what).ranks(4).preload(Some(&library)).variable("AGGIO_REPORT", "json");
            let read = read.variable("AGGIO_HINTS", "*:aggio_tune=small_reads=enable").run();
            assert!(read.succeeded(), "{what}: {}", read.report());
            let report = read.json_report().expect("a report");
            assert!(report["calls"] > 1000, "{report:?}");
            // The first read in a MiB, and the one that fetches it for all ranks; reads after a
            // change of the file are served as they are.
            assert!(report["reads_out"] <= 2 * mib + more, "{what}: {report:?}");
        }
    }
}
