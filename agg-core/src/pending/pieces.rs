//! Pieces in the order of the file, each byte once.

use super::overlay::Overlay;
use super::saved::Saved;
use crate::extent::Extent;

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
        let before = extent.offset.saturating_sub(self.extent.offset);
        (!extent.is_empty()).then_some(Piece { extent, position: self.position + before })
    }
}

/// The pieces in ascending order; of those that overlap, the later one counts.
pub(super) fn ascending(pieces: impl Iterator<Item = Piece>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = pieces.collect();
    let apart =
        |all: &[Piece]| all.windows(2).all(|two| two[0].extent.end() <= two[1].extent.offset);
    if apart(&pieces) {
        return pieces;
    }
    pieces.sort_by_key(|piece| piece.extent.offset);
    if apart(&pieces) { pieces } else { newest(&mut pieces) }
}

/// The parts of `pieces` that are not in `last`, and those that are.
pub(super) fn apart(pieces: &[Piece], last: Extent) -> (Vec<Piece>, Vec<Piece>) {
    (outside(pieces, &[last]), pieces.iter().filter_map(|piece| piece.within(last)).collect())
}

/// The parts of `pieces` that are not in `extents`, which are in order and apart.
pub(super) fn outside(pieces: &[Piece], extents: &[Extent]) -> Vec<Piece> {
    let mut left = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let mut from = piece.extent.offset;
        for extent in touching(extents, piece.extent) {
            left.extend(piece.within(Extent::between(from, extent.offset.max(from))));
            from = extent.end();
        }
        left.extend(piece.within(Extent::between(from, piece.extent.end().max(from))));
    }
    left
}

/// The parts of `pieces` that are not saved, and of the others those in `again`, whose extents are in order and apart.
pub(super) fn chosen(pieces: &[Piece], saved: &Saved, again: &[Extent]) -> Vec<Piece> {
    let mut all = Vec::with_capacity(pieces.len());
    for piece in pieces {
        all.extend(saved.unsaved(*piece));
        for part in saved.saved(*piece) {
            all.extend(touching(again, part.extent).filter_map(|extent| part.within(extent)));
        }
    }
    all.sort_by_key(|piece| piece.extent.offset);
    all
}

/// Those of `extents`, in order and apart, that have bytes of `extent`.
fn touching(extents: &[Extent], extent: Extent) -> impl Iterator<Item = Extent> {
    let first = extents.partition_point(|other| other.end() <= extent.offset);
    let touches = move |other: &Extent| other.offset < extent.end();
    let with_bytes = extents[first..].iter().copied().take_while(touches);
    with_bytes.filter(|other| !other.is_empty())
}

/// Pieces sorted by their starts: of bytes in several of them those of the last position count. Only where some overlap
/// is more done than looking at them: mostly that is a header that was written again.
fn newest(sorted: &mut [Piece]) -> Vec<Piece> {
    let mut all = Vec::with_capacity(sorted.len());
    let mut rest = sorted;
    while let Some(first) = rest.first() {
        let mut end = first.extent.end();
        let meets = |piece: &&Piece| {
            let meets = piece.extent.offset < end;
            end = end.max(piece.extent.end());
            meets
        };
        let count = 1 + rest[1..].iter().take_while(meets).count();
        let (together, behind) = std::mem::take(&mut rest).split_at_mut(count);
        rest = behind;
        if let [one] = together {
            all.push(*one);
            continue;
        }
        together.sort_by_key(|piece| piece.position);
        let mut overlay = Overlay::default();
        together.iter().for_each(|piece| overlay.put(piece.extent, *piece));
        all.extend(overlay.into_ranges().filter_map(|(extent, piece)| piece.within(extent)));
    }
    all
}
