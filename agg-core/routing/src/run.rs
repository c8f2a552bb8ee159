//! Extents of equal length at equal distances, as one value.

use aggio_base::Extent;

/// `count` extents of `len` bytes, the first at `start`, each `stride` bytes after the one before.
///
/// They do not touch: `stride > len` where there are two or more. None is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    /// The first byte.
    pub start: u64,
    /// Bytes of an extent.
    pub len: u64,
    /// From the start of an extent to that of the next; `len` where there is one.
    pub stride: u64,
    /// Number of extents.
    pub count: u64,
}

impl Run {
    /// One extent.
    pub fn one(extent: Extent) -> Self {
        Self { start: extent.offset, len: extent.len, stride: extent.len, count: 1 }
    }

    /// The `at`-th extent.
    pub fn piece(&self, at: u64) -> Extent {
        Extent::new(self.start + at * self.stride, self.len)
    }

    /// All extents.
    pub fn pieces(self) -> impl Iterator<Item = Extent> {
        (0..self.count).map(move |at| self.piece(at))
    }

    /// From the first byte to the last.
    pub fn hull(&self) -> Extent {
        Extent::between(self.start, self.piece(self.count - 1).end())
    }

    /// Bytes of all extents.
    pub fn bytes(&self) -> u64 {
        self.len * self.count
    }

    /// The extents that have bytes in `range`, from the first up to but not including the last.
    fn touched(&self, range: Extent) -> (u64, u64) {
        if range.is_empty() || range.end() <= self.start {
            return (0, 0);
        }
        // The first that ends behind the start of the range.
        let before = (range.offset + 1).saturating_sub(self.start + self.len);
        let first = before.div_ceil(self.stride);
        let last = (range.end() - self.start).div_ceil(self.stride);
        (first.min(self.count), last.min(self.count))
    }

    /// The first byte of the run at `offset` or behind it; the end of the run if there is none.
    pub(crate) fn next_byte(&self, offset: u64) -> u64 {
        let (first, _) = self.touched(Extent::between(offset, u64::MAX));
        match first < self.count {
            true => self.piece(first).offset.max(offset),
            false => self.hull().end().max(offset),
        }
    }

    /// The bytes that lie in `range`: at most three runs, in file order.
    pub fn clip(&self, range: Extent) -> impl Iterator<Item = Run> + use<> {
        let (first, last) = self.touched(range);
        let mut parts = [None; 3];
        if first < last {
            let cut = |at: u64| self.piece(at).intersect(range);
            let is_cut = |at: u64| cut(at).len < self.len;
            let (mut from, mut to) = (first, last);
            if is_cut(first) {
                parts[0] = Some(Run::one(cut(first)));
                from += 1;
            }
            if last - 1 > first && is_cut(last - 1) {
                parts[2] = Some(Run::one(cut(last - 1)));
                to -= 1;
            }
            if from < to {
                let count = to - from;
                let stride = if count == 1 { self.len } else { self.stride };
                parts[1] = Some(Run { start: self.piece(from).offset, stride, count, ..*self });
            }
        }
        parts.into_iter().flatten().filter(|run| run.len > 0)
    }

    /// The extents that both have, in file order.
    pub(crate) fn intersect(self, other: Run) -> impl Iterator<Item = Extent> {
        // Walk along the one that has fewer extents where both are.
        let hull = self.hull().intersect(other.hull());
        let number = |run: &Run| {
            let (first, last) = run.touched(hull);
            last.saturating_sub(first)
        };
        let (few, many) =
            if number(&self) <= number(&other) { (self, other) } else { (other, self) };
        let (first, last) = few.touched(hull);
        let pieces = (first..last).flat_map(move |at| many.clip(few.piece(at)));
        pieces.flat_map(Run::pieces)
    }
}

/// Extents in file order, which do not overlap, as runs; extents that touch become one.
pub fn compress(extents: impl IntoIterator<Item = Extent>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut open: Option<Extent> = None;
    for extent in extents.into_iter().filter(|extent| !extent.is_empty()) {
        match &mut open {
            Some(last) if last.end() == extent.offset => last.len += extent.len,
            _ => {
                if let Some(last) = open.replace(extent) {
                    append(&mut runs, last);
                }
            }
        }
    }
    if let Some(last) = open {
        append(&mut runs, last);
    }
    runs
}

/// Adds an extent behind all others.
fn append(runs: &mut Vec<Run>, extent: Extent) {
    if let Some(last) = runs.last_mut().filter(|last| last.len == extent.len) {
        if last.count == 1 && extent.offset > last.start + last.len {
            last.stride = extent.offset - last.start;
            last.count = 2;
            return;
        }
        if last.count > 1 && last.start.checked_add(last.count * last.stride) == Some(extent.offset)
        {
            last.count += 1;
            return;
        }
    }
    runs.push(Run::one(extent));
}

/// All extents of `runs`.
pub fn pieces(runs: &[Run]) -> impl Iterator<Item = Extent> {
    runs.iter().flat_map(|run| run.pieces())
}
