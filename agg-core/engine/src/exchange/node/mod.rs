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
mod data;
mod fetch;
mod lost;
mod mail;
mod marks;
mod read;
mod scale;
mod send;
mod window_plan;
mod wire;
mod write;

#[cfg(test)]
mod tests;

pub(super) use read::run as read;
pub(super) use write::run as write;

use super::plan_cache::{Descriptions, Lesson, Repeat};
use super::{Request, Scene};
use aggio_base::Extent;
use aggio_comm::meeting::Meeting;
use aggio_comm::node::Ring;
use aggio_config::hints::Origin;
use aggio_plan::plan::chunks::Exchanged;
use aggio_plan::plan::node_aggregation::{self, Premises};
use aggio_plan::plan::{Summary, Total};
use data::OwnData;
use marks::Marks;
use std::sync::{Mutex, PoisonError};
use window_plan::WindowPlan;

/// A collective call that moves its data through the shared memory of nodes.
pub(super) struct NodeAggregation<'a> {
    scene: Scene<'a>,
    meeting: &'a Meeting<'a>,
    plan: WindowPlan<'a>,
    ring: Ring<'a>,
    /// This rank's data.
    own: OwnData<'a>,
    /// Every window has a keeper.
    kept: bool,
    /// The past call that this one repeats; its plan is reused, and messages contain only data.
    repeat: Option<&'a Repeat>,
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
        let plan = WindowPlan::new(map, party, exchanged, aggregators, premises(&scene), room)?;
        let ring = Ring::new(operation, plan.count());
        let own = OwnData::new(request, exchanged, map.index());
        let repeat = repeat.filter(|repeat| plan.descriptions(repeat).is_some());
        let (kept, learned) = (plan.is_slow() && !named(&scene), Mutex::default());
        Some(Self { scene, meeting, plan, ring, own, kept, repeat, learned })
    }

    /// Whether this is carried out by the plan of a past call.
    pub(super) fn repeats(&self) -> bool {
        self.repeat.is_some()
    }

    /// The descriptions received in this call, for the plan cache, unless it repeats a past one.
    pub(super) fn into_lesson(self) -> Option<Lesson> {
        if self.repeats() || self.plan.is_partial() {
            return None;
        }
        let learned = self.learned.into_inner().unwrap_or_else(PoisonError::into_inner);
        Some(Lesson::Windows(self.plan.into_dealings(learned.whole()?)))
    }

    /// The marks of the windows in the ring.
    fn marks(&self) -> Marks<'_> {
        Marks::new(&self.ring, self.plan.grain())
    }

    /// Whether this rank stores and reads `window`: every rank of the aggregator's node that has
    /// the file, unless hints name aggregators; then the aggregator of its file domain. The rank of
    /// a node that opened the file has it.
    fn serves(&self, window: u32) -> bool {
        if !named(&self.scene) {
            return self.plan.is_home(window) && self.scene.driver.is_available();
        }
        self.plan.aggregator(window) == self.scene.transport.rank()
    }

    /// Whether this rank stores `window`. Where requests take long, each window of the file has a
    /// keeper, the same in every call, so that locks of the file system stay with one client. A
    /// keeper that cannot access the file leaves the window to any free rank.
    fn stores(&self, window: u32) -> bool {
        if !self.kept {
            return self.serves(window);
        }
        if self.plan.keeper(window) != self.ring.index() {
            return self.ring.is_left(window) && self.serves(window);
        }
        let serves = self.serves(window);
        if !serves && self.plan.is_home(window) {
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
