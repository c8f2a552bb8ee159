//! Write-behind: the deferred writes of a rank, where they may wait, and the order of flushes.

mod habit;
mod queue;
mod straight;

pub use queue::Ticket;

use crate::pending::Pending;
use aggio_base::extent::Extent;
use aggio_base::spare_memory::Allowance;
use aggio_comm::transport::{Hold, Holders};
use habit::Habit;
use queue::Queue;
use std::sync::Arc;
use straight::Straight;

/// The most runs to look through for each access of a rank alone; more are written out once.
const FEW_RUNS: usize = 64;

/// Pieces that may wait: planning one write of them takes memory for each.
const PIECES: u64 = 4_000_000;

/// A flush in progress, by all ranks.
#[derive(Debug)]
pub struct Flying {
    /// This rank's writes.
    pub pending: Arc<Pending>,
    /// This rank has written them alone before all ranks had come.
    pub flown: bool,
    /// All ranks have come: it is too late to write alone.
    pub committed: bool,
}

/// The waiting writes of this rank.
#[derive(Debug, Default)]
pub struct Waiting {
    /// Writes since the last flush that are not in the file.
    pub pending: Pending,
    /// The flush in progress.
    pub flying: Option<Flying>,
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
    /// The memory of the node that is taken.
    allowance: Allowance,
    /// Flushes in the order of the calls that they are for.
    queue: Queue,
}

impl Flying {
    /// The flush of these writes.
    pub fn new(pending: Arc<Pending>) -> Self {
        Self { pending, flown: false, committed: false }
    }
}

impl Waiting {
    /// The writes of a flush in progress, unless this rank has written its part alone: others may
    /// have written some of these bytes since, and this rank writes none of them again.
    pub fn unwritten_flight(&self) -> Option<&Pending> {
        self.flying.as_ref().filter(|flying| !flying.flown).map(|flying| &*flying.pending)
    }

    /// Bytes that are not in the file.
    pub fn bytes(&self) -> u64 {
        let flying = self.unwritten_flight().map_or(0, Pending::bytes);
        self.pending.bytes() + flying
    }

    /// The place of a flush that a call begins now.
    pub fn ticket(&self) -> Ticket {
        self.queue.ticket()
    }

    /// Publishes to the other ranks whether something waits.
    pub fn tell(&mut self, holders: &Holders) {
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

    /// Whether `more` bytes have room beside the waiting ones in `memory` bytes.
    pub fn has_room(&mut self, more: u64, memory: u64) -> bool {
        let pending = &self.pending;
        let fits = pending.bytes().saturating_add(more) <= memory && pending.pieces() <= PIECES;
        let has_room = fits && self.allowance.take(more);
        self.pending.is_empty() || has_room
    }

    /// Drops all waiting bytes; returns how many of them are not in the file.
    pub fn give_up(&mut self) -> u64 {
        let bytes = self.bytes();
        (self.pending, self.flying, self.alone) = Default::default();
        self.hold = None;
        bytes
    }
}
