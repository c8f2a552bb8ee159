//! The chunks of a dataset, read from each kind of index.
//!
//! ```text
//! grid        which chunk has which number, and where it is in the dataset
//! fixed       arrays of fixed size
//! extensible  arrays that grow along one dimension
//! list        the chunks that were found
//! entry       addresses, stored bytes and filter masks, as all arrays and trees have them
//! ```

mod entry;
mod extensible;
mod fixed;
mod grid;
mod list;

use super::btree1;
use super::btree2::Tree;
use super::dataset::Dataset;
use super::layout::{Chunked, Index, Layout};
use super::reader::Reader;
use super::superblock::Superblock;
use crate::error::Result;
use entry::Entry;
use grid::Grid;
pub use list::Chunks;
use list::Regular;

/// A chunk that is in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its first element along each dimension.
    pub offset: Vec<u64>,
    /// Where its bytes begin in the file, the user block included.
    pub place: u64,
    /// Its bytes in the file, as the filters left them.
    pub stored: u64,
    /// Filters that it did not pass through, one bit each, the first one the lowest.
    pub mask: u32,
}

/// The chunks of a dataset that are in the file and within its shape, in order of their offsets.
pub(super) fn chunks(
    reader: &Reader<'_>,
    superblock: &Superblock,
    dataset: &Dataset,
) -> Result<Chunks> {
    let none = || Ok(Chunks::listed(Vec::new()));
    let Layout::Chunked(chunked) = &dataset.layout else { return none() };
    let Some(address) = chunked.address else { return none() };
    let bytes = chunked.bytes().ok_or_else(|| reader.corrupt("chunks of 2^64 bytes or more"))?;
    let mut found = Vec::new();
    let mut sink = Sink { reader, dataset, chunked, bytes, found: &mut found };
    match chunked.index {
        Index::BTree1 => trees_of_old(&mut sink, superblock, address)?,
        Index::BTree2 => trees(&mut sink, address)?,
        Index::Single(stored) => {
            let (size, mask) = stored.unwrap_or((bytes, 0));
            let entry = Entry { address: Some(address), size, mask };
            sink.add(vec![0; chunked.shape.len()], entry)?;
        }
        Index::Implicit => return implicit(&sink, address),
        Index::FixedArray => {
            let grid = Grid::fixed(&sink)?;
            fixed::read(reader, address, &mut |number, entry| sink.number(&grid, number, entry))?;
        }
        Index::ExtensibleArray => {
            let grid = Grid::extensible(&sink)?;
            extensible::read(reader, address, &mut |number, entry| {
                sink.number(&grid, number, entry)
            })?;
        }
    }
    found.sort_unstable_by(|left, right| left.offset.cmp(&right.offset));
    apart(reader, &found)?;
    Ok(Chunks::listed(found))
}

/// Whether no element has two chunks, and no byte belongs to two.
fn apart(reader: &Reader<'_>, found: &[Chunk]) -> Result<()> {
    if let Some(pair) = found.windows(2).find(|pair| pair[0].offset == pair[1].offset) {
        return Err(reader.corrupt(format!("two chunks at {:?}", pair[0].offset)));
    }
    let mut places: Vec<(u64, u64)> = found.iter().map(|one| (one.place, one.stored)).collect();
    places.sort_unstable();
    match places.windows(2).find(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
        Some(pair) => {
            let what = format!("the chunks at {} and {} overlap", pair[0].0, pair[1].0);
            Err(reader.corrupt(what))
        }
        None => Ok(()),
    }
}

/// Bytes of memory that a chunk takes, in a list that grows and while places are compared.
const CHUNK: u64 = 2 * size_of::<Chunk>() as u64 + 32;
/// No superblock is shorter.
const SUPERBLOCK: u64 = 24;

/// Where chunks are collected.
struct Sink<'a> {
    reader: &'a Reader<'a>,
    dataset: &'a Dataset,
    chunked: &'a Chunked,
    /// Bytes of a chunk before filters.
    bytes: u64,
    found: &'a mut Vec<Chunk>,
}

