//! Every read and write: checked and positioned when called, carried out when polled.

use super::agreement::{Kind, from_rank, meet};
use super::convert::{Stream, len_in_file};
use super::{Call, Direction, File, Position};
use crate::exchange::{self, Scene};
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::extent::Extent;
use aggio_base::report::Counters;
use aggio_comm::node::Node;
use aggio_comm::tags::TagBlock;
use aggio_comm::task::place::{anywhere, settle};
use aggio_comm::task::{self, BoxFuture};
use aggio_comm::transport::LockGuard;
use aggio_comm::workers::Running;
use aggio_config::hints::Hints;
use aggio_plan::format::Map;
use aggio_plan::plan::{Reason, Way};
use aggio_store::driver::Outcome;
use aggio_store::independent::Strategy;
use aggio_types::memory::Memory;
use aggio_types::view::View;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A call that passed all checks, with its own copy of the file's state at that time.
pub(super) struct Request {
    pub(super) direction: Direction,
    pub(super) view: Arc<View>,
    pub(super) memory: Memory,
    /// First byte of the view's data.
    pub(super) position: u64,
    /// Bytes in the file's representation.
    pub(super) len: u64,
    pub(super) hints: Arc<Hints>,
    pub(super) atomic: bool,
    /// The file's map agreed on by all ranks when they made the call.
    map: Option<Arc<dyn Map>>,
}

