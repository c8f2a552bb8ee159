//! Calls of ordinary programs: `open`, `write`, `fopen`, ... on files that a rule of `AGGIO_POSIX` names.
//!
//! ```text
//! symbols       the table of interposed functions, one row each
//! state         is there anything to do in this process? inside aggio?
//! descriptors   which description a descriptor belongs to
//! files         descriptions (shared by dup) and the files that they are open on
//! dirty         bytes that were written and are not in the kernel yet
//! ahead         bytes that were read before the program asks for them
//! mappings      files that the program sees by a shared mapping
//! spool         the memory that holds them, which outlives the process
//! containers    files that are blob containers
//! reach         whether the program's memory can be read
//! late          writes of signal handlers that come in the middle
//! settle        what must happen before anybody else looks
//! execute, environment   programs that are started: these may be containers, or inherit them
//! wide          wide characters on streams of ours
//! open, data, manage, duplicate, process, foreign, stdio ...   what each function does
//! ```
//!
//! Descriptors are the kernel's own, always. A description has a position of ours only while small
//! writes to it are kept back; whatever is not understood first puts the bytes and the position into
//! the kernel and then goes there itself.

mod ahead;
mod causal;
mod containers;
mod data;
mod descriptors;
mod dirty;
mod duplicate;
mod environment;
mod errno;
mod execute;
mod files;
mod foreign;
mod late;
mod lock;
mod manage;
mod mappings;
mod open;
mod process;
mod reach;
mod reason;
mod report;
mod settle;
mod spawn;
mod spool;
mod state;
mod stdio;
mod symbols;
mod system;
mod wide;

pub use causal::before_mpi;
pub use containers::{aside, room};
pub use state::Inside;
