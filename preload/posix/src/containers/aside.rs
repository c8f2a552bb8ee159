//! Moves descriptors that do not belong to the program to high numbers.

use super::super::host::process;
use super::super::next;
use super::super::state::Inside;
use super::placeholder;
use libc::off64_t;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::Ordering::Relaxed;

/// The position that marks descriptors of sets, which are read without it. Every file system
/// supports it, and reads in pieces of a usual size do not reach it.
pub(super) const MARK: off64_t = 0x6167_6769;

/// Takes the descriptor of a file that a set consists of out of the program's way.
///
/// # Errors
/// The system's error.
pub fn aside(file: File) -> io::Result<File> {
    let _inside = Inside::enter();
    process().has_sets.store(true, Relaxed);
    let first = placeholder::aside() as usize;
    // SAFETY: plain numbers; the new descriptor is nobody else's.
    unsafe {
        let fd = next::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, first);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let moved = File::from_raw_fd(fd);
        // Without the mark the program might close it, and another file get its number.
        if next::lseek64(fd, MARK, libc::SEEK_SET) != MARK {
            return Err(io::Error::last_os_error());
        }
        Ok(moved)
    }
}

/// How many descriptors one set may have: several are to have room besides the program's own.
pub fn room() -> usize {
    placeholder::limit().saturating_sub(placeholder::aside()).max(0) as usize / 8
}

/// Whether any descriptor was marked as a set's.
pub(super) fn has_sets() -> bool {
    process().has_sets.load(Relaxed)
}
