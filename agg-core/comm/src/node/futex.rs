//! Sleeping until a word of shared memory changes.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while the word at `address` is `seen`, at most for `most`. May return early.
///
/// The address need not be valid: the kernel only compares, and rejects an unmapped address.
pub(crate) fn wait(address: usize, seen: u32, most: Duration) {
    let limit = libc::timespec {
        tv_sec: libc::time_t::try_from(most.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(most.subsec_nanos() as i32),
    };
    // SAFETY: the kernel reads the word, if there is one, and the local time limit.
    unsafe { libc::syscall(libc::SYS_futex, address, libc::FUTEX_WAIT, seen, &raw const limit) };
}

/// Wakes all threads that sleep on `word`, in any process.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: the word is alive; nothing is written.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
