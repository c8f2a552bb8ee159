//! The functions of the C library that are interposed for programs without MPI. The crate
//! `aggio-posix` implements them; this module forwards calls to it.
//!
//! ```text
//! symbols, rows   the table of interposed functions, one row each, and its macros
//! spawn        those with arguments of any number
//! load         when the library is loaded and unloaded, and around `fork`
//! execute, environment   programs that are started: these may be containers, or inherit them
//! ```

mod environment;
mod execute;
mod load;
#[macro_use]
mod rows;
mod spawn;
mod symbols;

pub use aggio_posix::causal::before_mpi;
pub use aggio_posix::state::Inside;
