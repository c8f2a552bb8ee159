//! An HDF5 file with a few contiguous datasets of bytes in its root group, which HDF5 1.8 and later
//! read.
//!
//! Superblock of version 2, object headers of version 2 without times, links in the root group's
//! header: the HDF5 File Format Specification 3.0, II.B and IV.A.

use super::SIGNATURE;
use super::header::kind::{DATASPACE, DATATYPE, LAYOUT, LINK, LINK_INFO};
use super::lookup3::checksum;

/// Bytes of a superblock of version 2.
const SUPERBLOCK: u64 = 48;
/// An address or a size that is none.
const UNDEFINED: [u8; 8] = [0xFF; 8];
const FILL_VALUE: u8 = 5;
const GROUP_INFO: u8 = 10;

/// The first bytes of an HDF5 file, and the places of its datasets.
pub(crate) struct Container {
    /// Its first bytes.
    pub(crate) head: Vec<u8>,
    /// Where each dataset begins.
    pub(crate) begins: Vec<u64>,
    /// Bytes of the file.
    pub(crate) size: u64,
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    // Bodies have a few dozen bytes.
    let size = (body.len() as u16).to_le_bytes();
    [&[kind, size[0], size[1], 0], body].concat()
}

fn with_checksum(bytes: Vec<u8>) -> Vec<u8> {
    let sum = checksum(&bytes).to_le_bytes();
    [&bytes[..], &sum].concat()
}

/// An object header; the size of its messages has 32 bits.
fn object(messages: &[Vec<u8>]) -> Vec<u8> {
    let body = messages.concat();
    let size = (body.len() as u32).to_le_bytes();
    with_checksum([b"OHDR\x02\x02", &size[..], &body].concat())
}

/// The root group, with links to objects at these addresses.
fn group(links: &[(&str, u64)]) -> Vec<u8> {
    let mut messages = vec![
        // Neither order of creation nor heaps and trees.
        message(LINK_INFO, &[&[0, 0][..], &UNDEFINED, &UNDEFINED].concat()),
        message(GROUP_INFO, &[0, 0]),
    ];
    messages.extend(links.iter().map(|(name, address)| {
        let start = [1, 0, name.len() as u8];
        message(LINK, &[&start[..], name.as_bytes(), &address.to_le_bytes()].concat())
    }));
    object(&messages)
}

/// A dataset of `size` bytes at `begin`.
fn dataset(begin: u64, size: u64) -> Vec<u8> {
    let space = [&[2, 1, 0, 1][..], &size.to_le_bytes()].concat();
    // An unsigned integer of one byte, all of its eight bits.
    let kind = [0x10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0];
    // Allocated late, filled if there is a value, and there is none.
    let fill = [3, 0x0A];
    let begin = if size == 0 { UNDEFINED } else { begin.to_le_bytes() };
    let layout = [&[3, 1][..], &begin, &size.to_le_bytes()].concat();
    object(&[
        message(DATASPACE, &space),
        message(DATATYPE, &kind),
        message(FILL_VALUE, &fill),
        message(LAYOUT, &layout),
    ])
}

/// A file with datasets of these names and sizes; `None` if it were larger than any file.
pub(crate) fn container(datasets: &[(&str, u64)]) -> Option<Container> {
    let nowhere: Vec<(&str, u64)> = datasets.iter().map(|(name, _)| (*name, 0)).collect();
    let first = SUPERBLOCK + group(&nowhere).len() as u64;
    let header = dataset(0, 1).len() as u64;
    let headers = (0..datasets.len() as u64).map(|index| first + index * header);
    let links: Vec<(&str, u64)> = datasets.iter().map(|(name, _)| *name).zip(headers).collect();
    let mut end = first + datasets.len() as u64 * header;
    let (mut begins, mut objects) = (Vec::new(), group(&links));
    for (_, size) in datasets {
        begins.push(end);
        objects.extend(dataset(end, *size));
        end = end.checked_add(*size).filter(|end| *end < 1 << 63)?;
    }
    let numbers = [0_u64.to_le_bytes(), UNDEFINED, end.to_le_bytes(), SUPERBLOCK.to_le_bytes()];
    // Version 2, offsets and lengths of eight bytes, not open.
    let superblock = [&SIGNATURE[..], &[2, 8, 8, 0], &numbers.concat()].concat();
    let head = [with_checksum(superblock), objects].concat();
    Some(Container { head, begins, size: end })
}
