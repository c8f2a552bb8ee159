//! Chunks of a collective call: when ranks exchange the list of chunks that they touch, and which
//! chunks then go through aggregators.

use super::{Direction, Request, Scene, step};
use aggio_base::Extent;
use aggio_base::error::Result;
use aggio_base::report::Counters;
use aggio_comm::group;
use aggio_comm::tags::TagBlock;
use aggio_comm::task::place::on_caller;
use aggio_config::hints::{Hints, Switch};
use aggio_plan::plan::chunks::{Chunks, Exchanged, Rule};
use aggio_plan::plan::{Decision, Method, Reason, Total, alone_from};

/// Calls with fewer bytes take less time than an exchange of chunks.
const LEAST: u64 = 1 << 20;

/// The percentage of HDF5 for calls chunk by chunk.
const PERCENT: u32 = 60;

/// The chunks of a call. Equal on all ranks, except `own`.
pub(super) struct Found {
    pub(super) chunks: Chunks,
    /// The part of the call that goes through aggregators.
    pub(super) exchanged: Exchanged,
    pub(super) decision: Decision,
    /// Whether the entire call goes through aggregators.
    pub(super) is_whole: bool,
    /// Where the chunks of this rank start.
    own: Vec<u64>,
    hull: Extent,
}

/// Whether a file's calls look at chunks.
fn are_known(scene: &Scene<'_>) -> bool {
    scene.hints.aggio_chunks == Switch::Enable && scene.atomic.is_none() && !scene.logs
}

/// Whether hints select the chunks that go through aggregators, regardless of cost.
pub(super) fn are_forced(hints: &Hints) -> bool {
    let is_set = |number: i64| number >= 0;
    let wished = is_set(hints.aggio_chunk_opt_num) || is_set(hints.aggio_chunk_opt_ratio);
    hints.aggio_chunks == Switch::Enable && wished
}

/// Counts whether this rank's request touches one chunk or several.
pub(super) fn count_call(scene: &Scene<'_>, request: &Request<'_>) {
    if !are_known(scene) || request.len() == 0 {
        return;
    }
    let Counters { calls_linked, calls_of_a_chunk, .. } = scene.counters;
    match request.view.parts(request.position, request.len()) {
        Some(parts) if parts.len() > 1 => Counters::add(calls_linked, 1),
        Some(_) => Counters::add(calls_of_a_chunk, 1),
        None => {}
    }
}

/// Whether the ranks exchange the lists of their chunks; alike on all.
pub(super) fn are_told(scene: &Scene<'_>, total: &Total, decision: Decision) -> bool {
    let is_free = !matches!(decision.reason, Reason::Overlap | Reason::Disabled);
    let is_large = decision.method == Method::TwoPhase && total.bytes >= LEAST;
    are_known(scene) && is_free && total.ranks > 1 && (is_large || are_forced(scene.hints))
}

/// Exchanges the chunks that the ranks touch; `None` if the chunks of a rank are unknown.
pub(super) async fn find(
    scene: Scene<'_>,
    tags: &TagBlock,
    request: &Request<'_>,
    direction: Direction,
    (total, decision): (&Total, Decision),
) -> Result<Option<Box<Found>>> {
    on_caller().await;
    let own = match request.len() {
        0 => Some(Vec::new()),
        len => request.view.parts(request.position, len),
    };
    let mine = Chunks::of_rank(scene.transport.rank(), own.as_deref());
    let tag = tags.tag(step::CHUNKS);
    let all = group::allreduce(scene.transport, tag, mine, Chunks::combine).await?;
    let known = Chunks::from_bytes(&all).filter(|chunks| !chunks.is_empty());
    let Some((chunks, own)) = known.zip(own) else { return Ok(None) };
    let (rule, reason) = rule(&scene, &chunks, direction, (total, decision));
    let (hull, ranks) = (total.hull, scene.transport.size());
    let exchanged = chunks.exchanged(hull, ranks, rule);
    let is_whole = exchanged.covers(hull);
    let decision = match (is_whole, exchanged.is_empty()) {
        (true, _) if reason == Reason::Chunks => decision,
        (_, true) => Decision { method: Method::Independent, reason },
        _ => Decision { method: Method::TwoPhase, reason },
    };
    Ok(Some(Box::new(Found { chunks, exchanged, decision, is_whole, own, hull })))
}

/// Which chunks go through aggregators, and why.
fn rule(
    scene: &Scene<'_>,
    chunks: &Chunks,
    direction: Direction,
    (total, decision): (&Total, Decision),
) -> (Rule, Reason) {
    let wish = |number: i64| u32::try_from(number).ok();
    let (number, percent) =
        (wish(scene.hints.aggio_chunk_opt_num), wish(scene.hints.aggio_chunk_opt_ratio));
    match (decision.reason, number, percent) {
        (Reason::OnlyCollective | Reason::Enabled, ..) => (Rule::All, decision.reason),
        (_, None, None) => {
            let least = alone_from(total.figures, direction == Direction::Write);
            (Rule::Shared(least), Reason::Chunks)
        }
        (_, Some(number), _) if chunks.mean(scene.transport.size()) >= number.into() => {
            (Rule::All, Reason::ChunkNumber)
        }
        (_, Some(_), None) => (Rule::Percent(PERCENT), Reason::ChunkNumber),
        (_, _, Some(percent)) => (Rule::Percent(percent), Reason::ChunkRatio),
    }
}

impl Found {
    /// The part of the call that goes through aggregators; `None` if that is the entire call.
    pub(super) fn part(&self) -> Option<&Exchanged> {
        (!self.is_whole).then_some(&self.exchanged)
    }

    /// Counts the chunks of this rank in a call that is carried out as decided.
    pub(super) fn count(&self, counters: &Counters) {
        let passes = |start: &&u64| self.exchanged.has((**start).max(self.hull.offset));
        let exchanged = self.own.iter().filter(passes).count() as u64;
        Counters::add(&counters.chunks_exchanged, exchanged);
        Counters::add(&counters.chunks_alone, self.own.len() as u64 - exchanged);
    }
}
