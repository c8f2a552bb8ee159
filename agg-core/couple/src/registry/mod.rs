//! Decides which generation each open gets, and when a generation is dropped: a state machine
//! without input or output. Its caller carries out its [`Effect`]s.

mod aborted;
mod end;
mod files;
mod generation;
mod generations;
mod lookup;
mod name;
mod names;
mod open;
mod opens;
mod processes;
mod room;
mod sequence;
mod spill;
mod store;
mod types;
mod waits;

#[cfg(test)]
mod part_tests;
#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod tests;

pub(crate) use generation::*;
pub(crate) use name::*;
pub(crate) use names::name_in;
pub(crate) use opens::Open;
pub(crate) use room::{Series, series};
pub(crate) use types::*;

use files::Files;
use generations::Generations;
use names::Names;
use opens::Opens;
use processes::{Caller, Processes};
use room::{Need, Place, Room};
use sequence::{Choice, Sequence};
use waits::Waits;

/// All files, and the processes, opens and waits that have to do with them.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) files: Files,
    pub(crate) opens: Opens,
    pub(crate) processes: Processes,
    pub(crate) waits: Waits,
    pub(crate) numbers: Numbers,
}

/// Numbers that nothing else has: no generation, open, process, connection, wait or ticket.
#[derive(Debug, Default)]
pub(crate) struct Numbers(u64);

impl Numbers {
    /// Gives a number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }

    /// The number that will be given next.
    pub(crate) fn peek(&self) -> u64 {
        self.0 + 1
    }

    /// Numbers up to this one were given by an earlier agent.
    pub(crate) fn skip(&mut self, number: u64) {
        self.0 = self.0.max(number);
    }
}

impl Registry {
    /// A registry that gives numbers behind `last`.
    pub(crate) fn behind(last: u64) -> Self {
        Self { numbers: Numbers(last), ..Self::default() }
    }

    /// A process has called for the first time.
    pub(crate) fn join(&mut self, process: Process, who: Who) {
        self.processes.join(process, who);
    }

    /// Returns the effects since the last call.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.files.effects)
    }

    /// The next wait that ends now, and how.
    pub(crate) fn ready(&mut self) -> Option<(u64, Answer)> {
        let waits: Vec<u64> = self.waits.all.keys().copied().collect();
        waits.into_iter().find_map(|wait| {
            let (process, ask) = self.waits.all.get(&wait)?.clone();
            let answer = self.open(process, &ask);
            (answer != Answer::Wait).then(|| {
                self.waits.take(wait);
                (wait, answer)
            })
        })
    }

    /// Whether neither a process nor a generation is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.files.generations.is_empty()
    }

    /// Something has changed that is known of a process: files that its program wrote last change,
    /// too.
    pub(crate) fn touch_written_by(&mut self, process: Process) {
        if let Some(who) = self.processes.get(&process) {
            self.files.names.touch_written_by(who.job);
        }
    }

    /// Gives up all generations of a name that nobody needs any more.
    fn give_up(&mut self, path: &[u8]) {
        self.files.give_up(path, &self.processes);
    }

    /// A generation is on disk, or could not be stored: then it is kept until it can.
    pub(crate) fn stored(&mut self, area: Area, done: bool) {
        if let Some(path) = self.files.stored(area, done) {
            self.give_up(&path);
        }
    }

    /// The generation that a reader waits for.
    pub(crate) fn next_number(&self, process: Process, path: &[u8]) -> u64 {
        let caller = self.processes.caller(process);
        self.files.names.get(path).map_or(0, |name| name.position(&caller).at) + 1
    }

    /// Whether a process has nothing open, and has neither read nor written a file that is there.
    pub(crate) fn has_no_part(&self, process: Process) -> bool {
        let caller = self.processes.caller(process);
        let opens = self.opens.values().any(|open| open.process == process);
        let mut generations = self.files.generations.values();
        let reads = self.files.names.values().any(|name| name.knows(&caller));
        !opens && !reads && !generations.any(|one| one.writers.processes.contains(&process))
    }
}
