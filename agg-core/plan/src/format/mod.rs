//! File formats: plugins that locate the header and the data in a file.
//!
//! A plugin recognises a file by its first bytes and makes a [`Map`] of it, which plans follow:
//! borders of file domains, and the order in which buffered bytes are stored. Nothing else depends
//! on a plugin: a file without a map, or with a wrong one, has the same bytes.
//!
//! ```text
//! table.rs    the plugins of an engine, which its host supplies
//! head.rs     the first bytes of a file, as far as they are known
//! watch.rs    detection of the format, on each rank and agreed on by all
//! records.rs  files of records of one size
//! ```

mod head;
mod records;
mod table;
mod watch;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use aggio_config::hints::Chosen;
pub use records::Records;
pub use table::Formats;
pub use watch::{LOOK, Watch, combine};

use aggio_base::Extent;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// A format of files.
pub trait Format: Send + Sync {
    /// Its name, for people.
    fn name(&self) -> &'static str;

    /// Recognises a file that begins with `head`. Pure: equal bytes give equal maps on all ranks.
    fn recognise(&self, head: &[u8]) -> Recognised;
}

/// The format as far as the first bytes of a file determine it.
#[derive(Clone, Debug)]
pub enum Recognised {
    /// No file of the format begins so.
    Other,
    /// A file of the format may begin so, but its header has more bytes, or makes no sense at
    /// present.
    Unclear,
    /// A file of the format, with this map.
    Map(Arc<dyn Map>),
}

/// Where the things in one file lie. A *slab* is the data of a variable, of one record if it has
/// records.
pub trait Map: Debug + Send + Sync {
    /// Bytes of the header, from the beginning of the file on.
    fn header(&self) -> u64;

    /// The thing that the byte at `offset` is part of, and the range of that part.
    fn piece(&self, offset: u64) -> Piece;

    /// Where elements of a slab lie; `None` if there are no such elements.
    fn extent_of(&self, data: &Data) -> Option<Extent>;

    /// The last border between two things at or before `offset`; `None` if there is none.
    fn border_before(&self, offset: u64) -> Option<u64>;

    /// The first border between two things at or behind `offset`; `None` if there is none.
    fn border_behind(&self, offset: u64) -> Option<u64>;

    /// For a byte of a slab: where the slab begins, and the length of its rows, which is the
    /// distance of borders within it.
    fn rows(&self, offset: u64) -> Option<(u64, u64)>;

    /// Bytes that announce others, and are to be in the file after these; empty if there are none.
    fn last(&self) -> Extent;

    /// Whether the map may be another one when `changed` bytes of the header have changed.
    fn depends_on(&self, changed: Extent) -> bool;
}

/// The map of every file of the format that a hint names, if its first bytes need not be known.
pub fn map_of(chosen: Chosen) -> Option<Arc<dyn Map>> {
    match chosen {
        Chosen::Records(records) => Some(Arc::new(records)),
        _ => None,
    }
}

/// A range of a file that is one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The range; not empty.
    pub extent: Extent,
    /// The thing that the range is part of.
    pub thing: Thing,
}

/// The kind of a range of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thing {
    /// Part of the header.
    Header,
    /// Bytes that belong to nothing.
    Gap,
    /// Elements of a slab.
    Data(Data),
}

/// Elements of a slab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// The variable, by its position in the header.
    pub variable: usize,
    /// The record; zero for variables without records.
    pub record: u64,
    /// The elements, counted as if the slab had one dimension; the first and the last may be there
    /// in part.
    pub elements: Range<u64>,
}

/// The things in `extent`, one behind the other.
pub fn pieces(map: &dyn Map, extent: Extent) -> impl Iterator<Item = Piece> {
    let mut at = extent.offset;
    std::iter::from_fn(move || {
        if at >= extent.end() {
            return None;
        }
        let mut piece = map.piece(at);
        if piece.extent.end() > extent.end() {
            let extent = Extent::between(at, extent.end());
            piece.thing = match piece.thing {
                Thing::Data(data) => Thing::Data(cut(map, extent, data)),
                thing => thing,
            };
            piece.extent = extent;
        }
        at = piece.extent.end();
        Some(piece)
    })
}

/// The elements of `data` with bytes in `extent`; the first one begins at or before `extent`.
fn cut(map: &dyn Map, extent: Extent, data: Data) -> Data {
    let first = data.elements.start;
    let one = Data { elements: first..first + 1, ..data.clone() };
    let Some(one) = map.extent_of(&one).filter(|one| !one.is_empty()) else { return data };
    let end = first + (extent.end() - one.offset).div_ceil(one.len);
    Data { elements: first..end.min(data.elements.end), ..data }
}
