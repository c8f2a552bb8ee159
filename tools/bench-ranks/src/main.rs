//! One job of the benchmark: runs each case once, verifies the data, and prints its seconds.
//!
//! ```text
//! mpirun -n 4 aggio-bench-ranks [--presized] [--requests FILE] DIRECTORY CASE [CASE ...]
//! CASE = METHOD:OPERATION:PATTERN     for example collective:write:interleaved,piece=64,bytes=64M
//! ```
//!
//! PATTERN is the text form of the crate `aggio-patterns`. OPERATION is `write` or `read`. METHOD:
//!
//! * `collective`, `independent`: `MPI_File_{write,read}_at[_all]` through the pattern's view;
//! * `overlap`: the nonblocking collective call, a computation of about the same time without any
//!   MPI call, the wait;
//! * `overlap-test`: the same with an `MPI_Test` each hundredth of the computation.
//!
//! A job begins with some collective writes that nobody times, so that no case pays for first
//! connections and for memory that an implementation keeps. Before each case the *limit* is taken:
//! the same bytes by one plain `pwrite`/`pread` a rank, disjoint and contiguous. Rank 0 prints
//! `start CASE` before the measured calls and afterwards
//! `done CASE seconds=S limit=L [hidden=H] [requests=N]`; seconds are those of the data calls
//! alone, from when the first rank begins until the last one is done. `hidden` is the part of the
//! shorter of I/O and computation that overlapping hid, and `requests` how far the numbers of reads
//! and writes in FILE grew, where a file system counts them. With `--presized` files that are
//! written have their final size before. A wrong byte, within the pattern or beside it, in the file
//! or in memory, ends the job.

mod bytes;
mod case;
mod clock;
mod datatype;
mod file;
mod limit;
mod opens;
mod overlap;
mod requests;
mod transfer;

use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use std::process::ExitCode;

/// The job in which all cases run.
struct Job {
    world: SimpleCommunicator,
    directory: String,
    presized: bool,
    requests: Option<String>,
}

impl Job {
    fn rank(&self) -> u64 {
        self.world.rank() as u64
    }

    fn ranks(&self) -> u64 {
        self.world.size() as u64
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }
}

/// The job and the texts of its cases.
fn arguments(world: SimpleCommunicator) -> Option<(Job, Vec<String>)> {
    let mut job = Job { world, directory: String::new(), presized: false, requests: None };
    let mut arguments = std::env::args().skip(1);
    loop {
        match arguments.next()?.as_str() {
            "--presized" => job.presized = true,
            "--requests" => job.requests = Some(arguments.next()?),
            directory => {
                directory.clone_into(&mut job.directory);
                return Some((job, arguments.collect()));
            }
        }
    }
}

fn main() -> ExitCode {
    let Some(universe) = mpi::initialize() else {
        eprintln!("aggio-bench-ranks: MPI did not start");
        return ExitCode::FAILURE;
    };
    let Some((job, cases)) = arguments(universe.world()) else {
        eprintln!(
            "usage: aggio-bench-ranks [--presized] [--requests FILE] DIRECTORY \
                METHOD:OPERATION:PATTERN ..."
        );
        return ExitCode::from(2);
    };
    if let Err(why) = case::warm_up(&job) {
        eprintln!("aggio-bench-ranks: warming up: rank {}: {why}", job.rank());
        job.world.abort(1);
    }
    for text in cases {
        let case = match text.parse::<case::Case>() {
            Ok(case) => case,
            Err(why) => {
                eprintln!("aggio-bench-ranks: {text}: {why}");
                return ExitCode::from(2);
            }
        };
        match case.run(&text, &job) {
            Ok(result) if job.rank() == 0 => println!("done {text} {result}"),
            Ok(_) => {}
            Err(why) => {
                eprintln!("aggio-bench-ranks: {text}: rank {}: {why}", job.rank());
                job.world.abort(1);
            }
        }
    }
    ExitCode::SUCCESS
}
