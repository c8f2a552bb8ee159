//! The kinds of patterns, and the bytes that each of them gives a rank.

use crate::access::{Call, View};
use crate::grid::{block, dims_create};
use crate::layout::Layout;
use crate::random;

/// Which index of an array varies fastest in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The last one.
    C,
    /// The first one.
    Fortran,
}

/// The distribution of bytes among ranks. The crate's first page explains each kind; all sizes are
/// in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields are the keys of the text form, explained once in the table of lib.rs"
)]
pub enum Kind {
    Contiguous { bytes: u64 },
    Interleaved { piece: u64, bytes: u64 },
    Strided { piece: u64, hole: u64, bytes: u64 },
    Blocks { array: Vec<u64>, element: u64, order: Order },
    Records { record: u64, bytes: u64 },
    Variables { count: u64, piece: u64 },
    Columns { arrays: u64, rows: u64, width: u64, lead: u64 },
    Random { slot: u64, bytes: u64, seed: u64 },
    Opens { count: u64 },
}

/// How many units of `unit` bytes each of `ranks` ranks gets of `bytes` bytes.
fn share(bytes: u64, unit: u64, ranks: u64) -> u64 {
    (bytes / unit / ranks).max(1)
}

impl Kind {
    /// The view and the calls of `rank`.
    pub(crate) fn access(&self, rank: u64, ranks: u64) -> (View, Vec<Call>) {
        match *self {
            Kind::Contiguous { bytes } => {
                let bytes = share(bytes, 1, ranks);
                (View::contiguous(rank * bytes), one(bytes))
            }
            Kind::Interleaved { piece, bytes } => dealt(piece, 0, bytes, rank, ranks),
            Kind::Strided { piece, hole, bytes } => dealt(piece, hole, bytes, rank, ranks),
            Kind::Blocks { ref array, element, order } => {
                let filetype = subarray(array, element, order, rank, ranks);
                let (bytes, extent) = (filetype.bytes(), filetype.span());
                (View { displacement: 0, filetype, extent }, one(bytes))
            }
            Kind::Records { record, bytes } => {
                let count = share(bytes, record, ranks);
                (View::contiguous(0), many(count, record, rank, ranks))
            }
            Kind::Variables { count, piece } => {
                (View::contiguous(0), many(count, piece, rank, ranks))
            }
            Kind::Columns { arrays, rows, width, lead } => {
                columns(arrays, rows, width, lead, rank, ranks)
            }
            Kind::Random { slot, bytes, seed } => {
                let rows = share(bytes, slot / 2, ranks);
                let filetype = Layout::List(random::pieces(slot, rows, seed, rank, ranks));
                let bytes = filetype.bytes();
                (View { displacement: 0, filetype, extent: rows * ranks * slot }, one(bytes))
            }
            Kind::Opens { .. } => (View::contiguous(0), Vec::new()),
        }
    }

    /// Bytes from the start of the file to the end of the pieces of `ranks` ranks, the holes behind
    /// the last pieces included.
    pub(crate) fn span(&self, ranks: u64) -> u64 {
        match *self {
            Kind::Contiguous { bytes } => share(bytes, 1, ranks) * ranks,
            Kind::Interleaved { piece, bytes } => share(bytes, piece, ranks) * ranks * piece,
            Kind::Strided { piece, hole, bytes } => {
                share(bytes, piece, ranks) * ranks * (piece + hole)
            }
            Kind::Blocks { ref array, element, .. } => array.iter().product::<u64>() * element,
            Kind::Records { record, bytes } => share(bytes, record, ranks) * ranks * record,
            Kind::Variables { count, piece } => count * ranks * piece,
            Kind::Columns { arrays, rows, width, lead } => ranks * (lead + arrays * rows * width),
            Kind::Random { slot, bytes, .. } => share(bytes, slot / 2, ranks) * ranks * slot,
            Kind::Opens { .. } => 0,
        }
    }

    /// Whether bytes within the span belong to nobody.
    pub(crate) fn has_holes(&self) -> bool {
        matches!(self, Kind::Strided { .. } | Kind::Random { .. })
    }

    /// Whether a rank makes one call for everything.
    pub(crate) fn is_one_call(&self) -> bool {
        !matches!(self, Kind::Records { .. } | Kind::Variables { .. } | Kind::Opens { .. })
    }
}

fn one(bytes: u64) -> Vec<Call> {
    vec![Call { position: 0, bytes }]
}

/// Units of `bytes` bytes dealt in turn, one call each.
fn many(count: u64, bytes: u64, rank: u64, ranks: u64) -> Vec<Call> {
    (0..count).map(|index| Call { position: (index * ranks + rank) * bytes, bytes }).collect()
}

fn dealt(piece: u64, hole: u64, bytes: u64, rank: u64, ranks: u64) -> (View, Vec<Call>) {
    let step = piece + hole;
    let view = View {
        displacement: rank * step,
        filetype: Layout::Contiguous { bytes: piece },
        extent: step * ranks,
    };
    (view, one(share(bytes, piece, ranks) * piece))
}

fn subarray(array: &[u64], element: u64, order: Order, rank: u64, ranks: u64) -> Layout {
    let grid = dims_create(ranks, array.len());
    let mut dimensions = block(array, &grid, rank);
    if order == Order::Fortran {
        dimensions.reverse();
    }
    Layout::Subarray { dimensions, element }
}

/// A piece of a small variable, then the rank's columns of each array.
fn columns(
    arrays: u64,
    rows: u64,
    width: u64,
    lead: u64,
    rank: u64,
    ranks: u64,
) -> (View, Vec<Call>) {
    let dimensions = [(rows, rows, 0), (width * ranks, width, width * rank)];
    let dimensions = dimensions.map(|(size, part, start)| crate::Dimension { size, part, start });
    let one_array = Layout::Subarray { dimensions: dimensions.to_vec(), element: 1 };
    let array_bytes = rows * width * ranks;
    let small = (lead > 0).then_some((lead * rank, Layout::Contiguous { bytes: lead }));
    let large = (0..arrays).map(|index| (lead * ranks + index * array_bytes, one_array.clone()));
    let filetype = Layout::Sequence(small.into_iter().chain(large).collect());
    let (bytes, extent) = (filetype.bytes(), filetype.span());
    (View { displacement: 0, filetype, extent }, one(bytes))
}
