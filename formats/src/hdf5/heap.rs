//! Fractal heaps: where new groups keep links and attributes that are many.

use super::btree2::Tree;
use super::cursor::{Cursor, bytes_for};
use super::reader::Reader;
use crate::error::Result;
use std::collections::HashMap;

/// A heap with its header.
pub(super) struct Heap {
    address: u64,
    id_bytes: usize,
    /// Direct blocks have checksums.
    checked: bool,
    huge: Option<u64>,
    width: u64,
    start: u64,
    most_direct: u64,
    offset_bytes: usize,
    size_bytes: usize,
    root: Option<u64>,
    /// Rows of the root; 0 if that is a direct block.
    rows: u64,
}

/// A block of a heap: its address, where it begins in the heap, and its bytes or rows.
#[derive(Clone, Copy)]
struct Block {
    address: u64,
    begin: u64,
    size: u64,
}

/// Takes the fields that are needed out of a header.
fn fields(address: u64, cursor: &mut Cursor<'_>) -> Option<(Heap, u16)> {
    cursor.byte()?;
    let (id_bytes, filtered, flags) = (cursor.two()?, cursor.two()?, cursor.byte()?);
    let most_object = cursor.four()?;
    cursor.length()?;
    let huge = cursor.address()?;
    cursor.length()?;
    cursor.address()?;
    for _ in 0..8 {
        cursor.length()?;
    }
    let width = cursor.two()?.into();
    let (start, most_direct) = (cursor.length()?, cursor.length()?);
    let bits = cursor.two()?;
    cursor.two()?;
    let (root, rows) = (cursor.address()?, cursor.two()?.into());
    let valid = start.is_power_of_two()
        && most_direct.is_power_of_two()
        && start <= most_direct
        && (1..=64).contains(&bits)
        && (1..=1024).contains(&width)
        && rows <= 64;
    let size_bits = most_direct.checked_ilog2()? as usize;
    let heap = Heap {
        address,
        id_bytes: id_bytes.into(),
        checked: flags & 2 != 0,
        huge,
        width,
        start,
        most_direct,
        offset_bytes: usize::from(bits).div_ceil(8),
        size_bytes: size_bits.div_ceil(8).min(bytes_for(most_object.into())),
        root,
        rows,
    };
    valid.then_some((heap, filtered))
}

impl Heap {
    /// Reads the header of a heap.
    pub(super) fn open(reader: &Reader<'_>, address: u64) -> Result<Self> {
        let widths = reader.widths;
        let count = 26 + 12 * widths.length + 3 * widths.offset;
        // With filters the header is longer, and its checksum lies elsewhere.
        let start = reader.bytes("fractal heap", address, count as u64)?;
        if start.get(7..9).is_some_and(|filters| filters != [0, 0]) && start.starts_with(b"FRHP") {
            return Err(reader.unsupported(format!("the fractal heap at {address} has filters")));
        }
        let bytes = reader.block("fractal heap", address, count as u64, b"FRHP")?;
        match fields(address, &mut reader.cursor(&bytes)) {
            Some((heap, 0)) => Ok(heap),
            _ => Err(reader.corrupt(format!("the fractal heap at {address} is malformed"))),
        }
    }

    /// The objects that these identifiers stand for.
    pub(super) fn objects(&self, reader: &Reader<'_>, ids: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        let mut order: Vec<(u64, &[u8])> = ids.iter().map(|id| (self.sort(id), &id[..])).collect();
        order.sort_unstable();
        let mut open = Open { heap: self, reader, block: None, huge: None };
        order.into_iter().map(|(_, id)| open.object(id)).collect()
    }

    /// The key by which identifiers are ordered, so that each block is read once.
    fn sort(&self, id: &[u8]) -> u64 {
        Cursor::new(id.get(1..).unwrap_or_default(), super::cursor::Widths { offset: 8, length: 8 })
            .number(self.offset_bytes)
            .unwrap_or(0)
    }

