//! Where in memory the data of a rank lie.

use crate::layout::{Dimension, Layout, Piece};

/// The memory side of a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// One contiguous buffer.
    #[default]
    Contiguous,
    /// Blocks of `block` bytes with `gap` bytes between them; the last block may be shorter.
    Blocks {
        /// Bytes of a block.
        block: u64,
        /// Bytes between blocks.
        gap: u64,
    },
    /// `first` bytes, a gap, the rest: two separate allocations.
    Split {
        /// Bytes before the gap.
        first: u64,
        /// Bytes of the gap.
        gap: u64,
    },
    /// The local array has this many ghost cells on both sides of each dimension.
    Ghost {
        /// In elements.
        cells: u64,
    },
}

impl Memory {
    /// The layout of `bytes` bytes of data that the filetype `file` shows.
    pub(crate) fn layout(self, bytes: u64, file: &Layout) -> Layout {
        match self {
            Memory::Contiguous => Layout::Contiguous { bytes },
            Memory::Blocks { block, gap } => blocks(bytes, block, gap),
            Memory::Split { first, gap } if first < bytes => Layout::List(vec![
                Piece { offset: 0, len: first },
                Piece { offset: first + gap, len: bytes - first },
            ]),
            Memory::Split { .. } => Layout::Contiguous { bytes },
            Memory::Ghost { cells } => ghost(file, cells),
        }
    }
}

fn blocks(bytes: u64, block: u64, gap: u64) -> Layout {
    let (count, rest) = (bytes / block, bytes % block);
    let whole = Layout::Strided { block, stride: block + gap, count };
    if rest == 0 {
        return whole;
    }
    let tail = (count * (block + gap), Layout::Contiguous { bytes: rest });
    if count == 0 { tail.1 } else { Layout::Sequence(vec![(0, whole), tail]) }
}

/// The part of a subarray as the inside of a local array.
fn ghost(file: &Layout, cells: u64) -> Layout {
    let Layout::Subarray { dimensions, element } = file else {
        return Layout::Contiguous { bytes: file.bytes() };
    };
    let around = |dimension: &Dimension| Dimension {
        size: dimension.part + 2 * cells,
        part: dimension.part,
        start: cells,
    };
    Layout::Subarray { dimensions: dimensions.iter().map(around).collect(), element: *element }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_memory_holds_all_bytes() {
        let file = Layout::Contiguous { bytes: 100 };
        for memory in [
            Memory::Contiguous,
            Memory::Blocks { block: 7, gap: 3 },
            Memory::Blocks { block: 10, gap: 1 },
            Memory::Blocks { block: 200, gap: 1 },
            Memory::Split { first: 16, gap: 16 },
            Memory::Split { first: 160, gap: 16 },
        ] {
            assert_eq!(memory.layout(100, &file).bytes(), 100, "{memory:?}");
        }
        let dimensions = vec![Dimension { size: 9, part: 4, start: 5 }; 2];
        let file = Layout::Subarray { dimensions, element: 8 };
        let local = Memory::Ghost { cells: 2 }.layout(128, &file);
        assert_eq!((local.bytes(), local.span(), local.pieces()), (128, 8 * 64, 4));
    }
}
