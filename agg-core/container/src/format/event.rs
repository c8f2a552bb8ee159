//! Truncations and holes.

use aggio_base::Extent;

/// A range that becomes zeros: everything behind a new size, or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The range; behind a new size it ends at `u64::MAX`.
    pub(crate) extent: Extent,
    /// Whether it sets the size, to the range's start.
    pub(crate) sets_size: bool,
    /// Its sequence number.
    pub(crate) seq: u64,
}

impl Event {
    /// The size becomes `size`.
    pub(crate) fn truncate(size: u64, seq: u64) -> Self {
        Self { extent: Extent::between(size, u64::MAX), sets_size: true, seq }
    }

    /// `extent` becomes zeros.
    pub(crate) fn hole(extent: Extent, seq: u64) -> Self {
        Self { extent, sets_size: false, seq }
    }
}
