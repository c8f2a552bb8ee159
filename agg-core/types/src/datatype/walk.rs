//! The way down a datatype's tree to one place, and on to the next.

use super::locate::block_of;
use super::node::{Block, Node, Shape};
use super::{Basic, Datatype};
use std::sync::Arc;

/// Which nodes a walk takes as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grain {
    /// Single runs of bytes.
    Runs,
    /// Nodes made of one kind of basic element.
    Elements,
}

impl Grain {
    #[inline]
    fn whole(self, node: &Node) -> bool {
        match self {
            Grain::Runs => node.facts.dense(),
            Grain::Elements => node.facts.uniform.is_some(),
        }
    }
}

/// One level of the way from the root down to the current stop.
#[derive(Clone, Debug)]
struct Frame {
    node: Arc<Node>,
    /// Displacement of the node's first data byte.
    base: i64,
    /// Number of the current copy or field.
    index: u64,
    /// Number of the block that holds it, in a list of blocks.
    block: usize,
}

/// Data bytes that the walk takes as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    /// Displacement of the first byte.
    pub(super) displacement: i64,
    /// Data bytes.
    pub(super) size: u64,
    /// The only basic element in it, if there is only one.
    pub(super) uniform: Option<Basic>,
}

impl Stop {
    fn of(displacement: i64, node: &Node) -> Self {
        Self { displacement, size: node.facts.size, uniform: node.facts.uniform }
    }
}

/// The element at a frame's current index.
struct Entry<'a> {
    /// Displacement of its first byte.
    at: i64,
    /// Copies of `child` taken together: more than one for a block that is a single run.
    copies: u64,
    child: &'a Arc<Node>,
}

impl Entry<'_> {
    #[inline]
    fn stop(&self) -> Stop {
        let facts = &self.child.facts;
        Stop { displacement: self.at, size: self.copies * facts.size, uniform: facts.uniform }
    }
}

/// A place in the tree: the way down to one node that is taken as a whole.
///
/// Moving on allocates nothing: frames that are left are kept, and used again when the walk comes
/// back to the same node.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    root: Arc<Node>,
    start: i64,
    extent: i64,
    copies: u64,
    grain: Grain,
    /// The current copy of the root.
    copy: u64,
    frames: Vec<Frame>,
    /// Levels in use.
    depth: usize,
}

impl Walk {
    pub(super) fn new(datatype: &Datatype, copies: u64, grain: Grain) -> Self {
        let node = datatype.node();
        Self {
            root: node.clone(),
            start: datatype.first_displacement(),
            extent: datatype.extent(),
            copies: if node.is_empty() { 0 } else { copies },
            grain,
            copy: 0,
            frames: Vec::new(),
            depth: 0,
        }
    }

    /// Goes to the stop that holds data byte `position`; the second value is the byte's place in
    /// that stop.
    pub(super) fn locate(&mut self, position: u64) -> Option<(Stop, u64)> {
        let Self { root, frames, grain, .. } = self;
        self.copy = position.checked_div(root.facts.size)?;
        let mut rest = position % root.facts.size;
        let mut base = base(root, self.start, self.extent, self.copy, self.copies)?;
        self.depth = 0;
        if grain.whole(root) {
            return Some((Stop::of(base, root), rest));
        }
        put(frames, 0, root, base);
        loop {
            let frame = &mut frames[self.depth];
            self.depth += 1;
            (frame.index, frame.block, rest) = find(&frame.node, rest, *grain);
            let entry = entry(frame, *grain);
            if grain.whole(entry.child) {
                return Some((entry.stop(), rest));
            }
            base = entry.at;
            let child = entry.child.clone();
            put(frames, self.depth, &child, base);
        }
    }

    /// Goes to the first stop of the next copy or field.
    #[inline]
    pub(super) fn step(&mut self) -> Option<Stop> {
        while let Some(top) = self.depth.checked_sub(1) {
            if advance(&mut self.frames[top], self.grain) {
                return Some(self.descend());
            }
            self.depth = top;
        }
        self.next_copy()
    }

    fn next_copy(&mut self) -> Option<Stop> {
        self.copy = self.copy.checked_add(1)?;
        let base = base(&self.root, self.start, self.extent, self.copy, self.copies)?;
        if self.grain.whole(&self.root) {
            return Some(Stop::of(base, &self.root));
        }
        put(&mut self.frames, 0, &self.root, base);
        self.depth = 1;
        Some(self.descend())
    }

    /// Goes down from the top frame along first entries until a node is taken as a whole.
    fn descend(&mut self) -> Stop {
        loop {
            let entry = entry(&self.frames[self.depth - 1], self.grain);
            if self.grain.whole(entry.child) {
                return entry.stop();
            }
            let at = entry.at;
            let known = self.frames.get(self.depth);
            if known.is_some_and(|frame| Arc::ptr_eq(&frame.node, entry.child)) {
                let frame = &mut self.frames[self.depth];
                (frame.base, frame.index, frame.block) = (at, 0, 0);
            } else {
                let child = entry.child.clone();
                put(&mut self.frames, self.depth, &child, at);
            }
            self.depth += 1;
        }
    }

