//! Questions answered by one walk down the tree: where is a byte, how many bytes lie below.

use super::node::{Block, Node, Shape};

/// The block that holds copy `copy`.
pub(super) fn block_of(blocks: &[Block], copy: u64) -> usize {
    blocks.partition_point(|block| block.first <= copy).saturating_sub(1)
}

/// Displacement of data byte `position`, which must be less than the node's size.
pub(super) fn offset(node: &Node, mut position: u64) -> i64 {
    let (mut node, mut at) = (node, 0i64);
    loop {
        if node.facts.dense() {
            return at.wrapping_add(position as i64);
        }
        let (displacement, child) = match &node.shape {
            Shape::Leaf { .. } => return at.wrapping_add(position as i64),
            Shape::Repeat { stride, child, .. } => {
                let copy = position / child.facts.size;
                position %= child.facts.size;
                ((copy as i64).wrapping_mul(*stride), child)
            }
            Shape::Indexed { displacements, child } => {
                let copy = position / child.facts.size;
                position %= child.facts.size;
                let index = (copy as usize).min(displacements.len() - 1);
                (displacements[index], child)
            }
            Shape::Blocks { blocks, stride, child, .. } => {
                let copy = position / child.facts.size;
                position %= child.facts.size;
                (copy_displacement(blocks, *stride, copy), child)
            }
            Shape::Sequence { fields } => {
                let index = fields.partition_point(|field| field.position <= position);
                let field = &fields[index.saturating_sub(1)];
                position -= field.position;
                (field.displacement, &field.child)
            }
        };
        at = at.wrapping_add(displacement);
        node = child;
    }
}

/// Displacement of copy number `copy` of a list of blocks.
fn copy_displacement(blocks: &[Block], stride: i64, copy: u64) -> i64 {
    let block = blocks[block_of(blocks, copy)];
    block.displacement.wrapping_add(((copy - block.first) as i64).wrapping_mul(stride))
}

/// Data bytes below `limit`, for a monotone node with elements that share no bytes.
pub(super) fn before(node: &Node, mut limit: i64) -> u64 {
    let (mut node, mut count) = (node, 0u64);
    loop {
        if limit <= 0 {
            return count;
        }
        if limit >= node.facts.end {
            return count.saturating_add(node.facts.size);
        }
        if node.facts.dense() {
            return count.saturating_add(limit as u64);
        }
        let (passed, displacement, child) = match &node.shape {
            Shape::Leaf { .. } => return count.saturating_add(limit as u64),
            Shape::Repeat { count: copies, stride, child } => {
                let copy = ((limit - 1) / (*stride).max(1)).min((*copies - 1) as i64);
                (copy as u64 * child.facts.size, copy * stride, child)
            }
            Shape::Indexed { displacements, child } => {
                let index = displacements.partition_point(|at| *at < limit).saturating_sub(1);
                (index as u64 * child.facts.size, displacements[index], child)
            }
            Shape::Blocks { blocks, stride, child, .. } => {
                let index = blocks.partition_point(|block| block.displacement < limit);
                let index = index.saturating_sub(1);
                let block = blocks[index];
                let end =
                    blocks.get(index + 1).map_or(node.facts.size / child.facts.size, |b| b.first);
                let most = (end - block.first - 1) as i64;
                let copy = ((limit - block.displacement - 1) / (*stride).max(1)).min(most);
                let passed = (block.first + copy as u64) * child.facts.size;
                (passed, block.displacement + copy * stride, child)
            }
            Shape::Sequence { fields } => {
                let index = fields.partition_point(|field| field.displacement < limit);
                let field = &fields[index.saturating_sub(1)];
                (field.position, field.displacement, &field.child)
            }
        };
        count = count.saturating_add(passed);
        limit -= displacement;
        node = child;
    }
}
