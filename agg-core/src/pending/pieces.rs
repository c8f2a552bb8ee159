//! Pieces in the order of the file, each byte once.

use crate::extent::Extent;
use std::collections::BTreeMap;

/// Bytes in memory, and where they belong in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) extent: Extent,
    pub(super) address: usize,
}

/// The pieces in ascending order; of those that overlap, the later one counts.
pub(super) fn ascending(pieces: impl Iterator<Item = Piece>) -> Vec<Piece> {
    let pieces: Vec<Piece> = pieces.collect();
    let apart =
        |all: &[Piece]| all.windows(2).all(|two| two[0].extent.end() <= two[1].extent.offset);
    if apart(&pieces) {
        return pieces;
    }
    let mut sorted = pieces.clone();
    sorted.sort_by_key(|piece| piece.extent.offset);
    if apart(&sorted) { sorted } else { newest(&pieces) }
}

/// The parts of `pieces` that are not in `last`, and those that are.
pub(super) fn apart(pieces: &[Piece], last: Extent) -> (Vec<Piece>, Vec<Piece>) {
    let part = |piece: &Piece, extent: Extent| {
        let extent = piece.extent.intersect(extent);
        let address = piece.address + extent.offset.saturating_sub(piece.extent.offset) as usize;
        (!extent.is_empty()).then_some(Piece { extent, address })
    };
    let sides = [Extent::between(0, last.offset), Extent::between(last.end(), u64::MAX)];
    let others = |piece| sides.into_iter().filter_map(move |side| part(piece, side));
    (
        pieces.iter().flat_map(others).collect(),
        pieces.iter().filter_map(|piece| part(piece, last)).collect(),
    )
}

/// What is left of each piece when those after it have been put over it.
fn newest(pieces: &[Piece]) -> Vec<Piece> {
    // By their starts.
    let mut all: BTreeMap<u64, Piece> = BTreeMap::new();
    for piece in pieces {
        let Extent { offset: start, .. } = piece.extent;
        let end = piece.extent.end();
        let before = all.range(..start).next_back().map(|(at, _)| *at);
        let touched: Vec<u64> =
            before.into_iter().chain(all.range(start..end).map(|(at, _)| *at)).collect();
        for at in touched {
            let Some(old) = all.remove(&at) else { continue };
            let left = Extent::between(at, old.extent.end().min(start).max(at));
            if !left.is_empty() {
                all.insert(at, Piece { extent: left, address: old.address });
            }
            if old.extent.end() > end {
                let from = end.max(at);
                let right = Extent::between(from, old.extent.end());
                let address = old.address + (from - at) as usize;
                all.insert(from, Piece { extent: right, address });
            }
        }
        all.insert(start, *piece);
    }
    all.into_values().collect()
}
