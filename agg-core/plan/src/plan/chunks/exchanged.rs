//! The parts of the file that go through aggregators in a call; each rank moves the rest itself.

use aggio_base::Extent;

/// Ranges of the file, in order, not empty, with bytes between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchanged(Vec<Extent>);

impl Exchanged {
    /// These ranges, which ascend and do not overlap.
    pub(super) fn new(parts: Vec<Extent>) -> Self {
        let mut all: Vec<Extent> = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            match all.last_mut() {
                Some(last) if last.end() == part.offset => {
                    *last = Extent::between(last.offset, part.end());
                }
                _ => all.push(part),
            }
        }
        Self(all)
    }

    /// Whether nothing of a call goes through aggregators.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all of `extent` does.
    pub fn covers(&self, extent: Extent) -> bool {
        self.rest(extent).next().is_none()
    }

    /// Whether the byte at `offset` does.
    pub fn has(&self, offset: u64) -> bool {
        self.touches(Extent::new(offset, 1))
    }

    /// Whether a byte of `extent` does.
    #[inline]
    pub fn touches(&self, extent: Extent) -> bool {
        self.parts(extent).next().is_some()
    }

    /// The parts of `extent` that go through aggregators, in order.
    #[inline]
    pub fn parts(&self, extent: Extent) -> impl Iterator<Item = Extent> + use<'_> {
        let first = self.0.partition_point(|part| part.end() <= extent.offset);
        let parts = self.0[first..].iter().map(move |part| part.intersect(extent));
        parts.take_while(|part| !part.is_empty())
    }

    /// The parts of `extent` that do not go through aggregators, in order.
    pub fn rest(&self, extent: Extent) -> impl Iterator<Item = Extent> + use<'_> {
        let last = Extent::new(extent.end(), 0);
        let mut at = extent.offset;
        let gaps = self.parts(extent).chain([last]).map(move |part| {
            let gap = Extent::between(at, part.offset);
            at = part.end();
            gap
        });
        gaps.filter(|gap| !gap.is_empty())
    }

    /// All ranges start and end at multiples of 2 to this power, but for the ends of `hull`.
    pub fn grain(&self, hull: Extent) -> u32 {
        let ends = self.0.iter().flat_map(|part| [part.offset, part.end()]);
        let inner = ends.filter(|end| *end > hull.offset && *end < hull.end());
        inner.map(u64::trailing_zeros).min().unwrap_or(63)
    }
}
