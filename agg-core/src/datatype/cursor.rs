//! Walking along the data bytes of a datatype, run by run.

use super::locate::block_of;
use super::node::{Block, Node, Shape};
use super::{Basic, Datatype};
use std::sync::Arc;

/// One level of the way from the root down to the current run.
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

/// Which nodes a walk takes as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grain {
    /// Single runs of bytes.
    Runs,
    /// Nodes made of one kind of basic element.
    Elements,
}

impl Grain {
    fn whole(self, node: &Node) -> bool {
        match self {
            Grain::Runs => node.facts.dense(),
            Grain::Elements => node.facts.uniform.is_some(),
        }
    }
}

/// A place in the tree: the way down to one node that is taken as a whole.
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
    /// Levels in use; frames above are kept so that going down again costs nothing.
    depth: usize,
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
    pub(super) fn locate(&mut self, mut position: u64) -> Option<(Stop, u64)> {
        self.depth = 0;
        let size = self.root.facts.size;
        self.copy = position.checked_div(size)?;
        position %= size;
        let mut base = self.root_base()?;
        let mut node = self.root.clone();
        while !self.grain.whole(&node) {
            let (index, block, rest) = find(&node, position, self.grain);
            position = rest;
            self.push(&node, base, index, block);
            let (at, child) = entry(&node, index, block);
            base = base.wrapping_add(at);
            let child = child.clone();
            node = child;
        }
        Some((self.stop(), position))
    }

    /// Goes to the first stop of the next copy or field.
    pub(super) fn step(&mut self) -> Option<Stop> {
        while self.depth > 0 {
            let frame = &mut self.frames[self.depth - 1];
            if advance(frame, self.grain) {
                self.descend();
                return Some(self.stop());
            }
            self.depth -= 1;
        }
        self.copy = self.copy.checked_add(1)?;
        let base = self.root_base()?;
        if !self.grain.whole(&self.root) {
            let root = self.root.clone();
            self.push(&root, base, 0, 0);
            self.descend();
        }
        Some(self.stop())
    }

    /// The equal steps that follow: their distance, and how many there are up to the last sibling
    /// of the present stop.
    fn steps(&self) -> Option<(i64, u64)> {
        match self.depth.checked_sub(1).map(|top| &self.frames[top]) {
            None => {
                let left = self.copies - 1 - self.copy.min(self.copies - 1);
                // Far copies may lie beyond 64 bits; they are reached one by one.
                let reach = self.root_base()?.unsigned_abs().max(1 << 32);
                let room =
                    (i64::MAX as u64 / 4).saturating_sub(reach) / self.extent.unsigned_abs().max(1);
                Some((self.extent, left.min(room)))
            }
            Some(Frame { node, index, .. }) => match &node.shape {
                Shape::Repeat { count, stride, .. } => Some((*stride, count - 1 - index)),
                _ => None,
            },
        }
    }

    /// Makes `count` of the steps that [`Walk::steps`] promised.
    fn skip(&mut self, count: u64) {
        match self.depth.checked_sub(1) {
            None => self.copy += count,
            Some(top) => self.frames[top].index += count,
        }
    }

    /// Displacement of the current copy's first byte, if the copy exists and 64 bits can tell.
    fn root_base(&self) -> Option<i64> {
        if self.copy >= self.copies {
            return None;
        }
        let facts = &self.root.facts;
        let copy = i64::try_from(self.copy).ok()?;
        let base = copy.checked_mul(self.extent)?.checked_add(self.start)?;
        base.checked_add(facts.low)?;
        base.checked_add(facts.high)?;
        Some(base)
    }

    /// Goes down along first entries until a node is taken as a whole.
    fn descend(&mut self) {
        loop {
            let frame = &self.frames[self.depth - 1];
            let (at, child) = entry(&frame.node, frame.index, frame.block);
            if self.grain.whole(child) {
                return;
            }
            let base = frame.base.wrapping_add(at);
            let known =
                self.frames.get(self.depth).is_some_and(|next| Arc::ptr_eq(&next.node, child));
            if known {
                let next = &mut self.frames[self.depth];
                (next.base, next.index, next.block) = (base, 0, 0);
                self.depth += 1;
            } else {
                let child = child.clone();
                self.push(&child, base, 0, 0);
            }
        }
    }

    fn push(&mut self, node: &Arc<Node>, base: i64, index: u64, block: usize) {
        let frame = Frame { node: node.clone(), base, index, block };
        if let Some(slot) = self.frames.get_mut(self.depth) {
            *slot = frame;
        } else {
            self.frames.push(frame);
        }
        self.depth += 1;
    }

    /// The node at the end of the way.
    fn stop(&self) -> Stop {
        match self.depth.checked_sub(1).map(|top| &self.frames[top]) {
            None => Stop {
                displacement: self.root_base().unwrap_or(self.start),
                size: self.root.facts.size,
                uniform: self.root.facts.uniform,
            },
            Some(frame) => {
                let (at, child) = entry(&frame.node, frame.index, frame.block);
                let copies = match &frame.node.shape {
                    Shape::Blocks { blocks, rows: true, .. } if self.grain == Grain::Runs => {
                        block_len(blocks, frame.block, frame.node.facts.size / child.facts.size)
                    }
                    _ => 1,
                };
                Stop {
                    displacement: frame.base.wrapping_add(at),
                    size: copies * child.facts.size,
                    uniform: child.facts.uniform,
                }
            }
        }
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

/// Displacement and layout of entry `index`, which lies in `block`.
fn entry(node: &Arc<Node>, index: u64, block: usize) -> (i64, &Arc<Node>) {
    match &node.shape {
        Shape::Leaf { .. } => (0, node),
        Shape::Repeat { stride, child, .. } => ((index as i64).wrapping_mul(*stride), child),
        Shape::Indexed { displacements, child } => (displacements[index as usize], child),
        Shape::Blocks { blocks, stride, child, .. } => {
            let block = blocks[block];
            let within = ((index - block.first) as i64).wrapping_mul(*stride);
            (block.displacement.wrapping_add(within), child)
        }
        Shape::Sequence { fields } => {
            let field = &fields[index as usize];
            (field.displacement, &field.child)
        }
    }
}

/// Moves to the next entry, if there is one.
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

/// A run of bytes: displacement and length.
type Run = (i64, u64);

/// `count` runs of `len` bytes, `stride` bytes apart; the first is at `displacement`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Displacement of the first run.
    pub displacement: i64,
    /// Bytes of each run.
    pub len: u64,
    /// Distance of the runs in bytes; may be negative.
    pub stride: i64,
    /// Number of runs, at least two.
    pub count: u64,
}

