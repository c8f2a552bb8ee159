//! Interposed calls on files that programs exchange in memory (`AGGIO_COUPLE`).
//!
//! ```text
//! table     the opens, and the bytes that the program has read of each
//! agent     the connection to the agent, which manages names and generations
//! names     distinguishes names of coupled files from others
//! open      opening and closing, duplicates
//! stream    streams of the C library
//! parts     bytes that are on other nodes until they are read
//! missing   records which of these bytes have arrived
//! data      calls on descriptors; notifies the agent of reads, changes of size, synchronisation
//! facts     `stat`, `access` and their kin
//! change    calls that change metadata or names
//! listing   adds coupled files to the listings of directories
//! step      the number of records of a file that is being written
//! fork      makes a parent wait until its child is registered with the agent
//! process   children, programs that replace this one, and the end of the process
//! ```
//!
//! These modules resolve names only. A descriptor is an ordinary one of the kernel, for a file in
//! memory: the kernel handles all accesses, also in programs without this library.

mod agent;
mod change;
mod data;
mod facts;
mod fork;
mod listing;
mod missing;
mod names;
mod open;
mod parts;
mod process;
mod step;
mod stream;
mod table;
#[cfg(test)]
mod tests;

pub use agent::{is_own, shared};
pub use change::{
    attribute, attributes, change_attribute, fchmodat, fchownat, link, rename, truncate, unlink,
    utimensat,
};
pub use facts::{access, fstatat, statx};
pub use listing::{Compare, Filter, Globbed, closedir, glob, readdir, rewound, scandir};
pub use open::{is_wanted, open, own_among};
pub use parts::{before_name, complete_everything, complete_inherited};
pub use process::{
    after_fork, at_exit, attach, before_fork, died, has_forked, in_child, in_parent, mpi_runs,
    write_streams,
};
pub use stream::{fclose, reopen};
pub use table::OpenCoupled;

use agg_core::log;
use agg_core::log::Level;
use std::io;

/// Returns the `errno` of an error. Logs errors that have none and returns `EIO`.
fn number(error: &io::Error) -> libc::c_int {
    error.raw_os_error().unwrap_or_else(|| {
        log!(Level::Error, "AGGIO_COUPLE: {error}");
        libc::EIO
    })
}
