//! Collective reads and writes in two phases: data travels between ranks so that few ranks, the
//! aggregators, access the file in large ordered pieces.
//!
//! Steps of a call, each with its own tag (`step`): all ranks exchange their [`Summary`] and decide
//! alike. Ranks that share memory use windows there (`node`). Without it, each rank sends its view
//! once to the aggregator of every domain that it touches; then both sides walk the same type tree
//! and compute the length of each message from it. There is no lock-step: an aggregator works off
//! its domain window by window, and at most two messages are under way between two ranks. The call
//! ends with one agreed result.

mod call;
mod carry_out;
mod chunks;
mod coverage;
mod fill;
mod flight;
mod headers;
mod node;
mod place;
mod plan_cache;
mod read;
mod rendezvous;
mod request;
mod share;
mod speculative;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use fill::worth_asking_from;
pub use plan_cache::PlanCache;
pub use request::Request;
pub use speculative::Habits;

use crate::Direction;
use aggio_base::Extent;
use aggio_base::error::Result;
use aggio_base::report::Counters;
use aggio_comm::group;
use aggio_comm::meeting::{Brought, Meeting};
use aggio_comm::tags::TagBlock;
use aggio_comm::transport::{LockGuard, SharedLocks, Transport};
use aggio_config::hints::{Hints, Switch};
use aggio_plan::format::Map;
use aggio_plan::plan::{self, Summary, Total, Wishes};
use aggio_store::driver::{Driver, Facts, Outcome};
use call::Call;
use carry_out::{Decided, carry_out, straight};
use plan_cache::{Kept, Outline, Repeat};
use rendezvous::Rendezvous;
use request::{figures, recalled_summary};
use std::sync::Arc;

/// The steps of a call that have messages of their own.
mod step {
    pub(super) const SUMMARIES: u32 = 0;
    pub(super) const HEADERS: u32 = 1;
    pub(super) const DATA: u32 = 2;
    pub(super) const AGREE: u32 = 3;
    pub(super) const STORED: u32 = 4;
    pub(super) const LOCKED: u32 = 5;
    /// The same: calls in atomic mode have no chunks.
    pub(super) const CHUNKS: u32 = 5;
    /// The same, before chunks: messages with equal tags arrive in order.
    pub(super) const FILL: u32 = 5;
    pub(super) const EVERYBODY: u32 = 6;
}

/// Where a collective call happens; equal on all ranks as far as it can be.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// The ranks.
    pub transport: &'a dyn Transport,
    /// The file on this rank. Used on aggregators, and everywhere if ranks work independently.
    pub driver: &'a dyn Driver,
    /// The locks of the open, if the file is in atomic mode.
    pub atomic: Option<&'a dyn SharedLocks>,
    /// The ranks that get file domains, see [`plan::aggregators::choose`]; not empty.
    pub aggregators: &'a [usize],
    /// Properties of the file system; equal on all ranks.
    pub facts: &'a Facts,
    /// The file is a container that every rank can open: each has a log of its own there.
    pub logs: bool,
    /// Small writes are staged, where all ranks see them.
    pub staged: bool,
    /// Zeros behind the end of the file need not be written. Ranks may differ.
    pub elides: bool,
    /// The hints in force; those that steer collective calls are equal on all ranks.
    pub hints: &'a Hints,
    /// Counts of this rank.
    pub counters: &'a Counters,
    /// This rank's prediction for the next call on the file.
    pub habits: &'a Habits,
    /// Past calls on the same file, with the same aggregators.
    pub plan_cache: &'a PlanCache,
    /// Where the things in the file lie, if that is known; equal on all ranks.
    pub map: Option<&'a dyn Map>,
}

impl Scene<'_> {
    /// Takes a lock that keeps ranks that sieve (`romio_ds_write=enable`) from storing old bytes of
    /// `extent`, as part of their gaps, over the bytes of this store. Without file locks no rank
    /// sieves.
    fn lock_to_store(&self, extent: Extent) -> Option<Box<dyn LockGuard>> {
        let sieves = self.hints.romio_ds_write == Switch::Enable;
        sieves.then(|| self.driver.lock(extent, true).ok()).flatten()
    }
}

/// Writes collectively. All ranks must call it; a rank with wrong arguments passes its error.
///
/// Every rank gets the same result; `bytes` is the number of bytes of this rank that were stored,
/// also if an aggregator failed. Only bytes that some rank supplied change.
pub async fn write(scene: Scene<'_>, request: Result<Request<'_>>, tags: &TagBlock) -> Outcome {
    write_first(scene, request, tags, false).await.0
}

/// As [`write()`], and returns whether any rank has `more` bytes to write, which must reach the
/// file after these. Every rank gets the same answer.
pub async fn write_first(
    scene: Scene<'_>,
    request: Result<Request<'_>>,
    tags: &TagBlock,
    more: bool,
) -> (Outcome, bool) {
    let mut any = more;
    let buffering = scene.hints.romio_cb_write;
    let written = run(scene, request, tags, buffering, Direction::Write, &mut any).await;
    (outcome(written), any)
}

