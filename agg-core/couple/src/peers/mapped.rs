//! Mapped bytes of files, from which messages are sent and into which they are received.

use aggio_base::Extent;
use aggio_base::os::{self, Mapping};
use aggio_link::Span;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

/// A mapping of all bytes of a file, and their number; without a mapping the file has none.
#[derive(Clone)]
pub(crate) struct Mapped(Option<Arc<Mapping>>, u64);

impl Mapped {
    /// All bytes of a file.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn of(fd: &OwnedFd, writable: bool) -> io::Result<Self> {
        let size = os::fstat(fd.as_raw_fd())?.st_size.unsigned_abs();
        if size == 0 {
            return Ok(Self(None, 0));
        }
        let map = Mapping::new(fd.as_raw_fd(), Extent::new(0, size), writable)?;
        Ok(Self(Some(Arc::new(map)), size))
    }

    /// These bytes, if the file has them.
    pub(crate) fn span(&self, offset: u64, len: u64) -> Option<Span> {
        let extent = Extent::new(offset, len);
        let inside = extent.len == len && extent.end() <= self.1;
        Span::new(Arc::clone(self.0.as_ref().filter(|_| inside)?), extent).ok()
    }
}

impl fmt::Debug for Mapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapped({} bytes)", self.1)
    }
}
