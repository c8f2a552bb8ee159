//! Every read and write: checked and positioned when called, carried out when polled.

use super::agreement::{Kind, from_rank, meet};
use super::convert::len_in_file;
use super::request::{Request, whole_etypes};
use super::write_behind::{Decision, Flush};
use super::{Call, Direction, File, Position, SplitCall, SplitKind};
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_comm::node::Node;
use aggio_comm::tags::TagBlock;
use aggio_comm::task::BoxFuture;
use aggio_comm::task::place::{anywhere, settle};
use aggio_comm::transport::LockGuard;
use aggio_comm::workers::Running;
use aggio_store::driver::Outcome;
use std::sync::Arc;

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
        if direction == Direction::Write && position != Position::Ordered && self.buffers_writes() {
            let collective = call.is_collective();
            if !self.write_behind.is_shared() {
                let kept = self.write_behind.keep(self.claim(call), collective);
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
                Ok(request) if self.write_behind.joins(&request) => {
                    let kept = self.write_behind.keep_independent(request);
                    return (Box::pin(async move { file.end(begun, kept) }), false);
                }
                request => request,
            };
            let away = request.as_ref().is_ok_and(Request::is_worth_a_worker);
            let future = Box::pin(async move {
                if collective && request.as_ref().is_ok_and(|request| request.len > 0) {
                    file.storage.count_only_rank();
                }
                if away {
                    settle().await;
                }
                let span = request.as_ref().ok().map(Request::span);
                let ready = file.write_behind.before_independent(direction, span).await;
                let request = ready.and(request);
                file.end(begun, file.independent(request).await)
            });
            return (future, away);
        }
        let flush = self.flush_tags();
        let tags = self.tags.next();
        if position != Position::Ordered {
            let request = self.claim(call);
            let future = Box::pin(async move {
                let request = file.write_behind.flush(flush).await.and(request);
                file.end(begun, file.collective(direction, request, tags).await)
            });
            return (future, self.meets_in_memory());
        }
        let (more, checked) = (self.tags.next(), self.check_call(call));
        let future = async move {
            let checked = file.write_behind.flush(flush).await.and(checked);
            let outcome = file.ordered(direction, checked, tags, more).await;
            file.end(begun, outcome)
        };
        (Box::pin(future), false)
    }

    /// Whether collective calls normally need no messages. In atomic mode they do.
    pub(super) fn meets_in_memory(&self) -> bool {
        let all = |node: &Node| node.members().len() == self.transport.size();
        self.transport.node().is_some_and(all) && !self.atomic.is_on()
    }

    /// Checks everything that does not depend on the position, which is not available yet.
    fn check_call(&self, call: Call) -> Result<(Request, u64)> {
        self.check_open()?;
        self.check_turn()?;
        let map = if call.is_collective() { self.storage.format().map() } else { None };
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
        let (hints, atomic) = (state.hints.hints.clone(), self.atomic.is_on());
        let direction = call.direction;
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
            self.storage.count_pieces(&request);
            let guard = self.lock_if_atomic(&request).await?;
            if guard.is_some() {
                self.storage.driver().renew();
            }
            self.storage.transfer(&request)
        };
        moved.await.unwrap_or_else(|error| Outcome { bytes: 0, result: Err(error) })
    }

    async fn lock_if_atomic(&self, request: &Request) -> Result<Option<Box<dyn LockGuard>>> {
        if !request.atomic || self.transport.size() == 1 {
            return Ok(None);
        }
        let span = request.view.span(request.position, request.len);
        let exclusive = request.direction == Direction::Write;
        self.atomic
            .lock(span, exclusive, || {
                self.split.progress();
            })
            .await
            .map(Some)
    }

    /// Starts a collective write that blocks and may be buffered.
    fn write_now_or_later(self: &Arc<Self>, call: Call) -> BoxFuture<'static, Outcome> {
        let file = self.clone();
        if self.write_behind.goes_straight() {
            let (tags, request) = (self.tags.next(), self.claim(call));
            return Box::pin(async move {
                let span = request.as_ref().ok().map(Request::span);
                let request = file.write_behind.before_straight(span).await.and(request);
                file.collective(Direction::Write, request, tags).await
            });
        }
        let (meeting, flush) = (self.tags.next(), self.flush_tags());
        let (tags, request) = (self.tags.next(), self.claim(call));
        Box::pin(async move {
            let outcome = match file.write_behind.decide(request, meeting, flush).await {
                Decision::Done(outcome) => outcome,
                Decision::Write(request) => file.collective(Direction::Write, request, tags).await,
            };
            file.write_behind.note_done();
            outcome
        })
    }

    /// Whether a write now is buffered.
    pub(super) fn buffers_writes(&self) -> bool {
        self.write_behind.is_on() && !self.atomic.is_on()
    }

    /// The tags and state for a flush before a collective call, if one is needed.
    pub(super) fn flush_tags(&self) -> Option<Flush> {
        self.write_behind.flush_tags(&self.tags, self.meets_in_memory())
    }

    /// Carries out an operation of all ranks; a rank without a valid request takes part too.
    pub(super) async fn collective(
        &self,
        direction: Direction,
        request: Result<Request>,
        tags: TagBlock,
    ) -> Outcome {
        let request = request.and_then(|request| {
            self.write_behind.before_collective(direction, request.span())?;
            Ok(request)
        });
        let locks = self.atomic.locks();
        self.storage.collective(direction, request, || self.hints(), locks, tags).await
    }

    /// Begins a split collective operation; [`File::end_split`] with the same kind ends it.
    ///
    /// # Errors
    /// `Io` if one is active already, on this rank only: erroneous programs differ between ranks.
    pub fn begin_split(self: &Arc<Self>, mut call: Call) -> Result<()> {
        let (kind, operation) = (SplitKind::of(&call)?, call.operation);
        call.collective = true;
        let checked = self.check_open();
        let begun = checked.and_then(|()| self.split.begin(kind, || self.launch(call)));
        begun.map_err(|error| self.context(error, operation))
    }

    /// Ends the split collective operation of this kind: ready when the operation is.
    ///
    /// If none is active, or one of another kind, the outcome is an error and an active operation
    /// stays active.
    pub fn end_split(
        self: &Arc<Self>,
        kind: SplitKind,
        operation: &'static str,
    ) -> BoxFuture<'static, Outcome> {
        let (checked, file) = (self.split.check(kind), self.clone());
        Box::pin(async move {
            match checked {
                Ok(()) => file.split.finish().await,
                Err(error) => {
                    let error = file.context(error, operation);
                    Outcome { bytes: 0, result: Err(error) }
                }
            }
        })
    }

    /// The file's split operation.
    pub fn split(&self) -> &SplitCall {
        &self.split
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
