//! The bytes of an open that are on other nodes only.

use crate::lock::{Guard, Lock};
use agg_core::Extent;
use std::ops::Range;
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// Minimum and maximum of the bytes that are fetched ahead of a sequential reader.
const AHEAD: [u64; 2] = [1 << 20, 32 << 20];

/// The missing bytes of one open. All bytes of this value are zero if none are missing.
pub(super) struct Missing {
    any: AtomicBool,
    /// Held by a read at the position.
    reads: Lock,
    /// The end offset of the last read.
    next: AtomicU64,
    /// Bytes that were fetched ahead of `next`.
    ahead: AtomicU64,
    /// The range of units that have arrived: start in the upper half, end in the lower half.
    there: AtomicU64,
}

impl Missing {
    pub(super) const fn new() -> Self {
        Self {
            any: AtomicBool::new(false),
            reads: Lock::new(),
            next: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
            there: AtomicU64::new(0),
        }
    }

    /// Records whether bytes may be missing.
    pub(super) fn set(&self, any: bool) {
        self.any.store(any, Release);
    }

    /// Waits until no other read at the position runs; `None` if this thread is in such a read.
    pub(super) fn lock(&self) -> Option<Guard<'_>> {
        self.reads.lock()
    }

    /// Records that all bytes are on this node.
    pub(super) fn nothing(&self) {
        self.any.store(false, Release);
        for number in [&self.next, &self.ahead, &self.there] {
            number.store(0, Relaxed);
        }
    }

    /// Whether bytes may be missing.
    pub(super) fn any(&self) -> bool {
        self.any.load(Acquire)
    }

    /// Whether these units have arrived.
    pub(super) fn has(&self, units: &Range<u64>) -> bool {
        let there = self.there.load(Acquire);
        there >> 32 <= units.start && units.end <= there & u64::from(u32::MAX)
    }

    /// Records that these units have arrived. Of concurrent calls, one may have no effect.
    pub(super) fn have_come(&self, mut units: Range<u64>) {
        if units.end > u64::from(u32::MAX) {
            return;
        }
        let there = self.there.load(Acquire);
        let there = there >> 32..there & u64::from(u32::MAX);
        if units.start <= there.end && there.start <= units.end {
            units = units.start.min(there.start)..units.end.max(there.end);
        }
        self.there.store(units.start << 32 | units.end, Release);
    }

    /// Returns how many bytes to fetch ahead of a read of `extent`.
    pub(super) fn ahead_of(&self, extent: Extent) -> u64 {
        let is_next = self.next.swap(extent.end(), Relaxed) == extent.offset && extent.offset > 0;
        let [least, most] = AHEAD;
        let before = self.ahead.load(Relaxed);
        let ahead = if is_next { (2 * before).clamp(least, most) } else { 0 };
        self.ahead.store(ahead, Relaxed);
        ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_there_that_have_come_one_after_the_other() {
        let missing = Missing::new();
        assert!(!missing.has(&(0..1)));
        missing.have_come(4..6);
        missing.have_come(6..9);
        assert!(missing.has(&(4..9)) && !missing.has(&(3..5)) && !missing.has(&(8..10)));
        missing.have_come(20..21);
        assert!(missing.has(&(20..21)) && !missing.has(&(4..5)), "only the last ones are known");
        missing.have_come(5..1 << 33);
        assert!(!missing.has(&(5..6)), "files of more than 16 TiB are asked for each time");
    }

    #[test]
    fn more_and_more_comes_ahead_of_reads_that_follow_each_other() {
        let missing = Missing::new();
        let ahead = |offset| missing.ahead_of(Extent::new(offset, 100));
        assert_eq!([ahead(0), ahead(100), ahead(200), ahead(300)], [0, 1 << 20, 2 << 20, 4 << 20]);
        assert_eq!([ahead(5000), ahead(5100)], [0, 1 << 20]);
        (52..70).for_each(|part| _ = ahead(100 * part));
        assert_eq!(ahead(7000), 32 << 20);
    }
}
