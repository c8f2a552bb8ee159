//! The meaning of POSIX calls on files that rules name, on containers and sets that are files, and
//! on files that programs exchange in memory.
//!
//! ```text
//! host, config   state of the process and settings, which the host owns and supplies
//! next           the functions of the C library behind the interposed ones
//! state          is there anything to do in this process? inside aggio?
//! descriptors    the table: the object that a descriptor of ours is open on
//! operations     calls on an open file, and what each kind of open file does with them
//! facts, readable_memory   the file of a descriptor, and which memory of the program can be read
//! cookie, wide   streams of ours, and wide characters on them
//! plain          files that rules name: their descriptors and calls
//!   ahead, signal_writes, counts, mappings   bytes that were read ahead, writes of signal handlers
//!                that interrupt others, counts for reports, mapped files
//!   files        descriptions (shared by dup) and their files
//!   spool        the memory for buffered writes, which outlives the process
//!   access, dirty, flush   a file with its lock, bytes that wait, and how they reach the kernel
//!   data, reading   reads, writes, positions
//! containers, sets   files that are blob containers, and sets of netCDF files
//! coupled        files that programs exchange in memory
//! staged         files with writes in the stage of an MPI program
//! names, times   calls with names, on any of these; times of files
//! settle         stores buffered bytes of files and containers before others read them
//! served         calls on descriptors, of whatever kind
//! open, temporary, duplicate, stdio, standard   descriptors and streams that come and go
//! numbers, passthrough, process, causal   system calls by number, what others get, other processes
//! ```
//!
//! From top to bottom: no file needs one below it, but for circles of at most four.
//!
//! Nothing here is interposed: the host (`libaggio.so`) exports the functions of the C library, and
//! calls this crate where there is something to do. Functions take arguments, return results and
//! set `errno` as those of the C library do.
//!
//! Descriptors are the kernel's own, always. A description has a position of ours only while small
//! writes to it are buffered; calls that this crate does not handle first put the bytes and the
//! position into the kernel, and the kernel performs them.

#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "addresses are the program's; the kernel checks them, or this crate before it uses one"
)]
#![allow(clippy::new_without_default, reason = "the host's statics need a constant function")]
#![allow(unreachable_pub, reason = "`pub` also marks what other modules use")]

mod access;
mod ahead;
pub mod causal;
mod config;
pub mod containers;
mod cookie;
mod counts;
pub mod coupled;
mod data;
mod descriptors;
mod dirty;
pub mod duplicate;
pub mod errno;
mod facts;
mod files;
mod flush;
mod host;
mod lock;
mod mappings;
pub mod names;
pub mod next;
pub mod numbers;
pub mod open;
pub mod operations;
pub mod passthrough;
mod plain;
pub mod process;
pub mod readable_memory;
mod reading;
pub mod reason;
mod report;
pub mod served;
pub mod sets;
pub mod settle;
mod signal_writes;
mod spool;
pub mod staged;
pub mod standard;
pub mod state;
pub mod stdio;
pub mod temporary;
mod times;
pub mod wide;

pub use host::{Config, Host, install};

#[cfg(test)]
mod tests;
