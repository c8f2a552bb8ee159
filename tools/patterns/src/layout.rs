//! Compact descriptions of scattered bytes.

/// Consecutive bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Of the first byte.
    pub offset: u64,
    /// In bytes; never 0.
    pub len: u64,
}

/// One dimension of a subarray, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Of the whole array.
    pub size: u64,
    /// Of the part.
    pub part: u64,
    /// Where the part begins.
    pub start: u64,
}

/// Bytes in a certain order, their offsets relative to a start that the user of the layout
/// provides.
///
/// Every variant corresponds to one MPI type constructor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `bytes` bytes from offset 0.
    Contiguous {
        /// How many.
        bytes: u64,
    },
    /// `count` blocks of `block` bytes, `stride` bytes from start to start.
    Strided {
        /// Bytes of a block.
        block: u64,
        /// Bytes from the start of a block to the start of the next.
        stride: u64,
        /// Number of blocks.
        count: u64,
    },
    /// A part of an array, the last dimension varying fastest.
    Subarray {
        /// From the slowest to the fastest.
        dimensions: Vec<Dimension>,
        /// Bytes of an element.
        element: u64,
    },
    /// Pieces of any size.
    List(Vec<Piece>),
    /// Layouts at offsets of their own.
    Sequence(Vec<(u64, Layout)>),
}

impl Layout {
    /// How many bytes it holds.
    pub fn bytes(&self) -> u64 {
        match self {
            Layout::Contiguous { bytes } => *bytes,
            Layout::Strided { block, count, .. } => block * count,
            Layout::Subarray { dimensions, element } => {
                element * dimensions.iter().map(|dimension| dimension.part).product::<u64>()
            }
            Layout::List(pieces) => pieces.iter().map(|piece| piece.len).sum(),
            Layout::Sequence(parts) => parts.iter().map(|(_, part)| part.bytes()).sum(),
        }
    }

    /// Bytes from offset 0 to the end of all it lies in; for a subarray that is the whole array.
    pub fn span(&self) -> u64 {
        match self {
            Layout::Contiguous { bytes } => *bytes,
            Layout::Strided { count: 0, .. } => 0,
            Layout::Strided { block, stride, count } => stride * (count - 1) + block,
            Layout::Subarray { dimensions, element } => {
                element * dimensions.iter().map(|dimension| dimension.size).product::<u64>()
            }
            Layout::List(pieces) => {
                pieces.iter().map(|piece| piece.offset + piece.len).max().unwrap_or(0)
            }
            Layout::Sequence(parts) => {
                parts.iter().map(|(offset, part)| offset + part.span()).max().unwrap_or(0)
            }
        }
    }

    /// Calls `visit` for each piece in the layout's order; offsets are counted from `base`.
    pub fn for_each_piece(&self, base: u64, visit: &mut dyn FnMut(Piece)) {
        match self {
            Layout::Contiguous { bytes: 0 } => {}
            Layout::Contiguous { bytes } => visit(Piece { offset: base, len: *bytes }),
            Layout::Strided { block, stride, count } => {
                for index in 0..*count {
                    visit(Piece { offset: base + index * stride, len: *block });
                }
            }
            Layout::Subarray { dimensions, element } => {
                for_each_row(dimensions, *element, base, visit);
            }
            Layout::List(pieces) => {
                for piece in pieces {
                    visit(Piece { offset: base + piece.offset, len: piece.len });
                }
            }
            Layout::Sequence(parts) => {
                for (offset, part) in parts {
                    part.for_each_piece(base + offset, visit);
                }
            }
        }
    }

    /// How many pieces [`Layout::for_each_piece`] visits.
    pub fn pieces(&self) -> u64 {
        let mut count = 0;
        self.for_each_piece(0, &mut |_| count += 1);
        count
    }
}

/// The runs of a subarray; dimensions that are taken whole join the run of the one before them.
fn for_each_row(dimensions: &[Dimension], element: u64, base: u64, visit: &mut dyn FnMut(Piece)) {
    match dimensions {
        [] => visit(Piece { offset: base, len: element }),
        [first, inner @ ..] => {
            let inner_bytes =
                element * inner.iter().map(|dimension| dimension.size).product::<u64>();
            let start = base + first.start * inner_bytes;
            if inner.iter().all(|dimension| dimension.part == dimension.size) {
                if first.part * inner_bytes > 0 {
                    visit(Piece { offset: start, len: first.part * inner_bytes });
                }
                return;
            }
            for index in 0..first.part {
                for_each_row(inner, element, start + index * inner_bytes, visit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(layout: &Layout) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        layout.for_each_piece(100, &mut |piece| found.push((piece.offset, piece.len)));
        assert_eq!(found.iter().map(|(_, len)| len).sum::<u64>(), layout.bytes());
        assert_eq!(found.len() as u64, layout.pieces());
        found
    }

    fn dimension(size: u64, part: u64, start: u64) -> Dimension {
        Dimension { size, part, start }
    }

    #[test]
    fn a_subarray_is_visited_row_by_row() {
        let dimensions = vec![dimension(4, 2, 1), dimension(5, 3, 2)];
        let layout = Layout::Subarray { dimensions, element: 8 };
        assert_eq!(pieces(&layout), [(100 + 8 * 7, 24), (100 + 8 * 12, 24)]);
        assert_eq!(layout.span(), 160);
    }

    #[test]
    fn dimensions_taken_whole_make_one_run() {
        let dimensions = vec![dimension(3, 2, 0), dimension(4, 2, 2), dimension(5, 5, 0)];
        let layout = Layout::Subarray { dimensions, element: 1 };
        assert_eq!(pieces(&layout), [(110, 10), (130, 10)]);
    }

    #[test]
    fn an_empty_part_has_no_piece() {
        for dimensions in [
            vec![dimension(3, 0, 3), dimension(4, 4, 0)],
            vec![dimension(3, 3, 0), dimension(4, 0, 4)],
        ] {
            assert!(pieces(&Layout::Subarray { dimensions, element: 1 }).is_empty());
        }
    }

    #[test]
    fn the_other_layouts_are_visited_in_order() {
        let strided = Layout::Strided { block: 2, stride: 5, count: 2 };
        assert_eq!(pieces(&strided), [(100, 2), (105, 2)]);
        assert_eq!(strided.span(), 7);
        let list = Layout::List(vec![Piece { offset: 9, len: 1 }, Piece { offset: 3, len: 2 }]);
        assert_eq!(pieces(&list), [(109, 1), (103, 2)]);
        let sequence = Layout::Sequence(vec![(50, strided), (0, Layout::Contiguous { bytes: 4 })]);
        assert_eq!(pieces(&sequence), [(150, 2), (155, 2), (100, 4)]);
        assert_eq!(sequence.span(), 57);
    }
}
