//! A lock that a signal handler may find held by the very thread that it interrupted.

use std::sync::atomic::{
    AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// A lock without data.
pub struct Lock {
    word: AtomicU32,
    owner: AtomicUsize,
}

/// Gives the lock back when it goes out of scope.
pub struct Guard<'a>(&'a Lock);

impl Lock {
    /// A lock that nobody holds.
    pub const fn new() -> Self {
        Self { word: AtomicU32::new(FREE), owner: AtomicUsize::new(0) }
    }

    /// Waits for the lock; `None` if this thread holds it already.
    #[inline]
    pub fn lock(&self) -> Option<Guard<'_>> {
        if self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_err() && !self.wait() {
            return None;
        }
        self.owner.store(this_thread(), Relaxed);
        Some(Guard(self))
    }

    #[cold]
    fn wait(&self) -> bool {
        if self.owner.load(Relaxed) == this_thread() {
            return false;
        }
        while self.word.swap(AWAITED, Acquire) != FREE {
            futex(&self.word, libc::FUTEX_WAIT, AWAITED);
        }
        true
    }

    /// Gives back a lock whose guard was forgotten.
    #[inline]
    pub fn release(&self) {
        self.owner.store(0, Relaxed);
        if self.word.swap(FREE, Release) == AWAITED {
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

#[cold]
fn futex(word: &AtomicU32, operation: libc::c_int, value: u32) {
    let operation = (operation | libc::FUTEX_PRIVATE_FLAG) as usize;
    let errno = super::errno::Keep::new();
    let word = std::ptr::from_ref(word) as usize;
    // SAFETY: the word outlives the call; no time limit is given.
    unsafe { super::system::call(libc::SYS_futex, [word, operation, value as usize, 0, 0, 0]) };
    drop(errno);
}

/// A number that no other thread has at the same time.
#[cfg(target_arch = "x86_64")]
#[inline]
fn this_thread() -> usize {
    let thread: usize;
    // SAFETY: the ABI keeps the thread's own address there.
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) thread, options(nostack, readonly, preserves_flags));
    }
    thread
}

/// A number that no other thread has at the same time.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here) as usize)
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
