//! B-trees of version 1: keys and children, of groups and of chunks.

use super::reader::Reader;
use crate::error::Result;
use std::collections::HashSet;

/// Nodes are no farther from the leaves than this.
const MOST_LEVELS: u8 = 64;
/// Bytes of memory that a child takes which is still to be read.
const CHILD: u64 = 32;
const WHAT: &str = "B-tree 1 node";

/// The kind of a tree, by the things that it indexes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    /// The type in each node: 0 for groups, 1 for chunks.
    pub(super) number: u8,
    /// Bytes of a key.
    pub(super) key: usize,
    /// Children of a node at most.
    pub(super) most: u64,
}

/// Calls `visit` with each key and child of the leaves below the node at an address.
pub(super) fn walk(
    reader: &Reader<'_>,
    address: u64,
    kind: Kind,
    visit: &mut dyn FnMut(&[u8], u64) -> Result<()>,
) -> Result<()> {
    let mut seen = HashSet::new();
    let mut open = vec![(address, None)];
    while let Some((address, expected)) = open.pop() {
        let wrong = |what: &str| reader.corrupt(format!("the {WHAT} at {address} {what}"));
        if !seen.insert(address) {
            return Err(wrong("is linked twice"));
        }
        let (level, entries) = node(reader, address, kind, expected)?;
        for entry in entries.chunks_exact(kind.key + reader.widths.offset) {
            let (key, child) = entry.split_at(kind.key);
            let child = reader.cursor(child).address().flatten();
            let child = child.ok_or_else(|| wrong("has a child without an address"))?;
            reader.step(0)?;
            match level.checked_sub(1) {
                None => visit(key, child)?,
                Some(below) => {
                    reader.keep(CHILD)?;
                    open.push((child, Some(below)));
                }
            }
        }
    }
    Ok(())
}

/// The level of a node, and its keys and children.
fn node(
    reader: &Reader<'_>,
    address: u64,
    kind: Kind,
    expected: Option<u8>,
) -> Result<(u8, Vec<u8>)> {
    let wrong = |what: &str| reader.corrupt(format!("the {WHAT} at {address} {what}"));
    let offset = reader.widths.offset;
    let head = 8 + 2 * offset;
    let start = reader.bytes(WHAT, address, head as u64)?;
    let [b'T', b'R', b'E', b'E', number, level, low, high] = start[..8] else {
        return Err(wrong("has no signature"));
    };
    let used = u64::from(u16::from_le_bytes([low, high]));
    let fits = number == kind.number && used <= kind.most && level <= MOST_LEVELS;
    if !fits || expected.is_some_and(|expected| expected != level) {
        return Err(wrong("is malformed"));
    }
    let all = (kind.key + offset) as u64;
    reader.note(address, head as u64 + kind.most * all + kind.key as u64);
    Ok((level, reader.bytes(WHAT, address + head as u64, used * all)?))
}
