//! Parallel HDF5 when a rank is killed and when the disk is full: bytes flushed before can be read,
//! and no failed call is reported as a success.

use aggio_tests::{
    Directory, Finished, Job, Mpi, Program, SmallFileSystem, bytes_of_container, compile_with_hdf5,
    factor, installed_for, library,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const RANKS: u32 = 3;

fn program(mpi: &Mpi) -> Option<Program> {
    compile_with_hdf5("hdf5_kept.c", mpi)
}

/// The results of the calls of each rank, one after the other.
fn told(place: &Path) -> Vec<Vec<(String, bool)>> {
    let of_rank = |rank| {
        let text = std::fs::read_to_string(place.join(format!("told.{rank}"))).unwrap_or_default();
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        pairs.map(|(call, end)| (call.to_owned(), end == "ok")).collect()
    };
    (0..RANKS).map(of_rank).collect()
}

/// How the library serves the program; nothing is native.
type Way = Option<&'static [(&'static str, &'static str)]>;

fn served(job: Job, place: &Path, way: Way) -> Job {
    let Some(variables) = way else { return job };
    let job = job.preload(library().as_deref());
    variables.iter().fold(job, |job, (name, value)| match *name {
        "AGGIO_STAGE" => job.variable(name, place.join(value)),
        _ => job.variable(name, value),
    })
}

/// The number of small datasets that killed jobs write.
const SETS: usize = 4;
const SIDE: &str = "40";

/// Writes of HDF5 are not buffered in the memory of ranks, but staged.
const STAGED: &[(&str, &str)] = &[
    ("AGGIO_DEFER", "*"),
    ("AGGIO_STAGE", "stages"),
    ("AGGIO_HINTS", "*:aggio_tune=defer_always=true"),
];

const WAYS: [&[(&str, &str)]; 4] = [
    &[("AGGIO_DEFER", "*"), ("AGGIO_HINTS", "*:aggio_tune=defer_always=true")],
    STAGED,
    &[("AGGIO_BLOB", "*.h5")],
    &[("AGGIO_HINTS", "*:romio_cb_write=enable,cb_buffer_size=4096")],
];

/// Runs the program in `place`; `rank` is killed at its system call `number` after MPI has started.
fn killed(program: &Program, place: &Path, (rank, number): (u32, u64), way: Way) -> Finished {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_aggio-test-kill"));
    let killer = Program { path, mpi: program.mpi.clone() };
    std::fs::create_dir(place.join("stages")).expect("a directory");
    let job = Job::new(&killer).ranks(RANKS).directory(place).limit(Duration::from_secs(90));
    let job = job.argument("--rank").argument(rank.to_string());
    let job = job.argument("--from").argument("told.begun").argument(number.to_string());
    let job = job.argument(&program.path).argument("x.h5").argument("told");
    served(job.argument(SETS.to_string()).argument(SIDE).argument("7"), place, way).run()
}

/// How many system calls the rank makes in the whole job.
fn calls(program: &Program, rank: u32, way: Way) -> u64 {
    let place = Directory::new();
    let finished = killed(program, place.path(), (rank, u64::MAX), way);
    let said = finished.stdout.split("ended after ").nth(1).unwrap_or_default();
    let number = said.split(' ').next().and_then(|word| word.parse().ok());
    number.unwrap_or_else(|| panic!("{}", finished.report()))
}

/// The output of `h5dump` for datasets of a file; `None` if it reports an error.
fn dump(file: &Path, sets: usize) -> Option<String> {
    let mut command = Command::new("h5dump");
    command.args((0..sets).flat_map(|number| ["-d".to_owned(), format!("/d{number}")]));
    let dumped = command.arg("x.h5").current_dir(file.parent()?).output().expect("h5dump starts");
    dumped.status.success().then(|| String::from_utf8_lossy(&dumped.stdout).into_owned())
}

/// How many datasets all ranks have seen flushed with their data; `None` before the first flush.
fn flushed(place: &Path) -> Option<usize> {
    let is_flush = |(call, is_ok): &&(String, bool)| call == "flush" && *is_ok;
    let flushes = told(place).iter().map(|calls| calls.iter().filter(is_flush).count()).min();
    flushes.unwrap_or(0).checked_sub(1)
}

/// Kills a rank at a call; which datasets were flushed then.
fn kill(program: &Program, at: (u32, u64), way: Way, whole: &Path) -> Option<usize> {
    let place = Directory::new();
    let finished = killed(program, place.path(), at, way);
    let what = || format!("{}, {at:?}, {way:?}: {}", program.mpi.name, finished.report());
    assert!(finished.status.is_some(), "a rank is left waiting: {}", what());
    let flushed = flushed(place.path())?;
    let mut file = place.path().join("x.h5");
    if file.is_dir() {
        let bytes = bytes_of_container(&file);
        file = place.path().join("of-container/x.h5");
        std::fs::create_dir(place.path().join("of-container")).expect("a directory");
        std::fs::write(&file, bytes).expect("a copy");
    }
    assert!(dump(&file, SETS).is_some(), "not readable: {}", what());
    let is_kept = flushed == 0 || dump(&file, flushed) == dump(whole, flushed);
    assert!(is_kept, "{flushed} datasets were flushed: {}", what());
    Some(flushed)
}

#[test]
fn what_was_flushed_before_a_rank_is_killed_can_be_read() {
    if library().is_none() {
        return;
    }
    // In long runs the oracle is tried, too: the file that the program leaves natively is no worse.
    let ways: Vec<Way> = WAYS.map(Some).into_iter().chain([None]).collect();
    let (ways, kills) = if factor() == 1 { (&ways[..3], 2) } else { (&ways[..], 20 * factor()) };
    let (mut before, mut after) = (0, 0);
    for (row, way) in ways.iter().enumerate() {
        for program in installed_for(row).iter().filter_map(program) {
            let place = Directory::new();
            let whole = place.path().join("x.h5");
            killed(&program, place.path(), (0, u64::MAX), None);
            for rank in 0..RANKS {
                if factor() == 1 && rank != row as u32 % 2 {
                    continue;
                }
                let calls = calls(&program, rank, *way);
                for number in 1..=kills as u64 {
                    let number = (calls * number / (kills as u64 + 1)).max(1);
                    match kill(&program, (rank, number), *way, &whole) {
                        Some(1..) => after += 1,
                        _ => before += 1,
                    }
                }
            }
        }
    }
    println!("{before} kills before data were flushed, {after} after that");
    assert!(after > 0, "no job was killed after data were flushed");
}

/// The fill values of the datasets in runs without room for the file.
const FILLS: [&str; 3] = ["0", "7", "never"];

/// Runs the program where three datasets of five have room.
fn without_room(mpi: &Mpi, fill: &str, way: Way) -> Option<Vec<Vec<(String, bool)>>> {
    let (program, place) = (program(mpi)?, Directory::new());
    let small = SmallFileSystem::mount_if_possible(2 << 20)?;
    std::fs::create_dir(place.path().join("stages")).expect("a directory");
    let job = Job::new(&program).ranks(RANKS).with_small(&small);
    let job = job.argument(small.path().join("x.h5")).argument(place.path().join("told"));
    let job = served(job.argument("5").argument("400").argument(fill), place.path(), way);
    let finished = job.limit(Duration::from_secs(if way.is_none() { 15 } else { 60 })).run();
    let what = format!("{}, fill {fill}, {way:?}: {}", mpi.name, finished.report());
    assert!(way.is_none() || finished.status.is_some(), "a rank is left waiting: {what}");
    assert!(!finished.succeeded(), "there was room: {what}");
    Some(told(place.path()))
}

/// The number of the first call that has failed on the rank.
fn failed(calls: &[(String, bool)]) -> Option<usize> {
    calls.iter().position(|(_, is_ok)| !is_ok)
}

#[test]
fn a_full_disk_is_told_by_the_same_call_as_natively_or_earlier_on_every_rank() {
    if library().is_none() {
        return;
    }
    for (row, fill) in FILLS.iter().enumerate() {
        for mpi in installed_for(row) {
            // Natively some MPIs report no error, and hang later.
            let native = if factor() == 1 && mpi.name == "openmpi" {
                Vec::new()
            } else {
                let Some(native) = without_room(&mpi, fill, None) else { return };
                native
            };
            // Plain, staged; one of them for each fill value in `make check`.
            let ways = if factor() == 1 { &WAYS[row % 2..][..1] } else { &WAYS[..2] };
            for way in ways {
                let Some(all) = without_room(&mpi, fill, Some(way)) else { return };
                let what =
                    format!("{}, fill {fill}, {way:?}: {all:?}, natively {native:?}", mpi.name);
                let somewhere = all.iter().filter_map(|calls| failed(calls)).min();
                assert!(somewhere.is_some(), "nobody is told: {what}");
                for (rank, calls) in all.iter().enumerate() {
                    // An independent write fails on its own rank only: every second dataset is
                    // written collectively.
                    let writes = calls.iter().filter(|(call, _)| call == "write").count();
                    let is_told = failed(calls) == somewhere || writes % 2 == 1;
                    assert!(is_told, "rank {rank} is not told: {what}");
                    let natively = native.get(rank).and_then(|calls| failed(calls));
                    let mut bound = natively.unwrap_or(usize::MAX);
                    if way.iter().any(|(name, _)| *name == "AGGIO_DEFER") {
                        // Staged bytes are written by a flush.
                        let later = calls.iter().skip(bound).position(|(call, _)| call == "flush");
                        bound += later.unwrap_or(0);
                    }
                    assert!(failed(calls).is_none_or(|call| call <= bound), "later: {what}");
                }
            }
        }
    }
}
