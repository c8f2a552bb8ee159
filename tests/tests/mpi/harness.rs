//! The harness itself: it must notice failures, and a hanging job must not outlive its watchdog.

use aggio_tests::{Job, compile, installed, skip};
use std::process::Command;
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
#[ignore = "an example for the next test"]
fn an_example_that_cannot_run() {
    skip("nothing is there");
}

#[test]
fn a_test_that_cannot_run_says_so_aloud_and_fails_where_tests_are_required() {
    let run = |required: &str| {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--ignored", "--exact", "harness::an_example_that_cannot_run"]);
        let output = command.env("AGGIO_TESTS", required).output().expect("it starts");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (passed, told) = run("");
    assert!(passed, "{told}");
    assert!(
        told.contains("skipped: harness::an_example_that_cannot_run: nothing is there"),
        "{told}"
    );
    assert!(told.contains("1 skipped"), "{told}");
    assert!(!run("require").0);
}

#[test]
fn a_rank_that_fails_makes_the_job_fail() {
    for mpi in installed() {
        let finished = Job::new(&compile("hang.c", &mpi)).ranks(1).run();
        assert!(!finished.succeeded(), "{}", finished.report());
    }
}

/// How many processes run a program of this name; one that only waits to be collected does not
/// count.
fn processes_running(name: &str) -> usize {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok())
        .filter(|stat| stat.contains(&format!("({name})")) && !stat.contains(") Z "))
        .count()
}
