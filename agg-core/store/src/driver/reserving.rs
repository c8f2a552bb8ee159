//! Storage for zeros that are not written.

use aggio_base::{Extent, os};
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// File systems report holes in units of this many bytes, or of fewer.
const BLOCK: u64 = 4096;

/// At most this fraction of the free room is left without storage.
const PLENTY: u64 = 4;

/// State of a file in which holes get storage.
#[derive(Debug, Default)]
pub(super) struct Reserving {
    /// The file system has said that it cannot.
    is_impossible: AtomicBool,
    /// Where the file ended when that was asked last; 0 if it never was.
    end: AtomicU64,
    /// Upper bound of the bytes of zeros that were not written and have no storage: most of them
    /// have been written over since.
    unreserved: AtomicU64,
}

impl Reserving {
    /// Gives storage to `extent` of a file, or to the whole blocks in it, if nothing is stored
    /// there. Returns the part that now shows zeros and has storage.
    pub(super) fn zeros(&self, fd: RawFd, extent: Extent) -> Extent {
        self.by(extent, |part| {
            let stored = os::next_data(fd, part.offset)?;
            let is_hole = !part.is_empty() && stored.is_none_or(|at| at >= part.end());
            // It does not change bytes stored meanwhile. If it fails, a write will report the
            // error.
            if is_hole { os::fallocate(fd, part, false).map(|()| true) } else { Ok(false) }
        })
    }

    /// Whether this is a plain file that ends at or before `offset` now. If an earlier query found
    /// the end behind `offset`, the file system is not queried again.
    pub(super) fn ends_by(&self, fd: RawFd, offset: u64) -> bool {
        if offset < self.end.load(Ordering::Relaxed) {
            return false;
        }
        let asked = os::ask_size(fd).and_then(|()| os::fstat(fd));
        let Ok(stat) = asked else { return false };
        let end = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        self.end.store(end, Ordering::Relaxed);
        stat.st_mode & libc::S_IFMT == libc::S_IFREG && end <= offset
    }

    /// Counts `len` bytes more as not written, if the file system has [`PLENTY`] times the room
    /// that all of these take; returns whether it has. If room is short, writes must report its
    /// end.
    pub(super) fn claim_room(&self, fd: RawFd, len: u64) -> bool {
        let Ok(facts) = os::fstatfs(fd) else { return false };
        let block = u64::try_from(facts.f_bsize).unwrap_or(0);
        let free = facts.f_bavail.saturating_mul(block);
        let all = self.unreserved.load(Ordering::Relaxed).saturating_add(len);
        let fits = all <= free / PLENTY;
        if fits {
            self.unreserved.store(all, Ordering::Relaxed);
        }
        fits
    }

    /// The file may become shorter.
    pub(super) fn forget_end(&self) {
        self.end.store(0, Ordering::Relaxed);
    }

    fn by(&self, extent: Extent, reserve: impl Fn(Extent) -> io::Result<bool>) -> Extent {
        let has_reserved = |part: &Extent| {
            if self.is_impossible.load(Ordering::Relaxed) {
                return false;
            }
            let reserved = reserve(*part);
            if reserved.as_ref().is_err_and(is_missing) {
                self.is_impossible.store(true, Ordering::Relaxed);
            }
            reserved.unwrap_or(false)
        };
        // At its ends there may be blocks that it shares with stored bytes.
        let first = extent.offset.next_multiple_of(BLOCK);
        let whole = Extent::between(first, extent.end() - extent.end() % BLOCK);
        let nothing = Extent::new(extent.offset, 0);
        [extent, whole].into_iter().find(has_reserved).unwrap_or(nothing)
    }
}

/// Whether the file system does not have this call at all.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// How often the system is asked in five calls that it answers so.
    fn asked(error: i32) -> u32 {
        let (reserving, asked) = (Reserving::default(), Cell::new(0));
        for _ in 0..5 {
            let reserved = reserving.by(Extent::new(0, 1 << 20), |_| {
                asked.set(asked.get() + 1);
                Err(io::Error::from_raw_os_error(error))
            });
            assert!(reserved.is_empty());
        }
        asked.get()
    }

    #[test]
    fn a_file_system_that_cannot_reserve_is_asked_once() {
        assert_eq!((asked(libc::EOPNOTSUPP), asked(libc::ENOSYS)), (1, 1));
    }

    #[test]
    fn a_full_file_system_may_have_room_later() {
        assert_eq!(asked(libc::ENOSPC), 10, "the extent, and its whole blocks");
    }

    #[test]
    fn only_plain_files_have_zeros_behind_their_end() {
        let device = os::open(c"/dev/null", libc::O_RDWR, 0).expect("a device");
        assert!(!Reserving::default().ends_by(device, 0));
        os::close(device).expect("closed");
        let file = os::memory_file(c"plain").expect("a file");
        let reserving = Reserving::default();
        assert!(reserving.ends_by(file, 0));
        os::ftruncate(file, 100).expect("longer");
        assert!(!reserving.ends_by(file, 99) && reserving.ends_by(file, 100));
        os::ftruncate(file, 10).expect("shorter");
        assert!(!reserving.ends_by(file, 50), "what was there once is not asked about again");
        reserving.forget_end();
        assert!(reserving.ends_by(file, 50));
        os::close(file).expect("closed");
    }

    #[test]
    fn room_is_there_once() {
        let reserving = Reserving::default();
        let file = os::open(c".", libc::O_TMPFILE | libc::O_RDWR, 0o600).expect("a file");
        assert!(reserving.claim_room(file, 4096) && !reserving.claim_room(file, u64::MAX - 4096));
        let facts = os::fstatfs(file).expect("facts");
        let free = facts.f_bavail * facts.f_bsize as u64;
        // Others may give some room back meanwhile.
        assert!(reserving.claim_room(file, free / 8) && !reserving.claim_room(file, free / 5));
        os::close(file).expect("closed");
    }

    #[test]
    fn blocks_that_hold_bytes_at_the_ends_are_left_to_whoever_writes() {
        let reserving = Reserving::default();
        let blocks = Extent::new(BLOCK, 2 * BLOCK);
        let reserved = reserving.by(Extent::new(100, 3 * BLOCK), |part| Ok(part == blocks));
        assert_eq!(reserved, blocks);
    }
}
