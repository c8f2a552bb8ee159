//! B-trees of version 2: records in order, each of the same number of bytes.

use super::cursor::bytes_for;
use super::reader::Reader;
use crate::error::Result;
use std::collections::HashSet;

/// Levels of a tree at most.
const MOST_LEVELS: u64 = 32;
/// Bytes of memory that a child takes which is still to be read.
const CHILD: u64 = 32;
/// Signature, version, type and checksum of a node.
const AROUND: u64 = 10;

/// A tree with its header.
pub(super) struct Tree {
    pub(super) kind: u8,
    pub(super) record: usize,
    /// Records of all nodes.
    pub(super) records: u64,
    node_bytes: u64,
    depth: u64,
    root: Option<(u64, u64)>,
    levels: Vec<Level>,
}

/// A node that is still to be read: its address, its records, and how far it is from the leaves.
type Node = (u64, u64, usize);

/// Nodes that are equally far from the leaves.
#[derive(Clone, Copy)]
struct Level {
    /// Records of a node at most.
    most: u64,
    /// Records of a node and all below it at most.
    all: u64,
}

impl Tree {
    /// Reads the header of a tree.
    pub(super) fn open(reader: &Reader<'_>, address: u64) -> Result<Self> {
        let widths = reader.widths;
        let count = 22 + widths.offset + widths.length;
        let bytes = reader.block("B-tree 2", address, count as u64, b"BTHD")?;
        let mut cursor = reader.cursor(&bytes);
        let mut fields = || {
            let (_version, kind, node) = (cursor.byte()?, cursor.byte()?, cursor.four()?);
            let (record, depth) = (cursor.two()?, cursor.two()?);
            cursor.take(2)?;
            let (root, count) = (cursor.address()?, cursor.two()?);
            Some((kind, u64::from(node), record, u64::from(depth), root, count, cursor.length()?))
        };
        let found = fields().filter(|(_, node, record, depth, ..)| {
            *record > 0 && *depth <= MOST_LEVELS && *node >= AROUND + u64::from(*record)
        });
        let (kind, node_bytes, record, depth, root, count, records) = found
            .ok_or_else(|| reader.corrupt(format!("the B-tree 2 at {address} is malformed")))?;
        let root = root.map(|root| (root, u64::from(count)));
        let levels = levels(widths.offset as u64, node_bytes, record.into(), depth);
        Ok(Tree { kind, record: record.into(), records, node_bytes, depth, root, levels })
    }

    /// Calls `visit` with each record.
    pub(super) fn records(
        &self,
        reader: &Reader<'_>,
        visit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut seen = HashSet::new();
        let mut open: Vec<Node> = Vec::new();
        open.extend(self.root.map(|(address, count)| (address, count, self.depth as usize)));
        while let Some(node) = open.pop() {
            if !seen.insert(node.0) {
                let what = format!("the B-tree 2 node at {} is linked twice", node.0);
                return Err(reader.corrupt(what));
            }
            self.node(reader, node, &mut open, visit)?;
        }
        Ok(())
    }

    /// The records of a node; its children are opened.
    fn node(
        &self,
        reader: &Reader<'_>,
        (address, count, level): Node,
        open: &mut Vec<Node>,
        visit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let wrong = || reader.corrupt(format!("the B-tree 2 node at {address} is too small"));
        if count > self.levels[level].most {
            return Err(wrong());
        }
        let (what, signature) =
            if level == 0 { ("B-tree 2 leaf", b"BTLF") } else { ("B-tree 2 node", b"BTIN") };
        let offset = reader.widths.offset as u64;
        let (number, total) = if level == 0 { (0, 0) } else { self.widths(level) };
        let children = if level == 0 { 0 } else { (count + 1) * (offset + number + total) };
        let used = AROUND + count * self.record as u64 + children;
        let bytes = reader.block(what, address, used, signature)?;
        reader.note(address, self.node_bytes);
        let mut cursor = reader.cursor(&bytes);
        cursor.take(2);
        for _ in 0..count {
            reader.step(0)?;
            visit(cursor.take(self.record).ok_or_else(wrong)?)?;
        }
        for _ in 0..children.checked_div(offset + number + total).unwrap_or(0) {
            let child = cursor.address().flatten().zip(cursor.number(number as usize));
            cursor.take(total as usize);
            let (child, records) = child.ok_or_else(wrong)?;
            reader.keep(CHILD)?;
            open.push((child, records, level - 1));
        }
        Ok(())
    }

    /// Bytes of the number of a child's records, and of those of all below it.
    fn widths(&self, level: usize) -> (u64, u64) {
        let number = bytes_for(self.levels[0].most) as u64;
        let total = if level == 1 { 0 } else { bytes_for(self.levels[level - 1].all) as u64 };
        (number, total)
    }
}

/// How many records nodes have at most, by their distance from the leaves.
fn levels(offset: u64, node: u64, record: u64, depth: u64) -> Vec<Level> {
    let leaf = (node - AROUND) / record;
    let mut levels = vec![Level { most: leaf, all: leaf }];
    for level in 1..=depth {
        let below = levels[level as usize - 1];
        let total = if level == 1 { 0 } else { bytes_for(below.all) as u64 };
        let pointer = offset + bytes_for(leaf) as u64 + total;
        let most = (node - AROUND).saturating_sub(pointer) / (record + pointer);
        let all = most.saturating_add(1).saturating_mul(below.all).saturating_add(most);
        levels.push(Level { most, all });
    }
    levels
}
