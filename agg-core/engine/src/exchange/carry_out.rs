//! Moving the data of a collective call in the way that all ranks have decided.

use super::call::Call;
use super::chunks::Found;
use super::plan_cache::{self, Outline, Present, Repeat};
use super::{Direction, Request, Scene, node, read, step, write};
use aggio_base::error::Result;
use aggio_base::report::Counters;
use aggio_comm::group;
use aggio_comm::meeting::Meeting;
use aggio_comm::tags::TagBlock;
use aggio_comm::task::place::{on_caller, settle};
use aggio_comm::transport::{self, Transport};
use aggio_plan::format::Map;
use aggio_plan::plan::{Decision, Method, Note, Summary, Way};
use aggio_store::driver::Outcome;
use aggio_store::independent::Strategy;

/// State of a call after the ranks have met and chosen a method.
pub(super) struct Decided<'a> {
    pub(super) meeting: &'a Meeting<'a>,
    pub(super) party: node::Party<'a>,
    pub(super) mine: Summary,
    pub(super) decision: Decision,
    pub(super) outline: Option<Outline>,
    pub(super) repeat: Option<Repeat>,
    pub(super) chunks: Option<&'a Found>,
}

/// Moves the data in the way that was decided.
pub(super) async fn carry_out(
    scene: Scene<'_>,
    request: Request<'_>,
    tags: &TagBlock,
    direction: Direction,
    Decided { meeting, party, mine, decision, outline, repeat, chunks }: Decided<'_>,
) -> Result<Outcome> {
    let scene = Scene { map: chunks.map(|found| &found.chunks as &dyn Map).or(scene.map), ..scene };
    let decision = chunks.map_or(decision, |found| found.decision);
    let alone = decision.method == Method::Independent;
    let Counters { collective_alone, two_phase, .. } = scene.counters;
    Counters::add(if alone { collective_alone } else { two_phase }, 1);
    let count = |way| {
        if scene.transport.rank() == 0 {
            scene.counters.decided.count(way, decision.reason);
        }
    };
    if let Some(found) = chunks {
        found.count(scene.counters);
    }
    if alone {
        count(Way::Independent);
        if !meeting.needs_messages() {
            settle().await;
        }
        return Ok(independent(scene, request, meeting, direction).await);
    }
    let (members, nodes) = (party.members, party.nodes);
    let present = Present { number: plan_cache::number(tags), outline, mine, members, nodes };
    let part = chunks.and_then(Found::part);
    let past = repeat.as_ref().filter(|_| part.is_none());
    let known = (past, part);
    if let Some(aggregation) = node::NodeAggregation::plan(scene, request, party, meeting, known) {
        count_plan(scene, aggregation.repeats());
        count(if meeting.needs_messages() { Way::Nodes } else { Way::Memory });
        if !meeting.needs_messages() {
            settle().await;
        }
        let outcome = match direction {
            Direction::Write => node::write(&aggregation).await,
            Direction::Read => node::read(&aggregation).await,
        };
        let lesson = aggregation.into_lesson();
        scene.plan_cache.end(&present, repeat.as_ref(), lesson, outcome.result.is_ok());
        return Ok(outcome);
    }
    count(Way::Messages);
    note_messages(scene, meeting);
    // Boxed, for it is large, and every call on one node would carry its room about.
    Box::pin(in_messages(scene, request, tags, direction, present, repeat)).await
}

/// Moves the data in messages from rank to rank.
async fn in_messages(
    scene: Scene<'_>,
    request: Request<'_>,
    tags: &TagBlock,
    direction: Direction,
    present: Present<'_>,
    repeat: Option<Repeat>,
) -> Result<Outcome> {
    on_caller().await;
    let everybody;
    let all = match present.members.len() == scene.transport.size() {
        true => present.members,
        false => {
            everybody = everybodys(scene.transport, tags, present.mine).await?;
            &everybody
        }
    };
    let call = Call::new(scene, request, tags, all, repeat.as_ref());
    count_plan(scene, call.repeat.is_some());
    let _lock = call.lock(direction).await?;
    let outcome = match direction {
        Direction::Write => write::run(&call).await,
        Direction::Read => read::run(&call).await,
    };
    let lesson = call.into_lesson();
    scene.plan_cache.end(&present, repeat.as_ref(), lesson, outcome.result.is_ok());
    Ok(outcome)
}

fn count_plan(scene: Scene<'_>, repeats: bool) {
    let Counters { plans, plans_reused, .. } = scene.counters;
    Counters::add(if repeats { plans_reused } else { plans }, 1);
}

/// Notes why data travels in messages from rank to rank.
fn note_messages(scene: Scene<'_>, meeting: &Meeting<'_>) {
    let note = match (scene.atomic, meeting.operation()) {
        (Some(_), _) => Note::Atomic,
        (_, None) => Note::NoMemory,
        _ => Note::FarApart,
    };
    if scene.transport.rank() == 0 {
        scene.counters.decided.note(note);
    }
}

/// The summaries of all ranks. Where data travels in messages, each rank computes its partners from
/// them.
async fn everybodys(t: &dyn Transport, tags: &TagBlock, mine: Summary) -> Result<Vec<Summary>> {
    let all = group::allgather(t, tags.tag(step::EVERYBODY), &mine.to_bytes()).await?;
    Ok(Summary::all_from_bytes(&all))
}

/// Each rank for itself, with one agreed end.
async fn independent(
    scene: Scene<'_>,
    request: Request<'_>,
    meeting: &Meeting<'_>,
    direction: Direction,
) -> Outcome {
    let lock = match (scene.atomic, request.len()) {
        (Some(locks), 1..) => {
            let span = request.view.span(request.position, request.len());
            transport::lock(locks, span, direction == Direction::Write).await.map(Some)
        }
        _ => Ok(None),
    };
    let outcome = match lock {
        Err(error) => Outcome { bytes: 0, result: Err(error) },
        Ok(_lock) => straight(scene, request, direction),
    };
    Outcome { bytes: outcome.bytes, result: meeting.agree(step::AGREE, outcome.result).await }
}

/// This rank's bytes, without the others.
pub(super) fn straight(scene: Scene<'_>, request: Request<'_>, direction: Direction) -> Outcome {
    let Request { view, position, memory } = request;
    let strategy = Strategy::from_hints(scene.hints);
    let Scene { driver, counters, .. } = scene;
    match direction {
        Direction::Read => driver.read_strided(view, position, memory, &strategy, counters),
        Direction::Write => driver.write_strided(view, position, memory, &strategy, counters),
    }
}
