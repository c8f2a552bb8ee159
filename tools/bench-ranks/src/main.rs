//! One job of the benchmark: runs each case once and prints its seconds.
//!
//! ```text
//! mpirun -n 4 aggio-bench-ranks DIRECTORY CASE [CASE ...]
//! CASE = METHOD:OPERATION:PIECE:TOTAL_BYTES     for example collective:write:64:67108864
//! ```
//!
//! METHOD is `collective`, `independent` or `limit` (plain `pwrite`/`pread` of disjoint contiguous
//! parts, the most that this machine gives). PIECE 0 is contiguous: rank r owns the r-th part of
//! the file; otherwise pieces of PIECE bytes are dealt to the ranks in turn. A read case reads
//! what a write of the same shape left. Every case is verified; rank 0 prints
//! `CASE seconds`, taken between two barriers around the data calls alone.

mod case;
mod file;

use case::Case;
use mpi::traits::*;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(universe) = mpi::initialize() else {
        eprintln!("aggio-bench-ranks: MPI did not start");
        return ExitCode::FAILURE;
    };
    let world = universe.world();
    let mut arguments = std::env::args().skip(1);
    let Some(directory) = arguments.next() else {
        eprintln!("usage: aggio-bench-ranks DIRECTORY METHOD:OPERATION:PIECE:TOTAL_BYTES ...");
        return ExitCode::from(2);
    };
    for text in arguments {
        let case = match text.parse::<Case>() {
            Ok(case) => case,
            Err(why) => {
                eprintln!("aggio-bench-ranks: {text}: {why}");
                return ExitCode::from(2);
            }
        };
        match case.run(&directory, &world) {
            Ok(seconds) if world.rank() == 0 => println!("{text} {seconds:.6}"),
            Ok(_) => {}
            Err(why) => {
                eprintln!("aggio-bench-ranks: {text}: rank {}: {why}", world.rank());
                world.abort(1);
            }
        }
    }
    ExitCode::SUCCESS
}
