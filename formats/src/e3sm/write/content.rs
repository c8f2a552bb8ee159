//! The file that a set is made of, the writers of its bytes, and the destination of a subfile.

use super::{Step, unsuited};
use crate::cdf::{self, Header};
use crate::error::Result;
use std::fs::File;
use std::ops::Range;

/// Bytes that are read first when a header is looked for.
const FIRST: u64 = 256 << 10;
/// Bytes that are looked at, at a time, whether they are zeros.
const PIECE: u64 = 1 << 20;

/// The bytes of the one file, which is complete.
pub trait Content: Sync {
    /// Bytes of the file.
    fn size(&self) -> u64;

    /// Fills a buffer from `offset` on, inside of the file. Bytes that were never written are
    /// zeros.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()>;

    /// Where its bytes are stored, if they can be copied from there.
    fn store(&self) -> Option<&dyn Store> {
        None
    }
}

/// Bytes of the file that lie together where they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Which bytes of the file.
    pub range: Range<u64>,
    /// The number of the store that has them.
    pub store: u64,
    /// The place of the first there.
    pub place: u64,
}

/// Stores the bytes of a file: some number of files, or one.
pub trait Store: Sync {
    /// Where the bytes of a range are stored, in the order of the file; those in none of the parts
    /// are zeros.
    ///
    /// # Errors
    ///
    /// If it cannot be found out.
    fn find(&self, range: Range<u64>) -> Result<Vec<Stored>>;

    /// Copies bytes to a file, from `offset` on; their `range` is only as long as they are.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or not be written.
    fn copy(&self, bytes: Stored, to: &File, offset: u64) -> Result<()>;
}

/// Bytes that one writer wrote last.
///
/// A list of them is sorted by range and disjoint; bytes in none were never written. Bytes behind
/// the end of the file are zeros, regardless of their writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The bytes of the file.
    pub range: Range<u64>,
    /// Their writer, counted from zero.
    pub writer: u32,
}

/// Where a subfile goes.
pub trait Sink: Sync {
    /// Writes bytes at an offset.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()>;

    /// Sets the size of the file; bytes that it gains are zeros.
    ///
    /// # Errors
    ///
    /// If it cannot have that size.
    fn set_len(&self, size: u64) -> Result<()>;

    /// The file that it is, if bytes can be copied there.
    fn file(&self) -> Option<&File> {
        None
    }
}

/// Fills a buffer from `offset` on; bytes behind the end of the file are zeros.
pub(super) fn read(content: &dyn Content, out: &mut [u8], offset: u64) -> Result<()> {
    let there = usize::try_from(content.size().saturating_sub(offset)).unwrap_or(usize::MAX);
    let (data, rest) = out.split_at_mut(there.min(out.len()));
    rest.fill(0);
    if data.is_empty() { Ok(()) } else { content.read_at(data, offset) }
}

/// The header of the file, and its bytes.
pub(super) fn header(content: &dyn Content) -> Step<(Header, Vec<u8>)> {
    let size = content.size();
    let mut wanted = FIRST.min(size);
    loop {
        // No more than the file has, which is read anyway.
        let mut bytes = vec![0; wanted as usize];
        content.read_at(&mut bytes, 0)?;
        match cdf::parse(&bytes) {
            Ok(header) => {
                bytes.truncate(header.size() as usize);
                return Ok((header, bytes));
            }
            Err(cdf::Error::NeedMore(least)) if least <= size => {
                wanted = least.max(wanted.saturating_mul(2)).min(size);
            }
            Err(why) => return unsuited(format!("not a netCDF classic file: {why}")),
        }
    }
}

/// The first byte of a range that is not zero.
pub(super) fn first_nonzero(content: &dyn Content, range: Range<u64>) -> Result<Option<u64>> {
    let mut at = range.start;
    while at < range.end {
        let mut bytes = vec![0; PIECE.min(range.end - at) as usize];
        read(content, &mut bytes, at)?;
        if let Some(found) = bytes.iter().position(|byte| *byte != 0) {
            return Ok(Some(at + found as u64));
        }
        at += bytes.len() as u64;
    }
    Ok(None)
}