/// A place in the data bytes of copies of a datatype.
///
/// Owns what it walks over. Moving to the next run costs no allocation and amortised O(1);
/// [`Cursor::seek`] costs O(depth × log of the longest irregular list).
#[derive(Clone, Debug)]
pub struct Cursor {
    datatype: Datatype,
    copies: u64,
    walk: Walk,
    position: u64,
    /// The rest of the current run.
    current: Option<Run>,
    /// The run after it, not adjacent to it.
    next: Option<Run>,
}

impl Cursor {
    pub(super) fn new(datatype: Datatype, copies: u64, position: u64) -> Self {
        let walk = Walk::new(&datatype, copies, Grain::Runs);
        let mut cursor = Self { datatype, copies, walk, position: 0, current: None, next: None };
        cursor.seek(position);
        cursor
    }

    /// Number of data bytes before this place.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The bytes from here to the next gap: displacement and length, never empty. `None` at the
    /// end, and where displacements leave 64 bits.
    pub fn run(&self) -> Option<(i64, u64)> {
        self.current
    }

    /// Passes over `bytes` data bytes.
    pub fn advance(&mut self, bytes: u64) {
        let Some((at, len)) = self.current else { return };
        if bytes < len {
            self.current = Some((at + bytes as i64, len - bytes));
            self.position += bytes;
        } else if bytes == len {
            self.position += bytes;
            self.load();
        } else {
            self.seek(self.position.saturating_add(bytes));
        }
    }

    /// Passes over equal runs at equal distances, as many as are known at once and hold at most
    /// `most` bytes together; `None` if that would be less than two.
    pub fn take_rows(&mut self, most: u64) -> Option<Rows> {
        let ((at, len), (next, next_len)) = (self.current?, self.next?);
        let (stride, steps) = self.walk.steps()?;
        if len != next_len || next.checked_sub(at) != Some(stride) {
            return None;
        }
        let count = steps.min(most / len);
        if count < 2 {
            return None;
        }
        self.walk.skip(count);
        let distance = (count as i64).wrapping_mul(stride);
        self.current = Some((at.wrapping_add(distance), len));
        self.next = Some((next.wrapping_add(distance), len));
        self.position += count * len;
        Some(Rows { displacement: at, len, stride, count })
    }

    /// Goes to data byte `position`; to the end if there are fewer.
    pub fn seek(&mut self, position: u64) {
        (self.current, self.next) = (None, None);
        let size = self.datatype.size();
        let total =
            if self.copies == u64::MAX { u64::MAX } else { size.saturating_mul(self.copies) };
        self.position = if size == 0 { 0 } else { position.min(total) };
        if size == 0 || position >= total {
            return;
        }
        if self.datatype.is_contiguous() {
            self.current = self.whole(position, total);
            return;
        }
        self.next = self
            .walk
            .locate(position)
            .map(|(stop, skip)| (stop.displacement.wrapping_add(skip as i64), stop.size - skip));
        self.load();
    }

    /// The one run of a contiguous datatype from `position` on.
    fn whole(&self, position: u64, total: u64) -> Option<Run> {
        let at = self.datatype.first_displacement().checked_add(i64::try_from(position).ok()?)?;
        let room = i64::MAX.abs_diff(at);
        (room > 0).then(|| (at, room.min(total - position)))
    }

    /// Makes the waiting run current, together with all that continue it.
    fn load(&mut self) {
        self.current = self.next.take();
        let Some((at, len)) = &mut self.current else { return };
        while let Some(Stop { displacement, size, .. }) = self.walk.step() {
            if i128::from(*at) + i128::from(*len) == i128::from(displacement) {
                *len += size;
            } else {
                self.next = Some((displacement, size));
                return;
            }
        }
    }
}
