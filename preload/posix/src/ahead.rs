//! Small reads that follow each other, with or without gaps, are served from bytes that were read
//! ahead.
//!
//! Used only in mode `close`, in which bytes that other processes write become visible when the
//! file is opened again. The bytes are dropped when this process changes the file, or asks the
//! kernel to change it.

use super::counts::Counts;
use super::{next, state};
use libc::{c_int, ssize_t};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes that are read at once.
pub const WINDOW: usize = 64 * 1024;
/// Larger reads go to the kernel: copying their bytes twice costs more than it saves.
pub const LARGE: usize = 4 * 1024;
/// Small reads in a row before bytes are read ahead.
const STREAK: usize = 2;
/// The largest gap between two reads that follow each other.
const GAP: u64 = WINDOW as u64 / 8;

/// Bytes of a file that were read ahead. The memory is kept until the process ends: a signal
/// handler may read, and must not allocate.
#[derive(Debug, Default)]
pub struct Ahead {
    memory: Option<NonNull<u8>>,
    start: u64,
    len: usize,
    /// Where the last small read ended.
    expected: u64,
    streak: usize,
}

// SAFETY: the memory belongs to the value alone.
unsafe impl Send for Ahead {}

impl Ahead {
    /// Nothing.
    pub const fn new() -> Self {
        Self { memory: None, start: 0, len: 0, expected: 0, streak: 0 }
    }

    /// The same memory for another file.
    pub fn reused(&mut self) -> Self {
        Self { memory: self.memory.take(), ..Self::new() }
    }

    /// Drops the bytes that were read ahead.
    #[inline]
    pub fn forget(&mut self) {
        self.len = 0;
    }

    fn memory(&mut self) -> Option<NonNull<u8>> {
        if self.memory.is_none() {
            let (protection, flags) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: new memory at an address that the kernel chooses.
            let memory =
                unsafe { next::mmap64(std::ptr::null_mut(), WINDOW, protection, flags, -1, 0) };
            let usable = memory != libc::MAP_FAILED;
            self.memory = NonNull::new(memory.cast()).filter(|_| usable);
        }
        self.memory
    }

    /// Copies `len` bytes from `offset` on; `false`, and nothing happens, if not all of them are
    /// here.
    ///
    /// # Safety
    /// `data` has room for `len` bytes.
    unsafe fn copy(&self, data: *mut u8, len: usize, offset: u64) -> bool {
        let Some(memory) = self.memory else { return false };
        let end = self.start + self.len as u64;
        if offset < self.start || offset + len as u64 > end {
            return false;
        }
        // SAFETY: the range is inside the memory, and the caller's promise.
        unsafe {
            let from = memory.as_ptr().add((offset - self.start) as usize);
            std::ptr::copy_nonoverlapping(from, data, len);
        }
        true
    }

    /// Counts a small read; whether it is one of several.
    #[inline]
    pub fn is_streak(&mut self) -> bool {
        self.streak += 1;
        self.streak > STREAK
    }

    /// As `pread`. The file is locked, and nothing of it is dirty.
    ///
    /// # Safety
    /// `data` has room for `len` bytes, at most [`LARGE`].
    pub unsafe fn read(
        &mut self,
        counts: &mut Counts,
        fd: c_int,
        (data, len): (*mut u8, usize),
        offset: u64,
    ) -> ssize_t {
        // SAFETY: the caller's promise.
        if unsafe { self.copy(data, len, offset) } {
            self.expected = offset + len as u64;
            counts.read += 1;
            return len as ssize_t;
        }
        let follows = offset.checked_sub(self.expected).is_some_and(|gap| gap <= GAP);
        let memory = if follows { self.memory() } else { None };
        let (into, room) = memory.map_or((data, len), |memory| (memory.as_ptr(), WINDOW));
        // SAFETY: the window, or the caller's promise.
        let n = unsafe { next::pread64(fd, into.cast(), room, offset as i64) };
        let Ok(found) = usize::try_from(n) else {
            self.forget();
            return n;
        };
        let served = found.min(len);
        self.expected = offset + served as u64;
        if memory.is_some() {
            (self.start, self.len) = (offset, found);
            state::flags().ahead.store(true, Relaxed);
            // SAFETY: so many bytes are in the window, and the caller's promise.
            unsafe { self.copy(data, served, offset) };
            counts.read += 1;
            counts.fills += 1;
        }
        served as ssize_t
    }
}
