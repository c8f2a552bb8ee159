//! Sets of blobs that are written from logs that wait in a directory of the node.

use agg_core::blob::is_container;
use aggio_tests::{
    Directory, Job, Mpi, Program, SmallFileSystem, compile, installed, installed_for, library,
    names_in, read_container, read_set, tool,
};
use std::path::PathBuf;
use std::process::Command;

const NAME: &str = "out.nc";

/// Columns of a file of 1.5 MB.
const COLUMNS: &str = "1500";

/// Where a job writes, and where its logs wait.
struct Places {
    out: PathBuf,
    stage: PathBuf,
}

impl Places {
    /// The program; its file becomes a set of two blobs, and logs wait if it `stages`.
    fn job(&self, program: &Program, way: &str, stages: bool) -> Job {
        let job = Job::new(program).ranks(4).argument(self.out.join(NAME)).argument("5");
        let job = job.argument(way).variable("CLIMATE_COLUMNS", COLUMNS);
        let job = job.preload(library().as_deref()).variable("AGGIO_BLOB", "*.nc:e3sm:blobs=2");
        match stages {
            true => job.variable("AGGIO_DEFER", "*").variable("AGGIO_STAGE", &self.stage),
            false => job,
        }
    }
}

/// The bytes that the program writes natively.
fn truth(mpi: &Mpi, way: &str) -> Vec<u8> {
    let directory = Directory::new();
    let path = directory.path().join(NAME);
    let job = Job::new(&compile("climate.c", mpi)).ranks(4).argument(&path).argument("5");
    let finished = job.argument(way).variable("CLIMATE_COLUMNS", COLUMNS).run();
    assert!(finished.succeeded(), "{}", finished.report());
    std::fs::read(path).expect("the file that the program wrote")
}

/// Two directories; they vanish with the first value.
fn places() -> ([Directory; 2], Places) {
    let both = [Directory::new(), Directory::new()];
    let [out, stage] = [0, 1].map(|number: usize| both[number].path().to_path_buf());
    (both, Places { out, stage })
}

fn blobs() -> Vec<String> {
    (0..2).map(|number| format!("{NAME}.{number:04}")).collect()
}

#[test]
fn a_set_needs_room_for_itself_alone_where_its_logs_wait_elsewhere() {
    if library().is_none() {
        return;
    }
    for mpi in installed() {
        let (native, program) = (truth(&mpi, ""), compile("climate.c", &mpi));
        // For the file and a half.
        let Some(small) = SmallFileSystem::mount_if_possible(native.len() as u64 * 3 / 2) else {
            return;
        };
        let stage = Directory::new();
        let out = small.path().to_path_buf();
        let places = Places { out, stage: stage.path().to_path_buf() };
        for stages in [false, true] {
            let finished = places.job(&program, "", stages).with_small(&small).run();
            let names = names_in(&small.seen());
            let what = format!("{}, {stages}: {names:?} {}", mpi.name, finished.report());
            assert!(finished.succeeded(), "{what}");
            if stages {
                assert_eq!(names, blobs(), "{what}");
                assert!(read_set(&small.seen().join(NAME)).expect("a set") == native, "{what}");
            } else {
                assert_eq!(names, [NAME], "there is no room for both: {what}");
                agg_core::blob::remove(&small.seen().join(NAME)).expect("it is removed");
            }
            assert!(names_in(stage.path()).is_empty(), "{what}");
        }
    }
}

#[test]
fn where_logs_have_no_room_to_wait_they_are_written_at_once() {
    if library().is_none() {
        return;
    }
    for mpi in installed() {
        let (native, program) = (truth(&mpi, ""), compile("climate.c", &mpi));
        let Some(small) = SmallFileSystem::mount_if_possible(256 << 10) else { return };
        let out = Directory::new();
        let stage = small.path().to_path_buf();
        let places = Places { out: out.path().to_path_buf(), stage };
        let finished = places.job(&program, "", true).with_small(&small).run();
        assert!(finished.succeeded(), "{}: {}", mpi.name, finished.report());
        assert_eq!(names_in(out.path()), blobs(), "{}", finished.report());
        assert!(read_set(&out.path().join(NAME)).expect("a set") == native, "{}", mpi.name);
        assert!(names_in(&small.seen()).is_empty(), "{}", mpi.name);
    }
}

#[test]
fn a_set_that_is_opened_again_is_written_once_more() {
    if library().is_none() {
        return;
    }
    for mpi in installed() {
        let (native, program) = (truth(&mpi, "late"), compile("climate.c", &mpi));
        let (_both, places) = places();
        let finished = places.job(&program, "late", true).run();
        let what = format!("{}: {}", mpi.name, finished.report());
        assert!(finished.succeeded(), "{what}");
        assert_eq!(names_in(&places.out), blobs(), "{what}");
        assert!(read_set(&places.out.join(NAME)).expect("a set") == native, "{what}");
        assert!(names_in(&places.stage).is_empty(), "{what}");
    }
}

#[test]
fn what_stays_a_container_has_all_its_bytes() {
    if library().is_none() {
        return;
    }
    for (row, way) in ["moving", "unclosed"].into_iter().enumerate() {
        for mpi in installed_for(row) {
            let (native, program) = (truth(&mpi, way), compile("climate.c", &mpi));
            let (_both, places) = places();
            let finished = places.job(&program, way, true).run();
            let what = format!("{}, {way}: {}", mpi.name, finished.report());
            assert!(finished.succeeded(), "{what}");
            assert!(names_in(&places.stage).is_empty(), "{what}");
            assert!(read_container(&places.out.join(NAME)) == native, "{what}");
        }
    }
}

#[test]
fn a_container_for_which_there_is_no_room_is_an_error_and_its_bytes_wait() {
    if library().is_none() {
        return;
    }
    for mpi in installed() {
        let (native, program) = (truth(&mpi, "moving"), compile("climate.c", &mpi));
        let Some(small) = SmallFileSystem::mount_if_possible(native.len() as u64 / 2) else {
            return;
        };
        let stage = Directory::new();
        let out = small.path().to_path_buf();
        let places = Places { out, stage: stage.path().to_path_buf() };
        let finished = places.job(&program, "moving", true).with_small(&small).run();
        let what = format!("{}: {}", mpi.name, finished.report());
        assert!(!finished.succeeded() && finished.status.is_some(), "{what}");
        assert!(finished.stderr.contains("No space left"), "{what}");
        let file = small.seen().join(NAME);
        assert!(is_container(&file) && read_container(&file) == native, "{what}");
    }
}

#[test]
fn what_waited_when_a_rank_was_killed_is_brought_into_the_container() {
    if library().is_none() {
        return;
    }
    let Some(aggio) = tool() else { return };
    for mpi in installed() {
        let (native, program) = (truth(&mpi, ""), compile("climate.c", &mpi));
        let (_both, places) = places();
        let finished = places.job(&program, "killed", true).run();
        let what = format!("{}: {}", mpi.name, finished.report());
        assert!(!finished.succeeded() && finished.status.is_some(), "{what}");
        assert!(!names_in(&places.stage).is_empty(), "nothing waits: {what}");
        let file = places.out.join(NAME);
        let before = read_container(&file);
        // Two records of three are there; the first bytes hold their number.
        assert!(
            before.len() > native.len() / 2 && native[16..].starts_with(&before[16..]),
            "{what}"
        );
        let run = Command::new(&aggio).arg("recover").arg(&file).output().expect("the tool runs");
        assert!(run.status.success(), "{run:?}: {what}");
        assert!(names_in(&places.stage).is_empty(), "{what}");
        assert!(read_container(&file) == before, "{what}");
    }
}
