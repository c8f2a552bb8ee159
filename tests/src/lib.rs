//! Runs real MPI programs natively and with `libaggio.so` preloaded, and compares the resulting
//! files and messages.
//!
//! ```text
//! Mpi (installed)  ->  Program (compiled once per MPI)  ->  Job (mpirun, watched)  ->  Finished
//! ```
//!
//! With `AGGIO_TESTS=require` (as `make check` sets it) anything missing is a failure; without it
//! the tests that need it are skipped and say so, so that `cargo test` is useful on a machine
//! without an MPI.

mod account;
pub mod battery;
mod copied;
pub mod coupling;
mod directory;
mod factor;
pub mod faults;
pub mod fsx;
pub mod hosts;
mod job;
pub mod launcher;
mod library;
mod mark;
mod memory;
mod memory_group;
pub mod mounted;
mod mpi;
mod newer_hdf5;
pub mod parsers;
mod program;
mod skip;
mod small;
pub mod spools;
mod strace;
mod tool;
pub mod waiting;
pub mod works;
mod writers;

pub use account::first_difference;
pub use copied::{copy_program, write_program};
pub use directory::{
    Directory, difference, is_of_a_runtime, names_in, netcdf_samples, read_container, read_set,
    snapshot,
};
pub use factor::{factor, told};
pub use job::{Finished, Job};
pub use library::{library, required};
pub use mark::{MARK, kill_marked};
pub use memory::remove_left_since;
pub use memory_group::MemoryGroup;
pub use mpi::{Family, Mpi, installed, installed_for};
pub use newer_hdf5::newer_hdf5;
pub use program::{
    Program, compile, compile_as, compile_library, compile_plain, compile_shim, compile_with,
    compile_with_hdf5,
};
pub use skip::{postpone, skip};
pub use small::SmallFileSystem;
pub use strace::{calls_of_each, calls_on};
pub use tool::tool;
pub use works::bytes_of_container;
pub use writers::{kill_when_written, records};

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_path_buf()
}

/// The folder for Cargo's output; compiled test programs go into a folder of it.
pub fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}
