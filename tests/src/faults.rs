//! The fault matrix: one faulty operation in each way of doing I/O, and the report of every rank.
//!
//! The program `faults.c` does the operation, `fault_shim.c` makes the system calls fail; both work
//! under any MPI-IO implementation, so the native ones can be shown beside aggio.

use crate::{Directory, Finished, Job, Mpi, compile};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Number of ranks of every run.
pub const RANKS: u32 = 3;
/// Bytes that every rank writes or reads.
pub const BYTES: u64 = 64 * 4096;

/// The ranks that must see the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nobody: the fault is one that must be overcome, such as a short write.
    Nowhere,
    /// Only the rank on which the system call failed.
    There,
    /// Every rank, because the call is collective.
    Everywhere,
}

/// One line of the matrix.
#[derive(Clone, Debug)]
pub struct Case {
    /// The way of doing I/O, a mode of `faults.c`.
    pub mode: &'static str,
    /// The plan of `fault_shim.c`.
    pub plan: String,
    /// The rank with the failing system calls.
    pub rank: usize,
    /// The class that the failing operation returns.
    pub class: &'static str,
    /// The ranks that return it.
    pub seen: Seen,
}

const WRITES: &[(&str, Seen)] = &[
    ("write_independent", Seen::There),
    ("write_strided", Seen::There),
    ("iwrite", Seen::There),
    ("write_shared", Seen::There),
    ("write_ordered", Seen::Everywhere),
    ("write_collective", Seen::Everywhere),
    ("iwrite_collective", Seen::Everywhere),
    ("split_write_collective", Seen::Everywhere),
];

const READS: &[(&str, Seen)] = &[
    ("read_independent", Seen::There),
    ("read_strided", Seen::There),
    ("iread", Seen::There),
    ("read_shared", Seen::There),
    ("read_ordered", Seen::Everywhere),
    ("read_collective", Seen::Everywhere),
    ("iread_collective", Seen::Everywhere),
];

/// The error numbers of writes and the classes they belong to.
const WRITE_ERRORS: &[(i32, &str)] = &[
    (libc::ENOSPC, "NO_SPACE"),
    (libc::EDQUOT, "QUOTA"),
    (libc::EIO, "IO"),
    (libc::EACCES, "ACCESS"),
];

impl Case {
    fn failing(
        mode: &'static str,
        op: &str,
        rank: usize,
        nth: u32,
        errno: (i32, &'static str),
        seen: Seen,
    ) -> Self {
        let plan = format!("op={op},rank={rank},nth={nth},errno={}", errno.0);
        Case { mode, plan, rank, class: errno.1, seen }
    }

    fn overcome(mode: &'static str, plan: &str) -> Self {
        Case { mode, plan: plan.into(), rank: 0, class: "SUCCESS", seen: Seen::Nowhere }
    }
}

/// The whole matrix.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, &(mode, seen)) in WRITES.iter().enumerate() {
        for (index, &errno) in WRITE_ERRORS.iter().enumerate() {
            let rank = (turn + index) % RANKS as usize;
            cases.push(Case::failing(mode, "write", rank, nth(mode, index), errno, seen));
        }
        cases.push(Case::overcome(mode, "op=write,short=1000"));
        cases.push(Case::overcome(mode, &format!("op=write,nth=1,times=3,errno={}", libc::EINTR)));
    }
    for (turn, &(mode, seen)) in READS.iter().enumerate() {
        let rank = turn % RANKS as usize;
        cases.push(Case::failing(mode, "read", rank, nth(mode, turn), (libc::EIO, "IO"), seen));
        cases.push(Case::overcome(mode, "op=read,short=1000"));
        cases.push(Case::overcome(mode, &format!("op=read,nth=1,times=3,errno={}", libc::EINTR)));
    }
    let everywhere = Seen::Everywhere;
    for rank in [0, 2] {
        cases.push(Case::failing("sync", "sync", rank, 1, (libc::EIO, "IO"), everywhere));
        cases.push(Case::failing("close", "close", rank, 1, (libc::EIO, "IO"), everywhere));
        cases.push(Case::failing("close", "close", rank, 1, (libc::EDQUOT, "QUOTA"), everywhere));
    }
    cases.push(Case::failing("set_size", "size", 0, 1, (libc::ENOSPC, "NO_SPACE"), everywhere));
    cases.push(Case::failing("open", "open", 0, 1, (libc::EACCES, "ACCESS"), everywhere));
    cases.push(Case::failing("open", "open", 0, 1, (libc::EROFS, "READ_ONLY"), everywhere));
    cases
}

