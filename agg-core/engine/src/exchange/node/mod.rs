//! Two-phase I/O among the ranks of one node: windows of the file in memory that all share.
//!
//! Every rank copies its pieces once, in parallel with the others, between its buffer and windows
//! in file order. Any free rank stores a full window; the first rank that needs a window reads it.
//! No rank waits for a particular other.
//!
//! With ranks on several nodes each has a ring of its own, through which all windows pass in one
//! order. Every file domain has an aggregator; only the window of the aggregator's node is stored
//! or read. Data moves between it and the window of each other node in one message.

mod alone;
mod fetch;
mod lost;
mod mail;
mod marks;
mod read;
mod send;
mod wire;
mod write;

pub(super) use read::run as read;
pub(super) use write::run as write;

use super::plan_cache::{Dealings, Descriptions, Lesson, Repeat};
use super::share::Part;
use super::{Request, Scene};
use aggio_base::Extent;
use aggio_comm::meeting::Meeting;
use aggio_comm::node::{Node, Ring};
use aggio_config::hints::Origin;
use aggio_plan::plan::chunks::Exchanged;
use aggio_plan::plan::node_aggregation::{self, Premises};
use aggio_plan::plan::{Participants, Sequence, Summary, Total};
use aggio_types::copy::Data;
use std::sync::{Mutex, PoisonError};

/// In how many pieces a rank copies its part of a window.
const TURNS: u64 = 4;

/// A collective call that moves its data through the shared memory of nodes.
pub(super) struct NodeAggregation<'a> {
    scene: Scene<'a>,
    request: Request<'a>,
    party: Party<'a>,
    meeting: &'a Meeting<'a>,
    ring: Ring<'a>,
    windows: Sequence,
    /// The aggregator of each file domain.
    aggregators: Vec<usize>,
    /// The ranks of this node with data, and the nodes.
    participants: Participants,
    participating_nodes: Participants,
    /// Pieces start and end at multiples of 2 to this power.
    grain: u32,
    /// Every window has a keeper.
    kept: bool,
    /// The past call that this one repeats; its plan is reused, and messages contain only data.
    repeat: Option<&'a Repeat>,
    /// The part of the file that goes through windows; `None` if the entire call does.
    exchanged: Option<&'a Exchanged>,
    /// The descriptions received from other nodes, in the order in which this rank handles them.
    learned: Mutex<Descriptions>,
}

/// The requests of the ranks in a call, as summaries.
#[derive(Clone, Copy)]
pub(super) struct Party<'a> {
    /// The summaries of the ranks of this node.
    pub(super) members: &'a [Summary],
    /// The file bytes from the first to the last that each node requests.
    pub(super) nodes: &'a [Extent],
    /// The totals of all ranks.
    pub(super) total: Total,
}

impl<'a> NodeAggregation<'a> {
    /// `None` if the call is better served with messages; alike on all ranks.
    pub(super) fn plan(
        scene: Scene<'a>,
        request: Request<'a>,
        party: Party<'a>,
        meeting: &'a Meeting<'a>,
        (repeat, exchanged): (Option<&'a Repeat>, Option<&'a Exchanged>),
    ) -> Option<Self> {
        // In atomic mode the order of overlapping writes must be that of some sequence of calls.
        let operation = meeting.operation().filter(|_| scene.atomic.is_none())?;
        let map = operation.node().map();
        let aggregators = match named(&scene) {
            true => scene.aggregators.to_vec(),
            false => node_aggregation::aggregators(scene.aggregators, &party.total, |rank| {
                map.node_of(rank)
            }),
        };
        let room = |grain| operation.window(grain);
        let mut party = party;
        if let Some(exchanged) = exchanged {
            let grain = exchanged.grain(party.total.hull).min(u32::from(u8::MAX)) as u8;
            party.total.grain = party.total.grain.min(grain);
        }
        let windows = Sequence::of(&party.total, aggregators.len(), premises(&scene), room);
        if windows.is_sparse(party.total.bytes) {
            return None;
        }
        let count = u32::try_from(windows.count()).ok().filter(|count| *count < 1 << 31)?;
        let grain = u32::from(party.total.grain).min(windows.grain());
        let ring = Ring::new(operation, count);
        let with_data = party.members.iter().filter(|summary| summary.bytes > 0);
        let participants = Participants::of(with_data.map(|summary| summary.span));
        let participating_nodes = Participants::of(party.nodes.iter().copied());
        let knows = |repeat: &&Repeat| repeat.descriptions(&windows, &aggregators, grain).is_some();
        Some(Self {
            repeat: repeat.filter(knows),
            exchanged,
            learned: Mutex::default(),
            scene,
            request,
            party,
            meeting,
            ring,
            windows,
            aggregators,
            participants,
            participating_nodes,
            grain,
            kept: party.total.figures.is_slow() && !named(&scene),
        })
    }

