//! The lock on the first byte of a log that shows whether its writer is alive.

use std::fs::File;
use std::os::fd::AsRawFd;

/// Locks the first byte of a log as long as the writer's open file description exists: only the
/// writer appends to a log.
pub(crate) fn keep(file: &File) {
    // Without such locks, the locks of `order` show whether the container is being written.
    let _ = locked(file, libc::F_OFD_SETLK);
}

/// Whether the writer of a log has ended, and all its children that have it open, too. False if the
/// lock cannot be queried.
pub(crate) fn is_abandoned(file: &File) -> bool {
    locked(file, libc::F_OFD_GETLK).is_some_and(|kind| kind == libc::F_UNLCK)
}

/// Runs a lock command on the first byte and returns the resulting type of lock, or `None` if the
/// command fails.
fn locked(file: &File, command: libc::c_int) -> Option<libc::c_int> {
    // SAFETY: all-zero bytes are a valid `flock`, which is plain numbers.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_len) = (libc::F_WRLCK as libc::c_short, 1);
    // SAFETY: the commands take a pointer to a `flock`, which outlives the call.
    let known = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } == 0;
    known.then_some(libc::c_int::from(lock.l_type))
}
