//! The fast path of a call that needs no plan: one rank, one run of bytes in memory, one in the
//! file.
//!
//! Programs that move a few bytes at a time make millions of such calls. [`File::start`] would do
//! the same, but with a future; here nothing is allocated, and no rank waits.

use super::view_state::Run;
use super::{Call, Direction, File};
use aggio_base::report::Counters;
use aggio_store::driver::Outcome;

impl File {
    /// Carries out `call` if it needs no plan. `None` if it does, or if anything is wrong with it:
    /// then nothing has happened, and [`File::start`] is the way.
    pub fn fast_path(&self, call: &mut Call) -> Option<Outcome> {
        let is_alone = !call.is_collective() || self.transport.size() == 1;
        if !is_alone || !self.lifecycle.is_open() || !self.write_behind.is_idle() {
            return None;
        }
        let Run { offset, atomic } = self.views.claim_run(call, self.atomic.is_on())?;
        let begun = self.account.begin(call.operation, call.direction, call.collective);
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
}
