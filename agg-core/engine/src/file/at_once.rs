//! The short way of a call that needs no plan: one rank, one run of bytes in memory, one in the
//! file.
//!
//! Programs that move a few bytes at a time make millions of such calls. [`File::start`] would do
//! the same, but with a future; here nothing is allocated, and no rank waits.

use super::data::{position_of, whole_etypes};
use super::{Amode, Call, Direction, File, Position, State};
use aggio_base::report::Counters;
use aggio_config::hints::Switch;
use aggio_plan::plan::{Reason, Way};
use aggio_store::driver::Outcome;
use aggio_types::view::Representation;
use std::sync::atomic::Ordering;

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
        let (memory, counters) = (call.memory.as_mut().ok()?, &*self.counters);
        Counters::add(&counters.pieces_in, 1);
        if call.collective {
            Counters::add(&counters.collective_alone, 1);
            counters.decided.count(Way::Independent, Reason::OnlyRank);
        }
        let outcome = match call.direction {
            Direction::Read => {
                let bytes = memory.as_mut_slice()?;
                let from_memory = if atomic { None } else { self.read_small_run(bytes, offset) };
                let read =
                    from_memory.unwrap_or_else(|| self.driver.read_contig(bytes, offset, counters));
                self.look_at(offset, &bytes[..bytes.len().min(read.bytes as usize)]);
                read
            }
            Direction::Write => {
                self.wrote.store(true, Ordering::Release);
                let bytes = memory.as_slice()?;
                self.look_at(offset, bytes);
                match self.reserves_run(memory, offset) || self.extends_run(memory, offset) {
                    true => Outcome { bytes: bytes.len() as u64, result: Ok(()) },
                    false => self.driver.write_contig(bytes, offset, counters),
                }
            }
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
        let may_wait = self.may_be_kept() && !self.has_nothing_waiting();
        if !permitted || may_wait || !alone || len == 0 || !memory.is_contiguous() {
            return None;
        }
        self.check_open().and_then(|()| self.check_turn()).ok()?;
        let mut state = self.state();
        if !state.shows_plain_bytes() || state.locks(call.direction, self.transport.size()) {
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
        Some(Run { offset: state.view.offset_at(position), atomic: state.atomic })
    }
}

impl State {
    /// The view shows bytes in a row, as they are in memory.
    fn shows_plain_bytes(&self) -> bool {
        let view = &*self.view;
        let plain = [Representation::Native, Representation::Internal];
        plain.contains(view.representation()) && view.is_contiguous() && !view.is_empty()
    }

    /// An access in this direction is made under a lock.
    fn locks(&self, direction: Direction, ranks: usize) -> bool {
        let sieves = self.hints.hints.romio_ds_write == Switch::Enable;
        (self.atomic && ranks > 1) || (sieves && direction == Direction::Write)
    }
}