impl File {
    /// Starts a data operation; the future carries it out.
    ///
    /// File pointers move at once, so that calls take their ranges in the order in which they are
    /// made. A blocking call waits for the future; a nonblocking one keeps it and must poll it to
    /// its end while the memory stays valid. Errors in the arguments come with the outcome.
    pub fn start(self: &Arc<Self>, call: Call) -> BoxFuture<'static, Outcome> {
        self.prepare(call, true).0
    }

    /// As [`File::start`], for a nonblocking call: large transfers, and collective ones in the
    /// memory of one node, proceed independently on [workers](aggio_comm::workers).
    ///
    /// Wrong arguments of a call of this rank alone are found by the first poll.
    pub fn launch(self: &Arc<Self>, call: Call) -> Running<Outcome> {
        match self.prepare(call, false) {
            (future, true) => self.engine.workers().away(future),
            (future, false) => self.engine.workers().here(future),
        }
    }

    /// A checked and positioned call that may block, or not, and whether a worker can begin it and
    /// should.
    fn prepare(
        self: &Arc<Self>,
        call: Call,
        may_block: bool,
    ) -> (BoxFuture<'static, Outcome>, bool) {
        let file = self.clone();
        let (direction, position) = (call.direction, call.position);
        let begun = self.begin(call.operation, direction, call.is_collective());
        if direction == Direction::Write && position != Position::Ordered && self.defers() {
            let collective = call.is_collective();
            if self.holders.is_none() {
                let kept = self.keep(self.claim(call), collective);
                return (Box::pin(async move { file.end(begun, kept) }), false);
            }
            if collective && may_block {
                let write = self.write_now_or_later(call);
                return (Box::pin(async move { file.end(begun, write.await) }), false);
            }
        }
        if !call.is_collective() || self.transport.size() == 1 {
            let collective = call.is_collective();
            let request = self.claim(call);
            let request = match request {
                Ok(request) if self.waits_alone(&request) => {
                    let kept = self.keep_alone(request);
                    return (Box::pin(async move { file.end(begun, kept) }), false);
                }
                request => request,
            };
            let away = request.as_ref().is_ok_and(Request::is_worth_a_worker);
            let future = Box::pin(async move {
                if collective && request.as_ref().is_ok_and(|request| request.len > 0) {
                    Counters::add(&file.counters.collective_alone, 1);
                    file.counters.decided.count(Way::Independent, Reason::OnlyRank);
                }
                if away {
                    settle().await;
                }
                let span = request.as_ref().ok().map(Request::span);
                let asked = file.ask(direction, span).await;
                let request = asked.and_then(|()| file.settle_own(direction, span)).and(request);
                file.end(begun, file.independent(request).await)
            });
            return (future, away);
        }
        let flush = self.flush_tags();
        let tags = self.tags.next();
        if position != Position::Ordered {
            let request = self.claim(call);
            let future = Box::pin(async move {
                let request = file.flush(flush).await.and(request);
                file.end(begun, file.collective(direction, request, tags).await)
            });
            return (future, self.meets_in_memory());
        }
        let (more, checked) = (self.tags.next(), self.check_call(call));
        let future = async move {
            let checked = file.flush(flush).await.and(checked);
            let outcome = file.ordered(direction, checked, tags, more).await;
            file.end(begun, outcome)
        };
        (Box::pin(future), false)
    }

    /// Whether collective calls normally need no messages. In atomic mode they do.
    pub(super) fn meets_in_memory(&self) -> bool {
        let all = |node: &Node| node.members().len() == self.transport.size();
        self.transport.node().is_some_and(all) && !self.state().atomic
    }

    /// Checks everything that does not depend on the position, which is not available yet.
    fn check_call(&self, call: Call) -> Result<(Request, u64)> {
        self.check_open()?;
        self.check_turn()?;
        let memory = call.memory?;
        match call.direction {
            Direction::Read if !self.amode.is_readable() => {
                let text = format!("the file was opened {}", self.amode);
                return Err(Error::new(ErrorClass::Access, text));
            }
            Direction::Write => self.check_writable()?,
            Direction::Read => {}
        }
        if matches!(call.position, Position::Explicit(_) | Position::Individual) {
            self.check_not_sequential()?;
        }
        let state = self.state();
        let view = state.view.clone();
        let len = len_in_file(&memory, view.representation())?;
        let etypes = whole_etypes(len, view.etype_size())?;
        let (hints, atomic) = (state.hints.hints.clone(), state.atomic);
        let direction = call.direction;
        let map = state.map.clone();
        let request = Request { direction, view, memory, position: 0, len, hints, atomic, map };
        Ok((request, etypes))
    }

    /// Checks a call and takes its range of the file.
    pub(super) fn claim(&self, call: Call) -> Result<Request> {
        let position = call.position;
        let (mut request, etypes) = self.check_call(call)?;
        let first = match position {
            Position::Explicit(offset) => u64::try_from(offset)
                .map_err(|_| Error::new(ErrorClass::Arg, format!("offset {offset} is negative")))?,
            Position::Individual => self.claim_individual(etypes)?,
            Position::Shared | Position::Ordered => self.claim_shared(etypes)?,
        };
        request.at(first)?;
        Ok(request)
    }

    /// Carries out an operation of this rank alone.
    async fn independent(&self, request: Result<Request>) -> Outcome {
        let moved = async {
            let request = request?;
            if request.len == 0 {
                return Ok(Outcome { bytes: 0, result: Ok(()) });
            }
            self.count_pieces(&request);
            let guard = self.lock_if_atomic(&request).await?;
            if guard.is_some() {
                self.driver.renew();
            }
            let stream = request.stream()?;
            let outcome = self.transfer(&request, stream.memory());
            Ok(stream.finish(outcome))
        };
        moved.await.unwrap_or_else(|error| Outcome { bytes: 0, result: Err(error) })
    }

    async fn lock_if_atomic(&self, request: &Request) -> Result<Option<Box<dyn LockGuard>>> {
        if !request.atomic || self.transport.size() == 1 {
            return Ok(None);
        }
        let locks = self.locks()?;
        let span = request.view.span(request.position, request.len);
        let exclusive = request.direction == Direction::Write;
        loop {
            if let Some(guard) = locks.try_lock(span, exclusive)? {
                return Ok(Some(guard));
            }
            // The lock may be that of a split operation which waits for this rank.
            self.progress();
            task::pause().await;
        }
    }

    /// Carries out an operation of all ranks; a rank without a valid request takes part too.
    pub(super) async fn collective(
        &self,
        direction: Direction,
        request: Result<Request>,
        tags: TagBlock,
    ) -> Outcome {
        let request = request.and_then(|request| {
            // A handle that defers has done so, or is to, with its flush.
            if self.waiting.is_none() {
                self.heed_others(direction, request.span())?;
            }
            Ok(request)
        });
        let stream = match &request {
            Ok(request) => {
                self.count_pieces(request);
                request.stream()
            }
            Err(error) => Err(error.clone()),
        };
        let hints = request.as_ref().map_or_else(|_| self.hints(), |r| r.hints.clone());
        let atomic = request.as_ref().is_ok_and(|request| request.atomic);
        // A rank without a request lets the call fail on all.
        let map = request.as_ref().ok().and_then(|request| request.map.as_deref());
        let scene = self.scene(&hints, atomic, map);
        let (reserved, nothing) = (self.reserves_all(&request, &stream), Memory::nothing());
        let mine = match (&request, &stream) {
            (Ok(Request { view, position, .. }), Ok(stream)) => {
                let memory = if reserved.is_some() { &nothing } else { stream.memory() };
                Ok(exchange::Request { view, position: *position, memory })
            }
            (Err(error), _) | (_, Err(error)) => Err(error.clone()),
        };
        let outcome = match direction {
            Direction::Read => {
                let own = mine.clone().ok();
                let outcome = exchange::read(scene, mine, &tags).await;
                if let Some(own) = own {
                    self.look_at_pieces(own.view, own.position, own.memory, outcome.bytes);
                }
                outcome
            }
            Direction::Write => {
                self.wrote.store(true, Ordering::Release);
                if let (Ok(request), Ok(stream)) = (&request, &stream) {
                    let Request { view, position, .. } = request;
                    self.look_at_pieces(view, *position, stream.memory(), request.len);
                }
                let Outcome { bytes, result } = exchange::write(scene, mine, &tags).await;
                Outcome { bytes: reserved.unwrap_or(bytes), result }
            }
        };
        match stream {
            Ok(stream) => stream.finish(outcome),
            Err(_) => outcome,
        }
    }

    /// The scene of a collective transfer on this file.
    pub(super) fn scene<'a>(
        &'a self,
        hints: &'a Hints,
        atomic: bool,
        map: Option<&'a dyn Map>,
    ) -> Scene<'a> {
        Scene {
            transport: &*self.transport,
            driver: &*self.driver,
            atomic: self.locks.get().map(|locks| &**locks).filter(|_| atomic),
            aggregators: &self.aggregators,
            facts: &self.facts,
            logs: self.logs,
            staged: self.staged,
            elides: self.elides(hints),
            hints,
            counters: &self.counters,
            habits: &self.habits,
            plan_cache: &self.plan_cache,
            map,
        }
    }

    pub(super) fn count_pieces(&self, request: &Request) {
        let pieces = request.view.pieces(request.position, request.len);
        Counters::add(&self.counters.pieces_in, pieces);
    }

    /// Moves the bytes of this rank without the others.
    fn transfer(&self, request: &Request, memory: &Memory) -> Outcome {
        let (view, position, counters) = (&*request.view, request.position, &*self.counters);
        let strategy = Strategy::from_hints(&request.hints);
        match request.direction {
            Direction::Read => {
                let from_memory = self.read_small(request, memory);
                let read = from_memory.unwrap_or_else(|| {
                    self.driver.read_strided(view, position, memory, &strategy, counters)
                });
                self.look_at_pieces(view, position, memory, read.bytes);
                read
            }
            Direction::Write => {
                self.wrote.store(true, Ordering::Release);
                self.look_at_pieces(view, position, memory, request.len);
                if self.reserves(request, memory) || self.extends(request, memory) {
                    return Outcome { bytes: request.len, result: Ok(()) };
                }
                self.driver.write_strided(view, position, memory, &strategy, counters)
            }
        }
    }

    /// Finds each rank's place at the shared file pointer, in rank order, then proceeds as any
    /// collective operation: one exchange of sizes, one addition by one rank, one broadcast.
    async fn ordered(
        &self,
        direction: Direction,
        checked: Result<(Request, u64)>,
        tags: TagBlock,
        more: TagBlock,
    ) -> Outcome {
        let placed = self.place_in_order(direction, checked, &tags).await;
        if self.meets_in_memory() {
            anywhere().await;
        }
        match placed {
            Ok(request) => self.collective(direction, request, more).await,
            Err(error) => Outcome { bytes: 0, result: Err(error) },
        }
    }

    /// All ranks get their places, or all get the same error. A place of its own that no file can
    /// hold is the inner error: the other ranks receive it in the operation that follows.
    async fn place_in_order(
        &self,
        direction: Direction,
        checked: Result<(Request, u64)>,
        tags: &TagBlock,
    ) -> Result<Result<Request>> {
        let kind = match direction {
            Direction::Read => Kind::ReadOrdered,
            Direction::Write => Kind::WriteOrdered,
        };
        let (request, words, checked) = match checked {
            Ok((request, etypes)) => (Ok(request), [etypes, 0, 0, 0], Ok(())),
            Err(error) => (Err(error.clone()), [0; 4], Err(error)),
        };
        let all = meet(&*self.transport, tags, kind, words, checked).await?;
        let before =
            |rank: usize| all[..rank].iter().fold(0u64, |sum, words| sum.saturating_add(words[0]));
        let total = before(all.len());
        let claim = || self.claim_shared(total).map(|first| [first, 0, 0, 0]);
        let [first, ..] = from_rank(&*self.transport, tags, self.leader, claim).await?;
        let mut request = request?;
        let placed = request.at(first.saturating_add(before(self.transport.rank())));
        Ok(placed.map(|()| request))
    }
}

