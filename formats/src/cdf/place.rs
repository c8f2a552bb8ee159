//! Finds the element of a byte of the file, and the place of an element.

use super::layout::{Layout, Slot};
use std::ops::Range;

/// The kind of a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Part of the header.
    Header,
    /// Bytes that belong to nothing.
    Pad,
    /// Data.
    Data {
        /// The variable, by its position in the header.
        variable: usize,
        /// The record; zero for variables without records.
        record: u64,
        /// The first byte's distance from the beginning of the variable, or of its part of the
        /// record.
        byte: u64,
    },
}

/// A range of a file that is one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The range.
    pub range: Range<u64>,
    /// The kind of its bytes.
    pub place: Place,
}

/// An element, and a byte of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// The variable, by its position in the header.
    pub variable: usize,
    /// The record; zero for variables without records.
    pub record: u64,
    /// The element in the variable, or in its part of the record, counted as if it had one
    /// dimension.
    pub element: u64,
    /// The byte of the element.
    pub byte: u64,
}

impl Layout {
    /// The piece of the byte at `offset`, from that byte on.
    #[must_use]
    pub fn piece(&self, offset: u64) -> Piece {
        if offset < self.header {
            return Piece { range: offset..self.header, place: Place::Header };
        }
        if self.record_size > 0 && offset >= self.records_begin {
            return self.piece_of_record(offset);
        }
        let end = if self.record_size > 0 { self.records_begin } else { u64::MAX };
        self.among(&self.fixed, 0, offset, 0..end)
    }

    fn piece_of_record(&self, offset: u64) -> Piece {
        let record = (offset - self.records_begin) / self.record_size;
        let shift = record * self.record_size;
        let begin = self.records_begin;
        let whole = begin..begin.saturating_add(self.record_size);
        let found = self.among(&self.recorded, record, offset - shift, whole);
        let range = found.range.start + shift..found.range.end.saturating_add(shift);
        Piece { range, place: found.place }
    }

    /// The piece of `offset` among variables that lie in `within`.
    fn among(&self, ids: &[usize], record: u64, offset: u64, within: Range<u64>) -> Piece {
        let next = ids.partition_point(|id| self.slots[*id].begin <= offset);
        if let Some(id) = next.checked_sub(1).map(|last| ids[last]) {
            let Slot { begin, size, .. } = self.slots[id];
            if offset < begin + size {
                let place = Place::Data { variable: id, record, byte: offset - begin };
                return Piece { range: offset..begin + size, place };
            }
        }
        let end = ids.get(next).map_or(within.end, |id| self.slots[*id].begin);
        Piece { range: offset..end, place: Place::Pad }
    }

    /// The whole range that the byte at `offset` belongs to.
    #[must_use]
    pub fn around(&self, offset: u64) -> Range<u64> {
        let piece = self.piece(offset);
        let start = match piece.place {
            Place::Header => 0,
            Place::Data { byte, .. } => offset - byte,
            Place::Pad => self.end_before(offset),
        };
        start..piece.range.end
    }

    /// The end of the last header or data before a byte that belongs to nothing.
    fn end_before(&self, offset: u64) -> u64 {
        let recorded = self.record_size > 0 && offset >= self.records_begin;
        let (ids, shift) = match recorded {
            true => (
                &self.recorded,
                (offset - self.records_begin) / self.record_size * self.record_size,
            ),
            false => (&self.fixed, 0),
        };
        let next = ids.partition_point(|id| self.slots[*id].begin <= offset - shift);
        let last = next.checked_sub(1).map(|last| self.slots[ids[last]]);
        last.map_or(self.header, |slot| slot.begin + slot.size + shift)
    }

    /// The pieces of a range, one behind the other.
    #[must_use]
    pub fn pieces(&self, range: Range<u64>) -> Pieces<'_> {
        Pieces { layout: self, range }
    }

    /// The element at `offset`, and the byte of it; `None` if there is none.
    #[must_use]
    pub fn locate(&self, offset: u64) -> Option<Element> {
        let Place::Data { variable, record, byte } = self.piece(offset).place else { return None };
        let size = self.slots[variable].element;
        Some(Element { variable, record, element: byte / size, byte: byte % size })
    }

    /// Where a byte of an element lies; `None` if there is no such element.
    #[must_use]
    pub fn offset(&self, of: Element) -> Option<u64> {
        let slot = self.slots.get(of.variable)?;
        if (!slot.records && of.record > 0) || of.byte >= slot.element {
            return None;
        }
        let byte = of.element.checked_mul(slot.element)?.checked_add(of.byte)?;
        if byte >= slot.size {
            return None;
        }
        self.offset_of(of.variable, of.record)?.checked_add(byte)
    }

    /// Where a variable's part of a record begins.
    #[must_use]
    pub fn offset_of(&self, variable: usize, record: u64) -> Option<u64> {
        record.checked_mul(self.record_size)?.checked_add(self.slots.get(variable)?.begin)
    }
}

/// The pieces of a range.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    layout: &'a Layout,
    range: Range<u64>,
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.range.is_empty() {
            return None;
        }
        let mut piece = self.layout.piece(self.range.start);
        piece.range.end = piece.range.end.min(self.range.end);
        self.range.start = piece.range.end;
        Some(piece)
    }
}
