//! Writes that were accepted and are not in the file yet: a copy of their bytes, and where these belong.
//!
//! Bytes are copied once, into memory in large parts. Where they belong is kept as strips: pieces of one
//! length at equal distances cost as much as one piece, whatever calls they came from.

mod part;
mod pieces;

use crate::blob::Strip;
use crate::datatype::Datatype;
use crate::error::{Error, ErrorClass, Result};
use crate::extent::Extent;
use crate::memory::Memory;
use crate::view::{Representation, View};
use part::Part;
use pieces::Piece;

/// Bytes of a part, unless a single write is longer.
const PART: usize = 4 << 20;

/// Accepted writes, in the order in which they came.
#[derive(Debug, Default)]
pub struct Pending {
    parts: Vec<Part>,
    runs: Vec<Run>,
    bytes: u64,
    pieces: u64,
    /// From the first byte of the file to the last.
    hull: Extent,
}

/// Pieces of the file whose bytes lie behind each other in memory.
#[derive(Clone, Copy, Debug)]
struct Run {
    strip: Strip,
    address: usize,
}

impl Run {
    /// Takes in a piece whose bytes are at `address`, if it goes on in the file and in memory.
    fn extend(&mut self, extent: Extent, address: usize) -> bool {
        let held = self.strip.length * self.strip.count;
        if self.address as u64 + held != address as u64 {
            return false;
        }
        if self.strip.count == 1 && self.strip.start + self.strip.length == extent.offset {
            self.strip.length += extent.len;
            return true;
        }
        self.strip.extend(extent)
    }
}

impl Pending {
    /// Bytes that wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Contiguous pieces that wait.
    pub fn pieces(&self) -> u64 {
        self.pieces
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Bytes of memory for what is not data.
    pub fn bookkeeping(&self) -> usize {
        self.runs.capacity() * size_of::<Run>()
    }

    /// Takes in `len` bytes of `memory` for the bytes that `view` shows from `position` on.
    ///
    /// # Errors
    /// `NoMem` if there is no memory for them; then nothing has changed.
    pub fn add(&mut self, view: &View, position: u64, memory: &Memory, len: u64) -> Result<()> {
        let no_memory = || {
            let text = format!("no memory to keep {len} bytes until they are written");
            Error::new(ErrorClass::NoMem, text)
        };
        let size = usize::try_from(len).map_err(|_| no_memory())?;
        if self.parts.last().is_none_or(|part| part.room() < size) {
            // The first may stay nearly empty; one more page of 4 KiB costs a fault each.
            let in_large_pages = !self.parts.is_empty();
            self.parts.push(Part::new(size.max(PART), in_large_pages).ok_or_else(no_memory)?);
        }
        let Some(part) = self.parts.last_mut() else { return Err(no_memory()) };
        let mut address = part.fill(size, |room| {
            memory.gather(0, room);
        });
        for extent in view.extents(position, len) {
            self.pieces += 1;
            if !self.runs.last_mut().is_some_and(|run| run.extend(extent, address)) {
                self.runs.push(Run { strip: Strip::one(extent), address });
            }
            address += extent.len as usize;
        }
        self.bytes += len;
        self.hull = hull(self.hull, view.span(position, len));
        Ok(())
    }

    /// Puts newer writes behind these.
    pub fn add_after(&mut self, newer: Pending) {
        let older = std::mem::replace(self, newer);
        self.add_before(older);
    }

    /// Puts older writes before these.
    pub fn add_before(&mut self, mut older: Pending) {
        older.parts.append(&mut self.parts);
        older.runs.append(&mut self.runs);
        older.bytes += self.bytes;
        older.pieces += self.pieces;
        older.hull = hull(older.hull, self.hull);
        *self = older;
    }

    /// One write for all of them: a view that shows the bytes they cover, in ascending order, and memory that
    /// has what is to be there; of writes that overlap, the later one counts.
    ///
    /// The memory may be used as long as this value is not changed.
    ///
    /// # Errors
    /// `NoMem` or `Arg` if there are more pieces than can be described.
    pub fn as_one_write(&self) -> Result<(View, Memory)> {
        self.as_write_of(&pieces::ascending(self.all_pieces()))
    }

    /// As [`Pending::as_one_write`], in two writes: all bytes that are not in `last`, then those that are.
    ///
    /// # Errors
    /// As [`Pending::as_one_write`].
    pub fn as_two_writes(&self, last: Extent) -> Result<[(View, Memory); 2]> {
        let (others, last) = pieces::apart(&pieces::ascending(self.all_pieces()), last);
        Ok([self.as_write_of(&others)?, self.as_write_of(&last)?])
    }

    /// Whether bytes of `extent` wait.
    pub fn touches(&self, extent: Extent) -> bool {
        !self.hull.intersect(extent).is_empty()
            && self.runs.iter().any(|run| {
                let Strip { start, length, stride, count } = run.strip;
                let end = start.wrapping_add_signed(stride * (count - 1) as i64);
                let span = Extent::between(start.min(end), start.max(end) + length);
                !span.intersect(extent).is_empty()
            })
            && self.all_pieces().any(|piece| !piece.extent.intersect(extent).is_empty())
    }

    fn as_write_of(&self, pieces: &[Piece]) -> Result<(View, Memory)> {
        let in_file = blocks(pieces, |piece| piece.extent.offset);
        let in_memory = blocks(pieces, |piece| piece.address as u64);
        let byte = Datatype::bytes(1);
        let filetype = Datatype::hindexed(&in_file, &byte)?;
        let view = View::new(0, byte.clone(), filetype, Representation::Native, false)?;
        let datatype = Datatype::hindexed(&in_memory, &byte)?;
        // SAFETY: all addresses are of bytes in `self.parts`, which stay where they are and are not written
        // to while this value is borrowed or left alone; an absolute address is a displacement from null.
        let memory = unsafe { Memory::new(std::ptr::null_mut(), datatype, 1) };
        Ok((view, memory))
    }

    fn all_pieces(&self) -> impl Iterator<Item = Piece> {
        self.runs.iter().flat_map(|run| {
            let Strip { start, length, stride, count } = run.strip;
            (0..count).map(move |number| Piece {
                extent: Extent::new(start.wrapping_add_signed(stride * number as i64), length),
                address: run.address + (number * length) as usize,
            })
        })
    }
}

/// The smallest range that holds both.
fn hull(one: Extent, other: Extent) -> Extent {
    match (one.is_empty(), other.is_empty()) {
        (true, _) => other,
        (_, true) => one,
        _ => Extent::between(one.offset.min(other.offset), one.end().max(other.end())),
    }
}

/// Lengths and places of pieces, neighbours joined.
fn blocks(pieces: &[Piece], place: impl Fn(&Piece) -> u64) -> Vec<(u64, i64)> {
    let mut blocks: Vec<(u64, i64)> = Vec::new();
    for piece in pieces {
        let start = place(piece) as i64;
        match blocks.last_mut() {
            Some((len, before)) if *before + *len as i64 == start => *len += piece.extent.len,
            _ => blocks.push((piece.extent.len, start)),
        }
    }
    blocks
}

#[cfg(test)]
mod tests;
