//! Serves reads from bytes that were read ahead, and drops these before they become stale.

use super::access::Access;
use super::ahead::LARGE;
use super::files::{Description, Held};
use super::{readable_memory, settle, state};
use agg_core::rules::Mode;
use libc::{c_int, ssize_t};
use std::sync::atomic::Ordering::Relaxed;

/// Whether a read of `len` bytes to `data` through `description` may be served here.
#[inline]
pub fn may(description: &Description, data: *const u8, len: usize) -> bool {
    (1..=LARGE).contains(&len)
        && description.readable.load(Relaxed)
        && description.file().is_some_and(|file| !file.native.load(Relaxed))
        && !state::ending()
        && readable_memory::readable(data, len)
}

/// Whether this read is one of several small ones.
#[inline]
pub fn wanted(held: &mut Held) -> bool {
    held.ahead.is_streak() && held.mode == Mode::Close
}

/// As `pread`. The file is locked, and nothing of it is dirty.
///
/// # Safety
/// `data` has room for `len` bytes, at most [`LARGE`].
pub unsafe fn read(held: &mut Held, fd: c_int, data: *mut u8, len: usize, offset: u64) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { held.ahead.read(&mut held.counts, fd, (data, len), offset) }
}

/// Drops the bytes that were read ahead of the file of `fd`: it is about to change, or the program
/// needs to see the writes of other processes.
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
