//! Threads that the program's signals do not reach.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{ErrorKind, Result};

/// Bytes that must be available before a thread is made. The standard library allocates the
/// thread's descriptor from the system, regardless of this library's allocator, and aborts the
/// process on failure.
const DESCRIBED: usize = 4096;

/// Whether a thread can be described.
pub(super) fn has_memory() -> bool {
    let layout = Layout::new::<[u8; DESCRIBED]>();
    // SAFETY: the layout has a size; the memory goes back to where it came from.
    unsafe {
        // Compilers remove unused allocations.
        let memory = std::hint::black_box(System.alloc(layout));
        if !memory.is_null() {
            System.dealloc(memory, layout);
        }
        !memory.is_null()
    }
}

/// Calls `spawn` with all signals blocked, so that the thread it makes blocks them for good.
///
/// # Errors
/// Those of `spawn`, and `OutOfMemory`.
pub fn without_signals<T>(spawn: impl FnOnce() -> Result<T>) -> Result<T> {
    if !has_memory() {
        return Err(ErrorKind::OutOfMemory.into());
    }
    // SAFETY: the sets are initialized before use and outlive the calls; the mask is that of this
    // thread, which gets its own back.
    unsafe {
        let (mut mask, mut own): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut mask);
        // Signals raised by an instruction of the thread itself cannot be deferred.
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP] {
            libc::sigdelset(&raw mut mask, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, &raw mut own);
        let spawned = spawn();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const own, std::ptr::null_mut());
        spawned
    }
}