/// The part of the matrix that fits a page: one error number for each way of doing I/O.
pub fn selection() -> Vec<Case> {
    let other = [libc::EDQUOT, libc::EIO, libc::EACCES].map(|errno| format!("errno={errno}"));
    let shown = |case: &Case| {
        let repeated = other.iter().any(|errno| case.plan.ends_with(errno));
        !(case.mode.contains("write") && repeated || case.plan.contains("times"))
    };
    cases().into_iter().filter(shown).collect()
}

/// Which of its system calls fails: the first, a middle or the last one where there are several.
fn nth(mode: &str, turn: usize) -> u32 {
    if mode.contains("strided") && mode.contains("write") {
        [1, 30, 64, 17][turn % 4]
    } else if mode.contains("collective") {
        // Every rank aggregates four windows.
        [1, 2, 4, 3][turn % 4]
    } else {
        1
    }
}

/// The report of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The class that the faulty operation returned.
    pub class: String,
    /// The bytes in its status.
    pub bytes: u64,
    /// How a later, fault-free exchange on the same file went.
    pub later: String,
}

/// The result of a run of a case.
#[derive(Debug)]
pub struct Result {
    /// Each rank's report; a rank that said nothing is missing.
    pub ranks: BTreeMap<usize, Report>,
    /// How many bytes of each rank's letter the file holds afterwards, by rank.
    pub stored: Vec<u64>,
    /// The run itself.
    pub finished: Finished,
}

impl Result {
    /// One word or two for a table: the result that a user would see.
    pub fn summary(&self) -> String {
        if self.finished.stdout.contains("HANG") || self.finished.status.is_none() {
            return "hangs".into();
        }
        if self.ranks.len() < RANKS as usize {
            return "crashes".into();
        }
        let words: Vec<String> = self
            .ranks
            .values()
            .map(|report| format!("{} {}", report.class, report.bytes))
            .collect();
        words.join(", ")
    }
}

/// The compiled shim.
pub fn shim() -> PathBuf {
    crate::compile_shim("fault_shim.c")
}

/// How long a run may take before it counts as hanging.
const LIMIT: Duration = Duration::from_secs(20);

/// Runs one case under `mpi`; `library` is aggio, or nothing for the native implementation.
pub fn run(case: &Case, mpi: &Mpi, library: Option<&Path>, extra: &[(&str, &str)]) -> Result {
    let directory = Directory::new();
    let name = fresh_name();
    let file = directory.path().join(&name);
    if case.mode.contains("read") {
        let bytes = vec![b'r'; usize::try_from(BYTES).expect("small") * RANKS as usize];
        std::fs::write(&file, bytes).expect("the temporary directory can be written");
    }
    let preload = match library {
        Some(library) => format!("{}:{}", library.display(), shim().display()),
        None => shim().display().to_string(),
    };
    let mut job = Job::new(&compile("faults.c", mpi))
        .ranks(RANKS)
        .argument(case.mode)
        .argument(&file)
        .limit(LIMIT)
        .variable("LD_PRELOAD", preload)
        .variable("FAULT_FILE", &name)
        .variable("FAULT_PLAN", &case.plan);
    for (name, value) in extra {
        job = job.variable(name, value);
    }
    let finished = job.run();
    let ranks = finished.stdout.lines().filter_map(parse).collect();
    Result { ranks, stored: letters(&file), finished }
}

/// A file name that no earlier run had: OMPIO leaves a semaphore behind when it crashes, named
/// after the file alone, on which every later open of a file of that name hangs.
fn fresh_name() -> String {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    format!("faulty-{}-{}.data", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed))
}

/// Reads `MODE rank R error CLASS bytes N of M later WORD`.
fn parse(line: &str) -> Option<(usize, Report)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, "rank", rank, "error", class, "bytes", bytes, "of", _, "later", later] = words[..]
    else {
        return None;
    };
    let report = Report { class: class.into(), bytes: bytes.parse().ok()?, later: later.into() };
    Some((rank.parse().ok()?, report))
}

fn letters(file: &Path) -> Vec<u64> {
    let bytes = std::fs::read(file).unwrap_or_default();
    let count = |letter| bytes.iter().filter(|&&byte| byte == letter).count() as u64;
    (0..RANKS).map(|rank| count(b'A' + u8::try_from(rank).expect("few ranks"))).collect()
}
