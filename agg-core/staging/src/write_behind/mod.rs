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

/// The most pieces that are remembered without their bytes.
const CLAIMS: u64 = 4_000_000;
const FORGOTTEN: &str = "single ranks have written more since the last synchronisation than is \
    kept in mind: of bytes that several ranks have written the last write may not count";

/// The most runs to look through for each access of a rank alone; more are written out once.
const FEW_RUNS: usize = 64;

/// Pieces that may wait: planning one write of them takes memory for each.
const PIECES: u64 = 4_000_000;

/// Where bytes that are to wait find room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// In memory, beside the bytes that wait there.
    InMemory,
    /// In a file.
    InFile,
    /// Nowhere: waiting bytes must be written out before.
    None,
}

/// The waiting writes of this rank.
#[derive(Debug, Default)]
pub struct Waiting {
    /// Writes since the last flush. Those that this rank has written to the file by itself are
    /// kept, because another rank may have written the same bytes.
    pub pending: Pending,
    /// The writes of a flush in progress, by all ranks.
    pub flying: Option<Arc<Pending>>,
    /// The places of older writes since the last flush, without their bytes.
    pub claims: Pending,
    /// Files for bytes that memory has no room for, if there is a place for them.
    pub spill: Option<Spill>,
    /// Number of collective writes.
    calls: u64,
    /// Shared with the other ranks while something waits, so that they can ask for it.
    hold: Option<Hold>,
    /// A worker answers them.
    pub is_answered: bool,
    /// The range of collective writes that may wait.
    pub hull: Extent,
    /// The range of waiting writes by this rank alone; others see it.
    pub alone: Extent,
    /// Calls that go straight to the file.
    pub straight: Straight,
    /// A write of all ranks has waited since the file was opened; the same on all ranks.
    pub has_waited: bool,
    /// Collective writes that this rank has done, if they might have waited and all ranks met.
    pub done: u32,
    /// The value of `done` up to which all nodes have stored their waiting bytes, because this rank
    /// asked for that.
    pub asked: Option<u32>,
    /// Another rank has asked since the ranks met.
    pub was_asked: bool,
    /// How often ranks had to ask for waiting bytes.
    pub habit: Habit,
    /// This rank has written its part of a flush alone before all had come, or it is too late for
    /// that.
    pub flown: bool,
    /// See [`Waiting::flown`].
    pub committed: bool,
    /// The memory of the node that is taken.
    allowance: Allowance,
    /// Flushes in the order of the calls that they are for.
    queue: Queue,
}

impl Waiting {
    /// The writes of a flush in progress, unless this rank has written its part alone: others may
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

    /// Publishes to the other ranks whether something waits.
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

    /// The range of the waiting bytes; `None` if that may include bytes of `extent`, or if all
    /// ranks are writing just now.
    pub fn untouched(&self, extent: Extent) -> Option<Extent> {
        let has_many = self.pending.runs() > FEW_RUNS;
        let touches = self.flying.is_some() || has_many || self.pending.touches(extent);
        (!touches).then(|| self.pending.hull())
    }

    /// The range of the waiting bytes that all ranks wrote together.
    pub fn held_together(&self) -> Extent {
        match (self.pending.is_empty(), self.alone.is_empty()) {
            (true, _) => Extent::default(),
            (false, true) => self.pending.hull(),
            // The bytes written together are stored, and this rank has kept more since.
            (false, false) if self.hull.is_empty() => self.pending.hull(),
            // The bytes of this rank alone are far from the others.
            (false, false) => self.hull,
        }
    }

    /// The shared record of waiting bytes, if other ranks have it.
    pub fn hold(&mut self) -> Option<&mut Hold> {
        self.hold.as_mut()
    }

    /// Whether nothing flies and no earlier call is about to flush.
    pub fn is_quiet(&self, ticket: &Ticket) -> bool {
        self.flying.is_none() && ticket.is_first()
    }

    /// Where `more` bytes find room beside the waiting ones: `memory` bytes may wait in memory and
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

    /// Drops all waiting bytes; returns how many of them are not in the file.
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

/// Whether bytes may wait in a file beside those that do. Once there is no room, files are not
/// tried again.
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
