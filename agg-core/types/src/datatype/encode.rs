//! The bytes in which a datatype travels to other ranks.
//!
//! ```text
//! version, number of nodes, nodes (children before parents, each distinct node once),
//! start, lb, ub, explicit
//! ```
//!
//! Numbers are LEB128 with zigzag signs, lists hold differences to the entry before, and children
//! are numbers of earlier nodes. Facts are not sent: the receiver computes its own.

use super::Datatype;
use super::node::{Node, Shape};
use std::collections::HashMap;
use std::sync::Arc;

/// First byte of the encoding.
pub(super) const VERSION: u8 = 1;

pub(super) const LEAF: u8 = 0;
pub(super) const REPEAT: u8 = 1;
pub(super) const INDEXED: u8 = 2;
pub(super) const BLOCKS: u8 = 3;
pub(super) const SEQUENCE: u8 = 4;

pub(crate) fn unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn signed(out: &mut Vec<u8>, value: i64) {
    unsigned(out, (value << 1) as u64 ^ (value >> 63) as u64);
}

impl Datatype {
    /// The datatype as bytes, for [`Datatype::decode`] on any rank.
    pub fn encode(&self) -> Vec<u8> {
        let mut nodes = Vec::new();
        let mut numbers = HashMap::new();
        number(self.node(), &mut nodes, &mut numbers);
        let mut out = vec![VERSION];
        unsigned(&mut out, nodes.len() as u64);
        for node in nodes {
            encode_node(node, &numbers, &mut out);
        }
        let (start, lb, ub, explicit) = self.parts();
        for value in [start, lb, ub] {
            signed(&mut out, value);
        }
        out.push(u8::from(explicit));
        out
    }
}

/// Numbers the distinct nodes below and including `node`, children first.
fn number<'a>(node: &'a Arc<Node>, nodes: &mut Vec<&'a Node>, numbers: &mut HashMap<u128, u64>) {
    if numbers.contains_key(&node.facts.hash) {
        return;
    }
    for child in node.children() {
        number(child, nodes, numbers);
    }
    numbers.insert(node.facts.hash, nodes.len() as u64);
    nodes.push(node);
}

fn encode_node(node: &Node, numbers: &HashMap<u128, u64>, out: &mut Vec<u8>) {
    let child_number = |child: &Arc<Node>| numbers.get(&child.facts.hash).copied().unwrap_or(0);
    match &node.shape {
        Shape::Leaf { basic, count } => {
            out.extend([LEAF, basic.kind as u8]);
            unsigned(out, basic.size.into());
            unsigned(out, basic.external_size.into());
            unsigned(out, *count);
        }
        Shape::Repeat { count, stride, child } => {
            out.push(REPEAT);
            unsigned(out, child_number(child));
            unsigned(out, *count);
            signed(out, *stride);
        }
        Shape::Indexed { displacements, child } => {
            out.push(INDEXED);
            unsigned(out, child_number(child));
            unsigned(out, displacements.len() as u64);
            let mut before = 0i64;
            for at in displacements {
                signed(out, at.wrapping_sub(before));
                before = *at;
            }
        }
        Shape::Blocks { blocks, stride, child, .. } => {
            out.push(BLOCKS);
            unsigned(out, child_number(child));
            signed(out, *stride);
            unsigned(out, blocks.len() as u64);
            let copies = node.facts.size / child.facts.size;
            let ends = blocks.iter().skip(1).map(|block| block.first).chain([copies]);
            let mut before = 0i64;
            for (block, end) in blocks.iter().zip(ends) {
                unsigned(out, end - block.first);
                signed(out, block.displacement.wrapping_sub(before));
                before = block.displacement;
            }
        }
        Shape::Sequence { fields } => {
            out.push(SEQUENCE);
            unsigned(out, fields.len() as u64);
            let mut before = 0i64;
            for field in fields {
                unsigned(out, child_number(&field.child));
                signed(out, field.displacement.wrapping_sub(before));
                before = field.displacement;
            }
        }
    }
}
