//! Collective writes that may be buffered: the ranks meet, exchange the extents they write, and
//! decide alike whether this write is buffered.
//!
//! It is not if it is cheaper for a rank to write at once, if another handle of the file is open,
//! or if ranks had to request flushes of buffered writes. Buffered bytes of two calls never
//! overlap, so each rank may store its part at any time.

use super::buffer::Buffer;
use super::flush::Flush;
use super::vote::WriteBehindVote;
use super::{WriteBehind, worth};
use crate::Direction;
use crate::file::agreement::{Kind, meet};
use crate::file::request::Request;
use aggio_base::error::Result;
use aggio_base::extent::Extent;
use aggio_base::report::Note;
use aggio_comm::tags::TagBlock;
use aggio_store::driver::Outcome;

/// The decision of all ranks about a collective write.
pub(in crate::file) enum Decision {
    /// It is done: this rank's part is buffered.
    Done(Outcome),
    /// All ranks write it now; a rank that cannot brings its error.
    Write(Result<Request>),
}

impl WriteBehind {
    /// Whether the next collective write is not buffered, which all ranks determine without a
    /// meeting.
    pub(in crate::file) fn goes_straight(&self) -> bool {
        self.buffer.as_ref().is_some_and(|buffer| buffer.takes_straight())
    }

    /// Decides with all ranks whether a collective write is buffered, and buffers it.
    pub(in crate::file) async fn decide(
        &self,
        request: Result<Request>,
        meeting: TagBlock,
        flush: Option<Flush>,
    ) -> Decision {
        let Some(buffer) = &self.buffer else { return Decision::Write(request) };
        let mine = self.vote(buffer, &request, flush.as_ref()).to_words();
        let all = match meet(self.transport(), &meeting, Kind::WriteBehind, mine, Ok(())).await {
            Ok(all) => WriteBehindVote::of_all(&all),
            Err(error) => return Decision::Done(Outcome { bytes: 0, result: Err(error) }),
        };
        let buffers = buffer.count_votes(all);
        let span = request.as_ref().map_or(Extent::default(), Request::span);
        let flushed = match all.needs_flush(buffers) {
            true => self.flush(flush).await,
            // Buffered writes of other handles of the file are older, too.
            false if !buffers => self.heed_others(Direction::Write, span),
            false => Ok(()),
        };
        if !buffers || flushed.is_err() {
            return Decision::Write(flushed.and(request));
        }
        {
            let mut waiting = buffer.lock();
            waiting.hull = waiting.hull.hull(all.writes);
        }
        let kept = self.keep(request);
        self.answer_others();
        Decision::Done(kept)
    }

    /// Records that this rank has finished a collective write that may be buffered. Another rank
    /// may have finished earlier: its next operation comes after this rank's part.
    pub(in crate::file) fn note_done(&self) {
        if let Some(buffer) = &self.buffer {
            let mut waiting = buffer.lock();
            waiting.done = waiting.done.wrapping_add(1);
            buffer.holders().note_done();
        }
    }

    /// This rank's vote about a write.
    fn vote(
        &self,
        buffer: &Buffer,
        request: &Result<Request>,
        flush: Option<&Flush>,
    ) -> WriteBehindVote {
        let span = request.as_ref().map_or(Extent::default(), Request::span);
        let has_room = |request: &Request| buffer.has_room(request.len);
        let lacks_room = request.as_ref().is_ok_and(|request| !has_room(request));
        let costs_more = |request: &Request| request.len > 0 && !buffer.is_worth_it(request);
        let costs_more = request.as_ref().is_ok_and(costs_more);
        let is_alone = self.is_only_handle();
        let meets_alone = !buffer.holders().alone().intersect(span).is_empty();
        let waiting = buffer.lock();
        let is_quiet = flush.is_some_and(|flush| flush.finds_quiet(&waiting));
        let vote = WriteBehindVote::on(span);
        WriteBehindVote {
            buffered: match is_quiet {
                true => waiting.held_together(),
                false => WriteBehindVote::everything(),
            },
            forces_write: vote.forces_write
                || request.is_err()
                || !is_alone
                || !is_quiet
                || meets_alone,
            lacks_room,
            was_asked: waiting.was_asked,
            costs_more,
            has_independent: self.requests.reach_nodes() && !waiting.alone.is_empty(),
            ..vote
        }
    }
}

impl Buffer {
    /// Whether the next collective write goes straight to the file.
    fn takes_straight(&self) -> bool {
        let takes = self.lock().straight.takes();
        if takes {
            self.note_straight();
        }
        takes
    }

    fn note_straight(&self) {
        if self.storage.transport().rank() == 0 {
            self.storage.counters().decided.note(Note::Straight);
        }
    }

    /// Whether a write is buffered; `all` is the vote of all ranks.
    fn count_votes(&self, all: WriteBehindVote) -> bool {
        let mut waiting = self.lock();
        waiting.was_asked = false;
        let buffers = !waiting.habit.skips(all.was_asked) && !all.must_write() && !all.costs_more;
        if all.costs_more {
            if self.storage.has_quick_requests() {
                waiting.straight.lengthen();
            }
            self.note_straight();
        } else if buffers {
            waiting.straight.end();
            waiting.has_waited = true;
        }
        buffers
    }

    /// Whether this rank's part of a write costs less if it is buffered.
    fn is_worth_it(&self, request: &Request) -> bool {
        let pieces = || request.view.pieces(request.position, request.len);
        self.hints().aggio_defer_always
            || worth::is_worth_it(self.storage.cost_of_writes(), request.len, pieces())
    }
}
