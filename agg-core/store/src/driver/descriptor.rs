//! A descriptor of an open file, and the ranges that its users have locked.

use super::locks::HeldRanges;
use super::os;
use std::io;
use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering::AcqRel, Ordering::Acquire};

/// A descriptor that this process owns until it is closed, once.
#[derive(Debug)]
pub(super) struct Descriptor {
    fd: AtomicI32,
    /// The open file description is shared with another process, and locks do not separate the two.
    copied: bool,
    /// An open file description of our own, made for the first lock.
    own: OnceLock<Box<Descriptor>>,
    /// Ranges of the file that users of this descriptor have locked.
    pub(super) ranges: HeldRanges,
}

impl Descriptor {
    pub(super) fn new(fd: RawFd) -> Self {
        Self::with(fd, false)
    }

    /// A copy of another process' descriptor, or none.
    pub(super) fn with(fd: RawFd, copied: bool) -> Self {
        let (fd, own, ranges) = (AtomicI32::new(fd), OnceLock::new(), HeldRanges::default());
        Self { fd, copied, own, ranges }
    }

    /// The number of a descriptor with locks of this process alone.
    pub(super) fn for_locks(&self) -> io::Result<RawFd> {
        let fd = self.get()?;
        if !self.copied {
            return Ok(fd);
        }
        if self.own.get().is_none() {
            let own = Self::new(os::reopen(fd, os::access_mode(fd)?)?);
            // Another thread may have been faster; one of the two is closed again.
            let _ = self.own.set(Box::new(own));
        }
        self.own.get().map_or(Err(io::Error::from_raw_os_error(libc::EBADF)), |own| own.get())
    }

    /// The number; `EBADF` once closed.
    pub(super) fn get(&self) -> io::Result<RawFd> {
        match self.fd.load(Acquire) {
            -1 => Err(io::Error::from_raw_os_error(libc::EBADF)),
            fd => Ok(fd),
        }
    }

    /// Closes it; a second close does nothing.
    pub(super) fn close(&self) -> io::Result<()> {
        if let Some(own) = self.own.get() {
            own.close()?;
        }
        match self.fd.swap(-1, AcqRel) {
            -1 => Ok(()),
            fd => os::close(fd),
        }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // Callers that need the result call `close`; this handles exits after an error.
        let _ = self.close();
    }
}
