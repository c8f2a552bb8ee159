//! Deferred independent writes of the first rank: bytes that announce others, as the header of a
//! netCDF file announces its records, are buffered with them.
//!
//! A library writes them again and again while all ranks write data. If they went to the file at
//! once, each rank would first have to store its buffered writes by itself.

use super::data::Request;
use super::{Direction, File};
use aggio_store::driver::Outcome;
use std::sync::Arc;

impl File {
    /// Whether an independent write of this rank joins the writes already buffered.
    pub(super) fn waits_alone(&self, request: &Request) -> bool {
        let Some(holders) = self.holders.as_ref().filter(|_| self.transport.rank() == 0) else {
            return false;
        };
        let (span, last) = (request.span(), self.last_bytes());
        let announces = !span.is_empty() && span.intersect(last) == span;
        request.direction == Direction::Write
            && !request.atomic
            && announces
            && self.is_only_handle()
            && !holders.are_asked()
            && self.finds_room(request.len)
            && self.waiting().is_some_and(|waiting| {
                let with_others = waiting.pending.bytes() > 0 && waiting.flying.is_none();
                // Ranks of other nodes send requests only for extents of collective writes.
                let with_others = with_others && (self.asks.is_none() || !waiting.hull.is_empty());
                with_others && waiting.hull.intersect(last).is_empty()
            })
    }

    /// Buffers a deferred write of this rank alone.
    pub(super) fn keep_alone(self: &Arc<Self>, request: Request) -> Outcome {
        let span = request.span();
        if let (Some(holders), Some(mut waiting)) = (&self.holders, self.waiting()) {
            // Before buffering, so that a rank that learns of this write finds its extent.
            waiting.alone = waiting.alone.hull(span);
            holders.set_alone(waiting.alone);
        }
        let kept = self.keep(Ok(request), false);
        if let (Err(_), Some(mut waiting)) = (&kept.result, self.waiting()) {
            waiting.tell(self.holders.as_ref());
        }
        self.answer_others();
        kept
    }
}
