//! Where the bytes of a contiguous dataset of bytes lie in an HDF5 file, and files that have some (`write.rs`).
//!
//! Enough of the format for files that hold a few such datasets in their root group, as E3SM-IO writes them: superblock
//! of version 2 or 3, object headers of version 2, links in the group's header. The parts are described in the HDF5 File
//! Format Specification 3.0, II.B (superblock), IV.A (object headers).

mod cursor;
mod lookup3;
mod write;

pub(crate) use write::container;

use crate::error::{Error, Kind, Result};
use crate::files::{Files, bytes};
use cursor::Cursor;
use std::ops::Range;

/// What every HDF5 file begins with.
pub const SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";

/// Object headers that consist of more blocks than this are not looked at.
const MOST_BLOCKS: usize = 64;
/// Longest block of an object header.
const MOST_BLOCK_BYTES: u64 = 16 << 20;

/// A message of an object header.
struct Message {
    kind: u8,
    shared: bool,
    body: Vec<u8>,
}

const DATASPACE: u8 = 1;
const LINK_INFO: u8 = 2;
const DATATYPE: u8 = 3;
const LINK: u8 = 6;
const LAYOUT: u8 = 8;
const CONTINUATION: u8 = 16;

/// An HDF5 file whose superblock was read.
pub struct File<'a> {
    files: &'a dyn Files,
    file: usize,
    offset_bytes: usize,
    length_bytes: usize,
    root: u64,
}

impl<'a> File<'a> {
    /// Reads the superblock of a file.
    ///
    /// # Errors
    ///
    /// If it is none, or of a version before 2.
    pub fn open(files: &'a dyn Files, file: usize) -> Result<Self> {
        let start = bytes(files, file, 0, 12)?;
        let corrupt = |what: &str| Error::corrupt(files.name(file), format!("HDF5: {what}"));
        let mut cursor = Cursor::new(&start);
        if cursor.take(8) != Some(&SIGNATURE) {
            return Err(corrupt("no signature at the beginning"));
        }
        let (version, offset, length) = (cursor.number(1), cursor.number(1), cursor.number(1));
        let (Some(2 | 3), Some(offset), Some(length)) = (version, offset, length) else {
            let what = format!("HDF5: superblock of version {}, not 2 or 3", version.unwrap_or(0));
            return Err(Error::new(files.name(file), Kind::Unsupported, what));
        };
        if ![2, 4, 8].contains(&offset) || ![2, 4, 8].contains(&length) {
            return Err(corrupt(&format!("offsets of {offset} bytes, lengths of {length}")));
        }
        let (offset_bytes, length_bytes) = (offset as usize, length as usize);
        let rest = bytes(files, file, 12, 4 * offset)?;
        let mut cursor = Cursor::new(&rest);
        let base = cursor.number(offset_bytes);
        cursor.take(2 * offset_bytes);
        let root = cursor.number(offset_bytes).ok_or_else(|| corrupt("no root group"))?;
        if base != Some(0) {
            return Err(corrupt("a user block"));
        }
        Ok(File { files, file, offset_bytes, length_bytes, root })
    }

    fn corrupt(&self, what: impl std::fmt::Display) -> Error {
        Error::corrupt(self.files.name(self.file), format!("HDF5: {what}"))
    }

    fn unsupported(&self, what: impl std::fmt::Display) -> Error {
        Error::new(self.files.name(self.file), Kind::Unsupported, format!("HDF5: {what}"))
    }

    /// The bytes of the dataset `name` in the root group.
    ///
    /// # Errors
    ///
    /// If there is none, or it is no contiguous list of bytes.
    pub fn dataset(&self, name: &str) -> Result<Range<u64>> {
        let place = self.linked(name)?.ok_or_else(|| self.corrupt(format!("no dataset {name}")))?;
        let messages = self.messages(place)?;
        let body = |kind: u8| {
            let mut found = messages.iter().filter(|message| message.kind == kind);
            match (found.next(), found.next()) {
                (Some(one), None) if !one.shared => Ok(one.body.as_slice()),
                (Some(_), _) => Err(self.unsupported(format!("{name}: shared or double messages"))),
                (None, _) => Err(self.corrupt(format!("{name}: message {kind} is missing"))),
            }
        };
        let wrong = |what: &str| self.unsupported(format!("{name}: {what}"));
        let elements = self.elements(body(DATASPACE)?).ok_or_else(|| wrong("not a list"))?;
        let mut kind = Cursor::new(body(DATATYPE)?);
        kind.take(4);
        if kind.number(4) != Some(1) {
            return Err(wrong("its elements are not bytes"));
        }
        let (begin, size) =
            self.contiguous(body(LAYOUT)?).ok_or_else(|| wrong("not contiguous"))?;
        if elements == 0 {
            return Ok(0..0);
        }
        let end = begin.checked_add(elements);
        match end.filter(|end| size >= elements && *end <= self.files.size(self.file).unwrap_or(0))
        {
            Some(end) => Ok(begin..end),
            None => {
                let what =
                    format!("{name}: {elements} bytes at {begin}, behind the end of the file");
                Err(Error::new(
                    self.files.name(self.file),
                    Kind::Truncated,
                    format!("HDF5: {what}"),
                ))
            }
        }
    }

