//! The range of numbers for the descriptors of containers: high, because programs may rely on
//! getting the lowest free number.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// 0: wherever the system puts them.
static FIRST: AtomicI32 = AtomicI32::new(0);

/// From now on descriptors of containers have numbers from `first` on, as far as the process may
/// have such.
pub fn keep_descriptors_above(first: i32) {
    FIRST.store(first, Relaxed);
}

/// The file with a number that is out of the way.
pub(crate) fn moved(file: File) -> File {
    let first = FIRST.load(Relaxed);
    if first == 0 || file.as_raw_fd() >= first {
        return file;
    }
    // SAFETY: plain numbers.
    let other = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, first) };
    if other < 0 {
        return file;
    }
    // SAFETY: the descriptor is new and nobody else's.
    unsafe { File::from_raw_fd(other) }
}
