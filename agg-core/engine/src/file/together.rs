//! Deferred collective writes: the ranks meet, exchange the extents they write, and decide alike
//! whether this write is buffered.
//!
//! It is not if that would not be worth it for a rank, if another handle of the file is open, or if
//! ranks had to request flushes of buffered writes. Buffered bytes of two calls never overlap, so
//! each rank may store its part at any time.

use super::agreement::{Kind, Words, meet};
use super::data::Request;
use super::flush::Flush;
use super::{Call, Direction, File};
use aggio_base::error::Result;
use aggio_base::extent::Extent;
use aggio_base::report::Note;
use aggio_comm::tags::TagBlock;
use aggio_comm::task::BoxFuture;
use aggio_store::driver::Outcome;
use std::sync::Arc;

/// Flags, in the highest bits of the numbers of a message.
const FLAG: u64 = 1 << 63;
/// Another flag, in the first number. A rank with bytes behind this offset writes at once.
const LOWER: u64 = 1 << 62;

/// Message of a rank about its write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stand {
    /// The extent that it writes, and the extent of its buffered writes.
    writes: Extent,
    holds: Extent,
    /// It must write at once.
    is_pressed: bool,
    has_no_room: bool,
    was_asked: bool,
    /// Its part is cheaper to write at once than to buffer.
    is_too_dear: bool,
    /// It is the first rank, and has buffered independent writes, which ranks of other nodes do not
    /// see: bytes before all those that ranks have buffered together.
    holds_alone: bool,
}

impl Stand {
    fn to_words(self) -> Words {
        let flag = |on: bool| if on { FLAG } else { 0 };
        let Self { writes, holds, .. } = self;
        [
            writes.offset | flag(self.is_pressed) | (flag(self.holds_alone) >> 1),
            writes.end() | flag(self.has_no_room),
            holds.offset | flag(self.was_asked),
            holds.end() | flag(self.is_too_dear),
        ]
    }

    fn from_words(words: &Words) -> Self {
        let [first, end, from, to] = words.map(|word| word & !FLAG);
        let (at, holds_alone) = (first & !LOWER, first & LOWER != 0);
        let [is_pressed, has_no_room, was_asked, is_too_dear] = words.map(|word| word & FLAG != 0);
        let (writes, holds) = (Extent::between(at, end), Extent::between(from, to));
        Self { writes, holds, is_pressed, has_no_room, was_asked, is_too_dear, holds_alone }
    }

    /// Combines the messages of ranks.
    fn and(self, other: Self) -> Self {
        Self {
            writes: self.writes.hull(other.writes),
            holds: self.holds.hull(other.holds),
            is_pressed: self.is_pressed || other.is_pressed,
            has_no_room: self.has_no_room || other.has_no_room,
            was_asked: self.was_asked || other.was_asked,
            is_too_dear: self.is_too_dear || other.is_too_dear,
            holds_alone: self.holds_alone || other.holds_alone,
        }
    }

    /// Whether ranks may write over buffered independent writes of the first rank.
    fn may_meet_alone(&self) -> bool {
        self.holds_alone && !self.writes.is_empty() && self.writes.offset < self.holds.offset
    }
}

