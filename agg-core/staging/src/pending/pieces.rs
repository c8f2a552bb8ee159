//! The pending bytes in the order of the file, each byte once.

use super::run::Run;
use aggio_base::extent::Extent;
use aggio_base::overlay::Overlay;

/// Bytes that are kept from `position` on, and where they belong in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) extent: Extent,
    pub(super) position: u64,
}

impl Piece {
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
    (outside(runs, last), inside.map(Run::one).collect())
}

/// The parts of `runs` that are not in `extent`.
pub(super) fn outside(runs: &[Run], extent: Extent) -> Vec<Run> {
    let mut left = Vec::with_capacity(runs.len());
    for run in runs {
        if run.span().intersect(extent).is_empty() {
            left.push(*run);
            continue;
        }
        for piece in run.pieces() {
            let Extent { offset, .. } = piece.extent;
            let before = Extent::between(offset, extent.offset.max(offset));
            let behind = Extent::between(extent.end(), piece.extent.end().max(extent.end()));
            let both = [before, behind].into_iter().filter_map(|side| piece.within(side));
            left.extend(both.map(Run::one));
        }
    }
    left
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
