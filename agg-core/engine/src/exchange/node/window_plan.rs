//! The plan of a call's windows: the ranks and nodes that may have data in each, and the ranks that
//! send, receive and store it. All ranks compute it alike from the same summaries.

use super::super::coverage::Coverage;
use super::super::plan_cache::{Dealings, Descriptions, Repeat};
use super::Party;
use super::scale::Scale;
use aggio_base::Extent;
use aggio_base::allocate::no_memory;
use aggio_base::error::Result;
use aggio_comm::node::Map;
use aggio_plan::plan::chunks::Exchanged;
use aggio_plan::plan::node_aggregation::Premises;
use aggio_plan::plan::{Participants, Sequence};

/// The windows of a call, as one rank sees them.
pub(super) struct WindowPlan<'a> {
    map: &'a Map,
    party: Party<'a>,
    windows: Sequence,
    /// The aggregator of each file domain.
    aggregators: Vec<usize>,
    /// The ranks of this node with data, and the nodes.
    participants: Participants,
    participating_nodes: Participants,
    /// Pieces start and end at multiples of 2 to this power.
    grain: u32,
    /// The part of the file that goes through windows; `None` if the entire call does.
    exchanged: Option<&'a Exchanged>,
}

impl<'a> WindowPlan<'a> {
    /// The windows of the call of `party`, one file domain for each of `aggregators`; `room` is
    /// that of [`Sequence::of`]. `None` if most windows would be empty, or there are too many.
    pub(super) fn new(
        map: &'a Map,
        mut party: Party<'a>,
        exchanged: Option<&'a Exchanged>,
        aggregators: Vec<usize>,
        premises: Premises<'_>,
        room: impl Fn(u32) -> u64,
    ) -> Option<Self> {
        if let Some(exchanged) = exchanged {
            let grain = exchanged.grain(party.total.hull).min(u32::from(u8::MAX)) as u8;
            party.total.grain = party.total.grain.min(grain);
        }
        let windows = Sequence::of(&party.total, aggregators.len(), premises, room);
        if windows.is_sparse(party.total.bytes) || windows.count() >= 1 << 31 {
            return None;
        }
        let grain = u32::from(party.total.grain).min(windows.grain());
        let with_data = party.members.iter().filter(|summary| summary.bytes > 0);
        let participants = Participants::of(with_data.map(|summary| summary.span));
        let participating_nodes = Participants::of(party.nodes.iter().copied());
        Some(Self {
            map,
            party,
            windows,
            aggregators,
            participants,
            participating_nodes,
            grain,
            exchanged,
        })
    }

