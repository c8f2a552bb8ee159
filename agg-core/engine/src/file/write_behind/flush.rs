//! A flush: the buffered writes of all ranks become one collective write.

use super::WriteBehind;
use super::buffer::Buffer;
use super::flight::Flight;
use crate::exchange;
use aggio_base::error::Result;
use aggio_base::extent::Extent;
use aggio_base::report::Counters;
use aggio_comm::group;
use aggio_comm::tags::{TagBlock, Tags};
use aggio_comm::task::place::{anywhere, on_caller};
use aggio_plan::format::Map;
use aggio_staging::pending::Pending;
use aggio_staging::write_behind::{Ticket, Waiting};
use aggio_types::memory::Memory;
use aggio_types::view::View;
use std::sync::Arc;

/// Tags and state that a flush takes from its call.
pub(in crate::file) struct Flush {
    /// Its place among all flushes.
    ticket: Ticket,
    /// `None` if no collective write has been deferred yet, as all ranks know; then there is
    /// nothing to write.
    round: Option<Round>,
    /// The file's map agreed on by all ranks when they made the call.
    map: Option<Arc<dyn Map>>,
    /// A worker may carry it out.
    may_move: bool,
}

impl Flush {
    /// The ranks have agreed on this map since.
    pub(in crate::file) fn set_map(&mut self, map: Option<Arc<dyn Map>>) {
        self.map = map;
    }

    /// Whether no earlier one is under way or to come.
    pub(super) fn finds_quiet(&self, waiting: &Waiting) -> bool {
        waiting.is_quiet(&self.ticket)
    }
}

/// Tags of the collective write of buffered writes.
struct Round {
    /// Tags of the step in which the ranks meet.
    meeting: TagBlock,
    tags: TagBlock,
    /// Tags of the write of the bytes that must be stored last.
    last: TagBlock,
}

impl WriteBehind {
    /// The tags and state for a flush before a collective call, if one is needed; a worker may
    /// carry it out if it `may_move`.
    pub(in crate::file) fn flush_tags(&self, tags: &Tags, may_move: bool) -> Option<Flush> {
        let (ticket, is_void) = {
            let waiting = self.buffer.as_ref()?.lock();
            (waiting.ticket(), !waiting.has_waited)
        };
        let round = || {
            let [meeting, tags, last] = [(); 3].map(|()| tags.next());
            Round { meeting, tags, last }
        };
        let round = (!is_void).then(round);
        Some(Flush { ticket, round, map: self.storage.format().map(), may_move })
    }

    /// Writes the buffered writes of all ranks as one collective write.
    ///
    /// # Errors
    /// The system's error, on every rank; then all writes stay buffered.
    pub(in crate::file) async fn flush(&self, flush: Option<Flush>) -> Result<()> {
        match (flush, &self.buffer) {
            // Boxed, for it is large, and every call that has none would carry its room about.
            (Some(flush), Some(buffer)) => Box::pin(self.carry_out(buffer, flush)).await,
            _ => Ok(()),
        }
    }

    async fn carry_out(&self, buffer: &Buffer, flush: Flush) -> Result<()> {
        self.drain_others();
        let Flush { ticket, round, map, may_move } = flush;
        let Some(Round { meeting, tags, last }) = round else { return Ok(()) };
        let flight = Flight::begin(self, buffer, &ticket).await;
        let hints = buffer.hints();
        on_caller().await;
        meeting.ready().await;
        let met = group::barrier(self.transport(), meeting.tag(0)).await;
        let writes = met.and_then(|()| {
            // All ranks take part. A rank that has stored its bytes alone writes none: they must
            // not overwrite newer bytes of another.
            let none = Pending::default();
            let pending = if buffer.commits() { &*flight.pending } else { &none };
            pending.as_two_writes(buffer.last_bytes(), Extent::default())
        });
        if may_move {
            anywhere().await;
        }
        self.storage.note_written();
        let has_bytes = |writes: &[(View, Memory); 2]| writes.iter().any(|(_, m)| !m.is_empty());
        if writes.as_ref().is_ok_and(has_bytes) {
            Counters::add(&self.storage.counters().flushes, 1);
        }
        let scene = self.storage.scene(&hints, None, map.as_deref());
        let more = writes.as_ref().is_ok_and(|[_, (_, memory)]| !memory.is_empty());
        let (first, more) = exchange::write_first(scene, request(&writes, 0), &tags, more).await;
        let result = match (first.result, more) {
            (Ok(()), true) => exchange::write(scene, request(&writes, 1), &last).await.result,
            (result, _) => result,
        };
        drop(writes);
        flight.land(result)
    }
}

/// This rank's request in one of the two writes of a flush.
fn request(writes: &Result<[(View, Memory); 2]>, which: usize) -> Result<exchange::Request<'_>> {
    let (view, memory) = writes.as_ref().map(|writes| &writes[which]).map_err(Clone::clone)?;
    Ok(exchange::Request { view, position: 0, memory })
}
