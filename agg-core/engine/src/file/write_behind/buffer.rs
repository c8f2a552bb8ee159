//! The buffered writes of one rank.

use crate::Direction;
use crate::file::request::Request;
use crate::file::storage::Storage;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::extent::Extent;
use aggio_base::report::Counters;
use aggio_comm::transport::Holders;
use aggio_config::hints::Hints;
use aggio_staging::pending::{Choice, Moment, Pending, Spill};
use aggio_staging::write_behind::{Room, Waiting};
use aggio_store::driver::Outcome;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The writes of one open file that this rank has buffered.
pub(super) struct Buffer {
    pub(super) storage: Arc<Storage>,
    waiting: Mutex<Waiting>,
    /// State through which ranks request flushes; `None` if no rank needs it.
    holders: Option<Holders>,
    /// The hints in force.
    hints: Mutex<Arc<Hints>>,
}

impl Buffer {
    /// An empty one of the file `path`.
    pub(super) fn new(
        storage: Arc<Storage>,
        holders: Option<Holders>,
        hints: Arc<Hints>,
        path: &str,
    ) -> Self {
        let spill = spill(&storage, &hints, path);
        let mut waiting = Waiting::default();
        waiting.spill = spill;
        Self { storage, waiting: Mutex::new(waiting), holders, hints: Mutex::new(hints) }
    }

    /// The state of the buffered writes.
    pub(super) fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// State through which ranks request flushes.
    pub(super) fn holders(&self) -> Option<&Holders> {
        self.holders.as_ref()
    }

    /// The hints in force.
    pub(super) fn hints(&self) -> Arc<Hints> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// These hints are in force now.
    pub(super) fn set_hints(&self, hints: Arc<Hints>) {
        *self.hints.lock().unwrap_or_else(PoisonError::into_inner) = hints;
    }

    /// Bytes to store after all other buffered ones.
    pub(super) fn last_bytes(&self) -> Extent {
        self.storage.format().last_bytes()
    }

    /// Whether another rank is still in a collective write that this one has finished, so that it
    /// may not have buffered its part yet.
    pub(super) fn is_ahead(&self) -> bool {
        let done = self.lock().done;
        self.holders.as_ref().is_some_and(|all| all.are_behind(done))
    }

    /// Publishes to other ranks whether this one has buffered writes.
    pub(super) fn tell(&self, waiting: &mut Waiting) {
        waiting.tell(self.holders.as_ref());
    }

    /// Buffers a write.
    pub(super) fn keep(&self, request: Result<Request>, is_collective: bool) -> Outcome {
        // Each rank counts the call, even with wrong arguments.
        let moment = self.lock().moment(is_collective);
        let kept = request.and_then(|request| self.add(&request, moment));
        kept.unwrap_or_else(|error| Outcome { bytes: 0, result: Err(error) })
    }

    fn add(&self, request: &Request, moment: Moment) -> Result<Outcome> {
        self.storage.count_pieces(request);
        let stream = request.stream()?;
        if self.holders.is_none() {
            self.make_room(request.len)?;
        }
        let (view, position, len) = (&request.view, request.position, request.len);
        self.storage.look_at_pieces(view, position, stream.memory(), len);
        let mut waiting = self.lock();
        waiting.pending.add(view, position, stream.memory(), len, moment)?;
        self.tell(&mut waiting);
        if let Some(hold) = waiting.hold() {
            hold.set_last(false);
        }
        drop(waiting);
        Counters::add(&self.storage.counters().deferred, 1);
        Ok(stream.finish(Outcome { bytes: len, result: Ok(()) }))
    }

    /// Whether `more` bytes have room beside the buffered writes, in memory or in a file.
    pub(super) fn finds_room(&self, more: u64) -> bool {
        let hints = self.hints();
        let (memory, storage) = (hints.aggio_defer_buffer, hints.aggio_defer_spill);
        match self.lock().room(more, memory, storage, || self.storage.cheap_piece()) {
            Room::InMemory => true,
            Room::InFile => {
                Counters::add(&self.storage.counters().spilled, 1);
                true
            }
            Room::None => false,
        }
    }

    /// If memory has no room for `more` bytes beside the buffered writes, spills to a file or
    /// flushes.
    fn make_room(&self, more: u64) -> Result<()> {
        if self.finds_room(more) {
            return Ok(());
        }
        self.drain_but_last()?;
        self.lock().release()
    }

    /// Writes out all buffered writes, without other ranks.
    ///
    /// # Errors
    /// The system's error; then all writes stay buffered.
    pub(super) fn drain(&self) -> Result<()> {
        self.drain_but(Extent::default())
    }

    /// As [`Buffer::drain`], but bytes that must be stored last stay buffered.
    pub(super) fn drain_but_last(&self) -> Result<()> {
        self.drain_but(self.last_bytes())
    }

    /// As [`Buffer::drain`], and the buffered bytes are never written again.
    pub(super) fn drain_for_good(&self) -> Result<()> {
        self.drain()?;
        self.lock().release()
    }