    /// Whether this is carried out by the plan of a past call.
    pub(super) fn repeats(&self) -> bool {
        self.repeat.is_some()
    }

    /// The descriptions received in this call, for the plan cache, unless it repeats a past one.
    pub(super) fn into_lesson(self) -> Option<Lesson> {
        if self.repeats() || self.exchanged.is_some() {
            return None;
        }
        let learned = self.learned.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Self { windows, aggregators, grain, .. } = self;
        let descriptions = learned.whole()?;
        Some(Lesson::Windows(Dealings { windows, aggregators, grain, descriptions }))
    }

    fn node(&self) -> &Node {
        self.ring.node()
    }

    /// How many arrivals `window` waits for: of the ranks of this node that may have data in it,
    /// and of the aggregator if it deals with other nodes.
    fn expected(&self, window: u32) -> u32 {
        self.local(window) + u32::from(self.is_home(window) && self.has_others(window))
    }

    /// How many ranks of this node may have data in `window`.
    fn local(&self, window: u32) -> u32 {
        let extent = self.windows.extent(window);
        if self.passes(extent) { self.participants.at(extent) as u32 } else { 0 }
    }

    /// Whether a byte of `extent` may be in a window.
    fn passes(&self, extent: Extent) -> bool {
        self.exchanged.is_none_or(|exchanged| exchanged.touches(extent))
    }

    /// Whether another node may have data in `window`.
    fn has_others(&self, window: u32) -> bool {
        let extent = self.windows.extent(window);
        let own = self.party.nodes.get(self.node().map().node());
        let here = own.is_some_and(|own| !own.intersect(extent).is_empty());
        self.participating_nodes.at(extent) > usize::from(here) && self.passes(extent)
    }

    /// The other nodes that may have data in `window`.
    fn others(&self, window: u32) -> impl Iterator<Item = usize> + use<'_, 'a> {
        let (extent, own) = (self.windows.extent(window), self.node().map().node());
        let touches = move |node: &Extent| !node.intersect(extent).is_empty();
        let nodes = self.party.nodes.iter().enumerate();
        nodes.filter(move |(number, node)| *number != own && touches(node)).map(|(n, _)| n)
    }

    /// The aggregator of the file domain of `window`.
    fn aggregator(&self, window: u32) -> usize {
        self.aggregators[self.windows.domain(window)]
    }

    /// The node that stores or reads `window`.
    fn home(&self, window: u32) -> usize {
        self.node().map().node_of(self.aggregator(window))
    }

    fn is_home(&self, window: u32) -> bool {
        self.home(window) == self.node().map().node()
    }

    /// The rank of `node` that deals with the aggregator of `window`.
    fn courier(&self, node: usize, window: u32) -> usize {
        let members = self.node().map().members_of(node);
        members[self.windows.domain(window) % members.len()]
    }

    /// The windows that this rank is the courier of, in order.
    fn carried(&self) -> impl Iterator<Item = u32> + use<'_, 'a> {
        let (own, rank) = (self.node().map().node(), self.scene.transport.rank());
        let windows = self.windows.touched_by(self.party.nodes[own]);
        let passing = windows.filter(|window| self.passes(self.windows.extent(*window)));
        passing.filter(move |window| !self.is_home(*window) && self.courier(own, *window) == rank)
    }

    /// The windows about which this rank, as an aggregator, deals with other nodes, in order.
    fn dealt_with(&self) -> impl Iterator<Item = u32> + use<'_, 'a> {
        let rank = self.scene.transport.rank();
        let domain = self.aggregators.iter().position(|aggregator| *aggregator == rank);
        let extent =
            domain.map_or_else(Extent::default, |domain| self.windows.domain_extent(domain));
        self.windows.touched_by(extent).filter(|window| self.has_others(*window))
    }

