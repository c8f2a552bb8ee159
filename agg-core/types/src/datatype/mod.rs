//! Datatypes as compact trees.
//!
//! A [`Datatype`] is a sequence of basic elements at displacements, kept as a tree of regular
//! patterns (rows, repetitions, lists of equal blocks, lists of fields). Its cost is that of its
//! *description*, never that of its pieces, and every question is answered from facts kept in the
//! nodes or by one walk down the tree.

mod basic;
mod constructors;
mod cursor;
mod darray;
pub(crate) mod decode;
pub(crate) mod digest;
mod elements;
pub(crate) mod encode;
pub mod external32;
mod facts;
mod locate;
mod node;
mod subarray;
mod walk;

pub use basic::{Basic, BasicKind};
pub use cursor::{Cursor, Rows};
pub use darray::Distribution;
pub use elements::Elements;
pub use subarray::Order;

use digest::Digest;
use node::Node;
use std::collections::HashSet;
use std::sync::Arc;

/// A datatype: data bytes at displacements, and the bounds by which copies are placed.
///
/// Displacements are in bytes. Cheap to clone. Two datatypes are equal if their layout, order,
/// elements and bounds are.
///
/// Bounds follow MPI-4.1, 5.1.6 and 5.1.7, without the padding to an alignment that an MPI library
/// adds to a `struct`: apply [`Datatype::resized`] with the library's extent for that.
#[derive(Clone, Debug)]
pub struct Datatype {
    /// Displacement of the first data byte; 0 if there is none.
    start: i64,
    lb: i64,
    ub: i64,
    /// The bounds were set by hand and win against those of other fields (MPI-4.1, 5.1.7).
    explicit: bool,
    /// Where the fields of a structure begin, if it was made of several, in ascending order.
    fields: Option<Arc<[i64]>>,
    node: Arc<Node>,
}

impl Datatype {
    /// Data bytes of one copy in memory.
    #[inline]
    pub fn size(&self) -> u64 {
        self.node.facts.size
    }

    /// Data bytes of one copy in the `external32` representation.
    #[inline]
    pub fn external_size(&self) -> u64 {
        self.node.facts.external_size
    }

    /// Lower bound, in bytes.
    #[inline]
    pub fn lb(&self) -> i64 {
        self.lb
    }

    /// Upper bound, in bytes.
    #[inline]
    pub fn ub(&self) -> i64 {
        self.ub
    }

    /// The distance between two copies in a row, in bytes.
    #[inline]
    pub fn extent(&self) -> i64 {
        self.ub - self.lb
    }

    /// Displacement of the lowest data byte; 0 without data.
    #[inline]
    pub fn true_lb(&self) -> i64 {
        self.start + self.node.facts.low
    }

    /// One past the displacement of the highest data byte; 0 without data.
    #[inline]
    pub fn true_ub(&self) -> i64 {
        self.start + self.node.facts.high
    }

    /// Bytes from the lowest data byte to the highest.
    #[inline]
    pub fn true_extent(&self) -> i64 {
        self.node.facts.high - self.node.facts.low
    }

    /// Displacement of the first data byte in typemap order; 0 without data.
    #[inline]
    pub fn first_displacement(&self) -> i64 {
        self.start
    }

    /// The displacements at which the fields of a structure were placed, in ascending order, if it
    /// has several and none lies before another. A field's first data byte may lie further on. Does
    /// not travel to other ranks.
    #[inline]
    pub fn fields(&self) -> Option<&[i64]> {
        self.fields.as_deref()
    }

