//! Pieces of one length at equal distances, kept together.

use super::pieces::Piece;
use aggio_base::extent::Extent;
use aggio_container::blob::Strip;

/// Pieces of the file with bytes behind each other in one part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) strip: Strip,
    /// The position of the first byte.
    pub(super) position: u64,
}

impl Run {
    /// A single piece.
    pub(super) fn one(piece: Piece) -> Self {
        Self { strip: Strip::one(piece.extent), position: piece.position }
    }

    /// Whether it is a single piece.
    pub(super) fn is_one(&self) -> bool {
        self.strip.count == 1
    }

    /// Takes in a piece if it continues these in the file; its bytes lie behind theirs.
    pub(super) fn extend(&mut self, extent: Extent) -> bool {
        if self.is_one() && self.strip.start + self.strip.length == extent.offset {
            self.strip.length += extent.len;
            return true;
        }
        self.strip.extend(extent)
    }

    /// Bytes of all pieces.
    pub(super) fn len(&self) -> u64 {
        self.strip.length * self.strip.count
    }

    /// From the first byte of the file to the last.
    pub(super) fn span(&self) -> Extent {
        let Strip { start, length, stride, count } = self.strip;
        let last = start.wrapping_add_signed(stride * (count - 1) as i64);
        Extent::between(start.min(last), start.max(last) + length)
    }

    /// Whether each piece lies behind the one before it.
    pub(super) fn is_ascending(&self) -> bool {
        self.is_one() || self.strip.stride > 0
    }

    /// The pieces in the order of their positions.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Piece> + use<> {
        let Run { strip: Strip { start, length, stride, count }, position } = *self;
        (0..count).map(move |number| Piece {
            extent: Extent::new(start.wrapping_add_signed(stride * number as i64), length),
            position: position + number * length,
        })
    }
}
