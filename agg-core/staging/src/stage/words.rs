//! Words of a file that processes share as memory.

use aggio_base::Extent;
use aggio_base::os::Mapping;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// A range of a file as words. Bytes that nobody has stored read as zeros.
///
/// Only words with [allocated](allocate) storage are accessed: without it, a full file system would
/// end the process.
pub(super) struct Words {
    mapping: Mapping,
    range: Extent,
}

// SAFETY: the memory is shared with other processes anyway, and is only accessed as atomics.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// Maps `range` of `file`. Both ends are multiples of the size of a page.
    pub(super) fn map(file: &File, range: Extent) -> io::Result<Self> {
        let mapping = Mapping::new(file.as_raw_fd(), range, true)?;
        Ok(Self { mapping, range })
    }

    fn place(&self, offset: u64, align: u64) -> *mut u8 {
        let at = Extent::new(offset, align);
        let inside = self.range.offset <= offset && at.end() <= self.range.end();
        assert!(offset.is_multiple_of(align) && inside, "{at} of {}", self.range);
        self.mapping.place(offset)
    }

    /// The byte at `offset` of the file.
    pub(super) fn byte(&self, offset: u64) -> &AtomicU8 {
        // SAFETY: the place is inside the mapping, which lives as long as the reference.
        unsafe { AtomicU8::from_ptr(self.place(offset, 1)) }
    }

    /// The half word at `offset` of the file, a multiple of four.
    pub(super) fn half(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: as above, and the place is aligned.
        unsafe { AtomicU32::from_ptr(self.place(offset, 4).cast()) }
    }

    /// The word at `offset` of the file, a multiple of eight.
    pub(super) fn word(&self, offset: u64) -> &AtomicU64 {
        // SAFETY: as above, and the place is aligned.
        unsafe { AtomicU64::from_ptr(self.place(offset, 8).cast()) }
    }
}

/// Allocates the storage of a range of `file`. Its content stays.
pub(super) fn allocate(file: &File, range: Extent) -> io::Result<()> {
    aggio_base::os::fallocate(file.as_raw_fd(), range, true)
}
