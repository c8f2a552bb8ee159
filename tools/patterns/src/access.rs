//! The access of one rank: its view of the file, its memory, and its calls.

use crate::layout::{Layout, Piece};

/// A file view, as `MPI_File_set_view` takes it: the filetype again and again from the displacement
/// on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Offset in the file at which the first filetype begins.
    pub displacement: u64,
    /// The visible bytes of one repetition.
    pub filetype: Layout,
    /// Bytes from one repetition to the next; at least the span of the filetype.
    pub extent: u64,
}

impl View {
    /// All bytes of the file from `displacement` on.
    pub fn contiguous(displacement: u64) -> Self {
        View { displacement, filetype: Layout::Contiguous { bytes: 1 }, extent: 1 }
    }

    /// Whether every byte from the displacement on is visible.
    pub fn is_contiguous(&self) -> bool {
        matches!(self.filetype, Layout::Contiguous { bytes } if bytes == self.extent)
    }

    /// Calls `visit` for each piece of the file that holds the visible bytes
    /// `position .. position + bytes`.
    pub fn for_each_piece(&self, position: u64, bytes: u64, visit: &mut dyn FnMut(Piece)) {
        if bytes == 0 {
            return;
        }
        if self.is_contiguous() {
            return visit(Piece { offset: self.displacement + position, len: bytes });
        }
        let in_one = self.filetype.bytes();
        let (mut skip, mut left) = (position % in_one, bytes);
        let mut repetition = position / in_one;
        while left > 0 {
            let base = self.displacement + repetition * self.extent;
            self.filetype.for_each_piece(base, &mut |piece| {
                let skipped = skip.min(piece.len);
                let len = (piece.len - skipped).min(left);
                if len > 0 {
                    visit(Piece { offset: piece.offset + skipped, len });
                }
                skip -= skipped;
                left -= len;
            });
            repetition += 1;
        }
    }
}

/// One read or write with an explicit offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Visible bytes of the view before the first one that moves.
    pub position: u64,
    /// How many bytes move.
    pub bytes: u64,
}

/// All that one rank does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Its view of the file.
    pub view: View,
    /// Its data in memory, in the order in which the calls take them. Not contiguous only if there
    /// is one call.
    pub memory: Layout,
    /// Its calls; every rank makes the same number of them.
    pub calls: Vec<Call>,
}

impl Access {
    /// How many bytes it moves.
    pub fn bytes(&self) -> u64 {
        self.calls.iter().map(|call| call.bytes).sum()
    }

    /// Calls `visit` for each piece of the file, in the order of the data.
    pub fn for_each_file_piece(&self, visit: &mut dyn FnMut(Piece)) {
        for call in &self.calls {
            self.view.for_each_piece(call.position, call.bytes, visit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_cut_where_a_call_begins_and_ends() {
        let filetype = Layout::Strided { block: 3, stride: 5, count: 2 };
        let view = View { displacement: 10, filetype, extent: 20 };
        let mut found = Vec::new();
        view.for_each_piece(4, 7, &mut |piece| found.push((piece.offset, piece.len)));
        assert_eq!(found, [(16, 2), (30, 3), (35, 2)]);
        found.clear();
        View::contiguous(7)
            .for_each_piece(3, 5, &mut |piece| found.push((piece.offset, piece.len)));
        assert_eq!(found, [(10, 5)]);
    }
}
