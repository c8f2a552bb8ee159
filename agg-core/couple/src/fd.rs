//! Descriptors that system calls have just made.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// A descriptor that is new.
pub(crate) fn owned(fd: RawFd) -> OwnedFd {
    // SAFETY: callers pass descriptors that they have just made and nobody else has.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// The descriptor that a system call has returned, or its error.
pub(crate) fn checked(result: impl Into<i64>) -> io::Result<OwnedFd> {
    match RawFd::try_from(result.into()) {
        Ok(fd) if fd >= 0 => Ok(owned(fd)),
        _ => Err(io::Error::last_os_error()),
    }
}
