//! Small reads that follow each other, with or without gaps, are served from bytes that were read ahead.
//!
//! Only in mode `close`: what others write meanwhile is seen when the file is opened again. Whatever
//! this process does to the file itself, or tells the kernel to do, lets go of what was read.

use super::files::{Access, Description, Held};
use super::next;
use super::{reach, settle, state};
use agg_core::rules::Mode;
use libc::{c_int, ssize_t};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes that are read at once.
pub const WINDOW: usize = 64 * 1024;
/// Reads of more bytes than this are the kernel's: copying them twice costs what it saves.
pub const LARGE: usize = 4 * 1024;
/// Small reads in a row before bytes are read ahead.
const STREAK: usize = 2;
/// The largest gap between two reads that follow each other.
const GAP: u64 = WINDOW as u64 / 8;

/// What was read ahead of a file. Its memory is kept as long as the process lives: a signal handler may
/// read, and must not allocate.
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

    /// Lets go of what was read.
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

    /// Copies `len` bytes from `offset` on; `false`, and nothing happens, if not all of them are here.
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
}

/// Whether a read of `len` bytes to `data` through `description` may be served here.
#[inline]
pub fn may(description: &Description, data: *const u8, len: usize) -> bool {
    (1..=LARGE).contains(&len)
        && description.readable.load(Relaxed)
        && description.file().is_some_and(|file| !file.native.load(Relaxed))
        && !state::ending()
        && reach::readable(data, len)
}

/// Whether this read is one of several small ones.
#[inline]
pub fn wanted(held: &mut Held) -> bool {
    held.ahead.streak += 1;
    held.mode == Mode::Close && held.ahead.streak > STREAK
}

/// As `pread`. The file is locked, and nothing of it is dirty.
///
/// # Safety
/// `data` has room for `len` bytes, at most [`LARGE`].
pub unsafe fn read(held: &mut Held, fd: c_int, data: *mut u8, len: usize, offset: u64) -> ssize_t {
    let ahead = &mut held.ahead;
    // SAFETY: the caller's promise.
    if unsafe { ahead.copy(data, len, offset) } {
        ahead.expected = offset + len as u64;
        held.counts.read += 1;
        return len as ssize_t;
    }
    let follows = offset.checked_sub(ahead.expected).is_some_and(|gap| gap <= GAP);
    let memory = if follows { ahead.memory() } else { None };
    let (into, room) = memory.map_or((data, len), |memory| (memory.as_ptr(), WINDOW));
    // SAFETY: the window, or the caller's promise.
    let n = unsafe { next::pread64(fd, into.cast(), room, offset as i64) };
    let Ok(found) = usize::try_from(n) else {
        ahead.forget();
        return n;
    };
    let served = found.min(len);
    ahead.expected = offset + served as u64;
    if memory.is_some() {
        (ahead.start, ahead.len) = (offset, found);
        state::flags().ahead.store(true, Relaxed);
        // SAFETY: so many bytes are in the window, and the caller's promise.
        unsafe { ahead.copy(data, served, offset) };
        held.counts.read += 1;
        held.counts.fills += 1;
    }
    served as ssize_t
}

/// Lets go of what was read of the file of `fd`: it is about to change, or the program wants to see what
/// others have written.
pub fn forget(fd: c_int) {
    if state::flags().ahead.load(Relaxed)
        && let Some(mut access) = Access::of(fd)
    {
        access.held().ahead.forget();
    }
}

/// The same of all files.
#[inline]
pub fn forget_all() {
    if state::flags().ahead.load(Relaxed) && !state::Inside::is() {
        state::flags().ahead.store(false, Relaxed);
        settle::each(|_, held| held.ahead.forget());
    }
}
