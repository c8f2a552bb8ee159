//! Collective reads and writes in two phases: data travels between ranks so that few ranks, the
//! aggregators, access the file in large ordered pieces.
//!
//! Steps of a call, each with its own tag (`step`): all ranks exchange their [`Summary`] and
//! decide alike; each rank tells every aggregator whose domain it touches its view, once; then
//! both sides walk the same type tree and know without further words how many bytes each message
//! has. There is no lock-step: an aggregator works off its domain window by window, and at most two
//! messages are under way between two ranks. The call ends with one agreed result.

mod ahead;
mod coverage;
mod flight;
mod headers;
mod met;
mod node;
mod past;
mod place;
mod read;
mod share;
mod write;

#[cfg(test)]
mod tests;

pub use ahead::Habits;

use crate::Extent;
use crate::driver::{Driver, Facts, Outcome};
use crate::error::{Error, ErrorClass, Result};
use crate::group;
use crate::hints::{Hints, Switch};
use crate::independent::Strategy;
use crate::meeting::{Brought, Meeting};
use crate::memory::Memory;
use crate::plan::figures::Figures;
use crate::plan::{self, Ahead, Decision, Domains, Method, Note, Summary, Total, Way, Wishes};
use crate::report::Counters;
use crate::tags::TagBlock;
use crate::task::place::{on_caller, settle};
use crate::transport::{self, LockGuard, SharedLocks, Transport};
use crate::view::View;
use met::Met;
use past::{Kept, Lesson, Outline, Present, Repeat};
use share::Windows;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

pub use past::Past;

/// The steps of a call that have messages of their own.
mod step {
    pub(super) const SUMMARIES: u32 = 0;
    pub(super) const HEADERS: u32 = 1;
    pub(super) const DATA: u32 = 2;
    pub(super) const AGREE: u32 = 3;
    pub(super) const STORED: u32 = 4;
    pub(super) const LOCKED: u32 = 5;
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
    /// What the file system likes; equal on all ranks.
    pub facts: &'a Facts,
    /// The hints in force; those that steer collective calls are equal on all ranks.
    pub hints: &'a Hints,
    /// Counts of this rank.
    pub counters: &'a Counters,
    /// What this rank expects of the file's next call.
    pub habits: &'a Habits,
    /// Past calls on the same file, with the same aggregators.
    pub past: &'a Past,
}

/// What this rank reads or writes: as many bytes as `memory` has.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The view in force.
    pub view: &'a View,
    /// First byte, counted in the view's data.
    pub position: u64,
    /// The caller's buffer.
    pub memory: &'a Memory,
}

/// Writes collectively. All ranks must call it, a rank with wrong arguments with its error.
///
/// Every rank gets the same result; `bytes` is what was stored of this rank's data, also if an
/// aggregator failed. Only bytes that some rank supplied change.
pub async fn write(scene: Scene<'_>, request: Result<Request<'_>>, tags: &TagBlock) -> Outcome {
    outcome(run(scene, request, tags, scene.hints.romio_cb_write, Direction::Write).await)
}

