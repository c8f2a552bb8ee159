//! Write-behind: the deferred writes of a rank, where they may wait, and the order of flushes.

mod habit;
mod queue;
mod straight;

pub use queue::Ticket;

use crate::pending::{Moment, Pending, Spill};
use aggio_base::error::Result;
use aggio_base::extent::Extent;
use aggio_base::log::{self, Level};
use aggio_base::spare_memory::Allowance;
use aggio_comm::transport::{Hold, Holders};
use habit::Habit;
use queue::Queue;
use std::sync::Arc;
use straight::Straight;

/// Pieces of which the places are kept without the bytes.
const CLAIMS: u64 = 4_000_000;
const FORGOTTEN: &str = "single ranks have written more since the last synchronisation than is \
    kept in mind: of bytes that several ranks have written the last write may not count";

/// So many runs are looked through for each access of a rank alone; more are written out once.
const FEW_RUNS: usize = 64;

/// Pieces that may wait: planning one write of them takes memory for each.
const PIECES: u64 = 4_000_000;

/// Where bytes that are to wait find room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Beside what waits in memory.
    InMemory,
    /// In a file.
    InFile,
    /// Nowhere: what waits must be written out before.
    None,
}

/// What waits on this rank.
#[derive(Debug, Default)]
pub struct Waiting {
    /// Writes since the last flush; what this rank has written to the file by itself is kept, for
    /// another rank may have written the same bytes.
    pub pending: Pending,
    /// What all ranks are writing just now.
    pub flying: Option<Arc<Pending>>,
    /// Where older writes since the last flush went, of which the bytes are not kept any more.
    pub claims: Pending,
    /// Where bytes wait for which memory has no room, if there is such a place.
    pub spill: Option<Spill>,
    /// Number of collective writes.
    calls: u64,
    /// Told to the other ranks while something waits, where they can ask for it.
    hold: Option<Hold>,
    /// A worker answers them.
    pub is_answered: bool,
    /// From where to where all ranks wrote what may wait.
    pub hull: Extent,
    /// From where to where this rank wrote alone what waits; others see it.
    pub alone: Extent,
    /// Calls that go straight to the file.
    pub straight: Straight,
    /// A write of all ranks has waited since the file was opened; the same on all ranks.
    pub has_waited: bool,
    /// Collective writes that this rank has done, if they might have waited and all ranks met.
    pub done: u32,
    /// What all nodes held back of so many of them is stored, because this rank asked for it.
    pub asked: Option<u32>,
    /// Another rank has asked since the ranks met.
    pub was_asked: bool,
    /// How often ranks had to ask.
    pub habit: Habit,
    /// Of a flush: this rank has written its part alone before all had come, or it is too late for
    /// that.
    pub flown: bool,
    /// See [`Waiting::flown`].
    pub committed: bool,
    /// What is taken of the memory of the node.
    allowance: Allowance,
    /// Flushes in the order of the calls that they are for.
    queue: Queue,
}

impl Waiting {
    /// What all ranks are writing just now, unless this rank has written its part alone: others may
    /// have written some of these bytes since, and this rank writes none of them again.
    pub fn unwritten_flight(&self) -> Option<&Pending> {
        self.flying.as_deref().filter(|_| !self.flown)
    }

    /// Bytes that are not in the file.
    pub fn bytes(&self) -> u64 {
        let flying = self.unwritten_flight().map_or(0, Pending::unsaved_bytes);
        self.pending.unsaved_bytes() + flying
    }

    /// The place of a flush that a call begins now.
    pub fn ticket(&self) -> Ticket {
        self.queue.ticket()
    }

    /// Tells the other ranks whether something waits.
    pub fn tell(&mut self, holders: Option<&Holders>) {
        let Some(holders) = holders else { return };
        let flies = self.unwritten_flight().is_some();
        if self.pending.is_empty() && !flies && !self.alone.is_empty() {
            self.alone = Extent::default();
            holders.set_alone(self.alone);
        }
        match (self.pending.is_empty() && !flies, &self.hold) {
            (true, _) => self.hold = None,
            (false, None) => self.hold = Some(holders.hold()),
            (false, Some(_)) => {}
        }
    }

    /// Whether nothing is kept, and nothing is being written by all ranks.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.flying.is_none()
    }

    /// From where to where something waits; `None` if that may be bytes of `extent`, or if all
    /// ranks are writing just now.
    pub fn untouched(&self, extent: Extent) -> Option<Extent> {
        let has_many = self.pending.runs() > FEW_RUNS;
        let touches = self.flying.is_some() || has_many || self.pending.touches(extent);
        (!touches).then(|| self.pending.hull())
    }

    /// Of what waits, from where to where all ranks wrote it together.
    pub fn held_together(&self) -> Extent {
        match (self.pending.is_empty(), self.alone.is_empty()) {
            (true, _) => Extent::default(),
            (false, true) => self.pending.hull(),
            // What they wrote together is stored, and this rank kept more since.
            (false, false) if self.hull.is_empty() => self.pending.hull(),
            // The bytes of this rank alone are far from the others.
            (false, false) => self.hull,
        }
    }

    /// What waits, if others are told of it.
    pub fn hold(&mut self) -> Option<&mut Hold> {
        self.hold.as_mut()
    }

    /// Whether nothing flies and no earlier call is about to flush.
    pub fn is_quiet(&self, ticket: &Ticket) -> bool {
        self.flying.is_none() && ticket.is_first()
    }

    /// Where `more` bytes find room beside what waits: `memory` bytes may wait in memory and
    /// `storage` bytes in files, unless requests for pieces of `cheap` bytes cost so little that
    /// writing them out is as good.
    pub fn room(
        &mut self,
        more: u64,
        memory: u64,
        storage: u64,
        cheap: impl FnOnce() -> u64,
    ) -> Room {
        let pending = &mut self.pending;
        let fits = pending.bytes_in_memory().saturating_add(more) <= memory;
        let has_room = fits && pending.pieces() <= PIECES && self.allowance.take(more);
        if pending.is_empty() || has_room {
            return Room::InMemory;
        }
        let is_cheap = pending.bytes() / pending.pieces() >= cheap();
        let spills = !is_cheap && may_spill(&mut self.spill, pending, more, storage);
        if spills { Room::InFile } else { Room::None }
    }

    /// Gives up what waits; how many bytes of it are not in the file.
    pub fn give_up(&mut self) -> u64 {
        let bytes = self.bytes();
        (self.pending, self.flying, self.claims, self.alone) = Default::default();
        self.hold = None;
        bytes
    }

    /// The moment of a write now.
    pub fn moment(&mut self, is_collective: bool) -> Moment {
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
    pub fn release(&mut self) -> Result<()> {
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

/// Whether bytes may wait in a file beside what does; where there is no room, none is asked for
/// again.
fn may_spill(spill: &mut Option<Spill>, pending: &mut Pending, more: u64, storage: u64) -> bool {
    if pending.pieces() > PIECES || pending.spilled_bytes().saturating_add(more) > storage {
        return false;
    }
    let has_room =
        spill.as_ref().is_some_and(|spill| pending.spill_to(spill, more, storage).is_ok());
    if !has_room {
        *spill = None;
    }
    has_room
}
