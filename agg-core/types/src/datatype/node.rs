//! The nodes of a datatype's tree.
//!
//! A node describes data bytes *relative to its first data byte*, which is always at 0. So a
//! layout does not depend on where it stands, equal layouts have equal nodes, and lower and upper
//! bounds (which only place copies) live in [`Datatype`](super::Datatype) alone. A node without
//! data is the empty leaf; no other node has an empty child.

use super::basic::Basic;
use super::digest::Digest;
use super::facts::{Facts, deeper, repeat_facts, sequence_facts, too_large};
use aggio_base::error::Result;
use std::sync::Arc;

/// One block of [`Shape::Blocks`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// Displacement of its first copy.
    pub(crate) displacement: i64,
    /// Copies in earlier blocks.
    pub(crate) first: u64,
}

/// One field of [`Shape::Sequence`].
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// Displacement of its first data byte.
    pub(crate) displacement: i64,
    /// Data bytes in earlier fields.
    pub(crate) position: u64,
    /// Its layout.
    pub(crate) child: Arc<Node>,
}

/// How a node arranges its children.
#[derive(Debug)]
pub(crate) enum Shape {
    /// `count` elements in a row.
    Leaf { basic: Basic, count: u64 },
    /// `count` copies of `child`, `stride` bytes apart; at least two.
    Repeat { count: u64, stride: i64, child: Arc<Node> },
    /// One copy of `child` at each displacement; at least two.
    Indexed { displacements: Box<[i64]>, child: Arc<Node> },
    /// Blocks of different lengths of copies of `child`, `stride` bytes apart; at least two.
    /// `rows`: each block is a single run of bytes.
    Blocks { blocks: Box<[Block]>, stride: i64, rows: bool, child: Arc<Node> },
    /// Different children; at least two.
    Sequence { fields: Box<[Field]> },
}

/// A layout of data bytes.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) facts: Facts,
    pub(crate) shape: Shape,
}

impl Node {
    /// The node without data.
    pub(crate) fn empty() -> Arc<Node> {
        Arc::new(Node {
            facts: Facts {
                size: 0,
                external_size: 0,
                low: 0,
                high: 0,
                last: 0,
                end: 0,
                pieces: 0,
                monotone: true,
                overlap: false,
                uniform: None,
                grain: 63,
                depth: 1,
                hash: Digest::new(0).finish(),
            },
            shape: Shape::Leaf { basic: Basic::BYTE, count: 0 },
        })
    }

    /// `count` elements in a row.
    pub(crate) fn leaf(basic: Basic, count: u64) -> Result<Arc<Node>> {
        if count == 0 || basic.size == 0 {
            return Ok(Node::empty());
        }
        let size = count.checked_mul(u64::from(basic.size)).filter(|size| *size <= i64::MAX as u64);
        let size = size.ok_or_else(|| too_large("the size"))?;
        let external = count.checked_mul(u64::from(basic.external_size));
        let facts = Facts {
            size,
            external_size: external.ok_or_else(|| too_large("the external32 size"))?,
            low: 0,
            high: size as i64,
            last: size as i64 - i64::from(basic.size),
            end: size as i64,
            pieces: 1,
            monotone: true,
            overlap: false,
            uniform: Some(basic),
            grain: size.trailing_zeros(),
            depth: 1,
            hash: Digest::new(1)
                .word(basic.kind as u64)
                .word(u64::from(basic.size) << 32 | u64::from(basic.external_size))
                .word(count)
                .finish(),
        };
        Ok(Arc::new(Node { facts, shape: Shape::Leaf { basic, count } }))
    }

    /// `count` copies of `child`, `stride` bytes apart.
    pub(crate) fn repeat(count: u64, stride: i64, child: &Arc<Node>) -> Result<Arc<Node>> {
        if count == 0 || child.is_empty() {
            return Ok(Node::empty());
        }
        if count == 1 {
            return Ok(child.clone());
        }
        match &child.shape {
            Shape::Leaf { basic, count: n } if stride == child.facts.end => {
                let total = n.checked_mul(count).ok_or_else(|| too_large("the size"))?;
                return Node::leaf(*basic, total);
            }
            Shape::Repeat { count: n, stride: inner, child: grandchild }
                if i128::from(stride) == i128::from(*n) * i128::from(*inner) =>
            {
                let total = n.checked_mul(count).ok_or_else(|| too_large("the count"))?;
                return Node::repeat(total, *inner, &grandchild.clone());
            }
            _ => {}
        }
        let hash = Digest::new(2).wide(child.facts.hash).word(count).signed(stride).finish();
        let facts = Facts { hash, ..repeat_facts(count, stride, &child.facts)? };
        Ok(Arc::new(Node { facts, shape: Shape::Repeat { count, stride, child: child.clone() } }))
    }

