//! Locks on ranges of the file itself: against other programs, and between threads of this one.
//!
//! Open-file-description locks vanish with the descriptor, however the process ends, and leave no
//! file behind. They do not exclude two users of one descriptor, so a list in memory does; or each
//! lock has a description of its own.

use super::descriptor::Descriptor;
use super::os;
use aggio_base::{Error, ErrorClass, Extent, Result};
use aggio_comm::transport::{LockGuard, try_lock_alone};
use std::os::fd::{FromRawFd, OwnedFd};
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
            let _ = os::ofd_lock(fd, libc::F_OFD_SETLKW, libc::F_UNLCK, self.start, self.len);
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
    let taken = descriptor
        .for_locks()
        .and_then(|fd| os::ofd_lock(fd, libc::F_OFD_SETLKW, kind, start, len));
    match taken {
        Ok(()) => Ok(Box::new(FileLock { descriptor: Arc::clone(descriptor), extent, start, len })),
        Err(error) => {
            descriptor.ranges.give_back(extent);
            Err(Error::os("fcntl(F_OFD_SETLKW)", &error).with_extent(extent))
        }
    }
}

/// Where in the file the locks of [`try_lock`] begin: behind all data, so that they and those of
/// [`lock`] and of other programs do not wait for each other.
const APART: u64 = 1 << 62;

/// Takes the lock of atomic mode that stands for `extent`, or `None` if a process on this or
/// another host holds one that conflicts.
///
/// # Errors
/// `UnsupportedOperation` if the file system has no locks; else the system's error.
pub(super) fn try_lock(
    descriptor: &Descriptor,
    extent: Extent,
    exclusive: bool,
) -> Result<Option<Box<dyn LockGuard>>> {
    let stand_in = Extent::new(APART + extent.offset.min(APART - 1), extent.len);
    let opened = descriptor.get().and_then(|fd| os::reopen(fd, os::access_mode(fd)?));
    // SAFETY: the descriptor is new and has no other owner.
    let own = opened.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    let taken = own.and_then(|own| try_lock_alone(own, stand_in, exclusive));
    taken.map_err(|cause| match cause.raw_os_error() {
        Some(libc::ENOLCK | libc::ENOSYS | libc::EOPNOTSUPP | libc::EINVAL) => {
            let text = format!("the file system has no locks ({cause})");
            Error::new(ErrorClass::UnsupportedOperation, text)
        }
        _ => Error::os("fcntl(F_OFD_SETLK)", &cause).with_extent(extent),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file and two descriptors of it, as two processes have.
    fn two() -> (Arc<Descriptor>, Arc<Descriptor>) {
        let fd = os::memory_file(c"locks").expect("a memory file");
        let other = os::reopen(fd, libc::O_RDWR).expect("/proc");
        (Arc::new(Descriptor::new(fd)), Arc::new(Descriptor::new(other)))
    }

    fn free(descriptor: &Descriptor, offset: u64, len: u64, exclusive: bool) -> bool {
        try_lock(descriptor, Extent::new(offset, len), exclusive).expect("locks").is_some()
    }

    #[test]
    fn atomic_accesses_exclude_those_that_conflict_and_no_others() {
        let (one, other) = two();
        let held = try_lock(&one, Extent::new(100, 50), true).expect("locks");
        assert!(held.is_some());
        for descriptor in [&one, &other] {
            assert!(!free(descriptor, 149, 1, false));
            assert!(!free(descriptor, 0, u64::MAX, true));
            assert!(free(descriptor, 150, 1, true) && free(descriptor, 0, 100, true));
        }
        drop(held);
        let held = try_lock(&one, Extent::new(100, 50), false).expect("locks");
        assert!(held.is_some() && free(&other, 120, 1, false) && !free(&other, 120, 1, true));
    }

    #[test]
    fn atomic_accesses_do_not_wait_for_locks_on_the_data_nor_those_for_them() {
        let (one, other) = two();
        let range = Extent::new(0, 1000);
        let sieving = lock(&other, range, true).expect("locks");
        let atomic = try_lock(&one, range, true).expect("locks");
        assert!(atomic.is_some());
        drop(sieving);
        drop(lock(&other, range, true).expect("locks"));
    }

    #[test]
    fn a_closed_file_cannot_be_locked() {
        let (one, _) = two();
        one.close().expect("open until now");
        let error = try_lock(&one, Extent::new(0, 1), true).map(drop).expect_err("closed");
        assert_eq!(error.errno(), libc::EBADF);
    }
}
