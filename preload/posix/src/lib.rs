//! The meaning of POSIX calls on files that rules name, and on containers and sets that are files.
//!
//! ```text
//! host          what the host owns and supplies: the state of the process, settings
//! next          the functions of the C library behind the interposed ones
//! state         is there anything to do in this process? inside aggio?
//! descriptors   which description a descriptor belongs to
//! files         descriptions (shared by dup) and the files that they are open on
//! dirty         bytes that were written and are not in the kernel yet
//! ahead         bytes that were read before the program asks for them
//! mappings      files that the program sees by a shared mapping
//! spool         the memory that holds them, which outlives the process
//! containers    files that are blob containers
//! sets          which names mean sets of netCDF files
//! reach         whether the program's memory can be read
//! late          writes of signal handlers that come in the middle
//! settle        what must happen before anybody else looks
//! wide          wide characters on streams of ours
//! open, data, manage, duplicate, process, foreign, stdio ...   what each function does
//! ```
//!
//! Nothing here is interposed: the host (`libaggio.so`) exports the functions of the C library, and calls
//! this crate where there is something to do. Functions take arguments, return results and set `errno`
//! as those of the C library do.
//!
//! Descriptors are the kernel's own, always. A description has a position of ours only while small
//! writes to it are kept back; whatever is not understood first puts the bytes and the position into
//! the kernel and then goes there itself.

#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "addresses are the program's, which the kernel checks, or this crate before it uses them"
)]
#![allow(unreachable_pub, reason = "`pub` also marks what other modules use")]

mod ahead;
pub mod causal;
mod config;
pub mod containers;
pub mod data;
pub mod descriptors;
mod dirty;
pub mod duplicate;
pub mod errno;
mod files;
pub mod foreign;
mod host;
mod late;
mod lock;
pub mod manage;
mod mappings;
pub mod next;
pub mod open;
pub mod process;
pub mod reach;
pub mod reason;
mod report;
pub mod sets;
pub mod settle;
mod spool;
pub mod state;
pub mod stdio;
mod system;
pub mod wide;

pub use config::Config;
pub use host::{Host, Process, Tables, Thread};

#[cfg(test)]
mod tests;
