//! Buffered independent writes of the first rank: bytes that announce others, as the header of a
//! netCDF file announces its records, are buffered with them.
//!
//! A library writes them again and again while all ranks write data. If they went to the file at
//! once, each rank would first have to store its buffered writes by itself.

use super::WriteBehind;
use crate::Direction;
use crate::file::request::Request;
use aggio_base::error::Result;
use aggio_base::extent::Extent;
use aggio_store::driver::Outcome;

impl WriteBehind {
    /// Whether an independent write of this rank joins the writes already buffered.
    pub(in crate::file) fn joins(&self, request: &Request) -> bool {
        let Some(buffer) = &self.buffer else { return false };
        if self.transport().rank() != 0 {
            return false;
        }
        let (span, last) = (request.span(), buffer.last_bytes());
        let announces = !span.is_empty() && span.intersect(last) == span;
        let may_join = request.direction == Direction::Write
            && !request.atomic
            && announces
            && self.is_only_handle()
            && !buffer.holders().are_asked()
            && buffer.has_room(request.len);
        if !may_join {
            return false;
        }
        let waiting = buffer.lock();
        let with_others = waiting.pending.bytes() > 0 && waiting.flying.is_none();
        // Ranks of other nodes send requests only for extents of collective writes.
        let with_others = with_others && (!self.requests.reach_nodes() || !waiting.hull.is_empty());
        with_others && waiting.hull.intersect(last).is_empty()
    }

    /// Buffers an independent write that joins others.
    pub(in crate::file) fn keep_independent(&self, request: Result<Request>) -> Outcome {
        let span = request.as_ref().map_or(Extent::default(), Request::span);
        if let Some(buffer) = &self.buffer {
            let mut waiting = buffer.lock();
            // Before buffering, so that a rank that learns of this write finds its extent.
            waiting.alone = waiting.alone.hull(span);
            buffer.holders().set_alone(waiting.alone);
        }
        let kept = self.keep(request);
        if let (Err(_), Some(buffer)) = (&kept.result, &self.buffer) {
            buffer.tell(&mut buffer.lock());
        }
        self.answer_others();
        kept
    }
}
