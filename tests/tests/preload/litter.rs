//! Nothing but the data remains: beside them, in the temporary directory, in shared memory.

use aggio_tests::{Directory, Finished, Job, Mpi, compile, installed, is_of_a_runtime, library};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Names in a directory, without those that MPI launchers and their runtimes make themselves.
fn names(directory: &Path) -> BTreeSet<String> {
    std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !is_of_a_runtime(name))
        .collect()
}

/// Runs the program and gives the names that appeared: beside the data, and anywhere else.
fn litter(mpi: &Mpi, library: &Path, dies: bool) -> (Finished, BTreeSet<String>) {
    let data = Directory::new();
    let shared = Path::new("/dev/shm");
    let before = names(shared);
    let mut job = Job::new(&compile("litter.c", mpi)).ranks(4).argument(data.path().join("data"));
    if dies {
        job = job.argument("die");
    }
    let finished = job.preload(Some(library)).limit(Duration::from_secs(25)).run();
    let beside = names(data.path());
    let appeared = beside.into_iter().filter(|name| name != "data");
    let kept = names(shared).difference(&before).cloned().collect::<Vec<_>>();
    let appeared = appeared.chain(kept).chain(finished.left_in_temporary_directory.clone());
    (finished, appeared.filter(|name| !name.starts_with("at")).collect())
}

#[test]
fn nothing_appears_beside_the_data() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let (finished, appeared) = litter(&mpi, &library, false);
        assert!(finished.stdout.contains("ok"), "{}", finished.report());
        assert!(appeared.is_empty(), "{}: {appeared:?}", mpi.name);
    }
}

#[test]
fn nothing_appears_beside_the_data_when_a_rank_is_killed() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let (finished, appeared) = litter(&mpi, &library, true);
        assert!(!finished.stdout.contains("ok"), "{}", finished.report());
        assert!(appeared.is_empty(), "{}: {appeared:?}", mpi.name);
    }
}
