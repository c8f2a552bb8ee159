//! A part of memory that fills up and never moves.

use std::ptr::NonNull;

/// Memory of its own, zeros at first, which the kernel gives when it is used.
#[derive(Debug)]
pub(super) struct Part {
    start: NonNull<u8>,
    len: usize,
    used: usize,
}

// SAFETY: the memory belongs to the value alone.
unsafe impl Send for Part {}
// SAFETY: shared references only tell numbers.
unsafe impl Sync for Part {}

impl Part {
    /// A part of `len` bytes, in large pages where the kernel has them if it will surely be filled; `None` if there is
    /// no memory for it.
    pub(super) fn new(len: usize, in_large_pages: bool) -> Option<Self> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory at an address that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        if in_large_pages {
            // A kernel without them refuses, and the pages are small ones.
            // SAFETY: it is the memory that was mapped just now.
            unsafe { libc::madvise(start, len, libc::MADV_HUGEPAGE) };
        }
        NonNull::new(start.cast()).map(|start| Self { start, len, used: 0 })
    }

    /// Bytes that have been filled.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Where the first byte is.
    pub(super) fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// Bytes that are left.
    pub(super) fn room(&self) -> usize {
        self.len - self.used
    }

    /// Lets `with` fill the next `len` bytes, for which there is room.
    pub(super) fn fill(&mut self, len: usize, with: impl FnOnce(&mut [u8])) {
        assert!(len <= self.room(), "a part has room for what is put into it");
        // SAFETY: the range is inside the memory, and nobody has a reference to these bytes yet.
        let room = unsafe {
            let place = self.start.as_ptr().add(self.used);
            std::slice::from_raw_parts_mut(place, len)
        };
        with(room);
        self.used += len;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and whoever used its bytes has ended.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
