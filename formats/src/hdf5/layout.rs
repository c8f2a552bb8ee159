//! Layout messages: whether a dataset is compact, contiguous or chunked, and with which index.

use super::cursor::Cursor;
use super::space::MOST_DIMENSIONS;

/// How the bytes of a dataset are arranged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// In the object header itself.
    Compact {
        /// Bytes.
        size: u64,
    },
    /// One behind the other.
    Contiguous {
        /// Where they begin in the file; `None` if nothing is allocated.
        address: Option<u64>,
        /// Bytes; `None` in old files, in which the shape determines them.
        size: Option<u64>,
    },
    /// In chunks of equal shape.
    Chunked(Chunked),
}

/// The chunks of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunked {
    /// Elements of a chunk along each dimension.
    pub shape: Vec<u64>,
    /// Bytes of an element.
    pub element: u64,
    /// How chunks are found.
    pub index: Index,
    /// Where the index is, counted from the superblock; of one or implicit chunks the first one.
    pub(super) address: Option<u64>,
    /// Chunks at the edge of the dataset are stored without filters.
    pub(super) raw_edges: bool,
}

impl Chunked {
    /// Whether the chunk at an offset has gone through filters, in a dataset of this shape.
    #[must_use]
    pub fn is_filtered(&self, offset: &[u64], shape: &[u64]) -> bool {
        let mut each = offset.iter().zip(&self.shape).zip(shape);
        !self.raw_edges || each.all(|((at, of), end)| at + of <= *end)
    }

    /// Bytes of a chunk before filters; `None` if there are more than a number holds.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.shape.iter().try_fold(self.element, |all, one| all.checked_mul(*one))
    }
}

/// How the chunks of a dataset are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// A B-tree of version 1.
    BTree1,
    /// There is one chunk; its bytes and filter mask if it has filters.
    Single(Option<(u64, u32)>),
    /// They lie one behind the other.
    Implicit,
    /// An array of fixed size.
    FixedArray,
    /// An array that grows.
    ExtensibleArray,
    /// A B-tree of version 2.
    BTree2,
}

impl Index {
    /// The name of the kind.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Index::BTree1 => "B-tree 1",
            Index::Single(_) => "single chunk",
            Index::Implicit => "implicit",
            Index::FixedArray => "fixed array",
            Index::ExtensibleArray => "extensible array",
            Index::BTree2 => "B-tree 2",
        }
    }
}

/// The data of a dataset that lies in its header; `None` if the message is another one.
pub(super) fn compact(mut cursor: Cursor<'_>) -> Option<Vec<u8>> {
    let version = cursor.byte()?;
    if version < 3 {
        let (rank, class) = (cursor.byte()?, cursor.byte()?);
        cursor.take(5)?;
        dimensions(&mut cursor, rank, 4).filter(|_| class == 0)?;
        let size = cursor.four()? as usize;
        return cursor.take(size).map(<[u8]>::to_vec);
    }
    let (class, size) = (cursor.byte()?, cursor.two()?);
    cursor.take(size.into()).filter(|_| class == 0).map(<[u8]>::to_vec)
}

/// A layout message, if it can be used.
pub(super) enum Found {
    Layout(Layout),
    Unsupported(String),
}

/// The message of a layout; `None` if it is malformed.
pub(super) fn parse(mut cursor: Cursor<'_>) -> Option<Found> {
    let version = cursor.byte()?;
    match version {
        1 | 2 => return old(cursor).map(Found::Layout),
        3..=5 => {}
        _ => return Some(Found::Unsupported(format!("layout of version {version}"))),
    }
    Some(Found::Layout(match cursor.byte()? {
        0 => Layout::Compact { size: cursor.two()?.into() },
        1 => Layout::Contiguous { address: cursor.address()?, size: Some(cursor.length()?) },
        2 if version == 3 => {
            let rank = cursor.byte()?;
            let address = cursor.address()?;
            chunked(Index::BTree1, address, &dimensions(&mut cursor, rank, 4)?)?
        }
        2 => return indexed(cursor),
        3 => return Some(Found::Unsupported("a virtual dataset".into())),
        class => return Some(Found::Unsupported(format!("layout of class {class}"))),
    }))
}

/// Versions 1 and 2, behind the version.
fn old(mut cursor: Cursor<'_>) -> Option<Layout> {
    let (rank, class) = (cursor.byte()?, cursor.byte()?);
    cursor.take(5)?;
    if class == 0 {
        dimensions(&mut cursor, rank, 4)?;
        return Some(Layout::Compact { size: cursor.four()?.into() });
    }
    let address = cursor.address()?;
    let dimensions = dimensions(&mut cursor, rank, 4)?;
    match class {
        1 => Some(Layout::Contiguous { address, size: None }),
        2 => chunked(Index::BTree1, address, &dimensions),
        _ => None,
    }
}

/// So many numbers of so many bytes.
fn dimensions(cursor: &mut Cursor<'_>, rank: u8, bytes: usize) -> Option<Vec<u64>> {
    if usize::from(rank) > MOST_DIMENSIONS + 1 || !(1..=8).contains(&bytes) {
        return None;
    }
    (0..rank).map(|_| cursor.number(bytes)).collect()
}

/// Chunks of some dimensions; the last one is an element's bytes.
fn chunked(index: Index, address: Option<u64>, dimensions: &[u64]) -> Option<Layout> {
    let (element, shape) = dimensions.split_last()?;
    let valid = !shape.is_empty() && dimensions.iter().all(|one| *one > 0);
    let (shape, element) = (shape.to_vec(), *element);
    valid.then_some(Layout::Chunked(Chunked { shape, element, index, address, raw_edges: false }))
}

/// Chunks of versions 4 and 5, behind the class.
fn indexed(mut cursor: Cursor<'_>) -> Option<Found> {
    let (flags, rank, bytes) = (cursor.byte()?, cursor.byte()?, cursor.byte()?);
    let dimensions = dimensions(&mut cursor, rank, bytes.into())?;
    let (index, parameters) = match cursor.byte()? {
        1 if flags & 2 != 0 => (Index::Single(Some((cursor.length()?, cursor.four()?))), 0),
        1 => (Index::Single(None), 0),
        2 => (Index::Implicit, 0),
        3 => (Index::FixedArray, 1),
        4 => (Index::ExtensibleArray, 5),
        5 => (Index::BTree2, 6),
        kind => return Some(Found::Unsupported(format!("chunk index of kind {kind}"))),
    };
    // The index repeats the parameters that are needed.
    cursor.take(parameters)?;
    let mut layout = chunked(index, cursor.address()?, &dimensions)?;
    if let Layout::Chunked(chunked) = &mut layout {
        chunked.raw_edges = flags & 1 != 0;
    }
    Some(Found::Layout(layout))
}