/// Reads collectively. All ranks must call it, a rank with wrong arguments with its error.
///
/// Every rank gets the same result; `bytes` is what this rank got before the end of the file. The
/// caller's bytes behind that stay as they were.
pub async fn read(scene: Scene<'_>, request: Result<Request<'_>>, tags: &TagBlock) -> Outcome {
    outcome(run(scene, request, tags, scene.hints.romio_cb_read, Direction::Read).await)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

impl Direction {
    /// The number in [`Summary::kind`].
    fn kind(self) -> u8 {
        match self {
            Direction::Read => 1,
            Direction::Write => 2,
        }
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
) -> Result<Outcome> {
    let request = request.and_then(|request| request.checked(direction));
    let ascending = request.as_ref().ok().and_then(Request::ascending);
    let request = request.map(|request| match &ascending {
        Some((view, position)) => Request { view, position: *position, ..request },
        None => request,
    });
    let outline = request.as_ref().ok().and_then(Outline::of);
    let kept = scene.past.recall(outline);
    let mine = Summary {
        figures: figures(scene, direction),
        ..recalled_summary(&request, direction.kind(), outline.zip(kept.as_deref()))
    };
    let gone = ahead::go(scene, direction, &request, &mine).await;
    let mine = Summary { ahead: Ahead::with(gone.as_ref()), ..mine };
    let heard = hear(scene.transport, tags, mine, kept).await?;
    let wishes = Wishes {
        buffering,
        only_collective: scene.hints.romio_no_indep_rw,
        writes: direction == Direction::Write,
        atomic: scene.atomic.is_some(),
        together: ahead::are_together(scene.transport),
    };
    let decision = plan::decide(&heard.total, wishes);
    scene.habits.learn(direction, decision, &heard.total);
    let call = Met { scene, tags, direction, wishes, mine, outline };
    match gone {
        Some(outcome) => call.end(request, outcome, heard, decision).await,
        None => call.begin(request, heard, decision).await,
    }
}

/// What a rank knows when all have met.
struct Heard<'a> {
    meeting: Meeting<'a>,
    members: Vec<Summary>,
    nodes: Vec<Extent>,
    total: Total,
    /// The past call that all repeat.
    repeat: Option<Repeat>,
}

/// Tells the others of `mine`: the summaries of the ranks of this node, or of all if they share no
/// memory, the part of the file that each node asks for, what all bring together, and whether all
/// repeat the call that this rank has `kept`.
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
    let over = |parts: &[u8]| ahead::is_over(&Summary::all_from_bytes(parts));
    let (meeting, heard) = Meeting::hold(transport, tags, step, &mine, brought, over).await?;
    let total_of = |node: &Brought| Total::from_numbers(node.numbers, node.flags);
    let totals: Vec<Total> = heard.nodes.iter().map(total_of).collect();
    let members = Summary::all_from_bytes(&heard.members);
    let nodes: Vec<Extent> = totals.iter().map(|node| node.hull).collect();
    let repeat = Repeat::agreed(kept, &heard.nodes, &nodes);
    Ok(Heard { meeting, members, nodes, total: Total::join(&totals), repeat })
}

/// What all ranks know after they have met.
struct Decided<'a> {
    meeting: &'a Meeting<'a>,
    party: node::Party<'a>,
    mine: Summary,
    decision: Decision,
    outline: Option<Outline>,
    repeat: Option<Repeat>,
}

