//! Files that programs exchange in memory (`AGGIO_COUPLE`), as files of ordinary programs.
//!
//! ```text
//! table     which open a descriptor belongs to, and how many bytes of it the program has read
//! agent     the connection to the agent, which knows names and generations
//! names     which names are those of coupled files
//! open      opening and closing, duplicates, temporary files
//! stream    streams of the C library
//! parts     bytes that are on other nodes until they are read
//! missing   which of these have come
//! data      what of reading, cutting and synchronising the agent has to know
//! facts     what `stat`, `access` and their kin tell of a name
//! change    calls that change what is known of a name, or the name
//! listing   directories, in which the coupled files are that this program may open
//! step      the number of records of a file that is being written
//! fork      a parent waits until the agent knows its child
//! process   children, other programs in this process, and its end
//! ```
//!
//! Only names are answered here. A descriptor is the kernel's own, of a file in memory: whatever is
//! done to it is the kernel's affair, also in programs that this library is not in.

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
    attribute, attributes, change_attribute, chmod, chown, fchmodat, fchownat, link, rename,
    truncate, unlink, utime, utimensat, utimes,
};
pub use data::{delivered_all, resized, synchronised};
pub use facts::{access, fstatat, statx};
pub use listing::{Compare, Filter, Globbed, closedir, glob, readdir, rewound, scandir};
pub use open::{close, duplicated, leave, make_temporary, open, own_among};
pub use parts::{before_name, complete, complete_everything, complete_inherited, fetch_all};
pub use process::{
    after_fork, at_exit, attach, before_fork, died, has_forked, in_child, in_parent, mpi_runs,
    write_streams,
};
pub use step::{all, announcing, is_whole, one, reading};
pub use stream::{fclose, fopen, reopen};
pub use table::{Coupled, any, has};

use agg_core::log;
use agg_core::log::Level;
use std::io;

/// The number by which the C library tells of an error; what no number tells goes to the log.
fn number(error: &io::Error) -> libc::c_int {
    error.raw_os_error().unwrap_or_else(|| {
        log!(Level::Error, "AGGIO_COUPLE: {error}");
        libc::EIO
    })
}