    /// The descriptions from other nodes in a past call, if that had the same windows.
    pub(super) fn descriptions<'r>(&self, repeat: &'r Repeat) -> Option<&'r Descriptions> {
        repeat.descriptions(&self.windows, &self.aggregators, self.grain)
    }

    /// This plan and the `descriptions` received in the call, for the plan cache.
    pub(super) fn into_dealings(self, descriptions: Descriptions) -> Dealings {
        let Self { windows, aggregators, grain, .. } = self;
        Dealings { windows, aggregators, grain, descriptions }
    }

    /// Number of windows, below 2^31.
    pub(super) fn count(&self) -> u32 {
        self.windows.count() as u32
    }

    /// The bytes of `window`.
    pub(super) fn extent(&self, window: u32) -> Extent {
        self.windows.extent(window)
    }

    /// Pieces start and end at multiples of 2 to this power.
    pub(super) fn grain(&self) -> u32 {
        self.grain
    }

    /// The marks of a window with the bytes of `extent`.
    pub(super) fn scale(&self, extent: Extent) -> Scale {
        Scale::new(extent, self.grain)
    }

    /// The most marks of `bytes` bytes in a row.
    pub(super) fn marks_of(&self, bytes: u64) -> usize {
        (bytes >> self.grain) as usize + 2
    }

    /// Empty marks for any window, in `scratch`, made at the first use.
    ///
    /// # Errors
    /// `NoMem` if there is no memory for them.
    pub(super) fn empty_marks<'m>(
        &self,
        scratch: &'m mut Option<Coverage>,
    ) -> Result<&'m mut Coverage> {
        let bits = self.marks_of(self.windows.size());
        if scratch.is_none() {
            *scratch = Coverage::new(bits);
        }
        let marks = scratch.as_mut().ok_or_else(|| no_memory(bits / 8))?;
        marks.clear();
        Ok(marks)
    }

    /// Whether requests to the file take long.
    pub(super) fn is_slow(&self) -> bool {
        self.party.total.figures.is_slow()
    }

    /// How many arrivals `window` waits for: of the ranks of this node that may have data in it,
    /// and of the aggregator if it deals with other nodes.
    pub(super) fn expected(&self, window: u32) -> u32 {
        self.local(window) + u32::from(self.is_home(window) && self.has_others(window))
    }

    /// How many ranks of this node may have data in `window`.
    pub(super) fn local(&self, window: u32) -> u32 {
        let extent = self.extent(window);
        if self.passes(extent) { self.participants.at(extent) as u32 } else { 0 }
    }

    /// Whether part of the data goes through no window.
    pub(super) fn is_partial(&self) -> bool {
        self.exchanged.is_some()
    }

    /// Whether a byte of `extent` may be in a window.
    fn passes(&self, extent: Extent) -> bool {
        self.exchanged.is_none_or(|exchanged| exchanged.touches(extent))
    }

    /// Whether another node may have data in `window`.
    fn has_others(&self, window: u32) -> bool {
        let extent = self.extent(window);
        let own = self.party.nodes.get(self.map.node());
        let here = own.is_some_and(|own| !own.intersect(extent).is_empty());
        self.participating_nodes.at(extent) > usize::from(here) && self.passes(extent)
    }

    /// The other nodes that may have data in `window`.
    pub(super) fn others(&self, window: u32) -> impl Iterator<Item = usize> + use<'_, 'a> {
        let (extent, own) = (self.extent(window), self.map.node());
        let touches = move |node: &Extent| !node.intersect(extent).is_empty();
        let nodes = self.party.nodes.iter().enumerate();
        nodes.filter(move |(number, node)| *number != own && touches(node)).map(|(n, _)| n)
    }

    /// This rank's node.
    pub(super) fn node(&self) -> usize {
        self.map.node()
    }

    /// The aggregator of the file domain of `window`.
    pub(super) fn aggregator(&self, window: u32) -> usize {
        self.aggregators[self.windows.domain(window)]
    }

    /// The node that stores or reads `window`.
    pub(super) fn home(&self, window: u32) -> usize {
        self.map.node_of(self.aggregator(window))
    }

    /// Whether this rank's node stores or reads `window`.
    pub(super) fn is_home(&self, window: u32) -> bool {
        self.home(window) == self.map.node()
    }

    /// The rank of `node` that deals with the aggregator of `window`.
    pub(super) fn courier(&self, node: usize, window: u32) -> usize {
        let members = self.map.members_of(node);
        members[self.windows.domain(window) % members.len()]
    }

    /// The member of its node that keeps `window`: the same in every call on the file.
    pub(super) fn keeper(&self, window: u32) -> usize {
        let place = self.extent(window).offset / self.windows.size();
        (place % self.map.members().len() as u64) as usize
    }

    /// The windows that this rank is the courier of, in order.
    pub(super) fn carried(&self) -> impl Iterator<Item = u32> + use<'_, 'a> {
        let (own, rank) = (self.map.node(), self.map.rank());
        let windows = self.windows.touched_by(self.party.nodes[own]);
        let passing = windows.filter(|window| self.passes(self.extent(*window)));
        passing.filter(move |window| !self.is_home(*window) && self.courier(own, *window) == rank)
    }

    /// The windows about which this rank, as an aggregator, deals with other nodes, in order.
    pub(super) fn dealt_with(&self) -> impl Iterator<Item = u32> + use<'_, 'a> {
        let rank = self.map.rank();
        let domain = self.aggregators.iter().position(|aggregator| *aggregator == rank);
        let extent =
            domain.map_or_else(Extent::default, |domain| self.windows.domain_extent(domain));
        self.windows.touched_by(extent).filter(|window| self.has_others(*window))
    }

    /// The bytes of `window` that `node` may have data in.
    pub(super) fn part_of(&self, node: usize, window: u32) -> Extent {
        self.party.nodes[node].intersect(self.extent(window))
    }

    /// The file bytes from the first to the last of this rank's data.
    fn own_span(&self) -> Extent {
        let own = self.party.members[self.map.index()];
        if own.bytes > 0 { own.span } else { Extent::default() }
    }

    /// The windows that this rank takes part in, in order.
    pub(super) fn own_windows(&self) -> impl Iterator<Item = u32> + use<'a> {
        let some = self.exchanged.map(|exchanged| (exchanged, self.windows.clone()));
        let passes = move |window: &u32| {
            some.as_ref().is_none_or(|(some, windows)| some.touches(windows.extent(*window)))
        };
        self.windows.touched_by(self.own_span()).filter(passes)
    }

    /// The lowest byte of this rank's windows from `window` on; `u64::MAX` if there is none.
    pub(super) fn first_offset_from(&self, window: u32) -> u64 {
        let rest = self.own_windows().filter(|own| *own >= window);
        rest.map(|own| self.extent(own).offset).min().unwrap_or(u64::MAX)
    }

    /// The parts of the file that this rank may have data in, and that go through no window.
    pub(super) fn own_rest(&self) -> impl Iterator<Item = Extent> + use<'a> {
        let span = self.own_span();
        self.exchanged.into_iter().flat_map(move |exchanged| exchanged.rest(span))
    }

    /// The bytes of the window from the first to the last that a rank may need.
    pub(super) fn wanted(&self, window: u32) -> Extent {
        let wanted = self.wanted_by_all(window);
        let Some(exchanged) = self.exchanged else { return wanted };
        exchanged.parts(wanted).reduce(Extent::hull).unwrap_or(Extent::new(wanted.offset, 0))
    }

    /// As if all data went through windows.
    fn wanted_by_all(&self, window: u32) -> Extent {
        let extent = self.extent(window);
        if self.map.has_others() {
            return hull_within(extent, self.party.nodes.iter().copied());
        }
        let with_data = self.party.members.iter().filter(|summary| summary.bytes > 0);
        hull_within(extent, with_data.map(|summary| summary.span))
    }
}

/// The bytes of `extent` from the first to the last that is in one of `spans`.
fn hull_within(extent: Extent, spans: impl Iterator<Item = Extent>) -> Extent {
    let parts = spans.map(|span| span.intersect(extent)).filter(|part| !part.is_empty());
    parts.reduce(Extent::hull).unwrap_or_default()
}
