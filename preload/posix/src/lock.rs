//! A lock that a signal handler may find held by the very thread that it interrupted.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

const FREE: u32 = 0;
/// A thread sleeps until the lock is free; the other bits identify the owner.
const AWAITED: u32 = 1;

/// A lock without data. One word says everything, so that no signal can come in between.
pub struct Lock {
    word: AtomicU32,
}

/// Gives the lock back when it goes out of scope.
pub struct Guard<'a>(&'a Lock);

impl Lock {
    /// A lock that nobody holds.
    pub const fn new() -> Self {
        Self { word: AtomicU32::new(FREE) }
    }

    /// Waits for the lock; `None` if this thread holds it already.
    #[inline]
    pub fn lock(&self) -> Option<Guard<'_>> {
        let here = this_thread();
        if self.word.compare_exchange(FREE, here, Acquire, Relaxed).is_err() && !self.wait(here) {
            return None;
        }
        Some(Guard(self))
    }

    #[cold]
    fn wait(&self, here: u32) -> bool {
        loop {
            let now = self.word.load(Relaxed);
            if now & !AWAITED == here {
                return false;
            }
            let next = if now == FREE { here | AWAITED } else { now | AWAITED };
            if now != next && self.word.compare_exchange(now, next, Acquire, Relaxed).is_err() {
                continue;
            }
            if now == FREE {
                return true;
            }
            futex(&self.word, libc::FUTEX_WAIT, next);
        }
    }

    /// Whether nobody holds the lock.
    fn is_free(&self) -> bool {
        self.word.load(Relaxed) == FREE
    }

    /// Releases the lock after its guard was forgotten.
    #[inline]
    pub fn release(&self) {
        if self.word.swap(FREE, Release) & AWAITED != 0 {
            futex(&self.word, libc::FUTEX_WAKE, 1);
        }
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A value that only the holder of a [`Lock`] uses.
pub struct Locked<T> {
    lock: Lock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is used only with the lock.
unsafe impl<T: Send> Sync for Locked<T> {}

impl<T> Locked<T> {
    /// The value, which nobody uses.
    pub const fn new(value: T) -> Self {
        Self { lock: Lock::new(), value: UnsafeCell::new(value) }
    }

    /// Calls `act` with the value; `None` in a signal handler that interrupted its user.
    pub fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> Option<R> {
        let _guard = self.lock.lock()?;
        // SAFETY: the lock is held.
        Some(act(unsafe { &mut *self.value.get() }))
    }

    /// In a child after `fork`: releases the lock, and calls `act` with the value and whether no
    /// thread of the parent used it.
    ///
    /// # Safety
    /// The calling thread is the only one, and does not use the value otherwise.
    pub unsafe fn in_child(&self, act: impl FnOnce(&mut T, bool)) {
        let was_free = self.lock.is_free();
        self.lock.release();
        // SAFETY: the caller's promise.
        act(unsafe { &mut *self.value.get() }, was_free);
    }
}

#[cold]
fn futex(word: &AtomicU32, operation: libc::c_int, value: u32) {
    let operation = (operation | libc::FUTEX_PRIVATE_FLAG) as usize;
    let errno = super::errno::Keep::new();
    let word = std::ptr::from_ref(word) as usize;
    // SAFETY: the word outlives the call; no time limit is given.
    unsafe { agg_core::system::call(libc::SYS_futex, [word, operation, value as usize, 0, 0, 0]) };
    drop(errno);
}

/// A number that no other thread has at the same time; never [`FREE`], without the bit [`AWAITED`].
///
/// Threads keep their own data on different pages, less than 4 TiB apart.
#[inline]
fn this_thread() -> u32 {
    (((own_address() >> 12) as u32) << 1) | 1 << 31
}

/// The address of data of this thread.
#[cfg(target_arch = "x86_64")]
#[inline]
fn own_address() -> usize {
    let thread: usize;
    // SAFETY: the ABI keeps the thread's own address there.
    unsafe {
        std::arch::asm!(
            "mov {}, fs:0", out(reg) thread,
            options(nostack, readonly, preserves_flags)
        );
    }
    thread
}

/// The address of data of this thread.
#[cfg(target_arch = "aarch64")]
#[inline]
fn own_address() -> usize {
    let thread: usize;
    // SAFETY: the ABI keeps the thread's own address there.
    unsafe {
        std::arch::asm!(
            "mrs {}, tpidr_el0", out(reg) thread,
            options(nostack, nomem, preserves_flags)
        );
    }
    thread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_holds_the_lock_is_told_so_and_others_wait() {
        static LOCK: Lock = Lock::new();
        static mut COUNT: u64 = 0;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let guard = LOCK.lock();
                        assert!(guard.is_some() && LOCK.lock().is_none());
                        // SAFETY: the lock is held.
                        unsafe { COUNT += 1 };
                    }
                });
            }
        });
        // SAFETY: all other threads have ended.
        assert_eq!(unsafe { COUNT }, 40_000);
    }
}
