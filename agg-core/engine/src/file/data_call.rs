//! A read or write in progress: checked, positioned and routed when it is made, carried out when
//! polled.

use super::account::Begun;
use super::agreement::{Kind, from_rank, meet};
use super::call::{Call, Position};
use super::request::Request;
use super::route::{Route, Situation};
use super::write_behind::{Decision, Flush, WriteBehind};
use super::{Direction, File};
use aggio_base::error::Result;
use aggio_comm::tags::TagBlock;
use aggio_comm::task::BoxFuture;
use aggio_comm::task::place::{anywhere, settle};
use aggio_store::driver::Outcome;
use std::sync::Arc;

/// A data call on an open file.
pub(super) struct DataCall {
    file: Arc<File>,
    begun: Begun,
    direction: Direction,
    is_collective: bool,
    /// The error in the arguments of a collective call travels to the other ranks.
    request: Result<Request>,
}

impl DataCall {
    /// Checks a call that may block, or not, takes its range of the file, and chooses its route.
    pub(super) fn new(file: &Arc<File>, call: Call, may_block: bool) -> Self {
        let (direction, is_collective) = (call.direction, call.is_collective());
        let mut begun = file.account.begin(call.operation, direction, is_collective);
        let situation = Situation {
            direction,
            is_collective,
            is_ordered: call.position == Position::Ordered,
            may_block,
            is_only_rank: file.transport.size() == 1,
            buffers: file.write_behind.buffers(file.atomic.is_on()),
        };
        let checked = file.lifecycle.check_open();
        let map = if is_collective { file.storage.format().map() } else { None };
        let request = checked.and_then(|()| file.views.claim(call, file.atomic.is_on(), map));
        let joins = || request.as_ref().is_ok_and(|request| file.write_behind.joins(request));
        begun.route = situation.route(|| file.write_behind.goes_straight(), joins);
        Self { file: file.clone(), begun, direction, is_collective, request }
    }

    /// Starts the call on its route; also returns whether a worker can begin it and should.
    pub(super) fn start(self) -> (BoxFuture<'static, Outcome>, bool) {
        let is_long = self.request.as_ref().is_ok_and(Request::is_worth_a_worker);
        match self.begun.route {
            Route::BufferedHeader => (self.kept(WriteBehind::keep_independent), false),
            Route::Voted => {
                let (meeting, flush, tags) = (self.tags(), self.flush(), self.tags());
                (Box::pin(self.voted(meeting, flush, tags)), false)
            }
            Route::Straight => {
                let tags = self.tags();
                (Box::pin(self.straight(tags)), false)
            }
            Route::Independent | Route::FastPath => (Box::pin(self.independent(is_long)), is_long),
            Route::Collective => {
                let may_move = self.meets_in_memory();
                let (flush, tags) = (self.flush(), self.tags());
                (Box::pin(self.collective(flush, tags)), may_move)
            }
            Route::Ordered => {
                let (flush, tags, more) = (self.flush(), self.tags(), self.tags());
                (Box::pin(self.ordered(flush, tags, more)), false)
            }
        }
    }

    fn tags(&self) -> TagBlock {
        self.file.tags.next()
    }

    fn meets_in_memory(&self) -> bool {
        self.file.atomic.meets_in_memory(&*self.file.transport)
    }

    fn flush(&self) -> Option<Flush> {
        self.file.write_behind.flush_tags(&self.file.tags, self.meets_in_memory())
    }

