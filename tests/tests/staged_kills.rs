//! Jobs whose writes are staged are killed at random moments, and so are those that go on with what
//! they left: no acknowledged byte is lost, and nothing stays behind.

use aggio_tests::{Directory, Finished, Job, Mpi, compile, factor, installed, library, names_in};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Rounds in `make check`; 25 times as many in `make check-long`.
const ROUNDS: u64 = 8;

/// A job that dies, and what comes after it.
#[derive(Debug)]
struct Round {
    mpi: Mpi,
    ranks: u32,
    records: u64,
    drain: &'static str,
    /// Who dies, the rank or all for -1, and after how many microseconds: of the job that writes,
    /// and of those that go on before one may end.
    deaths: Vec<(i64, u64)>,
    /// Whether `aggio recover` stores what is staged, and not the next job.
    recovers: bool,
}

/// Numbers that follow from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

impl Round {
    fn of(seed: u64, mpi: &Mpi) -> Self {
        let mut numbers = Numbers(seed);
        let _ = numbers.below(2);
        let ranks = 2 + numbers.below(4);
        let drains = ["", ":aggio_defer_drain=idle", ":aggio_defer_drain=later"];
        let deaths = 1 + numbers.below(3);
        let death = |_| {
            let victim = numbers.below(2 * ranks) as i64;
            let victim = if victim < ranks as i64 { victim } else { -1 };
            (victim, 1 + numbers.below(1 + numbers.0 % 150_000))
        };
        let deaths = (0..deaths).map(death).collect();
        Round {
            mpi: mpi.clone(),
            ranks: ranks as u32,
            records: [50, 200, 600][numbers.below(3) as usize],
            drain: drains[numbers.below(3) as usize],
            deaths,
            recovers: numbers.below(2) == 0,
        }
    }

    /// Writes records (`write`), or compares those that were acknowledged (`check`).
    fn job(&self, folder: &Path, what: &str, drain: &str, death: Option<(i64, u64)>) -> Finished {
        let mode = if what == "write" { "9" } else { what };
        let job = Job::new(&compile("staged.c", &self.mpi)).ranks(self.ranks);
        let job = job.argument(folder.join("data")).argument(folder.join("told"));
        let job =
            job.argument(self.records.to_string()).argument(mode).preload(library().as_deref());
        let job = match death {
            Some((victim, after)) => job.variable("DIES", format!("{victim},{after}")),
            None => job,
        };
        job.variable("AGGIO_DEFER", "*")
            .variable("AGGIO_STAGE", folder.join("stages"))
            .variable("AGGIO_HINTS", format!("*:aggio_defer_always=true{drain}"))
            .run()
    }

    /// Compares with the MPI library alone.
    fn natively(&self, folder: &Path) -> Finished {
        let job = Job::new(&compile("staged.c", &self.mpi)).ranks(self.ranks);
        let job = job.argument(folder.join("data")).argument(folder.join("told"));
        job.argument(self.records.to_string()).argument("check").run()
    }

    fn run(&self, folder: &Path) {
        for rank in 0..self.ranks {
            std::fs::write(folder.join(format!("told.{rank}")), [0; 4]).expect("a file");
        }
        std::fs::write(folder.join("data"), "").expect("a file");
        let stages = folder.join("stages");
        std::fs::create_dir(&stages).expect("a directory");
        for (number, death) in self.deaths.iter().enumerate() {
            let what = if number == 0 { "write" } else { "check" };
            let ended = self.job(folder, what, self.drain, Some(*death));
            assert!(!ended.stderr.contains("record "), "{self:?}: {}", ended.report());
        }
        if self.recovers {
            let done = Command::new(tool()).arg("recover").arg("--stage").arg(&stages).output();
            let done = done.expect("aggio starts");
            assert!(done.status.success(), "{self:?}: {done:?}");
        } else {
            let next = self.job(folder, "check", "", None);
            assert!(next.succeeded(), "{self:?}: {}", next.report());
        }
        let native = self.natively(folder);
        assert!(native.succeeded(), "{self:?}: {}", native.report());
        assert_eq!(names_in(&stages), [""; 0], "{self:?}");
    }
}

/// The command `aggio`, beside the library.
fn tool() -> PathBuf {
    library().expect("a library").with_file_name("aggio")
}

#[test]
fn nothing_acknowledged_is_lost_whenever_ranks_or_jobs_are_killed() {
    if library().is_none() {
        return;
    }
    let mpis = installed();
    let rounds = if factor() > 1 { 25 * ROUNDS } else { ROUNDS };
    for (seed, mpi) in (0..rounds).zip(mpis.iter().cycle()) {
        let folder = Directory::new();
        Round::of(seed, mpi).run(folder.path());
    }
}
