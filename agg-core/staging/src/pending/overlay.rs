//! Ranges put over each other: of bytes in several of them the last one counts.

use aggio_base::extent::Extent;
use std::collections::BTreeMap;

/// What is known of ranges of the file: by their starts, the ends and a value of each, apart.
#[derive(Debug)]
pub(super) struct Overlay<T>(BTreeMap<u64, (u64, T)>);

impl<T> Default for Overlay<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Copy> Overlay<T> {
    /// Puts a range over all that are there.
    pub(super) fn put(&mut self, extent: Extent, value: T) {
        let (start, end) = (extent.offset, extent.end());
        let touched: Vec<u64> = self.touching(extent).map(|(at, _)| *at).collect();
        for at in touched {
            let Some((old_end, old)) = self.0.remove(&at) else { continue };
            if at < start {
                self.0.insert(at, (old_end.min(start), old));
            }
            if old_end > end {
                self.0.insert(end.max(at), (old_end, old));
            }
        }
        self.0.insert(start, (end, value));
    }

    /// What is left of the ranges in `extent`, in order.
    pub(super) fn within(&self, extent: Extent) -> impl Iterator<Item = (Extent, T)> {
        let part = move |(start, (end, value)): (&u64, &(u64, T))| {
            (Extent::between(*start, *end).intersect(extent), *value)
        };
        self.touching(extent).map(part).filter(|(part, _)| !part.is_empty())
    }

    /// What is left of all ranges, in order.
    pub(super) fn into_ranges(self) -> impl Iterator<Item = (Extent, T)> {
        self.0.into_iter().map(|(start, (end, value))| (Extent::between(start, end), value))
    }

    /// The ranges that may have bytes of `extent`.
    fn touching(&self, extent: Extent) -> impl Iterator<Item = (&u64, &(u64, T))> {
        let before = self.0.range(..extent.offset).next_back();
        before.into_iter().chain(self.0.range(extent.offset..extent.end()))
    }
}
