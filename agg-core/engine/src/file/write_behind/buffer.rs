//! The buffered writes of one rank.

use crate::Direction;
use crate::file::request::Request;
use crate::file::storage::Storage;
use aggio_base::error::Result;
use aggio_base::extent::Extent;
use aggio_base::report::Counters;
use aggio_comm::transport::Holders;
use aggio_config::hints::Hints;
use aggio_staging::pending::Pending;
use aggio_staging::write_behind::Waiting;
use aggio_store::driver::Outcome;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The writes of one open file that this rank has buffered.
pub(super) struct Buffer {
    pub(super) storage: Arc<Storage>,
    waiting: Mutex<Waiting>,
    /// State through which ranks request flushes.
    holders: Holders,
    /// The hints in force.
    hints: Mutex<Arc<Hints>>,
}

impl Buffer {
    /// An empty one.
    pub(super) fn new(storage: Arc<Storage>, holders: Holders, hints: Arc<Hints>) -> Self {
        Self { storage, waiting: Mutex::default(), holders, hints: Mutex::new(hints) }
    }

    /// The state of the buffered writes.
    pub(super) fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// State through which ranks request flushes.
    pub(super) fn holders(&self) -> &Holders {
        &self.holders
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
        self.holders.are_behind(done)
    }

    /// Publishes to other ranks whether this one has buffered writes.
    pub(super) fn tell(&self, waiting: &mut Waiting) {
        waiting.tell(&self.holders);
    }

    /// Buffers a write.
    pub(super) fn keep(&self, request: Result<Request>) -> Outcome {
        let kept = request.and_then(|request| self.add(&request));
        kept.unwrap_or_else(|error| Outcome { bytes: 0, result: Err(error) })
    }

    fn add(&self, request: &Request) -> Result<Outcome> {
        self.storage.count_pieces(request);
        let stream = request.stream()?;
        let (view, position, len) = (&request.view, request.position, request.len);
        self.storage.look_at_pieces(view, position, stream.memory(), len);
        let mut waiting = self.lock();
        waiting.pending.add(view, position, stream.memory(), len)?;
        self.tell(&mut waiting);
        if let Some(hold) = waiting.hold() {
            hold.set_last(false);
        }
        drop(waiting);
        Counters::add(&self.storage.counters().deferred, 1);
        Ok(stream.finish(Outcome { bytes: len, result: Ok(()) }))
    }

    /// Whether `more` bytes have room beside the buffered writes.
    pub(super) fn has_room(&self, more: u64) -> bool {
        let memory = self.hints().aggio_defer_buffer;
        self.lock().has_room(more, memory)
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

    /// As [`Buffer::drain`], but bytes of `last` stay buffered.
    pub(super) fn drain_but(&self, last: Extent) -> Result<()> {
        let mut waiting = self.lock();
        // A collective flush in progress may reach the file later than these writes, so they are
        // written once more then.
        if let Some(flying) = waiting.unwritten_flight() {
            self.write_out(flying, last)?;
        }
        self.write_out(&waiting.pending, last)?;
        // What is in the file is not written again, as other ranks may write there from now on.
        let left = waiting.pending.copy_of(last)?;
        waiting.pending = left;
        if let Some(flying) = waiting.flying.as_mut().filter(|_| last.is_empty()) {
            flying.flown |= !flying.committed;
        }
        self.tell(&mut waiting);
        Ok(())
    }

    /// Called when all ranks have begun a flush: whether this rank has still to write its part.
    pub(super) fn commits(&self) -> bool {
        self.lock().flying.as_mut().is_none_or(|flying| {
            flying.committed = true;
            !flying.flown
        })
    }

    /// Writes `pending` without the bytes of `left`; bytes that must be stored last are written at
    /// the end.
    fn write_out(&self, pending: &Pending, left: Extent) -> Result<()> {
        if pending.is_empty() {
            return Ok(());
        }
        let writes = pending.as_two_writes(self.last_bytes(), left)?;
        if writes.iter().all(|(_, memory)| memory.is_empty()) {
            return Ok(());
        }
        Counters::add(&self.storage.counters().flushes, 1);
        let hints = self.hints();
        writes.iter().try_for_each(|(view, memory)| self.storage.store(view, memory, &hints))
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
            match span.filter(|_| direction == Direction::Read) {
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
            // A following write is newer: buffered writes must not be written over it.
            _ => self.drain(),
        }
    }

    /// Whether bytes of `extent` wait, or are being written just now.
    pub(super) fn awaits(&self, extent: Extent) -> bool {
        let waiting = self.lock();
        let flying = waiting.unwritten_flight();
        waiting.pending.touches(extent) || flying.is_some_and(|flying| flying.touches(extent))
    }
}
