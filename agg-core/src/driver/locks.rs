//! Locks on ranges of the file itself: against other programs, and between threads of this one.
//!
//! Open-file-description locks vanish with the descriptor, however the process ends, and leave no
//! file behind. They do not exclude two users of one descriptor, so a list in memory does.

use super::descriptor::Descriptor;
use super::os;
use crate::transport::LockGuard;
use crate::{Error, Extent, Result};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The ranges that users of one descriptor hold.
#[derive(Debug, Default)]
pub(super) struct HeldRanges {
    held: Mutex<Vec<Extent>>,
    released: Condvar,
}

impl HeldRanges {
    /// Waits until no holder overlaps `extent`, then holds it.
    fn take(&self, extent: Extent) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        while held.iter().any(|other| !other.intersect(extent).is_empty()) {
            held = self.released.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        held.push(extent);
    }

    fn give_back(&self, extent: Extent) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = held.iter().position(|other| *other == extent) {
            held.swap_remove(at);
        }
        self.released.notify_all();
    }
}

/// A held lock on a range of the file.
struct FileLock {
    descriptor: Arc<Descriptor>,
    extent: Extent,
    start: i64,
    len: i64,
}

impl LockGuard for FileLock {}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Unlocking fails only on a closed descriptor, and closing has released the lock.
        if let Ok(fd) = self.descriptor.for_locks() {
            let _ = os::ofd_lock(fd, libc::F_UNLCK, self.start, self.len);
        }
        self.descriptor.ranges.give_back(self.extent);
    }
}

/// Waits for a lock on `extent` and holds it until the guard is dropped.
///
/// Two users of one descriptor exclude each other also where both locks are shared, because the
/// kernel keeps one lock a byte and descriptor, and the first to finish would release it.
pub(super) fn lock(
    descriptor: &Arc<Descriptor>,
    extent: Extent,
    exclusive: bool,
) -> Result<Box<dyn LockGuard>> {
    super::generic::check_range(extent.offset, 0)?;
    let start = i64::try_from(extent.offset).unwrap_or(i64::MAX);
    // A length of 0 means "to the end of all files" to the kernel.
    let len = i64::try_from(extent.end()).map_or(0, |end| end - start);
    let extent = if extent.is_empty() { Extent::new(extent.offset, 1) } else { extent };
    let len = if len == 0 && extent.end() <= i64::MAX as u64 { 1 } else { len };
    let kind = if exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
    descriptor.ranges.take(extent);
    let taken = descriptor.for_locks().and_then(|fd| os::ofd_lock(fd, kind, start, len));
    match taken {
        Ok(()) => Ok(Box::new(FileLock { descriptor: Arc::clone(descriptor), extent, start, len })),
        Err(error) => {
            descriptor.ranges.give_back(extent);
            Err(Error::os("fcntl(F_OFD_SETLKW)", &error).with_extent(extent))
        }
    }
}
