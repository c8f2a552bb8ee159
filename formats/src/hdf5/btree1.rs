//! B-trees of version 1: keys and children, of groups and of chunks.

use super::reader::Reader;
use crate::error::Result;
use std::collections::HashSet;

/// Nodes are no farther from the leaves than this.
const MOST_LEVELS: u8 = 64;
const WHAT: &str = "B-tree 1 node";

/// What a tree is the index of.
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
    let mut walk = Walk { reader, kind, seen: HashSet::new(), visit };
    walk.node(address, None)
}

struct Walk<'a> {
    reader: &'a Reader<'a>,
    kind: Kind,
    seen: HashSet<u64>,
    visit: &'a mut dyn FnMut(&[u8], u64) -> Result<()>,
}

impl Walk<'_> {
    fn node(&mut self, address: u64, expected: Option<u8>) -> Result<()> {
        let wrong = |what: &str| self.reader.corrupt(format!("the {WHAT} at {address} {what}"));
        if !self.seen.insert(address) {
            return Err(wrong("is linked twice"));
        }
        let offset = self.reader.widths.offset;
        let head = 8 + 2 * offset;
        let start = self.reader.bytes(WHAT, address, head as u64)?;
        let [b'T', b'R', b'E', b'E', number, level, low, high] = start[..8] else {
            return Err(wrong("has no signature"));
        };
        let used = u64::from(u16::from_le_bytes([low, high]));
        let fits = number == self.kind.number && used <= self.kind.most && level <= MOST_LEVELS;
        if !fits || expected.is_some_and(|expected| expected != level) {
            return Err(wrong("is malformed"));
        }
        let all = (self.kind.key + offset) as u64;
        self.reader.note(address, head as u64 + self.kind.most * all + self.kind.key as u64);
        let entries = self.reader.bytes(WHAT, address + head as u64, used * all)?;
        for entry in entries.chunks_exact(self.kind.key + offset) {
            let (key, child) = entry.split_at(self.kind.key);
            let child = self.reader.cursor(child).address().flatten();
            let child = child.ok_or_else(|| wrong("has a child without an address"))?;
            self.reader.step(0)?;
            match level.checked_sub(1) {
                None => (self.visit)(key, child)?,
                Some(below) => self.node(child, Some(below))?,
            }
        }
        Ok(())
    }
}
