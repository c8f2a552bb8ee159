//! The short way of a call that needs no plan: one rank, one run of bytes in memory, one in the
//! file.
//!
//! Programs that move a few bytes at a time make millions of such calls. [`File::start`] would do
//! the same, but with a future; here nothing is allocated, and no rank waits.

use super::request::{position_of, whole_etypes};
use super::{Amode, Call, Direction, File, Position, State};
use aggio_base::report::Counters;
use aggio_config::hints::Switch;
use aggio_store::driver::Outcome;
use aggio_types::view::Representation;

/// A range that a call has taken: the file byte it starts at, and whether in atomic mode.
struct Run {
    offset: u64,
    atomic: bool,
}

impl File {
    /// Carries out `call` if it needs no plan. `None` if it does, or if anything is wrong with it:
    /// then nothing has happened, and [`File::start`] is the way.
    pub fn at_once(&self, call: &mut Call) -> Option<Outcome> {
        let Run { offset, atomic } = self.claim_run(call)?;
        let begun = self.begin(call.operation, call.direction, call.collective);
        let memory = call.memory.as_mut().ok()?;
        Counters::add(&self.counters().pieces_in, 1);
        if call.collective {
            self.storage.count_only_rank();
        }
        let hints = || self.hints();
        let outcome = match call.direction {
            Direction::Read => self.storage.read_run(memory.as_mut_slice()?, offset, atomic, hints),
            Direction::Write => self.storage.write_run(memory, offset, hints)?,
        };
        Some(self.end(begun, outcome))
    }

    /// Decides whether a call needs no plan, and then takes its range.
    fn claim_run(&self, call: &Call) -> Option<Run> {
        let memory = call.memory.as_ref().ok()?;
        let len = memory.len();
        let permitted = match call.direction {
            Direction::Read => self.amode.is_readable(),
            Direction::Write => self.amode.is_writable(),
        } && !self.amode.has(Amode::SEQUENTIAL);
        let alone = !call.is_collective() || self.transport.size() == 1;
        if !permitted
            || !self.write_behind.is_idle()
            || !alone
            || len == 0
            || !memory.is_contiguous()
        {
            return None;
        }
        self.check_open().and_then(|()| self.check_turn()).ok()?;
        let mut state = self.state();
        if !state.shows_plain_bytes() || self.locks(&state, call.direction) {
            return None;
        }
        let etypes = whole_etypes(len, state.view.etype_size()).ok()?;
        let first = match call.position {
            Position::Explicit(offset) => u64::try_from(offset).ok()?,
            Position::Individual => state.individual,
            Position::Shared | Position::Ordered => return None,
        };
        let position = position_of(&state.view, first, len).ok()?;
        if call.position == Position::Individual {
            state.individual = first + etypes;
        }
        Some(Run { offset: state.view.offset_at(position), atomic: self.atomic.is_on() })
    }

    /// An access in this direction is made under a lock.
    fn locks(&self, state: &State, direction: Direction) -> bool {
        let sieves = state.hints.hints.romio_ds_write == Switch::Enable;
        let is_atomic = self.atomic.is_on() && self.transport.size() > 1;
        is_atomic || (sieves && direction == Direction::Write)
    }
}

impl State {
    /// The view shows bytes in a row, as they are in memory.
    fn shows_plain_bytes(&self) -> bool {
        let view = &*self.view;
        let plain = [Representation::Native, Representation::Internal];
        plain.contains(view.representation()) && view.is_contiguous() && !view.is_empty()
    }
}
