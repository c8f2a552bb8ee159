//! Rescue of open files when a job ends without closing them.

use crate::handles;
use agg_core::log::{self, Level};
use std::sync::atomic::{AtomicU32, Ordering};

/// Before the job is ended by force: stores buffered bytes in the files, and logs errors.
pub fn all() {
    for file in handles::all() {
        if let Err(error) = file.engine.rescue() {
            log::write(Level::Error, format_args!("{error}"));
        }
    }
}

/// The process that opens files; a child of it has copies of them that it never uses.
static OPENER: AtomicU32 = AtomicU32::new(0);

/// This process opens a file.
pub fn note_opener() {
    OPENER.store(std::process::id(), Ordering::Relaxed);
}

/// At the end of a process that has not ended MPI: stores the staged bytes of open files and
/// reports on them.
pub fn report() {
    // Asked only if a file is open: other programs make no system call more.
    let is_opener = || OPENER.load(Ordering::Relaxed) == std::process::id();
    for file in handles::all() {
        let stored = if is_opener() { file.engine.store_staged() } else { Ok(()) };
        if let Err(error) = stored {
            log::write(Level::Error, format_args!("{}: {error}", file.path));
        }
        file.engine.report_alone();
    }
}
