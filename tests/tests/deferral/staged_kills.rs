//! Jobs with buffered writes are killed at random moments, and so are the jobs that continue their
//! work. If writes are staged no acknowledged byte is lost, if they wait in the memory of ranks no
//! synchronised one; any other byte is old or new, and nothing stays behind.

use aggio_tests::{
    Directory, Finished, Job, Mpi, compile, factor, installed, library, names_in, told,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Kills in `make check`, and in `make check-long`; `AGGIO_TEST_KILLS` sets another number, and
/// `AGGIO_TEST_SEED` the first round, which a failure names.
const KILLS: [usize; 2] = [16, 1000];

/// Words of a record, and the content of the file that nobody writes to.
const WORDS: usize = 100;
const OTHER: &str = "nobody writes to this file";

/// A job that dies, and the jobs after it.
#[derive(Debug)]
struct Round {
    #[expect(dead_code, reason = "for messages")]
    seed: u64,
    mpi: Mpi,
    ranks: u32,
    records: u64,
    drain: &'static str,
    /// Whether writes are staged, or wait in the memory of ranks.
    is_staged: bool,
    /// Whether all ranks write together, and after how many records they synchronise.
    is_together: bool,
    sync_every: u64,
    /// The rank that dies, or -1 for all, and after how many microseconds: of the job that writes,
    /// and of those that go on before one may end.
    deaths: Vec<(i64, u64)>,
    /// Whether `aggio recover`, not the next job, stores the staged bytes.
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
            seed,
            mpi: mpi.clone(),
            ranks: ranks as u32,
            records: [50, 200, 600][numbers.below(3) as usize],
            drain: drains[numbers.below(3) as usize],
            is_staged: numbers.below(3) > 0,
            is_together: numbers.below(2) == 0,
            sync_every: 1 + numbers.below(40),
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
        let job = self.shaped(job);
        let job = match death {
            Some((victim, after)) => job.variable("DIES", format!("{victim},{after}")),
            None => job,
        };
        let job = match self.is_staged {
            true => job.variable("AGGIO_STAGE", folder.join("stages")),
            false => job,
        };
        job.variable("AGGIO_DEFER", "*")
            .variable("AGGIO_HINTS", format!("*:aggio_tune=defer_always=true{drain}"))
            .run()
    }

    /// Adds the variables for the kind of writes; without staging only synchronised writes count.
    fn shaped(&self, job: Job) -> Job {
        let job = if self.is_together { job.variable("TOGETHER", "1") } else { job };
        match self.is_staged {
            true => job,
            false => job.variable("SYNC_EVERY", self.sync_every.to_string()),
        }
    }

    /// Compares with the MPI library alone.
    fn natively(&self, folder: &Path) -> Finished {
        let job = Job::new(&compile("staged.c", &self.mpi)).ranks(self.ranks);
        let job = job.argument(folder.join("data")).argument(folder.join("told"));
        self.shaped(job.argument(self.records.to_string()).argument("check")).run()
    }

    /// The first word of the file with neither its old nor its new value.
    fn strange_word(&self, folder: &Path) -> Option<usize> {
        let bytes = std::fs::read(folder.join("data")).expect("a file");
        let words = bytes.as_chunks::<4>().0.iter().map(|word| i32::from_ne_bytes(*word));
        let mut wrong = words.enumerate().filter(|(at, word)| {
            let (row, index) = (at / WORDS, (at % WORDS) as i32);
            let (record, rank) = (row / self.ranks as usize, row % self.ranks as usize);
            *word != 0 && *word != rank as i32 * 1_000_003 + record as i32 * 1009 + index
        });
        wrong.next().map(|(at, _)| at)
    }

    /// How many jobs were killed before they had ended.
    fn run(&self, folder: &Path) -> usize {
        let mut kills = 0;
        for rank in 0..self.ranks {
            std::fs::write(folder.join(format!("told.{rank}")), [0; 8]).expect("a file");
        }
        std::fs::write(folder.join("data"), "").expect("a file");
        std::fs::write(folder.join("other"), OTHER).expect("a file");
        let stages = folder.join("stages");
        std::fs::create_dir(&stages).expect("a directory");
        for (number, death) in self.deaths.iter().enumerate() {
            let what = if number == 0 { "write" } else { "check" };
            let ended = self.job(folder, what, self.drain, Some(*death));
            assert!(!ended.stderr.contains("record "), "{self:?}: {}", ended.report());
            assert!(ended.status.is_some(), "{self:?}: ranks wait: {}", ended.report());
            kills += usize::from(!ended.succeeded());
            assert_eq!(ended.left_in_temporary_directory, [""; 0], "{self:?}: {}", ended.report());
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
        assert_eq!(self.strange_word(folder), None, "{self:?}");
        let other = std::fs::read_to_string(folder.join("other")).expect("a file");
        assert_eq!(other, OTHER, "{self:?}");
        let of_round = ["data", "other", "stages", "told."];
        let mut names = names_in(folder);
        names.retain(|name| !of_round.iter().any(|known| name.starts_with(known)));
        assert_eq!(names, [""; 0], "{self:?}");
        kills
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
    let (mpis, began) = (installed(), Instant::now());
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let wanted = number("AGGIO_TEST_KILLS").unwrap_or(KILLS[usize::from(factor() > 1)]);
    let first = number("AGGIO_TEST_SEED").unwrap_or(0);
    let mut kills = 0;
    for (seed, mpi) in (first as u64..).zip(mpis.iter().cycle().skip(first % mpis.len())) {
        if kills >= wanted {
            break;
        }
        kills += Round::of(seed, mpi).run(Directory::new().path());
    }
    told("kills", "jobs whose writes wait", kills, began);
}