impl File {
    /// Starts a collective write that blocks and may wait.
    pub(super) fn write_now_or_later(self: &Arc<Self>, call: Call) -> BoxFuture<'static, Outcome> {
        let file = self.clone();
        if self.goes_straight() {
            let (tags, request) = (self.tags.next(), self.claim(call));
            return Box::pin(async move { file.write_straight(request, tags).await });
        }
        let (meeting, flush) = (self.tags.next(), self.flush_tags());
        let (tags, request) = (self.tags.next(), self.claim(call));
        Box::pin(async move {
            let outcome = file.write_later(request, meeting, flush, tags).await;
            file.note_done();
            outcome
        })
    }

    /// Records that this rank has finished a collective write that may be deferred. Another rank
    /// may have finished earlier: its next operation comes after this rank's part.
    fn note_done(&self) {
        if let (Some(holders), Some(mut waiting)) = (&self.holders, self.waiting()) {
            waiting.done = waiting.done.wrapping_add(1);
            holders.note_done();
        }
    }

    /// Carries out a collective write that may wait.
    async fn write_later(
        self: &Arc<Self>,
        request: Result<Request>,
        meeting: TagBlock,
        flush: Option<Flush>,
        tags: TagBlock,
    ) -> Outcome {
        let mine = self.stand(&request, flush.as_ref());
        let all = meet(&*self.transport, &meeting, Kind::Later, mine.to_words(), Ok(())).await;
        let all = match all {
            Ok(all) => all.iter().map(Stand::from_words).fold(Stand::default(), Stand::and),
            Err(error) => return Outcome { bytes: 0, result: Err(error) },
        };
        let waits = self.decide(all);
        let meets_older = !all.holds.intersect(all.writes).is_empty();
        let flushes = !all.holds.is_empty() && (!waits || meets_older || all.has_no_room);
        let span = request.as_ref().map_or(Extent::default(), Request::span);
        let flushed = match flushes {
            true => self.flush(flush).await,
            // Buffered writes of other handles of the file are older, too.
            false if !waits => self.heed_others(Direction::Write, span),
            false => Ok(()),
        };
        if !waits || flushed.is_err() {
            return self.collective(Direction::Write, flushed.and(request), tags).await;
        }
        if let Some(mut waiting) = self.waiting() {
            waiting.hull = waiting.hull.hull(all.writes);
        }
        let kept = self.keep(request, true);
        self.answer_others();
        kept
    }

    /// Whether a write is buffered; `all` combines the messages of the ranks.
    fn decide(&self, all: Stand) -> bool {
        let Some(mut waiting) = self.waiting() else { return false };
        waiting.was_asked = false;
        let is_pressed = all.is_pressed || all.may_meet_alone();
        let waits = !waiting.habit.skips(all.was_asked) && !is_pressed && !all.is_too_dear;
        if all.is_too_dear {
            if self.has_quick_requests() {
                waiting.straight.lengthen();
            }
            if self.transport.rank() == 0 {
                self.counters.decided.note(Note::Straight);
            }
        } else if waits {
            waiting.straight.end();
            waiting.has_waited = true;
        }
        waits
    }

    /// Whether the next write that may be deferred is not, which all ranks determine without a
    /// meeting.
    fn goes_straight(&self) -> bool {
        self.waiting().is_some_and(|mut waiting| waiting.straight.takes())
    }

    /// Carries out a collective write that goes straight to the file on all ranks, without a
    /// meeting.
    async fn write_straight(self: &Arc<Self>, request: Result<Request>, tags: TagBlock) -> Outcome {
        if self.transport.rank() == 0 {
            self.counters.decided.note(Note::Straight);
        }
        let span = request.as_ref().ok().map(Request::span);
        let asked = self.ask(Direction::Write, span).await;
        let request = asked.and_then(|()| self.settle_own(Direction::Write, span)).and(request);
        self.collective(Direction::Write, request, tags).await
    }

    /// This rank's message about a write.
    fn stand(&self, request: &Result<Request>, flush: Option<&Flush>) -> Stand {
        let writes = request.as_ref().map_or(Extent::default(), Request::span);
        let has_no_room = request.as_ref().is_ok_and(|request| !self.finds_room(request.len));
        let is_too_dear =
            request.as_ref().is_ok_and(|request| request.len > 0 && !self.had_better_wait(request));
        let is_alone = self.is_only_handle();
        let meets_alone =
            self.holders.as_ref().is_some_and(|all| !all.alone().intersect(writes).is_empty());
        let is_far = writes.end() >= LOWER;
        let Some(waiting) = self.waiting() else { return Stand::default() };
        let is_quiet = flush.is_some_and(|flush| flush.finds_quiet(&waiting));
        let everything = Extent::between(0, FLAG - 1);
        Stand {
            writes: if is_far { Extent::between(0, LOWER - 1) } else { writes },
            holds: if is_quiet { waiting.held_together() } else { everything },
            is_pressed: request.is_err() || !is_alone || !is_quiet || meets_alone || is_far,
            has_no_room,
            was_asked: waiting.was_asked,
            is_too_dear,
            holds_alone: self.asks.is_some() && !waiting.alone.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rank_tells_survives_the_way() {
        let stand = Stand {
            writes: Extent::between(5, (1 << 62) - 1),
            holds: Extent::between(0, 7),
            is_pressed: true,
            has_no_room: false,
            was_asked: true,
            is_too_dear: true,
            holds_alone: true,
        };
        assert_eq!(Stand::from_words(&stand.to_words()), stand);
        let none = Stand::default();
        assert_eq!(none.and(stand), stand);
        let other = Stand { writes: Extent::between(1, 3), has_no_room: true, ..none };
        assert_eq!(stand.and(other).writes, Extent::between(1, (1 << 62) - 1));
        assert!(stand.and(other).has_no_room);
    }
}