    /// The bytes of `window` that `node` may have data in.
    fn part_of(&self, node: usize, window: u32) -> Extent {
        self.party.nodes[node].intersect(self.windows.extent(window))
    }

    /// The largest message with data of `node` in `window`.
    fn largest_message(&self, node: usize, window: u32) -> usize {
        let bytes = self.part_of(node, window).len as usize;
        wire::most((bytes >> self.grain) + 2, bytes)
    }

    /// This rank's data in `extent`: a range of its view's data.
    fn part(&self, extent: Extent) -> Part {
        let Request { view, position, .. } = self.request;
        let end = position.saturating_add(self.request.len());
        let first = view.data_before(extent.offset).clamp(position, end);
        let last = view.data_before(extent.end()).clamp(first, end);
        Part { window: extent, position: first, len: (last - first) as usize }
    }

    /// This rank's data in `window` that goes through windows, in order.
    fn parts(&self, window: Extent) -> impl Iterator<Item = Part> {
        let all = self.exchanged.is_none().then_some(window);
        let some = self.exchanged.into_iter().flat_map(move |exchanged| exchanged.parts(window));
        let parts = all.into_iter().chain(some).map(|extent| self.part(extent));
        parts.filter(|part| part.len > 0).map(move |part| Part { window, ..part })
    }

    /// This rank's data, for copying.
    fn data(&self) -> Data<'a> {
        let Request { view, position, memory } = self.request;
        Data { view, position, memory }
    }

    /// The data of this rank in `window`, in several pieces. Each member begins with a different
    /// piece, so that members that use one window at the same time stay out of each other's cache
    /// lines.
    fn in_turn(&self, window: Extent) -> impl Iterator<Item = Part> {
        let step = window.len.div_ceil(TURNS).max(1);
        let first = self.ring.index() as u64;
        (first..first + TURNS).flat_map(move |turn| {
            let start = window.offset + turn % TURNS * step;
            let parts = self.parts(Extent::between(start, start + step).intersect(window));
            parts.map(move |part| Part { window, ..part })
        })
    }

    /// The windows that this rank takes part in, in order.
    fn own_windows(&self) -> impl Iterator<Item = u32> + use<'a> {
        let some = self.exchanged.map(|exchanged| (exchanged, self.windows.clone()));
        let passes = move |window: &u32| {
            some.as_ref().is_none_or(|(some, windows)| some.touches(windows.extent(*window)))
        };
        self.windows.touched_by(self.own_span()).filter(passes)
    }

    /// Whether this rank stores and reads `window`: every rank of the aggregator's node that has
    /// the file, unless hints name aggregators; then the aggregator of its file domain. The rank of
    /// a node that opened the file has it.
    fn serves(&self, window: u32) -> bool {
        if !named(&self.scene) {
            return self.is_home(window) && self.scene.driver.is_available();
        }
        self.aggregator(window) == self.scene.transport.rank()
    }

    /// Whether this rank stores `window`. Where requests take long, each window of the file has a
    /// keeper, the same in every call, so that locks of the file system stay with one client. A
    /// keeper that cannot access the file leaves the window to any free rank.
    fn stores(&self, window: u32) -> bool {
        if !self.kept {
            return self.serves(window);
        }
        let place = self.windows.extent(window).offset / self.windows.size();
        if place % self.ring.members() as u64 != self.ring.index() as u64 {
            return self.ring.is_left(window) && self.serves(window);
        }
        let serves = self.serves(window);
        if !serves && self.is_home(window) {
            self.ring.leave(window);
        }
        serves
    }
}

/// Whether hints name the aggregators.
fn named(scene: &Scene<'_>) -> bool {
    let given = |hint| scene.hints.origin(hint) != Some(Origin::Default);
    given("cb_nodes") || given("cb_config_list")
}

/// The properties of the file and its hints that determine windows and domains.
pub(super) fn premises<'a>(scene: &Scene<'a>) -> Premises<'a> {
    let stripe = match scene.facts.striping_unit {
        0 => scene.hints.striping_unit,
        unit => unit,
    };
    Premises {
        unit: scene.facts.block_size.max(stripe),
        least: scene.hints.romio_min_fdomain_size,
        buffer_size: scene.hints.cb_buffer_size,
        map: scene.map,
        shares_units: stripe == 0 && scene.transport.nodes().count() == 1,
    }
}
