//! Storage for zeros that nobody writes.

use aggio_base::{Extent, os};
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// File systems tell holes in units of this many bytes, or of fewer.
const BLOCK: u64 = 4096;

/// What is known of a file whose holes get storage.
#[derive(Debug, Default)]
pub(super) struct Reserving {
    /// The file system has said that it cannot.
    is_impossible: AtomicBool,
}

impl Reserving {
    /// Gives storage to `extent` of a file, or to the whole blocks in it, if nothing is stored
    /// there: what now shows zeros and has storage.
    pub(super) fn zeros(&self, fd: RawFd, extent: Extent) -> Extent {
        self.by(extent, |part| {
            let stored = os::next_data(fd, part.offset)?;
            let is_hole = !part.is_empty() && stored.is_none_or(|at| at >= part.end());
            // It leaves alone what is stored by now. If it fails, a write will tell why.
            if is_hole { os::fallocate(fd, part, false).map(|()| true) } else { Ok(false) }
        })
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
    fn blocks_that_hold_bytes_at_the_ends_are_left_to_whoever_writes() {
        let reserving = Reserving::default();
        let blocks = Extent::new(BLOCK, 2 * BLOCK);
        let reserved = reserving.by(Extent::new(100, 3 * BLOCK), |part| Ok(part == blocks));
        assert_eq!(reserved, blocks);
    }
}
