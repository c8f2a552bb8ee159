//! Chunks with filters: the same file as natively, and one request where ranks read the same chunk.

use aggio_tests::{Directory, Finished, Job, Mpi, Program, compile_with_hdf5, factor, installed};
use aggio_tests::{installed_for, library};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn program(mpi: &Mpi) -> Option<Program> {
    compile_with_hdf5("hdf5_chunks.c", mpi)
}

/// A run of the program in `place`, where its file is `x.h5`.
fn job(program: &Program, place: &Path, ranks: u32, arguments: &str) -> Job {
    let job = Job::new(program).ranks(ranks).directory(place).argument("x.h5");
    let job = arguments.split_whitespace().fold(job, Job::argument);
    job.limit(Duration::from_secs(120))
}

fn run(job: Job, what: &str) -> Finished {
    let finished = job.run();
    assert!(finished.succeeded(), "{what}: {}", finished.report());
    finished
}

/// The output of `h5dump` for the file: properties and data.
fn dump(place: &Path) -> String {
    let dumped = Command::new("h5dump").args(["-p", "x.h5"]).current_dir(place).output();
    let dumped = dumped.expect("h5dump starts");
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    String::from_utf8_lossy(&dumped.stdout).into_owned()
}

/// Filters, modes and layouts; some with parts of several ranks in a chunk, some written again.
fn writes() -> Vec<String> {
    let mut all = Vec::new();
    for filters in ["deflate=6", "shuffle=1 deflate=1", "szip=1", "shuffle=1 szip=1"] {
        for mode in ["collective", "multi", "multi0"] {
            for layout in ["layout=rows", "layout=columns", "layout=blocks times=3", "steps=3"] {
                all.push(format!("side=80 chunk=20 {filters} mode={mode} {layout}"));
            }
        }
    }
    all
}

#[test]
fn chunks_with_filters_are_those_that_are_written_natively() {
    let Some(library) = library() else { return };
    let programs: Vec<Program> = installed().iter().filter_map(program).collect();
    // Every eleventh of the rows in `make check`, in turn on the MPIs.
    let step = if factor() == 1 { 11 } else { 1 };
    for (row, arguments) in writes().iter().enumerate().step_by(step) {
        for (number, program) in programs.iter().enumerate() {
            if factor() == 1 && row / step % programs.len() != number {
                continue;
            }
            // With three ranks parts end inside chunks; HDF5 loses data if these are written again.
            let ranks = if arguments.contains("times") { 4 } else { 3 };
            let native = Directory::new();
            run(job(program, native.path(), ranks, arguments), arguments);
            let native = dump(native.path());
            for defer in ["", "*"] {
                let place = Directory::new();
                let job = job(program, place.path(), ranks, arguments).preload(Some(&library));
                let finished = run(deferred(job, defer), arguments);
                let report = || finished.report();
                let is_same = dump(place.path()) == native;
                assert!(is_same, "{arguments}, defer {defer:?}: {}", report());
            }
        }
    }
}

/// With `AGGIO_DEFER`, at any cost.
fn deferred(job: Job, files: &str) -> Job {
    let always = ("AGGIO_HINTS", "*:aggio_tune=defer_always=true");
    job.variable("AGGIO_DEFER", files).variable(always.0, always.1)
}

#[test]
fn a_linked_write_of_chunks_with_filters_is_few_requests_and_no_byte_twice() {
    let Some(library) = library() else { return };
    for program in installed_for(0).iter().filter_map(program) {
        for filters in ["deflate=1", "szip=1"] {
            let place = Directory::new();
            let arguments = format!("side=512 chunk=64 {filters} mode=collective read=0");
            let job = job(&program, place.path(), 4, &arguments).preload(Some(&library));
            let finished = run(job.variable("AGGIO_REPORT", "json"), &arguments);
            let report = finished.json_report().expect("a report");
            let size = place.path().join("x.h5").metadata().expect("the file").len();
            let out = report["bytes_written_out"];
            assert!(out <= size + size / 20, "{arguments}: {out} bytes for a file of {size}");
            // 64 chunks, some in a row: not one request each.
            assert!(report["writes_out"] <= 40, "{arguments}: {report:?}");
        }
    }
}

#[test]
fn a_chunk_that_all_ranks_read_is_not_read_by_each_of_them() {
    let Some(library) = library() else { return };
    const CHUNKS: u64 = 16;
    for program in installed_for(1).iter().filter_map(program) {
        let place = Directory::new();
        // Chunks of 256 KiB, which become smaller by a third and are larger than small reads.
        let arguments = "side=1024 chunk=256 shuffle=1 deflate=1";
        let written = format!("{arguments} mode=collective read=0");
        run(job(&program, place.path(), 4, &written), &written);
        // A file that has just changed is not cached.
        std::thread::sleep(Duration::from_millis(2100));
        for mode in ["independent", "collective"] {
            let read = format!("{arguments} mode={mode} write=0 read=whole");
            let job = job(&program, place.path(), 4, &read).preload(Some(&library));
            let job = job.variable("AGGIO_HINTS", "*:aggio_tune=small_reads=enable");
            let finished = run(job.variable("AGGIO_REPORT", "json"), &read);
            let report = finished.json_report().expect("a report");
            assert!(report["calls"] >= 4 * CHUNKS, "HDF5 reads each on each rank: {report:?}");
            // Where one rank was ahead of the others, it has read some as they are.
            assert!(report["reads_out"] <= 2 * CHUNKS + 6, "{mode}: {report:?}");
        }
    }
}