    /// Whether any number of copies is one run of bytes (that starts at
    /// [`Datatype::first_displacement`]). True without data.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        let facts = &self.node.facts;
        facts.size == 0 || (facts.dense() && self.extent() == facts.end)
    }

    /// Whether one copy is a single run of bytes.
    #[inline]
    pub fn is_single_run(&self) -> bool {
        self.node.facts.dense()
    }

    /// Whether the displacements of one copy's elements never decrease.
    #[inline]
    pub fn is_monotone(&self) -> bool {
        self.node.facts.monotone
    }

    /// Whether elements of one copy share bytes. Exact if [`Datatype::is_monotone`]; otherwise
    /// `false` is certain and `true` means that the hulls of some parts meet.
    #[inline]
    pub fn has_overlap(&self) -> bool {
        self.node.facts.overlap
    }

    /// Whether in any number of copies each data byte lies behind the one before it.
    #[inline]
    pub fn is_ascending(&self) -> bool {
        let facts = &self.node.facts;
        facts.size == 0 || (facts.monotone && !facts.overlap && facts.end <= self.extent())
    }

    /// Runs of bytes in one copy, adjacent ones merged; saturates.
    #[inline]
    pub fn pieces(&self) -> u64 {
        self.node.facts.pieces
    }

    /// All runs of any number of copies start, relative to the first, and end at multiples of 2 to
    /// this power.
    #[inline]
    pub fn grain(&self) -> u32 {
        self.node.facts.grain.min(self.extent().trailing_zeros())
    }

    /// The only basic element in the datatype, if there is only one.
    #[inline]
    pub fn uniform(&self) -> Option<Basic> {
        self.node.facts.uniform
    }

    /// Bytes of memory that the tree takes.
    #[inline]
    pub fn tree_bytes(&self) -> usize {
        let (mut seen, mut stack) = (HashSet::new(), vec![&self.node]);
        let fields = self.fields.as_deref().map_or(0, size_of_val);
        let mut total = size_of::<Datatype>() + fields;
        while let Some(node) = stack.pop() {
            if seen.insert(Arc::as_ptr(node)) {
                total += node.own_bytes();
                stack.extend(node.children());
            }
        }
        total
    }

    /// A digest of layout, order, elements and bounds: equal on all ranks for equal datatypes.
    #[inline]
    pub fn hash(&self) -> u128 {
        Digest::new(6)
            .wide(self.node.facts.hash)
            .signed(self.start)
            .signed(self.lb)
            .signed(self.ub)
            .word(u64::from(self.explicit))
            .finish()
    }

    /// Displacement of data byte `position` of the endless tiling, in which copy `k` starts at
    /// `k * extent`. Saturates; the first displacement without data.
    #[inline]
    pub fn offset_at(&self, position: u64) -> i64 {
        let size = self.size();
        if size == 0 {
            return self.start;
        }
        let copy = i128::from(position / size) * i128::from(self.extent());
        let within = locate::offset(&self.node, position % size);
        clamp(copy + i128::from(self.start) + i128::from(within))
    }

    /// Number of data bytes of the endless tiling that lie below `displacement`, for a tiling that
    /// [is ascending](Datatype::is_ascending).
    #[inline]
    pub fn data_before(&self, displacement: i64) -> u64 {
        let size = self.size();
        let (below, extent) = match displacement.checked_sub(self.start) {
            Some(below) if below > 0 && size > 0 => (below, self.extent()),
            _ => return 0,
        };
        if extent <= 0 {
            return locate::before(&self.node, below);
        }
        let copy = (below - 1) / extent;
        let within = locate::before(&self.node, below - copy * extent);
        u64::try_from(copy).unwrap_or(0).saturating_mul(size).saturating_add(within)
    }

    /// A cursor over `count` copies (`u64::MAX` = endless), standing at data byte `position`.
    #[inline]
    pub fn cursor(&self, count: u64, position: u64) -> Cursor {
        Cursor::new(self.clone(), count, position)
    }

    /// The basic elements of `count` copies in typemap order, equal neighbours counted together.
    #[inline]
    pub fn elements(&self, count: u64) -> Elements {
        Elements::new(self, count)
    }
}

impl PartialEq for Datatype {
    fn eq(&self, other: &Self) -> bool {
        self.hash() == other.hash()
    }
}

impl Eq for Datatype {}

fn clamp(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod typemap;