impl Sink<'_> {
    /// Adds the chunk that has a number in the grid.
    fn number(&mut self, grid: &Grid, number: u64, entry: Entry) -> Result<()> {
        self.reader.step(0)?;
        match grid.offset(number, &self.chunked.shape) {
            Some(offset) => self.add(offset, entry),
            None => Ok(()),
        }
    }

    /// Adds a chunk, if it is there and within the dataset.
    fn add(&mut self, offset: Vec<u64>, entry: Entry) -> Result<()> {
        let Some(address) = entry.address else { return Ok(()) };
        let shape = self.dataset.space.shape();
        if offset.iter().zip(shape).any(|(at, length)| at >= length) {
            return Ok(());
        }
        let stored = if self.dataset.filters.is_empty() { self.bytes } else { entry.size };
        self.reader.step(8 * offset.len() as u64)?;
        self.reader.keep(CHUNK + 8 * offset.len() as u64)?;
        if address < SUPERBLOCK {
            return Err(self.reader.corrupt(format!("a chunk at {address}, in the superblock")));
        }
        let place = self.reader.place("a chunk", address, stored)?;
        self.found.push(Chunk { offset, place, stored, mask: entry.mask });
        Ok(())
    }

    /// Bytes of an entry's parts, if chunks have filters.
    fn is_filtered(&self) -> bool {
        !self.dataset.filters.is_empty()
    }
}

/// Chunks that lie one behind the other, in the order of the largest shape.
fn implicit(sink: &Sink<'_>, address: u64) -> Result<Chunks> {
    let grid = Grid::fixed(sink)?;
    let all = grid.chunks().and_then(|count| count.checked_mul(sink.bytes));
    let all = all.ok_or_else(|| sink.reader.corrupt("more chunks than numbers"))?;
    let place = sink.reader.place("the chunks", address, all)?;
    let shape = sink.chunked.shape.clone();
    let now = sink.dataset.space.shape().iter().zip(&shape).map(|(now, of)| now.div_ceil(*of));
    let lengths = now.zip(grid.lengths()).collect();
    Ok(Chunks::regular(Regular { place, bytes: sink.bytes, shape, lengths }))
}

/// Keys: stored bytes, filter mask, and the first element along each dimension and within it.
fn trees_of_old(sink: &mut Sink<'_>, superblock: &Superblock, address: u64) -> Result<()> {
    let rank = sink.chunked.shape.len();
    let most = superblock.nodes.chunks.saturating_mul(2);
    let kind = btree1::Kind { number: 1, key: 8 + 8 * (rank + 1), most };
    let reader = sink.reader;
    btree1::walk(reader, address, kind, &mut |key, child| {
        let mut cursor = reader.cursor(key);
        let mut fields = || {
            let (size, mask) = (cursor.four()?.into(), cursor.four()?);
            let offset: Vec<u64> = (0..rank).map(|_| cursor.number(8)).collect::<Option<_>>()?;
            let whole = offset.iter().zip(&sink.chunked.shape).all(|(at, of)| at % of == 0);
            whole.then_some((offset, Entry { address: Some(child), size, mask }))
        };
        let found = fields().ok_or_else(|| reader.corrupt(format!("the chunk at {child}")))?;
        sink.add(found.0, found.1)
    })
}

/// Records: an entry, and the number of the chunk along each dimension.
fn trees(sink: &mut Sink<'_>, address: u64) -> Result<()> {
    let reader = sink.reader;
    let tree = Tree::open(reader, address)?;
    let rank = sink.chunked.shape.len();
    let entry = tree.record.checked_sub(8 * rank);
    let expected = if sink.is_filtered() { 11 } else { 10 };
    let Some(entry) = entry.filter(|_| tree.kind == expected) else {
        return Err(reader.corrupt(format!("no B-tree of chunks at {address}")));
    };
    tree.records(reader, &mut |record| {
        let (first, scaled) = record.split_at(entry);
        let mut cursor = reader.cursor(scaled);
        let offset = sink.chunked.shape.iter().map(|of| cursor.number(8)?.checked_mul(*of));
        let wrong = || reader.corrupt(format!("a chunk in the B-tree at {address}"));
        let offset = offset.collect::<Option<Vec<u64>>>().ok_or_else(wrong)?;
        let found = Entry::parse(reader.cursor(first), sink.is_filtered()).ok_or_else(wrong)?;
        sink.add(offset, found)
    })
}
