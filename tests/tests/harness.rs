//! The harness itself: it must notice failures, and a hanging job must not outlive its watchdog.

use aggio_tests::{Job, compile, installed};
use std::time::{Duration, Instant};

#[test]
fn a_job_that_hangs_is_killed_with_all_its_ranks() {
    for mpi in installed() {
        let job = Job::new(&compile("hang.c", &mpi)).ranks(2).argument("unused");
        let finished = job.limit(Duration::from_secs(5)).run();
        assert!(finished.status.is_none(), "{}", finished.report());
        assert!(finished.stdout.contains("started"), "{}", finished.report());
        // On a busy machine a killed process takes a moment to end.
        let deadline = Instant::now() + Duration::from_secs(5);
        while processes_running("hang_c") > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(processes_running("hang_c"), 0);
    }
}

#[test]
fn a_rank_that_fails_makes_the_job_fail() {
    for mpi in installed() {
        let finished = Job::new(&compile("hang.c", &mpi)).ranks(1).run();
        assert!(!finished.succeeded(), "{}", finished.report());
    }
}

/// How many processes run a program of this name; one that only waits to be collected does not count.
fn processes_running(name: &str) -> usize {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok())
        .filter(|stat| stat.contains(&format!("({name})")) && !stat.contains(") Z "))
        .count()
}
