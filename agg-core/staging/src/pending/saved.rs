//! The pending bytes that are in the file already, because this rank wrote them by itself.

use super::pieces::Piece;
use aggio_base::extent::Extent;

/// The bytes at the first positions, but for those of `left`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Saved {
    /// The first position that is not saved.
    upto: u64,
    left: Extent,
}

impl Saved {
    /// All bytes before position `upto` that are not in `left`.
    pub(super) fn upto(upto: u64, left: Extent) -> Self {
        Self { upto, left }
    }

    /// Whether nothing is.
    pub(super) fn is_empty(&self) -> bool {
        self.upto == 0
    }

    /// The position of the first byte to be written, if everything from there on and nothing before
    /// is to be written; saved bytes are written again in `again` only.
    pub(super) fn begins_at(&self, again: &[Extent]) -> Option<u64> {
        let nothing_before = self.is_empty() || (self.left.is_empty() && again.is_empty());
        nothing_before.then_some(self.upto)
    }

    /// Takes in the saved bytes behind `position`. Saved bytes behind unsaved ones count as
    /// unsaved: they are written once more.
    pub(super) fn append(&mut self, position: u64, newer: &Saved) {
        if self.upto == position && (self.left.is_empty() || newer.left == self.left) {
            *self = Self { upto: position + newer.upto, left: newer.left };
        }
    }

    /// The parts of a piece that are not saved.
    pub(super) fn unsaved(&self, piece: Piece) -> impl Iterator<Item = Piece> + use<> {
        let behind = (piece.end() > self.upto)
            .then(|| piece.part(piece.position.max(self.upto), piece.end()));
        let left = self.early(piece).and_then(|early| early.within(self.left));
        left.into_iter().chain(behind)
    }

    /// The parts of a piece that are.
    pub(super) fn saved(&self, piece: Piece) -> impl Iterator<Item = Piece> + use<> {
        let sides =
            [Extent::between(0, self.left.offset), Extent::between(self.left.end(), u64::MAX)];
        let early = self.early(piece);
        sides.into_iter().filter_map(move |side| early.and_then(|early| early.within(side)))
    }

    /// The part of a piece at the first positions.
    fn early(&self, piece: Piece) -> Option<Piece> {
        (piece.position < self.upto).then(|| piece.part(piece.position, piece.end().min(self.upto)))
    }
}
