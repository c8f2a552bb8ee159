//! Writes of a signal handler that interrupted a call of this library on the same file: they are
//! carried out when the interrupted call returns, as if the signal had come then.

use libc::c_int;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Bytes that wait, with four for the descriptor and four for the length before those of a write.
const ROOM: usize = 4096;

/// Writes that wait for the thread that they interrupted.
pub struct Late {
    used: AtomicUsize,
    bytes: UnsafeCell<[u8; ROOM]>,
}

impl Late {
    /// None.
    pub const fn new() -> Self {
        Self { used: AtomicUsize::new(0), bytes: UnsafeCell::new([0; ROOM]) }
    }

    /// Bytes of those that wait.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Acquire)
    }

    /// All of `used` bytes were carried out; `false` if more came meanwhile.
    pub(crate) fn is_done(&self, used: usize) -> bool {
        self.used.compare_exchange(used, 0, Release, Relaxed).is_ok()
    }

    /// Whether none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used.load(Relaxed) == 0
    }

    /// Takes a write of this thread, which holds the lock already; `false` if there is no room.
    ///
    /// # Safety
    /// `data` points to `len` bytes.
    pub unsafe fn take(&self, fd: c_int, data: *const u8, len: usize) -> bool {
        let start = self.used.load(Acquire);
        if start + 8 + len > ROOM {
            return false;
        }
        // A signal that comes now finds this place taken.
        self.used.store(start + 8 + len, Release);
        // SAFETY: the place is inside, and the caller promises the rest.
        unsafe {
            let place = self.bytes.get().cast::<u8>().add(start);
            place.copy_from(fd.to_ne_bytes().as_ptr(), 4);
            place.add(4).copy_from((len as u32).to_ne_bytes().as_ptr(), 4);
            place.add(8).copy_from(data, len);
        }
        true
    }

    /// The first write from `start` on.
    pub(crate) fn entry(&self, start: usize) -> (c_int, &[u8]) {
        // SAFETY: handlers that interrupt this thread only add bytes behind the used ones.
        let bytes = unsafe { &*self.bytes.get() };
        let word = |at: usize| {
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let len = word(start + 4) as usize;
        (word(start) as c_int, &bytes[start + 8..start + 8 + len])
    }
}
