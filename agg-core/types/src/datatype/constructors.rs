//! MPI's datatype constructors (MPI-4.1, 5.1.2), all lengths in copies, all displacements in bytes.

use super::facts::too_large;
use super::node::Node;
use super::{Basic, Datatype};
use aggio_base::error::{Error, ErrorClass, Result};
use std::sync::Arc;

/// Lower and upper bound while they are computed.
#[derive(Clone, Copy)]
struct Bounds {
    lb: i128,
    ub: i128,
    explicit: bool,
}

impl Bounds {
    fn join(all: Option<Bounds>, other: Bounds) -> Bounds {
        match all {
            // A bound that was set by hand wins against one that was derived.
            Some(all) if all.explicit && !other.explicit => all,
            Some(all) if all.explicit == other.explicit => {
                Bounds { lb: all.lb.min(other.lb), ub: all.ub.max(other.ub), ..all }
            }
            _ => other,
        }
    }
}

/// `wanted + displacement` in 64 bits.
fn place(displacement: i128, what: &str) -> Result<i64> {
    i64::try_from(displacement).map_err(|_| too_large(what))
}

impl Datatype {
    /// One basic element.
    pub fn basic(basic: Basic) -> Self {
        match Node::leaf(basic, 1) {
            Ok(node) => Self::row(node),
            Err(_) => Self::row(Node::empty()),
        }
    }

    /// `count` bytes without a meaning; at most `i64::MAX`.
    pub fn bytes(count: u64) -> Self {
        match Node::leaf(Basic::BYTE, count.min(i64::MAX as u64)) {
            Ok(node) => Self::row(node),
            Err(_) => Self::row(Node::empty()),
        }
    }

    fn row(node: Arc<Node>) -> Self {
        Self { start: 0, lb: 0, ub: node.facts.end, explicit: false, fields: None, node }
    }

    /// `count` copies in a row.
    pub fn contiguous(count: u64, child: &Datatype) -> Result<Self> {
        Self::hvector(1, count, 0, child)
    }

    /// `count` blocks of `blocklength` copies; the blocks start `stride` bytes apart.
    pub fn hvector(count: u64, blocklength: u64, stride: i64, child: &Datatype) -> Result<Self> {
        let block = Node::repeat(blocklength, child.extent(), &child.node)?;
        let node = Node::repeat(count, stride, &block)?;
        let mut bounds = None;
        if count > 0 {
            let last = i128::from(count - 1) * i128::from(stride);
            for displacement in [0, last] {
                bounds = child.hull(bounds, blocklength, displacement);
            }
        }
        Self::assemble(i128::from(child.start), bounds, node)
    }

    /// Blocks of (number of copies, displacement).
    pub fn hindexed(blocks: &[(u64, i64)], child: &Datatype) -> Result<Self> {
        let (start, node) = Node::blocks(blocks, child.extent(), &child.node)?;
        let bounds = blocks.iter().fold(None, |all, (len, at)| child.hull(all, *len, (*at).into()));
        Self::assemble(i128::from(start) + i128::from(child.start), bounds, node)
    }

    /// Blocks of `blocklength` copies at `displacements`.
    pub fn hindexed_block(
        blocklength: u64,
        displacements: &[i64],
        child: &Datatype,
    ) -> Result<Self> {
        let start = displacements.first().copied().unwrap_or(0);
        let relative = |at: &i64| at.checked_sub(start).ok_or_else(|| too_large("a displacement"));
        let relative = displacements.iter().map(relative).collect::<Result<_>>()?;
        let block = Node::repeat(blocklength, child.extent(), &child.node)?;
        let node = Node::indexed(relative, &block)?;
        let bounds = displacements
            .iter()
            .fold(None, |all, at| child.hull(all, blocklength, i128::from(*at)));
        Self::assemble(i128::from(start) + i128::from(child.start), bounds, node)
    }

    /// Fields of (number of copies, displacement, datatype).
    pub fn structure(fields: &[(u64, i64, Datatype)]) -> Result<Self> {
        let mut list = Vec::with_capacity(fields.len());
        let mut bounds = None;
        for (len, at, child) in fields {
            let node = Node::repeat(*len, child.extent(), &child.node)?;
            let start = place(i128::from(*at) + i128::from(child.start), "a displacement")?;
            list.push((start, node));
            bounds = child.hull(bounds, *len, (*at).into());
        }
        let (start, node) = Node::sequence(list)?;
        let structure = Self::assemble(start.into(), bounds, node)?;
        Ok(Self { fields: ascending(fields), ..structure })
    }

    /// The same data with another lower bound and extent.
    pub fn resized(&self, lb: i64, extent: i64) -> Result<Self> {
        let ub = lb.checked_add(extent).ok_or_else(|| too_large("the upper bound"))?;
        Ok(Self { lb, ub, explicit: true, ..self.clone() })
    }

    /// The bounds of `len` copies at `displacement`, added to `all`.
    fn hull(&self, all: Option<Bounds>, len: u64, displacement: i128) -> Option<Bounds> {
        if len == 0 || (self.size() == 0 && !self.explicit) {
            return all;
        }
        let last = i128::from(len - 1) * i128::from(self.extent());
        let (lb, ub) = (displacement + i128::from(self.lb), displacement + i128::from(self.ub));
        let bounds =
            Bounds { lb: lb.min(lb + last), ub: ub.max(ub + last), explicit: self.explicit };
        Some(Bounds::join(all, bounds))
    }

    fn assemble(start: i128, bounds: Option<Bounds>, node: Arc<Node>) -> Result<Self> {
        let bounds = bounds.unwrap_or(Bounds { lb: 0, ub: 0, explicit: false });
        let start = if node.is_empty() { 0 } else { place(start, "a displacement")? };
        let datatype = Self {
            start,
            lb: place(bounds.lb, "the lower bound")?,
            ub: place(bounds.ub, "the upper bound")?,
            explicit: bounds.explicit,
            fields: None,
            node,
        };
        datatype.checked()
    }

    /// Makes sure that extent and true bounds can be computed without overflow.
    fn checked(self) -> Result<Self> {
        let facts = &self.node.facts;
        let fits = self.ub.checked_sub(self.lb).is_some()
            && self.start.checked_add(facts.low).is_some()
            && self.start.checked_add(facts.high).is_some()
            && facts.high.checked_sub(facts.low).is_some();
        if fits { Ok(self) } else { Err(too_large("the extent")) }
    }

    /// A datatype of known parts, for layouts that are built node by node.
    pub(super) fn from_parts(
        start: i64,
        (lb, ub): (i64, i64),
        explicit: bool,
        node: Arc<Node>,
    ) -> Result<Self> {
        let start = if node.is_empty() { 0 } else { start };
        Self { start, lb, ub, explicit, fields: None, node }.checked()
    }

    pub(super) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    pub(super) fn parts(&self) -> (i64, i64, i64, bool) {
        (self.start, self.lb, self.ub, self.explicit)
    }
}

/// Where the fields with data lie, if there are several, each behind the one before it.
fn ascending(fields: &[(u64, i64, Datatype)]) -> Option<Arc<[i64]>> {
    let with_data = fields.iter().filter(|(len, _, child)| *len > 0 && child.size() > 0);
    let places: Vec<i64> = with_data.map(|(_, at, _)| *at).collect();
    let ascends = places.len() > 1 && places.windows(2).all(|pair| pair[0] < pair[1]);
    ascends.then(|| places.into())
}

/// The error for arguments that MPI calls erroneous.
pub(super) fn invalid(text: String) -> Error {
    Error::new(ErrorClass::Arg, text)
}
