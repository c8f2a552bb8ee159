//! A flush: the buffered writes of all ranks become one collective write.

use super::File;
use super::flight::Flight;
use super::overlaps;
use super::write_behind::is_no_room;
use crate::exchange;
use aggio_base::error::Result;
use aggio_base::extent::Extent;
use aggio_base::report::Counters;
use aggio_comm::tags::TagBlock;
use aggio_comm::task::place::anywhere;
use aggio_plan::format::Map;
use aggio_staging::pending::Choice;
use aggio_staging::write_behind::{Ticket, Waiting};
use aggio_types::memory::Memory;
use aggio_types::view::View;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Tags and state that a flush takes from its call.
pub(super) struct Flush {
    /// Its place among all flushes.
    ticket: Ticket,
    /// Tags of the meeting that settles views set without one.
    settles: Option<TagBlock>,
    /// The second round is used if the first one finds no room. `None` if no collective write has
    /// been deferred yet, as all ranks know; then there is nothing to write.
    rounds: Option<[Round; 2]>,
    /// The file's map agreed on by all ranks when they made the call.
    map: Option<Arc<dyn Map>>,
}

impl Flush {
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

impl File {
    /// The tags and state for a flush before a collective call, if one is needed.
    pub(super) fn flush_tags(&self) -> Option<Flush> {
        let (ticket, is_void) = {
            let waiting = self.waiting()?;
            (waiting.ticket(), self.holders.is_some() && !waiting.has_waited)
        };
        let round = || {
            let [order, tags, last] = [(); 3].map(|()| self.tags.next());
            Round { order, tags, last }
        };
        let rounds = (!is_void).then(|| [(); 2].map(|()| round()));
        Some(Flush { ticket, settles: None, rounds, map: self.map() })
    }

    /// As [`File::flush_tags`], before a call that returns when it is done on all ranks: the flush
    /// also settles views set without a meeting.
    pub(super) fn settling_flush_tags(&self) -> Option<Flush> {
        let flush = self.flush_tags()?;
        let settles = self.takes_unmet().then(|| self.tags.next());
        Some(Flush { settles, ..flush })
    }

    /// Writes the buffered writes of all ranks as one collective write.
    ///
    /// # Errors
    /// The system's error, on every rank; then all writes stay buffered.
    pub(super) async fn flush(&self, flush: Option<Flush>) -> Result<()> {
        match flush {
            // Boxed, for it is large, and every call that has none would carry its room about.
            Some(flush) => Box::pin(self.carry_out(flush)).await,
            None => Ok(()),
        }
    }

    async fn carry_out(&self, Flush { ticket, settles, rounds, mut map }: Flush) -> Result<()> {
        self.drain_others();
        if self.transport.size() == 1 {
            return self.drain();
        }
        if let Some(tags) = settles {
            self.settle_turns(&tags).await?;
            map = self.map();
        }
        let Some([first, second]) = rounds else { return Ok(()) };
        let (result, may_have_taken_room) =
            self.write_together(&ticket, first, map.as_deref()).await;
        if !may_have_taken_room {
            return result;
        }
        // A rank without memory to load its spilled bytes still takes part.
        self.waiting().map_or(Ok(false), |mut waiting| waiting.pending.recall()).ok();
        self.write_together(&ticket, second, map.as_deref()).await.0
    }

    /// One round of a flush. Also returns whether spill files may have taken the room that the
    /// write lacked, equal on all ranks and independent of the writes that this rank makes
    /// afterwards.
    async fn write_together(
        &self,
        ticket: &Ticket,
        round: Round,
        map: Option<&dyn Map>,
    ) -> (Result<()>, bool) {
        let Round { order, tags, last } = round;
        let mut spills = false;
        let flight = Flight::begin(self, ticket).await;
        let hints = self.hints();
        let kept = [&flight.claims, &*flight.pending];
        let writes = overlaps::settle(&*self.transport, &order, kept).await.and_then(|settled| {
            spills = settled.spills;
            let lost = settled.lost?;
            // All ranks take part, so independent writes of this rank must not overwrite newer
            // bytes of another.
            let all = [Extent::between(0, u64::MAX)];
            let without = if self.commits() { &lost[..] } else { &all };
            let again = &settled.contested;
            let choice = Choice { again, without, ..Choice::default() };
            flight.pending.as_two_writes(self.last_bytes(), &choice)
        });
        if self.meets_in_memory() {
            anywhere().await;
        }
        self.wrote.store(true, Ordering::Release);
        let has_bytes = |writes: &[(View, Memory); 2]| writes.iter().any(|(_, m)| !m.is_empty());
        if writes.as_ref().is_ok_and(has_bytes) {
            Counters::add(&self.counters.flushes, 1);
        }
        let scene = self.scene(&hints, false, map);
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
