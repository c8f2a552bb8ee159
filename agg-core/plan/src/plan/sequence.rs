//! The order in which windows pass: the first of every file domain, then the second of every, ...

use super::Domains;
use aggio_base::Extent;

/// Numbered windows of equal size, at multiples of their size, cut at the borders of file domains.
/// A number beyond the windows of its domain stands for an empty window.
#[derive(Clone, Debug)]
pub struct Sequence {
    domains: Domains,
    size: u64,
    /// Windows of the domain that has most.
    rounds: u64,
}

impl Sequence {
    /// The windows of `domains`; `size` is at least 1.
    #[inline]
    pub fn new(domains: Domains, size: u64) -> Self {
        let mut new = Self { domains, size, rounds: 0 };
        new.rounds =
            (0..new.domains.count()).map(|domain| new.windows_of(domain)).max().unwrap_or(0);
        new
    }

    /// The file domains.
    #[inline]
    pub fn domains(&self) -> Domains {
        self.domains.clone()
    }

    /// Whether these are the windows of `then`, all of them `shift` bytes further on, counted
    /// modulo 2^64.
    #[inline]
    pub fn are_shifted(&self, then: &Self, shift: u64) -> bool {
        let phase = |windows: &Self| windows.domains.extent(0).offset % windows.size;
        let alike = self.size == then.size && phase(self) == phase(then);
        alike && self.domains.are_shifted(&then.domains, shift)
    }

    /// Largest number of bytes of a window.
    #[inline]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Number of windows.
    #[inline]
    pub fn count(&self) -> u64 {
        self.rounds.saturating_mul(self.domains.count() as u64)
    }

    /// Borders between windows lie at multiples of 2 to this power.
    #[inline]
    pub fn grain(&self) -> u32 {
        let inner = (1..self.domains.count()).map(|domain| self.domains.extent(domain).offset);
        inner.map(u64::trailing_zeros).min().unwrap_or(63).min(self.size.trailing_zeros())
    }

    /// Number of windows of file domain `domain`.
    #[inline]
    pub fn windows_of(&self, domain: usize) -> u64 {
        let extent = self.domains.extent(domain);
        if extent.is_empty() { 0 } else { self.index(extent, extent.end() - 1) + 1 }
    }

    /// The place of the window with byte `offset` among those of its domain; `domain` is the
    /// domain's extent.
    #[inline]
    pub fn index(&self, domain: Extent, offset: u64) -> u64 {
        offset / self.size - domain.offset / self.size
    }

    /// The file domain of window `window`.
    #[inline]
    pub fn domain(&self, window: u32) -> usize {
        window as usize % self.domains.count().max(1)
    }

    /// The bytes of file domain `domain`; empty if there is none.
    #[inline]
    pub fn domain_extent(&self, domain: usize) -> Extent {
        self.domains.extent(domain)
    }

    /// The bytes of window `window`.
    #[inline]
    pub fn extent(&self, window: u32) -> Extent {
        let domains = self.domains.count().max(1) as u64;
        let (round, domain) = (u64::from(window) / domains, u64::from(window) % domains);
        let domain = self.domains.extent(domain as usize);
        let Some(start) = (domain.offset / self.size)
            .checked_add(round)
            .and_then(|index| index.checked_mul(self.size))
        else {
            return Extent::default();
        };
        Extent::new(start, self.size).intersect(domain)
    }

    /// The windows that have bytes of `span`, in order. Keeps no list of them.
    pub fn touched_by(&self, span: Extent) -> impl Iterator<Item = u32> + use<> {
        let this = self.clone();
        let touched = self.domains.touched_by(span);
        let rounds = move |domain: usize| {
            let extent = this.domains.extent(domain);
            let part = span.intersect(extent);
            this.index(extent, part.offset)..=this.index(extent, part.end() - 1)
        };
        let first = touched.clone().map(|domain| *rounds(domain).start()).min().unwrap_or(1);
        let last = touched.clone().map(|domain| *rounds(domain).end()).max().unwrap_or(0);
        let domains = self.domains.count() as u64;
        (first..=last).flat_map(move |round| {
            let rounds = rounds.clone();
            let here = touched.clone().filter(move |domain| rounds(*domain).contains(&round));
            here.map(move |domain| (round * domains + domain as u64) as u32)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn windows_cover_every_byte_once_and_a_span_touches_exactly_its_windows(
            start in 0..10_000u64, len in 1..5000u64, aggregators in 1..6usize,
            alignment in 1..700u64, size in 1..900u64, at in 0..5000u64, part in 1..5000u64,
        ) {
            let hull = Extent::new(start, len);
            let windows = Sequence::new(Domains::new(hull, aggregators, alignment, 0), size);
            let all: Vec<Extent> = (0..windows.count() as u32).map(|w| windows.extent(w)).collect();
            prop_assert!(all.iter().all(|window| window.len <= size));
            let mut sorted: Vec<_> = all.iter().filter(|w| !w.is_empty()).collect();
            sorted.sort_by_key(|window| window.offset);
            let mut next = start;
            for window in sorted {
                prop_assert_eq!(window.offset, next);
                next = window.end();
                let inner = window.end() < hull.end();
                prop_assert!(!inner || window.end().is_multiple_of(1 << windows.grain()));
            }
            prop_assert_eq!(next, hull.end());
            let span = Extent::new(start + at % len, part).intersect(hull);
            let wanted: Vec<u32> = (0..windows.count() as u32)
                .filter(|w| !all[*w as usize].intersect(span).is_empty())
                .collect();
            prop_assert_eq!(windows.touched_by(span).collect::<Vec<_>>(), wanted);
        }
    }
}
