//! Bytes of the file that lie in a log so that they can be mapped.

use aggio_base::Extent;

/// Bytes of the file that lie together in a log, beginning at a page of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Which bytes of the file; the last page may be only partly in it.
    pub logical: Extent,
    /// The id of the log.
    pub log: u64,
    /// The place of the first byte there.
    pub place: u64,
}

impl Placed {
    /// The bytes of it that are in `range`, if there are any.
    pub fn part(&self, range: Extent) -> Option<Self> {
        let logical = self.logical.intersect(range);
        let place = self.place + logical.offset.saturating_sub(self.logical.offset);
        (!logical.is_empty()).then_some(Self { logical, place, ..*self })
    }
}