    /// As [`Buffer::drain`], but bytes of `last` stay buffered.
    pub(super) fn drain_but(&self, last: Extent) -> Result<()> {
        let mut waiting = self.lock();
        match self.write_all_out(&waiting, last) {
            // The files may have taken it.
            Err(error) if is_no_room(&error) && waiting.pending.recall().unwrap_or(false) => {
                self.write_all_out(&waiting, last)?;
            }
            result => result?,
        }
        waiting.pending.note_saved(last);
        if self.holders.is_some() {
            return self.note_alone(&mut waiting, last);
        }
        if self.storage.transport().size() == 1 {
            // No other rank can have written the same bytes.
            waiting.release()?;
            waiting.claims = Pending::default();
        }
        Ok(())
    }

    /// Buffered writes of this rank, except `last`, are in the file. They are not written again, as
    /// other ranks may write there from now on.
    fn note_alone(&self, waiting: &mut Waiting, last: Extent) -> Result<()> {
        waiting.flown |= waiting.flying.is_some() && !waiting.committed && last.is_empty();
        let unsaved = waiting.pending.take_unsaved()?;
        waiting.pending = unsaved;
        waiting.claims = Pending::default();
        self.tell(waiting);
        Ok(())
    }

    /// Called when all ranks have begun a flush: whether this rank has still to write its part.
    pub(super) fn commits(&self) -> bool {
        let mut waiting = self.lock();
        waiting.committed = true;
        !waiting.flown
    }

    /// Writes the buffered writes, except bytes of `last`.
    fn write_all_out(&self, waiting: &Waiting, last: Extent) -> Result<()> {
        let choice = Choice { keep: last, ..Choice::default() };
        // A collective flush in progress may reach the file later than these writes, so they are
        // written once more then.
        if let Some(flying) = waiting.unwritten_flight() {
            self.write_out(flying, &choice)?;
        }
        self.write_out(&waiting.pending, &choice)
    }

    /// Writes the chosen part of `pending`; bytes that must be stored last are written at the end.
    fn write_out(&self, pending: &Pending, choice: &Choice<'_>) -> Result<()> {
        if pending.is_empty() {
            return Ok(());
        }
        let writes = pending.as_two_writes(self.last_bytes(), choice)?;
        if writes.iter().all(|(_, memory)| memory.is_empty()) {
            return Ok(());
        }
        Counters::add(&self.storage.counters().flushes, 1);
        let hints = self.hints();
        writes.iter().try_for_each(|(view, memory)| self.storage.store(view, memory, &hints))
    }

    /// Writes the independent writes of this rank once more, over those that all ranks have made
    /// meanwhile.
    pub(super) fn write_saved_again(&self, pending: &Pending) -> Result<()> {
        if pending.is_saved() {
            let all = [Extent::between(0, u64::MAX)];
            return self.write_out(pending, &Choice { again: &all, ..Choice::default() });
        }
        Ok(())
    }

    /// Before this rank alone reads `span`, or writes in another way: flushes the buffered writes.
    /// A read leaves bytes buffered that must be stored last, if they are not in `span`.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn settle(&self, direction: Direction, span: Option<Extent>) -> Result<()> {
        let untouched = {
            let waiting = self.lock();
            // A write comes after all that waited, which it may announce.
            match span.filter(|_| direction == Direction::Read && self.holders.is_some()) {
                Some(span) => waiting.untouched(span).map(|hull| (hull, span)),
                None if waiting.is_idle() => return Ok(()),
                None => None,
            }
        };
        if untouched.is_some_and(|(hull, span)| !self.storage.ends_before(hull, span)) {
            return Ok(());
        }
        let last = self.last_bytes();
        match (direction, span) {
            (Direction::Read, Some(span)) if !self.awaits(span.intersect(last)) => {
                self.drain_but(last)
            }
            (Direction::Read, _) => self.drain(),
            // The following write is newer: buffered writes must not be written over it.
            (Direction::Write, _) => self.drain_for_good(),
        }
    }

    /// Whether bytes of `extent` wait, or are being written just now.
    fn awaits(&self, extent: Extent) -> bool {
        let waiting = self.lock();
        let flying = waiting.unwritten_flight();
        waiting.pending.awaits(extent) || flying.is_some_and(|flying| flying.touches(extent))
    }

    /// As [`Buffer::awaits`], or are kept although they are in the file.
    pub(super) fn keeps(&self, extent: Extent) -> bool {
        self.awaits(extent) || self.lock().pending.touches(extent)
    }
}

/// The place for spilled bytes of the file `path`. There is none if this is the only rank, which
/// can flush by itself at any time, or if independent writes are as fast. So much of the file
/// system stays free beside the spilled bytes that all buffered bytes have room there in the end.
fn spill(storage: &Storage, hints: &Hints, path: &str) -> Option<Spill> {
    let (reach, ranks) = (storage.reach(), storage.transport().size());
    let is_of_use = ranks > 1 && !reach.facts.has_logs && !reach.facts.is_staged && !reach.logs;
    let of_rank = hints.aggio_defer_buffer.saturating_add(hints.aggio_defer_spill);
    is_of_use.then(|| Spill::beside(path, of_rank.saturating_mul(ranks as u64)))
}

/// Whether `error` means that there was no room.
pub(super) fn is_no_room(error: &Error) -> bool {
    matches!(error.class(), ErrorClass::NoSpace | ErrorClass::Quota)
}
