//! Maps the extents of a generation to the nodes that have their bytes. All other bytes are in the
//! memory of this node.

use crate::peers::Holder;
use crate::registry::Series;
use aggio_base::Extent;
use aggio_base::overlay::Overlay;
use aggio_link::Peer;
use std::collections::{BTreeMap, BTreeSet};

/// All bytes of a file.
pub(crate) const ALL: Extent = Extent { offset: 0, len: u64::MAX };

/// The reports of a node that has bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Reported {
    /// The number of its last report.
    pub(super) number: u64,
    /// The series under which it has announced the bytes to its subscribers.
    announced: Option<Series>,
}

impl Reported {
    pub(super) fn is_announced(&self, series: &Series) -> bool {
        self.announced.as_ref() == Some(series)
    }
}

/// The map of one generation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Located {
    parts: Overlay<Holder>,
    /// All nodes that have, or had, bytes.
    holders: BTreeMap<Holder, Reported>,
    /// The series under which this node has announced its own bytes.
    announced: Option<Series>,
}

impl Located {
    /// A node has the newest bytes of these extents, by its report with this number.
    pub(super) fn note(&mut self, holder: Holder, report: u64, extents: &[Extent]) {
        self.holders.entry(holder).or_default().number = report;
        extents.iter().for_each(|extent| self.parts.join(*extent, holder));
    }

    /// This node has announced its bytes to the subscribers of a series.
    pub(crate) fn announced_here(&mut self, series: Series) {
        self.announced = Some(series);
    }

    /// A holder has announced its bytes to the subscribers of a series.
    pub(super) fn announced(&mut self, holder: Holder, series: Series) {
        if let Some(reported) = self.holders.get_mut(&holder) {
            reported.announced = Some(series);
        }
    }

    pub(super) fn is_announced_here(&self, series: &Series) -> bool {
        self.announced.as_ref() == Some(series)
    }

    pub(super) fn reported(&self, holder: Holder) -> Option<&Reported> {
        self.holders.get(&holder)
    }

    /// This node has the newest bytes of `extent`.
    pub(super) fn is_here(&mut self, extent: Extent) {
        self.parts.take(extent);
    }

    /// This node has the bytes of `extent` by now that `holder` has.
    pub(super) fn came(&mut self, extent: Extent, holder: Holder) {
        let same = self.within(extent).into_iter().filter(|(_, other)| *other == holder);
        same.for_each(|(part, _)| self.is_here(part));
    }

    /// The map of a generation that begins with the bytes of this one; `None` if all are here.
    pub(super) fn heir(&self) -> Option<Self> {
        let is_elsewhere = !self.is_empty();
        is_elsewhere.then(|| Self { announced: None, ..self.clone() })
    }

    /// Whether no other node has any bytes.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The bytes of `extent` that other nodes have, in order.
    pub(crate) fn within(&self, extent: Extent) -> Vec<(Extent, Holder)> {
        self.parts.within(extent).collect()
    }

    /// The bytes of `extent` that `holder` has, and those of all others.
    pub(super) fn split(&self, extent: Extent, holder: Holder) -> [Vec<Extent>; 2] {
        let all = self.within(extent).into_iter();
        let (own, others): (Vec<_>, Vec<_>) = all.partition(|(_, other)| *other == holder);
        [own, others].map(|parts| parts.into_iter().map(|(part, _)| part).collect())
    }

    /// The most bytes that any other node has.
    pub(crate) fn largest_share(&self) -> u64 {
        let mut shares = BTreeMap::<Peer, u64>::new();
        for (part, holder) in self.within(ALL) {
            *shares.entry(holder.peer).or_default() += part.len;
        }
        shares.into_values().max().unwrap_or(0)
    }

    /// The extents that other nodes have, and these nodes.
    pub(super) fn parts(&self) -> impl Iterator<Item = (Extent, Holder)> {
        self.parts.iter()
    }

    /// The nodes that have bytes.
    pub(crate) fn holders(&self) -> BTreeSet<Holder> {
        self.parts.iter().map(|(_, holder)| holder).collect()
    }

    /// Whether the node of `peer` has bytes.
    pub(super) fn is_on(&self, peer: Peer) -> bool {
        self.parts.iter().any(|(_, one)| one.peer == peer)
    }

    /// The generation is complete: forgets holders of overwritten bytes only. Returns all holders
    /// of before.
    pub(super) fn complete(&mut self) -> Vec<Holder> {
        let holders = self.holders();
        let before = self.holders.keys().copied().collect();
        self.holders.retain(|holder, _| holders.contains(holder));
        before
    }

    /// The generation is freed. Returns all holders.
    pub(super) fn free(&mut self) -> Vec<Holder> {
        std::mem::take(self).holders.into_keys().collect()
    }
}
