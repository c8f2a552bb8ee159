//! The superblock: where an HDF5 file begins, how wide its numbers are, and where its root is.

use super::SIGNATURE;
use super::cursor::{Cursor, Widths};
use super::header::{self, kind};
use super::reader::Reader;
use crate::error::{Kind, Result};

/// The content of the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Its version: 0 to 3.
    pub version: u8,
    /// Bytes in front of it, which belong to the user.
    pub user_block: u64,
    /// Bytes of the file when it was closed or flushed last, the user block included.
    pub end: u64,
    /// Whether a program has the file open for writing, or ended without closing it.
    pub open: bool,
    pub(super) root: u64,
    extension: Option<u64>,
    driver: Option<u64>,
    pub(super) nodes: NodeSizes,
}

/// Half of the entries of nodes that have no size of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeSizes {
    pub(super) chunks: u64,
    pub(super) group: u64,
    pub(super) symbols: u64,
}

/// The file driver with files that, once they are one, need no driver.
const SUBFILING: &[u8] = b"Subfilin";
const USUAL: NodeSizes = NodeSizes { chunks: 32, group: 16, symbols: 4 };

/// Where the signature is: at the beginning, or at 512 times a power of two.
pub(super) fn find(reader: &Reader<'_>) -> Result<u64> {
    let mut place = 0_u64;
    while place.checked_add(8).is_some_and(|end| end <= reader.size()) {
        if reader.bytes("the signature", place, 8)? == SIGNATURE {
            return Ok(place);
        }
        place = if place == 0 { 512 } else { place.saturating_mul(2) };
    }
    Err(reader.corrupt("no signature"))
}

/// Reads the superblock, and sets up the reader for the rest of the file.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Superblock> {
    reader.base = find(reader)?;
    let bytes = reader.up_to("the superblock", 0, 128)?;
    let version = bytes.get(8).copied().unwrap_or(0);
    let widths = if version < 2 { bytes.get(13..15) } else { bytes.get(9..11) };
    if version > 3 {
        return Err(reader.unsupported(format!("superblock of version {version}")));
    }
    let Some(&[offset, length]) = widths else {
        return Err(reader.error(Kind::Truncated, "the file ends in its superblock"));
    };
    if ![2, 4, 8].contains(&offset) || ![2, 4, 8].contains(&length) {
        let what = format!("addresses of {offset} bytes, lengths of {length}");
        return Err(reader.corrupt(what));
    }
    reader.widths = Widths { offset: offset.into(), length: length.into() };
    let parsed = if version < 2 {
        old(version, reader.cursor(&bytes))
    } else {
        let count = 12 + 4 * usize::from(offset);
        if let Some((inner, sum)) = bytes.get(..count).zip(bytes.get(count..count + 4))
            && !reader.is_right(inner, sum)
        {
            return Err(reader.corrupt("the superblock's checksum is wrong"));
        }
        new(version, reader.cursor(&bytes))
    };
    let (mut found, count) =
        parsed.ok_or_else(|| reader.error(Kind::Truncated, "no root group in the superblock"))?;
    found.user_block = reader.base;
    reader.note(0, count);
    extend(reader, &mut found)?;
    check(reader, &found)?;
    Ok(found)
}

/// Versions 0 and 1, and their bytes.
fn old(version: u8, mut cursor: Cursor<'_>) -> Option<(Superblock, u64)> {
    let before = cursor.rest().len();
    cursor.take(16)?;
    let (symbols, group) = (cursor.two()?, cursor.two()?);
    let open = cursor.four()? & 1 != 0;
    let mut chunks = USUAL.chunks;
    if version == 1 {
        chunks = cursor.two()?.into();
        cursor.take(2)?;
    }
    let (_base, _free) = (cursor.address()?, cursor.address()?);
    let end = cursor.address()??;
    let driver = cursor.address()?;
    cursor.length()?;
    let root = cursor.address()??;
    cursor.take(24)?;
    let nodes = NodeSizes { chunks, group: group.into(), symbols: symbols.into() };
    let count = before - cursor.rest().len();
    let found =
        Superblock { version, user_block: 0, end, open, root, extension: None, driver, nodes };
    Some((found, count as u64))
}

/// Versions 2 and 3, and their bytes.
fn new(version: u8, mut cursor: Cursor<'_>) -> Option<(Superblock, u64)> {
    let before = cursor.rest().len();
    cursor.take(11)?;
    let open = version == 3 && cursor.byte()? & 1 != 0;
    cursor.take(usize::from(version == 2))?;
    let _base = cursor.address()?;
    let extension = cursor.address()?;
    let end = cursor.address()??;
    let root = cursor.address()??;
    cursor.take(4)?;
    let nodes = USUAL;
    let count = before - cursor.rest().len();
    let found =
        Superblock { version, user_block: 0, end, open, root, extension, driver: None, nodes };
    Some((found, count as u64))
}

/// Applies the messages of the superblock's extension.
fn extend(reader: &Reader<'_>, found: &mut Superblock) -> Result<()> {
    let Some(extension) = found.extension else { return Ok(()) };
    for message in header::read(reader, extension)? {
        if message.kind == kind::NODE_SIZES {
            let mut cursor = reader.cursor(&message.body);
            cursor.take(1);
            let (chunks, group, symbols) = (cursor.two(), cursor.two(), cursor.two());
            if let (Some(chunks), Some(group), Some(symbols)) = (chunks, group, symbols) {
                let (chunks, group, symbols) = (chunks.into(), group.into(), symbols.into());
                found.nodes = NodeSizes { chunks, group, symbols };
            }
        }
        if message.kind == kind::DRIVER && message.body.get(1..9) != Some(SUBFILING) {
            return Err(reader.unsupported("a file of several, by another file driver"));
        }
    }
    Ok(())
}

/// Whether the file is one file.
fn check(reader: &Reader<'_>, found: &Superblock) -> Result<()> {
    if let Some(driver) = found.driver {
        let name = reader.up_to("the driver's information", driver, 16)?;
        if name.get(8..) == Some(SUBFILING) {
            return Ok(());
        }
        let name = String::from_utf8_lossy(name.get(8..).unwrap_or_default()).into_owned();
        return Err(reader.unsupported(format!("a file of several, by the file driver {name:?}")));
    }
    Ok(())
}

/// Whether all of the file is there.
pub(super) fn is_whole(reader: &Reader<'_>, found: &Superblock) -> Result<()> {
    if found.end <= reader.size() {
        return Ok(());
    }
    let what = format!("truncated: {} of {} bytes", reader.size(), found.end);
    Err(reader.error(Kind::Truncated, what))
}
