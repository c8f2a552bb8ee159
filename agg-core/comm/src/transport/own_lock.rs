//! A lock on a range of a file, held by an open file description of its own.

use super::LockGuard;
use aggio_base::{Extent, os};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Closing the descriptor, also by the death of the process, releases the lock.
struct OwnLock {
    _descriptor: Option<OwnedFd>,
}

impl LockGuard for OwnLock {}

/// Takes a lock on `extent` through `descriptor`, which must have an open file description of its
/// own; `None` if another holder conflicts.
///
/// # Errors
/// The system's error.
pub fn try_lock_alone(
    descriptor: OwnedFd,
    extent: Extent,
    exclusive: bool,
) -> io::Result<Option<Box<dyn LockGuard>>> {
    if extent.is_empty() {
        return Ok(Some(Box::new(OwnLock { _descriptor: None })));
    }
    // A range that ends beyond the largest lock offset reaches to infinity: length 0.
    let start = extent.offset.min(i64::MAX as u64) as i64;
    let len = if extent.end() > i64::MAX as u64 { 0 } else { extent.len as i64 };
    let kind = if exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
    match os::ofd_lock(descriptor.as_raw_fd(), libc::F_OFD_SETLK, kind, start, len) {
        Ok(()) => Ok(Some(Box::new(OwnLock { _descriptor: Some(descriptor) }))),
        Err(cause) if matches!(cause.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(None),
        Err(cause) => Err(cause),
    }
}