/// Reads collectively. All ranks must call it; a rank with wrong arguments passes its error.
///
/// Every rank gets the same result; `bytes` is the number of bytes that this rank got before the
/// end of the file. The caller's memory for bytes behind the end is unchanged.
pub async fn read(scene: Scene<'_>, request: Result<Request<'_>>, tags: &TagBlock) -> Outcome {
    let buffering = scene.hints.romio_cb_read;
    outcome(run(scene, request, tags, buffering, Direction::Read, &mut false).await)
}

/// The number in [`Summary::kind`].
fn kind_of(direction: Direction) -> u8 {
    match direction {
        Direction::Read => 1,
        Direction::Write => 2,
    }
}

/// An outcome, unless the ranks could not even talk to each other.
fn outcome(result: Result<Outcome>) -> Outcome {
    result.unwrap_or_else(|error| Outcome { bytes: 0, result: Err(error) })
}

async fn run(
    scene: Scene<'_>,
    request: Result<Request<'_>>,
    tags: &TagBlock,
    buffering: Switch,
    direction: Direction,
    more: &mut bool,
) -> Result<Outcome> {
    let request = request.and_then(|request| request.checked(direction));
    let ascending = request.as_ref().ok().and_then(Request::ascending);
    let request = request.map(|request| match &ascending {
        Some((view, position)) => Request { view, position: *position, ..request },
        None => request,
    });
    let outline = request.as_ref().ok().and_then(Outline::of);
    request.iter().for_each(|request| chunks::count_call(&scene, request));
    let kept = scene.plan_cache.recall(outline);
    let mine = Summary {
        figures: figures(scene, direction),
        more: *more,
        ..recalled_summary(&request, kind_of(direction), outline.zip(kept.as_deref()))
    };
    let gone = speculative::go(scene, direction, &request, &mine).await;
    let zeros = gone.is_none() && fill::are_zeros(&scene, direction, &request);
    let mine = Summary { ahead: speculative::told(gone.as_ref()), zeros, ..mine };
    let heard = match hear(scene.transport, tags, mine, kept).await {
        Ok(heard) => heard,
        // Data moved before the meeting stays moved, even if the meeting fails.
        Err(error) => return Ok(Outcome { bytes: speculative::bytes(&gone), result: Err(error) }),
    };
    *more = heard.total.more;
    let wishes = Wishes {
        buffering,
        only_collective: scene.hints.romio_no_indep_rw,
        writes: direction == Direction::Write,
        atomic: scene.atomic.is_some(),
        together: speculative::are_together(scene.transport),
        logs: scene.logs,
        staged: scene.staged,
    };
    let decision = plan::decide(&heard.total, wishes);
    scene.habits.learn(direction, decision, &heard.total);
    let call = Rendezvous { scene, tags, direction, wishes, mine, outline };
    match gone {
        Some(outcome) => call.end(request, outcome, heard, decision).await,
        None => call.begin(request, heard, decision).await,
    }
}

/// State of a rank after the meeting.
struct Heard<'a> {
    meeting: Meeting<'a>,
    members: Vec<Summary>,
    nodes: Vec<Extent>,
    total: Total,
    /// The past call that all ranks repeat.
    repeat: Option<Repeat>,
}

/// Sends `mine` to the other ranks. Returns the summaries of the ranks of this node, or of all
/// ranks if they share no memory, the part of the file that each node requests, the totals of all
/// ranks, and the call `kept` if all ranks repeat it.
async fn hear<'a>(
    transport: &'a dyn Transport,
    tags: &'a TagBlock,
    mine: Summary,
    kept: Option<Arc<Kept>>,
) -> Result<Heard<'a>> {
    let brought = |parts: &[u8]| {
        let parts = Summary::all_from_bytes(parts);
        let (numbers, flags) = Total::of(&parts).to_numbers();
        let past = kept.as_ref().map_or(0, |kept| kept.repeated_by(&parts));
        Brought::new(numbers, flags).repeating(past)
    };
    let (step, mine) = (step::SUMMARIES, mine.to_bytes());
    let over = |parts: &[u8]| speculative::is_over(&Summary::all_from_bytes(parts));
    let (meeting, heard) = Meeting::hold(transport, tags, step, &mine, brought, over).await?;
    let total_of = |node: &Brought| Total::from_numbers(node.numbers, node.flags);
    let totals: Vec<Total> = heard.nodes.iter().map(total_of).collect();
    let members = Summary::all_from_bytes(&heard.members);
    let nodes: Vec<Extent> = totals.iter().map(|node| node.hull).collect();
    let repeat = Repeat::agreed(kept, &heard.nodes, &nodes);
    Ok(Heard { meeting, members, nodes, total: Total::join(&totals), repeat })
}

async fn agree(scene: Scene<'_>, tags: &TagBlock, local: Result<()>) -> Result<()> {
    group::agree(scene.transport, tags.tag(step::AGREE), local).await
}
