//! What waits on a rank, and a flush of it that is under way.

use super::File;
use super::together::Habit;
use aggio_base::error::Result;
use aggio_base::extent::Extent;
use aggio_base::log::{self, Level};
use aggio_comm::task;
use aggio_comm::transport::{Hold, Holders};
use aggio_staging::pending::{Moment, Pending, Spill};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Pieces of which the places are kept without the bytes.
const CLAIMS: u64 = 4_000_000;
const FORGOTTEN: &str = "single ranks have written more since the last synchronisation than is \
    kept in mind: of bytes that several ranks have written the last write may not count";

/// What waits on this rank.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Writes since the last flush; what this rank has written to the file by itself is kept, for
    /// another rank may have written the same bytes.
    pub(super) pending: Pending,
    /// What all ranks are writing just now.
    pub(super) flying: Option<Arc<Pending>>,
    /// Where older writes since the last flush went, of which the bytes are not kept any more.
    pub(super) claims: Pending,
    /// Where bytes wait for which memory has no room, if there is such a place.
    pub(super) spill: Option<Spill>,
    /// Number of collective writes.
    calls: u64,
    /// Told to the other ranks while something waits, where they can ask for it.
    hold: Option<Hold>,
    /// A worker answers them.
    pub(super) is_answered: bool,
    /// From where to where all ranks wrote what may wait.
    pub(super) hull: Extent,
    /// Another rank has asked since the ranks met.
    pub(super) was_asked: bool,
    pub(super) habit: Habit,
    /// Of a flush: this rank has written its part alone before all had come, or it is too late for
    /// that.
    pub(super) flown: bool,
    pub(super) committed: bool,
    /// Flushes in the order of the calls that they are for.
    queue: Arc<Queue>,
}

/// Flushes take place in the order in which the calls were made that they are for, which is that of
/// all ranks: two that ranks began in different orders would wait for each other.
#[derive(Debug, Default)]
struct Queue(Mutex<Places>);

#[derive(Debug, Default)]
struct Places {
    issued: u64,
    /// The first one that has not ended, and those behind it that have.
    first: u64,
    ended: BTreeSet<u64>,
}

impl Queue {
    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a flush among the others of its file, which it has until it is dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    queue: Arc<Queue>,
    number: u64,
}

impl Ticket {
    fn is_first(&self) -> bool {
        self.queue.places().first == self.number
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut places = self.queue.places();
        places.ended.insert(self.number);
        while let first = places.first
            && places.ended.remove(&first)
        {
            places.first += 1;
        }
    }
}

impl Waiting {
    /// What all ranks are writing just now, unless this rank has written its part alone: others may
    /// have written some of these bytes since, and this rank writes none of them again.
    pub(super) fn unwritten_flight(&self) -> Option<&Pending> {
        self.flying.as_deref().filter(|_| !self.flown)
    }

    /// Bytes that are not in the file.
    pub(super) fn bytes(&self) -> u64 {
        let flying = self.unwritten_flight().map_or(0, Pending::unsaved_bytes);
        self.pending.unsaved_bytes() + flying
    }

    /// The place of a flush that a call begins now.
    pub(super) fn ticket(&self) -> Ticket {
        let mut places = self.queue.places();
        places.issued += 1;
        Ticket { queue: self.queue.clone(), number: places.issued - 1 }
    }

    /// Tells the other ranks whether something waits.
    pub(super) fn tell(&mut self, holders: Option<&Holders>) {
        let Some(holders) = holders else { return };
        let flies = self.unwritten_flight().is_some();
        match (self.pending.is_empty() && !flies, &self.hold) {
            (true, _) => self.hold = None,
            (false, None) => self.hold = Some(holders.hold()),
            (false, Some(_)) => {}
        }
    }

    /// What waits, if others are told of it.
    pub(super) fn hold(&mut self) -> Option<&mut Hold> {
        self.hold.as_mut()
    }

    /// Whether nothing flies and no earlier call is about to flush.
    pub(super) fn is_quiet(&self, ticket: &Ticket) -> bool {
        self.flying.is_none() && ticket.is_first()
    }

    /// Gives up what waits; how many bytes of it are not in the file.
    pub(super) fn give_up(&mut self) -> u64 {
        let bytes = self.bytes();
        (self.pending, self.flying, self.claims) = Default::default();
        self.hold = None;
        bytes
    }

    /// The moment of a write now.
    pub(super) fn moment(&mut self, is_collective: bool) -> Moment {
        if is_collective {
            self.calls += 1;
            return Moment::of_call(self.calls);
        }
        Moment::after_call(self.calls)
    }

    /// Gives up the bytes that are in the file. If all ranks are writing just now, those may be
    /// needed once more.
    ///
    /// # Errors
    /// `NoMem` if there is no memory for a copy of the others; then nothing has changed.
    pub(super) fn release(&mut self) -> Result<()> {
        if self.flying.is_some() {
            return Ok(());
        }
        let unsaved = self.pending.take_unsaved()?;
        let saved = std::mem::replace(&mut self.pending, unsaved);
        self.claims.add_after(saved.without_data());
        if self.claims.pieces() > CLAIMS {
            log::once_on_any_rank(Level::Warn, FORGOTTEN);
            self.claims = Pending::default();
        }
        Ok(())
    }
}

/// A flush that has begun. One that does not end leaves everything waiting.
pub(super) struct Flight<'a> {
    file: &'a File,
    pub(super) pending: Arc<Pending>,
    pub(super) claims: Pending,
}

impl<'a> Flight<'a> {
    /// Takes what waits, once the flushes of all earlier calls have ended: an older write must not
    /// come after it.
    pub(super) async fn begin(file: &'a File, ticket: &Ticket) -> Self {
        loop {
            if ticket.is_first()
                && let Some(mut waiting) = file.waiting()
                && waiting.flying.is_none()
            {
                let pending = Arc::new(std::mem::take(&mut waiting.pending));
                waiting.flying = Some(pending.clone());
                return Self { file, pending, claims: std::mem::take(&mut waiting.claims) };
            }
            file.progress();
            task::pause().await;
        }
    }

    /// The flush has ended. What this rank has written by itself meanwhile is newer and is written
    /// once more.
    pub(super) fn land(self, result: Result<()>) -> Result<()> {
        result?;
        let mut waiting = match self.file.waiting() {
            Some(waiting) if waiting.flying.is_some() => waiting,
            _ => return Ok(()),
        };
        // All ranks have theirs in the file: whatever becomes of this, that is not written again.
        (waiting.flying, waiting.flown, waiting.committed) = Default::default();
        waiting.hull = Extent::default();
        waiting.tell(self.file.holders.as_ref());
        let again = self.file.write_saved_again(&waiting.pending);
        if again.is_err() {
            waiting.pending.note_unsaved();
        }
        again
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let Some(mut waiting) = self.file.waiting() else { return };
        if waiting.flying.take().is_none() {
            return;
        }
        let has_flown = std::mem::take(&mut waiting.flown);
        waiting.committed = false;
        waiting.claims.add_before(std::mem::take(&mut self.claims));
        // Nobody else has it any more, unless a rank writes it out right now, which holds the lock.
        if let Some(flown) = Arc::get_mut(&mut self.pending).filter(|_| !has_flown) {
            waiting.pending.add_before(std::mem::take(flown));
        }
        waiting.tell(self.file.holders.as_ref());
        drop(waiting);
        self.file.answer_others();
    }
}