    /// One copy of `child` at each of `displacements`; the first one is 0.
    pub(crate) fn indexed(displacements: Vec<i64>, child: &Arc<Node>) -> Result<Arc<Node>> {
        if displacements.is_empty() || child.is_empty() {
            return Ok(Node::empty());
        }
        if let Some(stride) = constant_stride(&displacements) {
            return Node::repeat(displacements.len() as u64, stride, child);
        }
        if let Some(series) = factor(displacements.iter().map(|at| (1, *at))) {
            return Ok(Node::series(&series, 0, child)?.1);
        }
        let mut digest = Digest::new(3).wide(child.facts.hash).word(displacements.len() as u64);
        for displacement in &displacements {
            digest = digest.signed(*displacement);
        }
        let parts = displacements.iter().map(|at| Ok((*at, &child.facts)));
        let facts = Facts {
            depth: deeper(child.facts.depth)?,
            hash: digest.finish(),
            ..sequence_facts(parts)?
        };
        let displacements = displacements.into_boxed_slice();
        Ok(Arc::new(Node { facts, shape: Shape::Indexed { displacements, child: child.clone() } }))
    }

    /// Blocks of copies of `child`, `stride` bytes apart; returns the first byte's displacement.
    pub(crate) fn blocks(
        list: &[(u64, i64)],
        stride: i64,
        child: &Arc<Node>,
    ) -> Result<(i64, Arc<Node>)> {
        if child.is_empty() {
            return Ok((0, Node::empty()));
        }
        let merged = merge_blocks(list, stride)?;
        let Some(&(len, start)) = merged.first() else { return Ok((0, Node::empty())) };
        if merged.iter().all(|block| block.0 == len) {
            let relative =
                |at: i64| at.checked_sub(start).ok_or_else(|| too_large("a displacement"));
            let displacements = merged.iter().map(|block| relative(block.1));
            let block = Node::repeat(len, stride, child)?;
            return Ok((start, Node::indexed(displacements.collect::<Result<_>>()?, &block)?));
        }
        if let Some(series) = factor(merged.iter().copied()) {
            return Node::series(&series, stride, child);
        }
        let mut digest = Digest::new(4).wide(child.facts.hash).signed(stride);
        let mut blocks = Vec::with_capacity(merged.len());
        let mut first = 0u64;
        for &(len, at) in &merged {
            let displacement = at.checked_sub(start).ok_or_else(|| too_large("a displacement"))?;
            digest = digest.word(len).signed(displacement);
            blocks.push(Block { displacement, first });
            first = first.checked_add(len).ok_or_else(|| too_large("the count"))?;
        }
        let parts = merged.iter().map(|(len, at)| {
            let block = repeat_facts(*len, stride, &child.facts)?;
            Ok((at - start, block))
        });
        let facts = Facts {
            depth: deeper(child.facts.depth)?,
            hash: digest.finish(),
            ..sequence_facts(parts)?
        };
        let blocks = blocks.into_boxed_slice();
        let rows = child.facts.dense() && child.facts.end == stride;
        let shape = Shape::Blocks { blocks, stride, rows, child: child.clone() };
        Ok((start, Arc::new(Node { facts, shape })))
    }

    /// Series of equal blocks at equal distances, one after the other.
    fn series(list: &[Series], stride: i64, child: &Arc<Node>) -> Result<(i64, Arc<Node>)> {
        let build = |series: &Series| {
            let block = Node::repeat(series.len, stride, child)?;
            Ok((series.start, Node::repeat(series.count, series.step, &block)?))
        };
        Node::sequence(list.iter().map(build).collect::<Result<_>>()?)
    }

    /// Different children one after the other; returns the first byte's displacement.
    pub(crate) fn sequence(list: Vec<(i64, Arc<Node>)>) -> Result<(i64, Arc<Node>)> {
        let list = merge_leaves(list)?;
        let Some((start, head)) = list.first().cloned() else { return Ok((0, Node::empty())) };
        let relative = |at: i64| at.checked_sub(start).ok_or_else(|| too_large("a displacement"));
        if list.iter().all(|part| part.1.facts.hash == head.facts.hash) {
            let displacements = list.iter().map(|part| relative(part.0)).collect::<Result<_>>()?;
            return Ok((start, Node::indexed(displacements, &head)?));
        }
        let mut digest = Digest::new(5).word(list.len() as u64);
        let (mut position, mut depth) = (0u64, 0);
        let mut fields = Vec::with_capacity(list.len());
        for (at, child) in list {
            let displacement = relative(at)?;
            digest = digest.signed(displacement).wide(child.facts.hash);
            depth = depth.max(child.facts.depth);
            let size = child.facts.size;
            fields.push(Field { displacement, position, child });
            position = position.checked_add(size).ok_or_else(|| too_large("the size"))?;
        }
        let parts = fields.iter().map(|field| Ok((field.displacement, &field.child.facts)));
        let facts =
            Facts { depth: deeper(depth)?, hash: digest.finish(), ..sequence_facts(parts)? };
        Ok((start, Arc::new(Node { facts, shape: Shape::Sequence { fields: fields.into() } })))
    }