/// Moves the data in the way that was decided.
async fn carry_out(
    scene: Scene<'_>,
    request: Request<'_>,
    tags: &TagBlock,
    direction: Direction,
    Decided { meeting, party, mine, decision, outline, repeat }: Decided<'_>,
) -> Result<Outcome> {
    let alone = decision.method == Method::Independent;
    let Counters { collective_alone, two_phase, .. } = scene.counters;
    Counters::add(if alone { collective_alone } else { two_phase }, 1);
    let count = |way| {
        if scene.transport.rank() == 0 {
            scene.counters.decided.count(way, decision.reason);
        }
    };
    if alone {
        count(Way::Independent);
        if !meeting.needs_messages() {
            settle().await;
        }
        return Ok(independent(scene, request, meeting, direction).await);
    }
    let (members, nodes) = (party.members, party.nodes);
    let present = Present { number: past::number(tags), outline, mine, members, nodes };
    if let Some(passage) = node::Passage::plan(scene, request, party, meeting, repeat.as_ref()) {
        count_plan(scene, passage.repeats());
        count(if meeting.needs_messages() { Way::Nodes } else { Way::Memory });
        if !meeting.needs_messages() {
            settle().await;
        }
        let outcome = match direction {
            Direction::Write => node::write(&passage).await,
            Direction::Read => node::read(&passage).await,
        };
        let lesson = passage.into_lesson();
        scene.past.end(&present, repeat.as_ref(), lesson, outcome.result.is_ok());
        return Ok(outcome);
    }
    count(Way::Messages);
    note_messages(scene, meeting);
    on_caller().await;
    let everybody;
    let all = match party.members.len() == scene.transport.size() {
        true => party.members,
        false => {
            everybody = everybodys(scene.transport, tags, mine).await?;
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
    scene.past.end(&present, repeat.as_ref(), lesson, outcome.result.is_ok());
    Ok(outcome)
}

fn count_plan(scene: Scene<'_>, repeats: bool) {
    let Counters { plans, plans_reused, .. } = scene.counters;
    Counters::add(if repeats { plans_reused } else { plans }, 1);
}

/// What requests to the file cost as far as this rank knows.
fn figures(scene: Scene<'_>, direction: Direction) -> Figures {
    match (scene.driver.meter(), direction) {
        (Some(meter), Direction::Read) => meter.reads.figures(),
        (Some(meter), Direction::Write) => meter.writes.figures(),
        (None, _) => Figures::assumed(&scene.facts.file_system),
    }
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

/// The summaries of all ranks: where data travels in messages, each rank needs to know whom it meets.
async fn everybodys(t: &dyn Transport, tags: &TagBlock, mine: Summary) -> Result<Vec<Summary>> {
    let all = group::allgather(t, tags.tag(step::EVERYBODY), &mine.to_bytes()).await?;
    Ok(Summary::all_from_bytes(&all))
}

impl Request<'_> {
    /// Data bytes in a row, from `position` of the view on, in one piece.
    fn packed(&self, position: u64, len: usize) -> Cow<'_, [u8]> {
        let start = position - self.position;
        if let Some(all) = self.memory.as_slice() {
            let start = start as usize;
            return Cow::Borrowed(&all[start..start + len]);
        }
        let mut bytes = vec![0; len];
        self.memory.gather(start, &mut bytes);
        Cow::Owned(bytes)
    }

    /// Data bytes; a view that shows no byte takes none.
    fn len(&self) -> u64 {
        if self.view.is_empty() { 0 } else { self.memory.len() }
    }

    /// Refuses what no file can hold, before anybody depends on it.
    fn checked(self, direction: Direction) -> Result<Self> {
        let len = self.len();
        if direction == Direction::Write && len < self.memory.len() {
            let why = "the file view ends before the data does";
            return Err(Error::new(ErrorClass::Arg, why));
        }
        let last = self.position.checked_add(len.max(1) - 1);
        // Offsets saturate: data at the largest one may lie anywhere behind it.
        let fits = |last: u64| len == 0 || self.view.offset_at(last) < i64::MAX as u64;
        if last.is_some_and(fits) {
            return Ok(self);
        }
        let detail =
            format!("{len} bytes at byte {} of the view are beyond any file", self.position);
        Err(Error::new(ErrorClass::Arg, detail))
    }

    /// A view, and the position in it, that aggregators can serve although this one is not such.
    fn ascending(&self) -> Option<(View, u64)> {
        self.view.ascending_at(self.position, self.len())
    }
}

/// What this rank tells the others, from memory where that is enough.
fn recalled_summary(
    request: &Result<Request<'_>>,
    kind: u8,
    recalled: Option<(Outline, &Kept)>,
) -> Summary {
    let Some((outline, kept)) = recalled else { return summary(request, kind) };
    let anew = || Summary { past: kept.number(), ..summary(request, kind) };
    kept.summary(&outline, kind).unwrap_or_else(anew)
}

/// What this rank tells the others.
fn summary(request: &Result<Request<'_>>, kind: u8) -> Summary {
    let Ok(request) = request else {
        return Summary { failed: true, kind, ..Summary::default() };
    };
    let bytes = request.len();
    if bytes == 0 {
        return Summary { kind, ..Summary::default() };
    }
    Summary::of(request.view, request.position, bytes, kind)
}

async fn agree(scene: Scene<'_>, tags: &TagBlock, local: Result<()>) -> Result<()> {
    group::agree(scene.transport, tags.tag(step::AGREE), local).await
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
fn straight(scene: Scene<'_>, request: Request<'_>, direction: Direction) -> Outcome {
    let Request { view, position, memory } = request;
    let strategy = Strategy::from_hints(scene.hints);
    let Scene { driver, counters, .. } = scene;
    match direction {
        Direction::Read => driver.read_strided(view, position, memory, &strategy, counters),
        Direction::Write => driver.write_strided(view, position, memory, &strategy, counters),
    }
}

/// A two-phase call in progress.
struct Call<'a> {
    scene: Scene<'a>,
    request: Request<'a>,
    tags: &'a TagBlock,
    all: &'a [Summary],
    domains: Domains,
    window: u64,
    /// The past call by whose plan this one is carried out.
    repeat: Option<&'a Repeat>,
    /// What the ranks asked for that have data in this rank's domain.
    learned: Mutex<Vec<Option<past::Known>>>,
}

impl<'a> Call<'a> {
    fn new(
        scene: Scene<'a>,
        request: Request<'a>,
        tags: &'a TagBlock,
        all: &'a [Summary],
        repeat: Option<&'a Repeat>,
    ) -> Self {
        let Facts { block_size, striping_unit, .. } = *scene.facts;
        let stripe = match scene.hints.striping_unit {
            0 => striping_unit,
            unit => unit,
        };
        let domains = Domains::new(
            Summary::hull(all),
            scene.aggregators.len(),
            block_size.max(stripe),
            scene.hints.romio_min_fdomain_size,
        );
        let window = plan::window_size(all, scene.hints.cb_buffer_size);
        let repeat = repeat.filter(|repeat| repeat.peers(&domains).is_some());
        let learned = Mutex::default();
        Self { scene, request, tags, all, domains, window, repeat, learned }
    }

    /// What is new in the call and worth remembering.
    fn into_lesson(self) -> Option<Lesson> {
        if self.repeat.is_some() {
            return None;
        }
        let learned = self.learned.into_inner().unwrap_or_else(PoisonError::into_inner);
        Lesson::peers(self.domains, learned)
    }

    fn rank(&self) -> usize {
        self.scene.transport.rank()
    }

    fn windows(&self, domain: usize) -> Windows {
        Windows::new(self.domains.extent(domain), self.window)
    }

    /// The domain that this rank is the aggregator of.
    fn own_domain(&self) -> Option<usize> {
        let own = self.scene.aggregators.iter().position(|rank| *rank == self.rank());
        own.filter(|domain| *domain < self.domains.count())
    }

    /// The domains that this rank's request may have bytes in, and whose aggregators are others.
    fn foreign_domains(&self) -> impl Iterator<Item = usize> + '_ {
        let span = self.all[self.rank()].span;
        let own = self.own_domain();
        self.domains.touched_by(span).filter(move |domain| Some(*domain) != own)
    }

    /// Bytes that messages under way may take on this rank, in each role.
    fn budget(&self) -> usize {
        usize::try_from(self.window.saturating_mul(2)).unwrap_or(usize::MAX)
    }

    fn tag(&self, step: u32) -> u32 {
        self.tags.tag(step)
    }

    /// In atomic mode, makes the call one whole against independent accesses: the first aggregator
    /// holds a lock on all bytes concerned until everybody has finished.
    async fn lock(&self, direction: Direction) -> Result<Option<Box<dyn LockGuard>>> {
        let Some(locks) = self.scene.atomic else { return Ok(None) };
        let mut lock = Ok(None);
        if self.scene.aggregators.first() == Some(&self.rank()) {
            let hull = Summary::hull(self.all);
            lock = transport::lock(locks, hull, direction == Direction::Write).await.map(Some);
        }
        let (lock, local) = match lock {
            Ok(lock) => (lock, Ok(())),
            Err(error) => (None, Err(error)),
        };
        group::agree(self.scene.transport, self.tag(step::LOCKED), local).await?;
        Ok(lock)
    }
}

/// No memory for a buffer.
fn no_memory(bytes: usize) -> Error {
    Error::new(ErrorClass::NoMem, format!("no memory for a window of {bytes} bytes"))
}

/// A zeroed buffer.
fn buffer(bytes: usize) -> Result<Vec<u8>> {
    let mut probe: Vec<u8> = Vec::new();
    probe.try_reserve_exact(bytes).map_err(|_| no_memory(bytes))?;
    drop(probe);
    Ok(vec![0; bytes])
}
