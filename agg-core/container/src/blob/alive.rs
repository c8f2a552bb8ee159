//! Whether a log has a living writer: a lock on its first byte says so.

use std::fs::File;
use std::os::fd::AsRawFd;

/// Says that the log has a living writer, which only this description can know: a log's end is its
/// writer's.
pub(crate) fn keep(file: &File) {
    // Where there are no locks, those of `order` say whether anybody writes.
    let _ = locked(file, libc::F_OFD_SETLK);
}

/// Whether the writer of a log has ended, and its children that have it open, too. Where the lock
/// cannot be asked for, nobody knows.
pub(crate) fn is_abandoned(file: &File) -> bool {
    locked(file, libc::F_OFD_GETLK).is_some_and(|kind| kind == libc::F_UNLCK)
}

/// Sets or asks for a lock on the first byte: what the kernel says of it, if it knows locks of this
/// file.
fn locked(file: &File, command: libc::c_int) -> Option<libc::c_int> {
    // SAFETY: all-zero bytes are a valid `flock`, which is plain numbers.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_len) = (libc::F_WRLCK as libc::c_short, 1);
    // SAFETY: the commands take a pointer to a `flock`, which outlives the call.
    let known = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } == 0;
    known.then_some(libc::c_int::from(lock.l_type))
}
