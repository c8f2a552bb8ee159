//! Staged writes of MPI programs (`AGGIO_STAGE`) on a file system where changed times of files
//! reach the kernel late.

use crate::mounted::Mount;
use aggio_tests::{Directory, Finished, Job, Mpi, compile, installed_for, library, names_in};
use std::path::Path;

/// 4 ranks write 200 records each, synchronise, and kill themselves (`victim`), or compare
/// ("check").
fn records(mpi: &Mpi, mount: &Mount, folder: &Path, victim: &str, drain: &str) -> Finished {
    let hints = format!("*:aggio_tune=defer_always=true:aggio_defer_drain={drain}");
    let job = Job::new(&compile("staged.c", mpi)).ranks(4).argument(mount.path("data"));
    let job = job.argument(folder.join("told")).argument("200").argument(victim);
    let job = job.variable("AGGIO_DEFER", "*").variable("AGGIO_HINTS", hints);
    job.variable("AGGIO_STAGE", folder.join("stages")).preload(library().as_deref()).run()
}

#[test]
fn what_was_staged_after_a_synchronisation_is_there_for_the_next_job() {
    if library().is_none() {
        return;
    }
    // There is no rank 9 to be killed.
    for (number, (victim, drain)) in
        [("-1", "close"), ("0", "idle"), ("9", "later")].iter().enumerate()
    {
        let Some(mount) = Mount::start(&[]) else { return };
        for mpi in installed_for(number) {
            let folder = Directory::new();
            std::fs::create_dir(folder.path().join("stages")).expect("a directory");
            let what = format!("{}, rank {victim}, {drain}", mpi.name);
            let first = records(&mpi, &mount, folder.path(), victim, drain);
            assert_eq!(first.succeeded(), *victim == "9", "{what}: {}", first.report());
            let stages = names_in(&folder.path().join("stages"));
            assert_eq!(stages.len(), 1, "{what}: {}", first.report());
            let next = records(&mpi, &mount, folder.path(), "check", "close");
            assert!(next.succeeded(), "{what}: {}", next.report());
            assert_eq!(names_in(&folder.path().join("stages")), [""; 0], "{what}");
            std::fs::remove_file(mount.backing("data")).expect("a file");
        }
    }
}