    /// The equal steps that follow: their distance, and how many there are up to the last sibling
    /// of the present stop.
    pub(super) fn steps(&self) -> Option<(i64, u64)> {
        let Some(top) = self.depth.checked_sub(1) else {
            let left = self.copies.checked_sub(1)?.checked_sub(self.copy)?;
            let at = base(&self.root, self.start, self.extent, self.copy, self.copies)?;
            // Far copies may lie beyond 64 bits; they are reached one by one.
            let room = (i64::MAX as u64 / 4).saturating_sub(at.unsigned_abs());
            return Some((self.extent, left.min(room / self.extent.unsigned_abs().max(1))));
        };
        let frame = &self.frames[top];
        match &frame.node.shape {
            Shape::Repeat { count, stride, .. } => Some((*stride, count - 1 - frame.index)),
            _ => None,
        }
    }

    /// Makes `count` of the steps that [`Walk::steps`] promised.
    pub(super) fn skip(&mut self, count: u64) {
        match self.depth.checked_sub(1) {
            None => self.copy += count,
            Some(top) => self.frames[top].index += count,
        }
    }
}

/// Displacement of the first byte of copy number `copy`; `None` if there is no such copy or its
/// place does not fit into 64 bits.
fn base(root: &Node, start: i64, extent: i64, copy: u64, copies: u64) -> Option<i64> {
    if copy >= copies {
        return None;
    }
    let base = i64::try_from(copy).ok()?.checked_mul(extent)?.checked_add(start)?;
    base.checked_add(root.facts.low)?;
    base.checked_add(root.facts.high)?;
    Some(base)
}

/// Makes frame number `level` stand at the first entry of `node`.
fn put(frames: &mut Vec<Frame>, level: usize, node: &Arc<Node>, base: i64) {
    match frames.get_mut(level) {
        Some(frame) => {
            if !Arc::ptr_eq(&frame.node, node) {
                frame.node = node.clone();
            }
            (frame.base, frame.index, frame.block) = (base, 0, 0);
        }
        None => frames.push(Frame { node: node.clone(), base, index: 0, block: 0 }),
    }
}

/// The entry of `node` that holds its data byte `position`: number, block, byte in the entry.
fn find(node: &Node, position: u64, grain: Grain) -> (u64, usize, u64) {
    match &node.shape {
        Shape::Leaf { .. } => (0, 0, position),
        Shape::Repeat { child, .. } | Shape::Indexed { child, .. } => {
            (position / child.facts.size, 0, position % child.facts.size)
        }
        Shape::Blocks { blocks, rows, child, .. } => {
            let copy = position / child.facts.size;
            let block = block_of(blocks, copy);
            if *rows && grain == Grain::Runs {
                let first = blocks[block].first;
                return (first, block, position - first * child.facts.size);
            }
            (copy, block, position % child.facts.size)
        }
        Shape::Sequence { fields } => {
            let index = fields.partition_point(|field| field.position <= position);
            let index = index.saturating_sub(1);
            (index as u64, 0, position - fields[index].position)
        }
    }
}

/// The element at the frame's index.
#[inline]
fn entry(frame: &Frame, grain: Grain) -> Entry<'_> {
    let Frame { node, base, index, block } = frame;
    let mut copies = 1;
    let (at, child) = match &node.shape {
        Shape::Leaf { .. } => (0, node),
        Shape::Repeat { stride, child, .. } => ((*index as i64).wrapping_mul(*stride), child),
        Shape::Indexed { displacements, child } => (displacements[*index as usize], child),
        Shape::Blocks { blocks, stride, rows, child } => {
            if *rows && grain == Grain::Runs {
                copies = block_len(blocks, *block, node.facts.size / child.facts.size);
            }
            let block = blocks[*block];
            let within = ((index - block.first) as i64).wrapping_mul(*stride);
            (block.displacement.wrapping_add(within), child)
        }
        Shape::Sequence { fields } => {
            let field = &fields[*index as usize];
            (field.displacement, &field.child)
        }
    };
    Entry { at: base.wrapping_add(at), copies, child }
}

/// Moves to the next entry, if there is one.
#[inline]
fn advance(frame: &mut Frame, grain: Grain) -> bool {
    let mut next = frame.index + 1;
    let more = match &frame.node.shape {
        Shape::Leaf { .. } => false,
        Shape::Repeat { count, .. } => next < *count,
        Shape::Indexed { displacements, .. } => next < displacements.len() as u64,
        Shape::Blocks { blocks, rows, child, .. } => {
            let copies = frame.node.facts.size / child.facts.size;
            if *rows && grain == Grain::Runs {
                next = frame.index + block_len(blocks, frame.block, copies);
            }
            if blocks.get(frame.block + 1).is_some_and(|block| block.first <= next) {
                frame.block += 1;
            }
            next < copies
        }
        Shape::Sequence { fields } => next < fields.len() as u64,
    };
    frame.index = next;
    more
}

/// Copies in block number `block` of a list that has `copies` in all.
fn block_len(blocks: &[Block], block: usize, copies: u64) -> u64 {
    blocks.get(block + 1).map_or(copies, |next| next.first) - blocks[block].first
}
