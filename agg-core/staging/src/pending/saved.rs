//! Which of the bytes that are kept are in the file already, because this rank wrote them by
//! itself.

use super::pieces::Piece;
use aggio_base::extent::Extent;

/// The bytes at the first positions, but for those of `left`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Saved {
    /// The first position whose byte is not saved.
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

    /// The position from which on everything is to be written, and nothing before, if what is saved
    /// is written again in `again` only.
    pub(super) fn begins_at(&self, again: &[Extent]) -> Option<u64> {
        let nothing_before = self.is_empty() || (self.left.is_empty() && again.is_empty());
        nothing_before.then_some(self.upto)
    }

    /// Takes in what is saved of the bytes behind `position`. What is saved behind bytes that are
    /// not counts as not saved: it is written once more.
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

    /// What is at the first positions of it.
    fn early(&self, piece: Piece) -> Option<Piece> {
        (piece.position < self.upto).then(|| piece.part(piece.position, piece.end().min(self.upto)))
    }
}
