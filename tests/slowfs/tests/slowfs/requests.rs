//! The requests and moves of locks that collective calls of real jobs cause, as the slow file
//! system counts them.

use crate::mounted::{Mount, pattern};
use aggio_tests::{Job, Mpi, compile, compile_with, installed, library, skip};
use std::process::Command;
use std::time::Duration;

const RANKS: usize = 4;
const MIB: usize = 1 << 20;

/// Pieces of `piece` bytes dealt to the ranks in turn, so many a rank and call; of each, `filled`
/// bytes.
struct Pieces {
    piece: usize,
    times: usize,
    calls: usize,
    filled: usize,
}

/// The counts of the file system.
struct Seen {
    reads: u64,
    writes: u64,
    lock_moves: u64,
}

impl Pieces {
    fn len(&self) -> usize {
        RANKS * self.piece * self.times * self.calls
    }

    /// The expected content of the file if it held `before`.
    fn content(&self, before: u8) -> Vec<u8> {
        let mut content = pattern(self.len());
        content.chunks_mut(self.piece).for_each(|piece| piece[self.filled..].fill(before));
        content
    }

    /// Writes or reads them.
    fn transfer(&self, mount: &Mount, mpi: &Mpi, operation: &str) -> Seen {
        let before = ["read", "write", "lock_moves"].map(|kind| mount.count(kind));
        let numbers = [self.piece, self.times, self.calls, self.filled].map(|n| n.to_string());
        let mut job = Job::new(&compile("dealt.c", mpi)).ranks(RANKS as u32);
        job = job.preload(library().as_deref()).argument(mount.path("data"));
        for number in numbers {
            job = job.argument(number);
        }
        let finished = job.argument(operation).run();
        let good = finished.stdout.lines().any(|line| line == "ok");
        assert!(good && finished.succeeded(), "{}: {}", mpi.name, finished.report());
        let after = ["read", "write", "lock_moves"].map(|kind| mount.count(kind));
        let [reads, writes, lock_moves] = [0, 1, 2].map(|kind: usize| after[kind] - before[kind]);
        Seen { reads, writes, lock_moves }
    }
}

/// Mounts for each MPI, with a file of `len` bytes.
fn on_each(len: usize, check: impl Fn(&Mount, &Mpi)) {
    if library().is_none() {
        return;
    }
    for mpi in installed() {
        let options = ["--lock-unit", "1M", "--lock-latency-us", "100"];
        let Some(mount) = Mount::start(&options) else { return };
        std::fs::write(mount.backing("data"), vec![0xC5; len]).unwrap();
        check(&mount, &mpi);
    }
}

#[test]
fn interleaved_pieces_are_written_and_read_by_windows_whose_locks_never_move() {
    for piece in [8, 1024] {
        let pieces = Pieces { piece, times: MIB / piece, calls: 1, filled: piece };
        on_each(pieces.len(), |mount, mpi| {
            let seen = pieces.transfer(mount, mpi, "write");
            assert!(std::fs::read(mount.backing("data")).unwrap() == pieces.content(0));
            assert_eq!((seen.writes, seen.lock_moves), (4, 0), "{}", mpi.name);
            let seen = pieces.transfer(mount, mpi, "read");
            assert_eq!(seen.reads, 4, "{}", mpi.name);
        });
    }
}

#[test]
fn small_calls_are_a_request_each_and_their_locks_stay_with_one_process() {
    let pieces = Pieces { piece: 8192, times: 1, calls: 64, filled: 8192 };
    on_each(pieces.len(), |mount, mpi| {
        let seen = pieces.transfer(mount, mpi, "write");
        assert!(std::fs::read(mount.backing("data")).unwrap() == pieces.content(0));
        assert_eq!((seen.writes, seen.lock_moves), (64, 0), "{}", mpi.name);
        let seen = pieces.transfer(mount, mpi, "read");
        assert_eq!(seen.reads, 64, "{}", mpi.name);
    });
}

#[test]
fn pieces_with_holes_are_a_request_each_and_no_hole_is_written() {
    let pieces = Pieces { piece: 1024, times: 512, calls: 1, filled: 512 };
    on_each(pieces.len(), |mount, mpi| {
        let seen = pieces.transfer(mount, mpi, "write");
        assert!(std::fs::read(mount.backing("data")).unwrap() == pieces.content(0xC5));
        assert_eq!((seen.writes, seen.lock_moves), (2048, 0), "{}", mpi.name);
    });
}

#[test]
fn the_structure_of_an_hdf5_file_is_fetched_by_two_requests_of_a_node() {
    let Some(library) = library() else { return };
    on_each(0, |mount, mpi| {
        let package = format!("hdf5-{}", mpi.name);
        let options = Command::new("pkg-config").args(["--cflags", "--libs", &package]).output();
        let Some(options) = options.ok().filter(|options| options.status.success()) else {
            return skip(&format!("{package} is missing (tests/setup.sh check)"));
        };
        let options = String::from_utf8_lossy(&options.stdout).into_owned();
        let options: Vec<&str> = options.split_whitespace().collect();
        let program = compile_with("hdf5_many.c", mpi, &options);
        let job = |file, what| {
            let job = Job::new(&program).argument(file).argument(what).argument("200");
            job.preload(Some(&library))
        };
        let made = job(mount.backing("many.h5"), "make").run();
        assert!(made.succeeded(), "{}", made.report());
        // A file that has just changed is not cached.
        std::thread::sleep(Duration::from_millis(2100));
        let before = mount.count("read");
        let read = job(mount.path("many.h5"), "read").ranks(RANKS as u32).run();
        assert!(read.succeeded(), "{}", read.report());
        assert_eq!(mount.count("read") - before, 2, "{}", mpi.name);
    });
}