/// Bytes up to which a transfer costs less than handing it over.
const SMALL: u64 = 4096;

impl Request {
    /// Whether a call of this rank alone can leave the program's threads and is long enough for it.
    /// In atomic mode calls of one rank take effect one after the other.
    fn is_worth_a_worker(&self) -> bool {
        self.len > SMALL && !self.atomic
    }

    /// The file bytes from the first to the last.
    pub(super) fn span(&self) -> Extent {
        if self.len == 0 { Extent::default() } else { self.view.span(self.position, self.len) }
    }

    pub(super) fn stream(&self) -> Result<Stream> {
        Stream::new(&self.memory, self.view.representation(), self.direction)
    }

    /// Places the request at etype `first` of its view.
    ///
    /// # Errors
    /// `Arg` if it would end beyond the largest file offset.
    fn at(&mut self, first: u64) -> Result<()> {
        self.position = position_of(&self.view, first, self.len)?;
        Ok(())
    }
}

/// The data byte of `view` at which `len` bytes from etype `first` on start.
///
/// # Errors
/// `Arg` if they would end beyond the largest file offset.
pub(super) fn position_of(view: &View, first: u64, len: u64) -> Result<u64> {
    let position = first.checked_mul(view.etype_size());
    let fits =
        |position: &u64| position.checked_add(len).is_some_and(|end| i64::try_from(end).is_ok());
    position.filter(fits).ok_or_else(|| {
        let text = format!("{len} bytes at etype {first} are beyond any file");
        Error::new(ErrorClass::Arg, text)
    })
}

/// The number of etypes in `len` bytes.
pub(super) fn whole_etypes(len: u64, etype: u64) -> Result<u64> {
    if len == 0 {
        return Ok(0);
    }
    match len.checked_rem(etype) {
        Some(0) => Ok(len / etype),
        _ => {
            let text = format!("{len} bytes are no whole number of etypes of {etype} bytes");
            Err(Error::new(ErrorClass::Io, text))
        }
    }
}