    /// The length of a dataspace of one dimension.
    fn elements(&self, body: &[u8]) -> Option<u64> {
        let mut cursor = Cursor::new(body);
        let (version, rank) = (cursor.number(1)?, cursor.number(1)?);
        cursor.take(match version {
            1 => 6,
            2 => 2,
            _ => return None,
        })?;
        if rank != 1 { None } else { cursor.number(self.length_bytes) }
    }

    /// Where a contiguous dataset lies, and its size.
    fn contiguous(&self, body: &[u8]) -> Option<(u64, u64)> {
        let mut cursor = Cursor::new(body);
        let (version, class) = (cursor.number(1)?, cursor.number(1)?);
        if !(3..=5).contains(&version) || class != 1 {
            return None;
        }
        Some((cursor.number(self.offset_bytes)?, cursor.number(self.length_bytes)?))
    }

    /// The object header that a link of the root group leads to.
    fn linked(&self, name: &str) -> Result<Option<u64>> {
        let messages = self.messages(self.root)?;
        for link in messages.iter().filter(|message| message.kind == LINK) {
            if let Some(place) = self.link(&link.body, name) {
                return Ok(Some(place));
            }
        }
        let dense = |message: &Message| {
            let mut cursor = Cursor::new(&message.body);
            let flags = cursor.take(2).and_then(|start| start.get(1)).copied().unwrap_or(0);
            cursor.take(if flags & 1 != 0 { 8 } else { 0 });
            let heap = cursor.number(self.offset_bytes).unwrap_or(u64::MAX);
            heap != u64::MAX >> (64 - 8 * self.offset_bytes)
        };
        if messages.iter().any(|message| message.kind == LINK_INFO && dense(message)) {
            return Err(self.unsupported("the root group keeps its links in a heap"));
        }
        Ok(None)
    }

    /// The object that a link message leads to, if it is a hard link of this name.
    fn link(&self, body: &[u8], name: &str) -> Option<u64> {
        let mut cursor = Cursor::new(body);
        let (version, flags) = (cursor.number(1)?, cursor.number(1)?);
        let kind = if flags & 8 != 0 { cursor.number(1)? } else { 0 };
        cursor.take(if flags & 4 != 0 { 8 } else { 0 })?;
        cursor.take(if flags & 16 != 0 { 1 } else { 0 })?;
        let length = cursor.number(1 << (flags & 3))?;
        let found = cursor.take(usize::try_from(length).ok()?)?;
        let place = cursor.number(self.offset_bytes)?;
        (version == 1 && kind == 0 && found == name.as_bytes()).then_some(place)
    }

    /// All messages of an object header of version 2.
    fn messages(&self, place: u64) -> Result<Vec<Message>> {
        let start = bytes(self.files, self.file, place, 6)?;
        let (Some(b"OHDR"), Some(2), Some(flags)) = (start.get(..4), start.get(4), start.get(5))
        else {
            return Err(self.corrupt(format!("no object header of version 2 at {place}")));
        };
        let skipped =
            (if flags & 0x20 != 0 { 16 } else { 0 }) + (if flags & 0x10 != 0 { 4 } else { 0 });
        let width = 1_u64 << (flags & 3);
        let at = place + 6 + skipped;
        let size = bytes(self.files, self.file, at, width)?;
        let size = Cursor::new(&size).number(width as usize).unwrap_or(0);
        let mut blocks = vec![(at + width, size)];
        let mut messages = Vec::new();
        let mut next = 0;
        while let Some((at, size)) = blocks.get(next).copied() {
            next += 1;
            if next > MOST_BLOCKS || size > MOST_BLOCK_BYTES {
                return Err(self.corrupt(format!("the object header at {place} has no end")));
            }
            let block = bytes(self.files, self.file, at, size)?;
            for message in Self::split(&block, flags & 4 != 0) {
                if message.kind == CONTINUATION {
                    blocks.push(self.continuation(&message)?);
                }
                messages.push(message);
            }
        }
        Ok(messages)
    }

    /// Where an object header goes on: the messages of that block.
    fn continuation(&self, message: &Message) -> Result<(u64, u64)> {
        let mut cursor = Cursor::new(&message.body);
        let found = cursor.number(self.offset_bytes).zip(cursor.number(self.length_bytes));
        // A signature before the messages, a checksum behind them.
        let inner = found.and_then(|(at, size)| Some((at.checked_add(4)?, size.checked_sub(8)?)));
        let (at, size) = inner.ok_or_else(|| self.corrupt("a continuation to nowhere"))?;
        if bytes(self.files, self.file, at - 4, 4)? != b"OCHK" {
            return Err(self.corrupt(format!("no continuation at {}", at - 4)));
        }
        Ok((at, size))
    }

    fn split(block: &[u8], ordered: bool) -> Vec<Message> {
        let mut cursor = Cursor::new(block);
        let mut messages = Vec::new();
        loop {
            let start = (cursor.number(1), cursor.number(2), cursor.number(1));
            let (Some(kind), Some(size), Some(flags)) = start else { return messages };
            if ordered && cursor.take(2).is_none() {
                return messages;
            }
            let Some(body) = cursor.take(size as usize) else { return messages };
            let (kind, shared) = (kind as u8, flags & 2 != 0);
            messages.push(Message { kind, shared, body: body.to_vec() });
        }
    }
}