    /// Bytes of a block in a row.
    fn row(&self, row: u64) -> u64 {
        self.start << row.saturating_sub(1).min(63 - u64::from(self.start.ilog2()))
    }

    /// Rows with direct blocks.
    fn direct_rows(&self) -> u64 {
        u64::from(self.most_direct.ilog2() - self.start.ilog2()) + 2
    }

    /// The row, the column and the begin of the block that has an offset within an indirect block.
    fn locate(&self, within: u64, rows: u64) -> Option<(u64, u64, u64)> {
        let mut begin = 0_u64;
        for row in 0..rows {
            let all = self.row(row).checked_mul(self.width)?;
            let end = begin.checked_add(all)?;
            if within < end {
                let column = (within - begin) / self.row(row);
                return Some((row, column, begin + column * self.row(row)));
            }
            begin = end;
        }
        None
    }
}

/// A heap that objects are taken out of, with the block that was used last.
struct Open<'a> {
    heap: &'a Heap,
    reader: &'a Reader<'a>,
    block: Option<(Block, Vec<u8>)>,
    huge: Option<HashMap<u64, (u64, u64)>>,
}

impl Open<'_> {
    fn wrong(&self, what: &str) -> crate::Error {
        self.reader.corrupt(format!("the fractal heap at {}: {what}", self.heap.address))
    }

    fn object(&mut self, id: &[u8]) -> Result<Vec<u8>> {
        let (Some(first), Some(rest)) = (id.first(), id.get(1..)) else {
            return Err(self.wrong("an identifier is empty"));
        };
        match first >> 4 & 3 {
            0 => self.managed(rest),
            1 => self.large(rest),
            2 => self.tiny(*first, rest),
            _ => Err(self.wrong("an identifier is of no kind")),
        }
    }

    /// An object that lies in the identifier itself.
    fn tiny(&self, first: u8, rest: &[u8]) -> Result<Vec<u8>> {
        let extended = self.heap.id_bytes > 18;
        let (low, rest) = match (extended, rest.split_first()) {
            (true, Some((low, rest))) => (usize::from(first & 15) << 8 | usize::from(*low), rest),
            _ => ((first & 15).into(), rest),
        };
        let found = rest.get(..low + 1);
        found.map(<[u8]>::to_vec).ok_or_else(|| self.wrong("an identifier is too short"))
    }

    /// An object that is too large for blocks.
    fn large(&mut self, rest: &[u8]) -> Result<Vec<u8>> {
        let widths = self.reader.widths;
        let mut cursor = self.reader.cursor(rest);
        let place = if widths.offset + widths.length < self.heap.id_bytes {
            cursor.address().flatten().zip(cursor.length())
        } else {
            let number = cursor.number(rest.len().min(widths.length)).unwrap_or(0);
            self.indexed()?.get(&number).copied()
        };
        let (address, count) = place.ok_or_else(|| self.wrong("a large object has no address"))?;
        self.reader.note(address, count);
        self.reader.keep(count)?;
        self.reader.bytes("a large object", address, count)
    }

    /// Where large objects are, by their numbers.
    fn indexed(&mut self) -> Result<&HashMap<u64, (u64, u64)>> {
        if self.huge.is_none() {
            let root = self.heap.huge.ok_or_else(|| self.wrong("it has no large objects"))?;
            let tree = Tree::open(self.reader, root)?;
            if tree.kind != 1 {
                return Err(self.reader.unsupported("large objects with filters"));
            }
            let mut found = HashMap::new();
            tree.records(self.reader, &mut |record| {
                let mut cursor = self.reader.cursor(record);
                let (address, count) = (cursor.address().flatten(), cursor.length());
                if let (Some(address), Some(count), Some(id)) = (address, count, cursor.length()) {
                    self.reader.keep(64)?;
                    found.insert(id, (address, count));
                }
                Ok(())
            })?;
            self.huge = Some(found);
        }
        Ok(self.huge.get_or_insert_default())
    }

    /// An object in a direct block.
    fn managed(&mut self, rest: &[u8]) -> Result<Vec<u8>> {
        let mut cursor = self.reader.cursor(rest);
        let offset = cursor.number(self.heap.offset_bytes.min(8));
        let (Some(offset), Some(count)) = (offset, cursor.number(self.heap.size_bytes)) else {
            return Err(self.wrong("an identifier is too short"));
        };
        let missing = self
            .block
            .as_ref()
            .is_none_or(|(block, _)| offset < block.begin || offset - block.begin >= block.size);
        if missing {
            let block = self.find(offset)?;
            self.block = Some((block, self.direct(block)?));
        }
        self.reader.step(count)?;
        self.reader.keep(count)?;
        let found = self.block.as_ref().and_then(|(block, bytes)| {
            let start = usize::try_from(offset.checked_sub(block.begin)?).ok()?;
            bytes.get(start..start.checked_add(count as usize)?)
        });
        found.map(<[u8]>::to_vec).ok_or_else(|| self.wrong("an object is not in its block"))
    }

    /// The direct block that has an offset.
    fn find(&self, offset: u64) -> Result<Block> {
        let nowhere = || self.wrong(&format!("nothing is at {offset}"));
        let heap = self.heap;
        let mut block = Block { address: heap.root.ok_or_else(nowhere)?, begin: 0, size: 0 };
        let mut rows = heap.rows;
        while rows > 0 {
            let within = offset.checked_sub(block.begin).ok_or_else(nowhere)?;
            let (row, column, begin) = heap.locate(within, rows).ok_or_else(nowhere)?;
            let address = self.child(block, rows, row * heap.width + column)?;
            let begin = block.begin.checked_add(begin).ok_or_else(nowhere)?;
            block = Block { address, begin, size: heap.row(row) };
            if row < heap.direct_rows() {
                return Ok(block);
            }
            let first = heap.start.ilog2() + (heap.width as u32).ilog2();
            rows = u64::from((block.size.ilog2() + 1).saturating_sub(first));
            if rows == 0 {
                return Err(nowhere());
            }
        }
        Ok(Block { size: heap.start, ..block })
    }

    /// The address of a child of an indirect block.
    fn child(&self, block: Block, rows: u64, index: u64) -> Result<u64> {
        let heap = self.heap;
        let head = 5 + self.reader.widths.offset + heap.offset_bytes;
        let count = head as u64 + rows * heap.width * self.reader.widths.offset as u64 + 4;
        let what = "indirect block of a fractal heap";
        let bytes = self.reader.block(what, block.address, count, b"FHIB")?;
        let start = head - 4 + index as usize * self.reader.widths.offset;
        let mut cursor = self.reader.cursor(bytes.get(start..).unwrap_or_default());
        cursor.address().flatten().ok_or_else(|| self.wrong(&format!("no block {index}")))
    }

    /// The bytes of a direct block, its own head included.
    fn direct(&self, block: Block) -> Result<Vec<u8>> {
        let (heap, what) = (self.heap, "direct block of a fractal heap");
        let mut bytes = self.reader.bytes(what, block.address, block.size)?;
        let head = 5 + self.reader.widths.offset + heap.offset_bytes;
        if !bytes.starts_with(b"FHDB") || bytes.len() < head + 4 {
            return Err(self.reader.corrupt(format!("no {what} at {}", block.address)));
        }
        if heap.checked {
            let stored: Vec<u8> = bytes.splice(head..head + 4, [0; 4]).collect();
            if !self.reader.is_right(&bytes, &stored) {
                let what = format!("{what} at {}: its checksum is wrong", block.address);
                return Err(self.reader.corrupt(what));
            }
        }
        self.reader.note(block.address, block.size);
        Ok(bytes)
    }
}
