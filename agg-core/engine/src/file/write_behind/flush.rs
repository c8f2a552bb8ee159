//! A flush: the buffered writes of all ranks become one collective write.

use super::WriteBehind;
use super::buffer::{Buffer, is_no_room};
use super::flight::Flight;
use super::overlaps;
use crate::exchange;
use aggio_base::error::Result;
use aggio_base::extent::Extent;
use aggio_base::report::Counters;
use aggio_comm::tags::{TagBlock, Tags};
use aggio_comm::task::place::anywhere;
use aggio_plan::format::Map;
use aggio_staging::pending::Choice;
use aggio_staging::write_behind::{Ticket, Waiting};
use aggio_types::memory::Memory;
use aggio_types::view::View;
use std::sync::Arc;

/// Tags and state that a flush takes from its call.
pub(in crate::file) struct Flush {
    /// Its place among all flushes.
    ticket: Ticket,
    /// The second round is used if the first one finds no room. `None` if no collective write has
    /// been deferred yet, as all ranks know; then there is nothing to write.
    rounds: Option<[Round; 2]>,
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

/// Tags of one collective write of buffered writes.
struct Round {
    /// Tags of the step that orders overlapping writes.
    order: TagBlock,
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
            (waiting.ticket(), self.is_shared() && !waiting.has_waited)
        };
        let round = || {
            let [order, tags, last] = [(); 3].map(|()| tags.next());
            Round { order, tags, last }
        };
        let rounds = (!is_void).then(|| [(); 2].map(|()| round()));
        Some(Flush { ticket, rounds, map: self.storage.format().map(), may_move })
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
        if self.transport().size() == 1 {
            return buffer.drain();
        }
        let Flush { ticket, rounds, map, may_move } = flush;
        let Some([first, second]) = rounds else { return Ok(()) };
        let (result, may_have_taken_room) =
            self.write_together(buffer, &ticket, first, map.as_deref(), may_move).await;
        if !may_have_taken_room {
            return result;
        }
        // A rank without memory to load its spilled bytes still takes part.
        buffer.lock().pending.recall().ok();
        self.write_together(buffer, &ticket, second, map.as_deref(), may_move).await.0
    }

    /// One round of a flush. Also returns whether spill files may have taken the room that the
    /// write lacked, equal on all ranks and independent of the writes that this rank makes
    /// afterwards.
    async fn write_together(
        &self,
        buffer: &Buffer,
        ticket: &Ticket,
        round: Round,
        map: Option<&dyn Map>,
        may_move: bool,
    ) -> (Result<()>, bool) {
        let Round { order, tags, last } = round;
        let mut spills = false;
        let flight = Flight::begin(self, buffer, ticket).await;
        let hints = buffer.hints();
        let kept = [&flight.claims, &*flight.pending];
        let writes = overlaps::settle(self.transport(), &order, kept).await.and_then(|settled| {
            spills = settled.spills;
            let lost = settled.lost?;
            // All ranks take part, so independent writes of this rank must not overwrite newer
            // bytes of another.
            let all = [Extent::between(0, u64::MAX)];
            let without = if buffer.commits() { &lost[..] } else { &all };
            let again = &settled.contested;
            let choice = Choice { again, without, ..Choice::default() };
            flight.pending.as_two_writes(buffer.last_bytes(), &choice)
        });
        if may_move {
            anywhere().await;
        }
        self.storage.note_written();
        let has_bytes = |writes: &[(View, Memory); 2]| writes.iter().any(|(_, m)| !m.is_empty());
        if writes.as_ref().is_ok_and(has_bytes) {
            Counters::add(&self.storage.counters().flushes, 1);
        }
        let scene = self.storage.scene(&hints, None, map);
        let more = writes.as_ref().is_ok_and(|[_, (_, memory)]| !memory.is_empty());
        let (first, more) = exchange::write_first(scene, request(&writes, 0), &tags, more).await;
        let result = match (first.result, more) {
            (Ok(()), true) => exchange::write(scene, request(&writes, 1), &last).await.result,
            (result, _) => result,
        };
        drop(writes);
        let may_have_taken_room = spills && result.as_ref().is_err_and(is_no_room);
        (flight.land(result), may_have_taken_room)
    }
}

/// This rank's request in one of the two writes of a flush.
fn request(writes: &Result<[(View, Memory); 2]>, which: usize) -> Result<exchange::Request<'_>> {
    let (view, memory) = writes.as_ref().map(|writes| &writes[which]).map_err(Clone::clone)?;
    Ok(exchange::Request { view, position: 0, memory })
}