    /// Whether there is no data byte.
    pub(crate) fn is_empty(&self) -> bool {
        self.facts.size == 0
    }

    /// Bytes of memory that this node itself takes, without its children.
    pub(crate) fn own_bytes(&self) -> usize {
        let list = match &self.shape {
            Shape::Leaf { .. } | Shape::Repeat { .. } => 0,
            Shape::Indexed { displacements, .. } => size_of_val(&**displacements),
            Shape::Blocks { blocks, .. } => size_of_val(&**blocks),
            Shape::Sequence { fields } => size_of_val(&**fields),
        };
        // An Arc's two counters stand before the node.
        size_of::<Node>() + 2 * size_of::<usize>() + list
    }

    /// The distinct child nodes, in order (a shared child of a sequence may come twice).
    pub(crate) fn children(&self) -> impl Iterator<Item = &Arc<Node>> {
        let (one, many) = match &self.shape {
            Shape::Leaf { .. } => (None, None),
            Shape::Repeat { child, .. }
            | Shape::Indexed { child, .. }
            | Shape::Blocks { child, .. } => (Some(child), None),
            Shape::Sequence { fields } => (None, Some(fields.iter().map(|field| &field.child))),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

/// The common difference of neighbours, if there is one; 0 for a single entry.
fn constant_stride(displacements: &[i64]) -> Option<i64> {
    let stride = match displacements {
        [] | [_] => 0,
        [first, second, ..] => second.checked_sub(*first)?,
    };
    let regular = displacements.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(stride));
    regular.then_some(stride)
}

/// `count` blocks of `len` copies, `step` bytes apart.
struct Series {
    start: i64,
    len: u64,
    step: i64,
    count: u64,
}

/// Describes a list of (length, displacement) by series, if that makes it much shorter.
fn factor(blocks: impl ExactSizeIterator<Item = (u64, i64)>) -> Option<Vec<Series>> {
    let most = blocks.len() / 4;
    let mut list: Vec<Series> = Vec::new();
    let mut before = 0;
    for (len, at) in blocks {
        let step = at.checked_sub(before)?;
        before = at;
        let grown = list
            .last_mut()
            .filter(|last| last.len == len && (last.count == 1 || last.step == step));
        if let Some(last) = grown {
            (last.step, last.count) = (step, last.count + 1);
        } else if list.len() == most {
            return None;
        } else {
            list.push(Series { start: at, len, step: 0, count: 1 });
        }
    }
    Some(list)
}

/// Drops empty blocks and joins those that continue their predecessor.
fn merge_blocks(list: &[(u64, i64)], stride: i64) -> Result<Vec<(u64, i64)>> {
    let mut merged: Vec<(u64, i64)> = Vec::new();
    for &(len, at) in list.iter().filter(|block| block.0 > 0) {
        if let Some(last) = merged.last_mut() {
            let next = i128::from(last.1) + i128::from(last.0) * i128::from(stride);
            if next == i128::from(at) {
                last.0 = last.0.checked_add(len).ok_or_else(|| too_large("the count"))?;
                continue;
            }
        }
        merged.push((len, at));
    }
    Ok(merged)
}

/// Drops empty children and joins adjacent rows of the same element.
fn merge_leaves(list: Vec<(i64, Arc<Node>)>) -> Result<Vec<(i64, Arc<Node>)>> {
    let mut merged: Vec<(i64, Arc<Node>)> = Vec::with_capacity(list.len());
    for (at, child) in list.into_iter().filter(|part| !part.1.is_empty()) {
        if let (Some((start, last)), Shape::Leaf { basic, count }) =
            (merged.last_mut(), &child.shape)
        {
            let adjacent = start.checked_add(last.facts.end) == Some(at);
            match &last.shape {
                Shape::Leaf { basic: before, count: n } if adjacent && before == basic => {
                    let total = n.checked_add(*count).ok_or_else(|| too_large("the size"))?;
                    *last = Node::leaf(*basic, total)?;
                    continue;
                }
                _ => {}
            }
        }
        merged.push((at, child));
    }
    Ok(merged)
}