    /// Buffers the write now.
    fn kept(
        self,
        keep: impl FnOnce(&WriteBehind, Result<Request>) -> Outcome,
    ) -> BoxFuture<'static, Outcome> {
        let Self { file, begun, request, .. } = self;
        let kept = keep(&file.write_behind, request);
        Box::pin(async move { file.end(begun, kept) })
    }

    /// A collective write that the ranks vote about.
    async fn voted(self, meeting: TagBlock, flush: Option<Flush>, tags: TagBlock) -> Outcome {
        let Self { file, begun, direction, request, .. } = self;
        let outcome = match file.write_behind.decide(request, meeting, flush).await {
            Decision::Done(outcome) => outcome,
            Decision::Write(request) => all_ranks(&file, direction, request, tags).await,
        };
        file.write_behind.note_done();
        file.end(begun, outcome)
    }

    /// A collective write that is not buffered, as all ranks know.
    async fn straight(self, tags: TagBlock) -> Outcome {
        let Self { file, begun, direction, request, .. } = self;
        let span = request.as_ref().ok().map(Request::span);
        let request = file.write_behind.before_independent(direction, span).await.and(request);
        file.end(begun, all_ranks(&file, direction, request, tags).await)
    }

    /// A call of all ranks.
    async fn collective(self, flush: Option<Flush>, tags: TagBlock) -> Outcome {
        let Self { file, begun, direction, request, .. } = self;
        let request = file.write_behind.flush(flush).await.and(request);
        file.end(begun, all_ranks(&file, direction, request, tags).await)
    }

    /// A call of this rank alone; a worker carries it out if it is `away`.
    async fn independent(self, away: bool) -> Outcome {
        let Self { file, begun, direction, is_collective, request } = self;
        if is_collective && request.as_ref().is_ok_and(|request| request.len > 0) {
            file.storage.count_only_rank();
        }
        if away {
            settle().await;
        }
        let span = request.as_ref().ok().map(Request::span);
        let ready = file.write_behind.before_independent(direction, span).await;
        let outcome = match ready.and(request) {
            Ok(request) if request.len == 0 => Ok(Outcome { bytes: 0, result: Ok(()) }),
            Ok(request) => one_rank(&file, &request).await,
            Err(error) => Err(error),
        };
        let failed = |error| Outcome { bytes: 0, result: Err(error) };
        file.end(begun, outcome.unwrap_or_else(failed))
    }

    /// Finds each rank's place at the shared file pointer, in rank order, then proceeds as any
    /// collective operation: one exchange of sizes, one addition by one rank, one broadcast.
    async fn ordered(self, flush: Option<Flush>, tags: TagBlock, more: TagBlock) -> Outcome {
        let Self { file, begun, direction, request, .. } = self;
        let request = file.write_behind.flush(flush).await.and(request);
        let placed = place_in_order(&file, direction, request, &tags).await;
        if file.atomic.meets_in_memory(&*file.transport) {
            anywhere().await;
        }
        let outcome = match placed {
            Ok(request) => all_ranks(&file, direction, request, more).await,
            Err(error) => Outcome { bytes: 0, result: Err(error) },
        };
        file.end(begun, outcome)
    }
}

/// Carries out an operation of all ranks; a rank without a valid request takes part too.
async fn all_ranks(
    file: &File,
    direction: Direction,
    request: Result<Request>,
    tags: TagBlock,
) -> Outcome {
    let request = request.and_then(|request| {
        file.write_behind.before_collective(direction, request.span())?;
        Ok(request)
    });
    let locks = file.atomic.locks();
    file.storage.collective(direction, request, || file.hints(), locks, tags).await
}

/// Carries out an operation of this rank; under a lock in atomic mode.
async fn one_rank(file: &File, request: &Request) -> Result<Outcome> {
    file.storage.count_pieces(request);
    let progress = || {
        file.split.progress();
    };
    let guard = match request.atomic && file.transport.size() > 1 {
        true => Some(file.atomic.lock(request.span(), request.direction, progress).await?),
        false => None,
    };
    if guard.is_some() {
        file.storage.driver().renew();
    }
    file.storage.transfer(request)
}

/// All ranks get their places, or all get the same error. A place of its own that no file can hold
/// is the inner error: the other ranks receive it in the operation that follows.
async fn place_in_order(
    file: &File,
    direction: Direction,
    request: Result<Request>,
    tags: &TagBlock,
) -> Result<Result<Request>> {
    let kind = match direction {
        Direction::Read => Kind::ReadOrdered,
        Direction::Write => Kind::WriteOrdered,
    };
    let etypes = request.as_ref().map_or(0, Request::etypes);
    let checked = request.as_ref().map(drop).map_err(Clone::clone);
    let all = meet(&*file.transport, tags, kind, [etypes, 0, 0, 0], checked).await?;
    let before =
        |rank: usize| all[..rank].iter().fold(0u64, |sum, words| sum.saturating_add(words[0]));
    let total = before(all.len());
    let claim = || file.views.claim_shared(total).map(|first| [first, 0, 0, 0]);
    let [first, ..] = from_rank(&*file.transport, tags, file.leader, claim).await?;
    let mut request = request?;
    let placed = request.at(first.saturating_add(before(file.transport.rank())));
    Ok(placed.map(|()| request))
}
