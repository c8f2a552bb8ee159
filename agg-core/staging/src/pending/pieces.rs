//! The pending bytes in the order of the file, each byte once.

use super::run::Run;
use super::saved::Saved;
use aggio_base::extent::Extent;
use aggio_base::overlay::Overlay;

/// Bytes that are kept from `position` on, and where they belong in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) extent: Extent,
    pub(super) position: u64,
}

impl Piece {
    /// The position behind the last byte.
    pub(super) fn end(&self) -> u64 {
        self.position + self.extent.len
    }

    /// Its bytes at the positions from `from` to `to`, which are its own.
    pub(super) fn part(&self, from: u64, to: u64) -> Piece {
        let offset = self.extent.offset + (from - self.position);
        Piece { extent: Extent::new(offset, to - from), position: from }
    }

    /// Its bytes in `extent`, which are none or in one piece.
    pub(super) fn within(&self, extent: Extent) -> Option<Piece> {
        let extent = self.extent.intersect(extent);
        // An extent without bytes may be anywhere.
        let position = || self.position + (extent.offset - self.extent.offset);
        (!extent.is_empty()).then(|| Piece { extent, position: position() })
    }
}

/// The runs in ascending order, each byte of the file once: of several, that at the last position.
/// Only where some overlap are their pieces looked at: mostly that is a header that was written
/// again.
pub(super) fn ascending(runs: impl Iterator<Item = Run>) -> Vec<Run> {
    let mut runs: Vec<Run> = runs.collect();
    runs.sort_by_key(|run| run.span().offset);
    let mut all = Vec::with_capacity(runs.len());
    each_meeting(&mut runs, Run::span, |together| match together {
        [one] if one.is_ascending() => all.push(*one),
        _ => {
            let mut pieces: Vec<Piece> = together.iter().flat_map(Run::pieces).collect();
            pieces.sort_by_key(|piece| piece.extent.offset);
            each_meeting(&mut pieces, |piece| piece.extent, |together| newest(together, &mut all));
        }
    });
    all
}

/// The parts of `runs` that are not in `last`, and those that are.
pub(super) fn apart(runs: &[Run], last: Extent) -> (Vec<Run>, Vec<Run>) {
    let touch = runs.iter().filter(|run| !run.span().intersect(last).is_empty());
    let inside = touch.flat_map(Run::pieces).filter_map(|piece| piece.within(last));
    (outside(runs, &[last]), inside.map(Run::one).collect())
}

/// The parts of `runs` that are not in `extents`, which are in order and apart.
pub(super) fn outside(runs: &[Run], extents: &[Extent]) -> Vec<Run> {
    let mut left = Vec::with_capacity(runs.len());
    for run in runs {
        if touching(extents, run.span()).next().is_none() {
            left.push(*run);
            continue;
        }
        for piece in run.pieces() {
            let mut from = piece.extent.offset;
            for extent in touching(extents, piece.extent) {
                let before = piece.within(Extent::between(from, extent.offset.max(from)));
                left.extend(before.map(Run::one));
                from = extent.end();
            }
            let behind = piece.within(Extent::between(from, piece.extent.end().max(from)));
            left.extend(behind.map(Run::one));
        }
    }
    left
}

/// The parts of `runs` that are not saved, and the saved parts in `again`, which has extents in
/// order and apart.
pub(super) fn chosen(runs: &[Run], saved: &Saved, again: &[Extent]) -> Vec<Run> {
    let mut all = Vec::with_capacity(runs.len());
    for piece in runs.iter().flat_map(Run::pieces) {
        all.extend(saved.unsaved(piece).map(Run::one));
        for part in saved.saved(piece) {
            let parts = touching(again, part.extent).filter_map(|extent| part.within(extent));
            all.extend(parts.map(Run::one));
        }
    }
    all.sort_by_key(|run| run.strip.start);
    all
}

/// Those of `extents`, in order and apart, that have bytes of `extent`.
fn touching(extents: &[Extent], extent: Extent) -> impl Iterator<Item = Extent> {
    let first = extents.partition_point(|other| other.end() <= extent.offset);
    let touches = move |other: &Extent| other.offset < extent.end();
    let with_bytes = extents[first..].iter().copied().take_while(touches);
    with_bytes.filter(|other| !other.is_empty())
}

/// Calls `act` with those of `sorted`, in the order of their starts, that overlaps connect.
fn each_meeting<T>(sorted: &mut [T], extent: impl Fn(&T) -> Extent, mut act: impl FnMut(&mut [T])) {
    let mut rest = sorted;
    while let Some(first) = rest.first() {
        let mut end = extent(first).end();
        let meets = |one: &&T| {
            let meets = extent(one).offset < end;
            end = end.max(extent(one).end());
            meets
        };
        let count = 1 + rest[1..].iter().take_while(meets).count();
        let (together, behind) = std::mem::take(&mut rest).split_at_mut(count);
        rest = behind;
        act(together);
    }
}

/// Adds the parts of some pieces that pieces at later positions do not cover.
fn newest(together: &mut [Piece], all: &mut Vec<Run>) {
    if let [one] = together {
        all.push(Run::one(*one));
        return;
    }
    together.sort_by_key(|piece| piece.position);
    let mut overlay = Overlay::default();
    together.iter().for_each(|piece| overlay.put(piece.extent, *piece));
    let left = overlay.into_ranges().filter_map(|(extent, piece)| piece.within(extent));
    all.extend(left.map(Run::one));
}
