//! Threads that the program's signals do not reach.

/// Calls `spawn` with all signals blocked, so that the thread it makes blocks them for good.
pub fn without_signals<T>(spawn: impl FnOnce() -> T) -> T {
    // SAFETY: the sets are initialized before use and outlive the calls; the mask is that of this
    // thread, which gets its own back.
    unsafe {
        let (mut mask, mut own): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut mask);
        // What an instruction itself raises cannot wait.
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP] {
            libc::sigdelset(&raw mut mask, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, &raw mut own);
        let spawned = spawn();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const own, std::ptr::null_mut());
        spawned
    }
}
