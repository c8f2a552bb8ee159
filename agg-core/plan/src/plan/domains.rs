//! File domains: the part of the file of each aggregator in one call.

use super::borders::{self, Guide};
use aggio_base::Extent;
use std::ops::Range;
use std::sync::Arc;

/// Equal parts of a range of the file, with borders at multiples of the file system's unit.
///
/// A formula, not a list: every rank computes every border by itself. If the file's format is known
/// there is a list, one border for each aggregator, which every rank computes by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domains {
    hull: Extent,
    /// Where domain 0 would start if it started at a multiple of the alignment.
    origin: u64,
    /// Distance between borders; a multiple of the alignment.
    stride: u64,
    count: usize,
    /// Inner borders that follow the things in the file, instead of the formula.
    borders: Option<Arc<[u64]>>,
}

impl Domains {
    /// At most `aggregators` domains that cover `hull`, each of at least `least` bytes except at
    /// the ends, with inner borders at multiples of `alignment` (0 counts as 1).
    #[inline]
    pub fn new(hull: Extent, aggregators: usize, alignment: u64, least: u64) -> Self {
        let alignment = alignment.max(1);
        let origin = hull.offset - hull.offset % alignment;
        let length = hull.end() - origin;
        let even = length.div_ceil(aggregators.max(1) as u64).max(least).max(1);
        let stride = even.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
        let count = if hull.is_empty() { 0 } else { length.div_ceil(stride) as usize };
        Self { hull, origin, stride, count, borders: None }
    }

    /// As many domains at most, with inner borders near these where the things in the file have
    /// theirs.
    #[inline]
    pub fn following(mut self, guide: Guide<'_>) -> Self {
        if self.count > 1 {
            let even = (1..self.count).map(|domain| self.extent(domain).offset);
            let borders: Arc<[u64]> = borders::moved(guide, self.hull, even, self.stride).into();
            (self.count, self.borders) = (borders.len() + 1, Some(borders));
        }
        self
    }

    /// Whether these are the domains of `then`, all of them `shift` bytes further on, counted
    /// modulo 2^64.
    #[inline]
    pub fn are_shifted(&self, then: &Self, shift: u64) -> bool {
        let moved = |offset: u64| offset.wrapping_add(shift);
        let hull = Extent { offset: moved(then.hull.offset), ..then.hull };
        match (&self.borders, &then.borders) {
            (None, None) => *self == Self { hull, origin: moved(then.origin), ..then.clone() },
            (Some(borders), Some(before)) => {
                self.hull == hull && borders.iter().copied().eq(before.iter().copied().map(moved))
            }
            _ => false,
        }
    }

    /// Number of domains.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The bytes of domain `index`; empty if there is no such domain.
    pub fn extent(&self, index: usize) -> Extent {
        if let Some(borders) = &self.borders {
            let inner = |place: Option<usize>| place.and_then(|place| borders.get(place).copied());
            let start =
                if index == 0 { Some(self.hull.offset) } else { inner(index.checked_sub(1)) };
            let end = inner(Some(index)).unwrap_or(self.hull.end());
            return start.map_or(Extent::default(), |start| Extent::between(start, end));
        }
        let border =
            |i: usize| (i as u64).checked_mul(self.stride).and_then(|n| n.checked_add(self.origin));
        let start = border(index).unwrap_or(u64::MAX);
        let end = index.checked_add(1).and_then(border).unwrap_or(u64::MAX);
        Extent::between(start, end).intersect(self.hull)
    }

    /// The domains that have bytes of `extent`.
    #[inline]
    pub fn touched_by(&self, extent: Extent) -> Range<usize> {
        let extent = extent.intersect(self.hull);
        if extent.is_empty() {
            return 0..0;
        }
        let index = |offset: u64| match &self.borders {
            Some(borders) => borders.partition_point(|border| *border <= offset),
            None => ((offset - self.origin) / self.stride) as usize,
        };
        index(extent.offset)..index(extent.end() - 1) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn inner_borders_are_aligned_and_outer_ones_are_those_of_the_data() {
        let domains = Domains::new(Extent::between(5000, 20_000), 3, 4096, 0);
        let parts: Vec<Extent> = (0..domains.count()).map(|i| domains.extent(i)).collect();
        assert_eq!(parts, [Extent::between(5000, 12_288), Extent::between(12_288, 20_000),]);
    }

    #[test]
    fn small_requests_use_fewer_aggregators() {
        assert_eq!(Domains::new(Extent::new(0, 1000), 8, 1, 600).count(), 2);
        assert_eq!(Domains::new(Extent::new(0, 0), 8, 1, 600).count(), 0);
        assert_eq!(Domains::new(Extent::new(1, 0), 8, 2, 0).count(), 0);
    }

    proptest! {
        #[test]
        fn domains_cover_every_byte_once(
            start in prop_oneof![0..100_000u64, u64::MAX - 100_000..u64::MAX],
            len in 0..50_000u64,
            aggregators in 0..20usize,
            alignment in 0..5000u64,
            least in 0..5000u64,
        ) {
            let hull = Extent::new(start, len);
            let domains = Domains::new(hull, aggregators, alignment, least);
            prop_assert!(domains.count() <= aggregators.max(1));
            let mut at = hull.offset;
            for i in 0..domains.count() {
                let part = domains.extent(i);
                prop_assert!(part.offset == at && !part.is_empty());
                prop_assert_eq!(domains.touched_by(part), i..i + 1);
                at = part.end();
                prop_assert!(at == hull.end() || at.is_multiple_of(alignment.max(1)));
            }
            prop_assert_eq!(at, if domains.count() == 0 { hull.offset } else { hull.end() });
            prop_assert!(domains.extent(domains.count()).is_empty());
            prop_assert_eq!(domains.touched_by(hull), 0..domains.count());
        }
    }
}
