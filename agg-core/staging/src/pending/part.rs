//! A part of memory that fills up and never moves.

use std::ptr::NonNull;

/// Memory of its own: zeros at first, allocated by the kernel when it is used.
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
    /// A part of `len` bytes, in large pages where the kernel has them if it will surely be filled;
    /// `None` if there is no memory for it.
    pub(super) fn new(len: usize, in_large_pages: bool) -> Option<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        if in_large_pages {
            // A kernel without them refuses, and the pages are small ones.
            // SAFETY: the memory was just mapped, and this advice changes no byte of it.
            unsafe { libc::madvise(start, len, libc::MADV_HUGEPAGE) };
        }
        Some(Self { start: NonNull::new(start.cast())?, len, used: 0 })
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
        with(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(self.used), len) });
        self.used += len;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and its bytes are no longer used.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
