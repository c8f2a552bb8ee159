//! Writes of a signal handler that interrupted this library while it was at the same file: they are
//! carried out when the interrupted call is done, as if the signal had come then.

use super::files::{File, Held};
use super::next;
use super::{descriptors, dirty, errno};
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
    fn entry(&self, start: usize) -> (c_int, &[u8]) {
        // SAFETY: handlers that interrupt this thread only add behind what is used.
        let bytes = unsafe { &*self.bytes.get() };
        let word = |at: usize| {
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let len = word(start + 4) as usize;
        (word(start) as c_int, &bytes[start + 8..start + 8 + len])
    }
}

/// Carries out the writes that wait. The file is locked.
#[cold]
pub fn carry_out(file: &'static File, held: &mut Held) {
    let _errno = errno::Keep::new();
    if let Err(error) = dirty::drain(file, held) {
        held.error = error;
    }
    let mut done = 0;
    loop {
        let used = file.late.used.load(Acquire);
        if done == used {
            if file.late.used.compare_exchange(used, 0, Release, Relaxed).is_ok() {
                return;
            }
            continue;
        }
        let (fd, bytes) = file.late.entry(done);
        done += 8 + bytes.len();
        let Some(description) = descriptors::get(fd) else { continue };
        let tracked = description.tracked.load(Relaxed);
        // SAFETY: the pointer and length describe the bytes.
        let written = unsafe {
            if tracked {
                let position = description.position();
                next::pwrite64(fd, bytes.as_ptr().cast(), bytes.len(), position as i64)
            } else {
                next::write(fd, bytes.as_ptr().cast(), bytes.len())
            }
        };
        if written != bytes.len() as isize {
            held.error = if written < 0 { errno::get() } else { libc::EIO };
        }
        if tracked && written > 0 {
            description.set_position(description.position() + written as u64);
        }
    }
}
