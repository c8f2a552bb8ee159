//! The lock on the first byte of a log that shows whether its writer is alive.

use aggio_base::os;
use std::fs::File;
use std::os::fd::AsRawFd;

/// Locks the first byte of a log as long as the writer's open file description exists: only the
/// writer appends to a log.
pub(crate) fn keep(file: &File) {
    // Without such locks, the locks of `order` show whether the container is being written.
    let _ = os::ofd_lock(file.as_raw_fd(), libc::F_OFD_SETLK, libc::F_WRLCK, 0, 1);
}

/// Whether the writer of a log has ended, and all its children that have it open, too. False if the
/// lock cannot be queried.
pub(crate) fn is_abandoned(file: &File) -> bool {
    os::ofd_would_lock(file.as_raw_fd(), libc::F_WRLCK, 0, 1).unwrap_or(false)
}
