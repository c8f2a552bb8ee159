//! Overlaid ranges: for bytes in several of them the last one counts.

use crate::extent::Extent;
use std::collections::BTreeMap;

/// Disjoint ranges of a file with a value each, by their starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay<T>(BTreeMap<u64, (u64, T)>);

impl<T> Default for Overlay<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Copy> Overlay<T> {
    /// Puts a range over all that are there.
    pub fn put(&mut self, extent: Extent, value: T) {
        self.take(extent);
        if !extent.is_empty() {
            self.0.insert(extent.offset, (extent.end(), value));
        }
    }

    /// The same; it becomes one with ranges beside it that have the same value.
    pub fn join(&mut self, mut extent: Extent, value: T)
    where
        T: PartialEq,
    {
        if extent.is_empty() {
            return;
        }
        self.take(extent);
        let before = self.0.range(..extent.offset).next_back().map(|(start, to)| (*start, *to));
        if let Some((start, (end, other))) = before
            && (end, other) == (extent.offset, value)
        {
            extent = Extent::between(start, extent.end());
        }
        let end = extent.end();
        if let Some((to, _)) = self.0.get(&end).filter(|(_, other)| *other == value) {
            extent = Extent::between(extent.offset, *to);
            self.0.remove(&end);
        }
        self.0.insert(extent.offset, (extent.end(), value));
    }

    /// Removes the parts of all ranges in `extent`.
    pub fn take(&mut self, extent: Extent) {
        if extent.is_empty() {
            return;
        }
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
    }

    /// The parts of the ranges in `extent`, in order.
    pub fn within(&self, extent: Extent) -> impl Iterator<Item = (Extent, T)> {
        let part = move |(start, (end, value)): (&u64, &(u64, T))| {
            (Extent::between(*start, *end).intersect(extent), *value)
        };
        self.touching(extent).map(part).filter(|(part, _)| !part.is_empty())
    }

    /// All ranges that are left, in order.
    pub fn into_ranges(self) -> impl Iterator<Item = (Extent, T)> {
        self.0.into_iter().map(|(start, (end, value))| (Extent::between(start, end), value))
    }

    /// The same, to be looked at.
    pub fn iter(&self) -> impl Iterator<Item = (Extent, T)> {
        self.0.iter().map(|(start, (end, value))| (Extent::between(*start, *end), *value))
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many ranges are left.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The ranges that may have bytes of `extent`.
    fn touching(&self, extent: Extent) -> impl Iterator<Item = (&u64, &(u64, T))> {
        let before = self.0.range(..extent.offset).next_back();
        before.into_iter().chain(self.0.range(extent.offset..extent.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_byte_has_what_was_put_last(
            ranges in prop::collection::vec((0..40_u64, 0..12_u64, 0..4_u8), 0..20),
            asked in (0..50_u64, 0..20_u64),
        ) {
            let (mut put, mut joined) = (Overlay::default(), Overlay::default());
            let mut model = [None; 60];
            for (offset, len, value) in ranges {
                let extent = Extent::new(offset, len);
                match value {
                    0 => {
                        put.take(extent);
                        joined.take(extent);
                    }
                    value => {
                        put.put(extent, value);
                        joined.join(extent, value);
                    }
                }
                let value = Some(value).filter(|value| *value > 0);
                model[offset as usize..(offset + len) as usize].fill(value);
            }
            let asked = Extent::new(asked.0, asked.1);
            for overlay in [&put, &joined] {
                let mut found = [None; 60];
                let mut last = 0;
                for (part, value) in overlay.iter() {
                    prop_assert!(part.offset >= last && !part.is_empty());
                    last = part.end();
                    found[part.offset as usize..part.end() as usize].fill(Some(value));
                }
                prop_assert_eq!(found, model);
                let within: Vec<_> = overlay.within(asked).collect();
                let whole = overlay.iter().map(|(part, value)| (part.intersect(asked), value));
                let whole: Vec<_> = whole.filter(|(part, _)| !part.is_empty()).collect();
                prop_assert_eq!(within, whole);
                prop_assert_eq!(overlay.len(), overlay.iter().count());
            }
            let all: Vec<_> = joined.into_ranges().collect();
            let touch = |pair: &[(Extent, u8)]| {
                pair[0].0.end() == pair[1].0.offset && pair[0].1 == pair[1].1
            };
            prop_assert!(!all.windows(2).any(touch));
        }
    }
}
