//! Decides which generation each open gets, and when a generation is dropped: a state machine
//! without input or output. Its caller carries out its [`Effect`]s.

mod aborted;
mod cycle;
mod end;
mod keep;
mod names;
mod nodes;
mod open;
mod records;
mod room;
mod sizes;
mod spill;
mod store;
mod types;
mod view;

#[cfg(test)]
mod part_tests;
#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod tests;

pub(crate) use names::name_in;
pub(crate) use sizes::{Series, series};
pub use types::*;

use std::collections::{BTreeMap, BTreeSet};

/// All names, generations, openings and processes.
#[derive(Debug, Default)]
pub struct Registry {
    pub(crate) names: BTreeMap<Path, Name>,
    pub(crate) generations: BTreeMap<Area, Generation>,
    pub(crate) opens: BTreeMap<Handle, Open>,
    pub(crate) processes: BTreeMap<Process, Who>,
    pub(crate) waits: BTreeMap<u64, (Process, Ask)>,
    /// The nodes of processes that are not on this one.
    nodes: BTreeMap<Process, u64>,
    /// The nodes on which generations are written.
    sites: BTreeMap<Area, BTreeSet<u64>>,
    /// Opens for writing of generations that died with another writer, or with what they wrote: the
    /// error, and what is said of it.
    lost: BTreeMap<Handle, (Process, i32, String)>,
    effects: Vec<Effect>,
    /// Bytes of memory that are used, that are being freed, and that may be used.
    used: u64,
    leaving: u64,
    limit: u64,
    /// Bytes of the last complete generation of each series.
    sizes: BTreeMap<Vec<u8>, u64>,
    /// Directories that take no more bytes, and the error that said so.
    full: BTreeMap<Directory, i32>,
    /// Files of which something has changed since the last call of `touched`.
    touched: BTreeSet<Path>,
    /// A file that has become complete since memory was looked at.
    grown: Option<Path>,
    last: u64,
}

impl Registry {
    /// A registry whose numbers, of openings above all, begin behind `last`.
    pub fn behind(last: u64) -> Self {
        Self { last, ..Self::default() }
    }

    /// A process has called for the first time.
    pub fn join(&mut self, process: Process, who: Who) {
        self.processes.insert(process, who);
    }

    /// Returns the effects since the last call.
    pub fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Whether something is to be done with memory.
    pub fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Lets an open for which there was nothing wait; `wait` names it.
    pub fn wait(&mut self, wait: u64, process: Process, ask: Ask) {
        self.waits.insert(wait, (process, ask));
    }

    /// Ends a wait that nobody is interested in any more. Returns its open.
    pub(crate) fn take_wait(&mut self, wait: u64) -> Option<Ask> {
        self.waits.remove(&wait).map(|(_, ask)| ask)
    }

    /// Whether nothing was ever written under a name that this agent knows of: it has readers that
    /// wait, at most.
    pub(crate) fn is_unwritten(&self, path: &[u8]) -> bool {
        let is_new = |name: &Name| {
            let ended = name.ended.values().chain(name.removed.values()).all(|at| *at == 0);
            let is_alive = name.dead.is_none() && name.aborted.is_empty();
            name.last == 0 && name.writer.is_none() && !name.emptied && is_alive && ended
        };
        self.names.get(path).is_none_or(is_new)
    }

    /// Nothing is known of a name any more.
    pub(crate) fn forget_name(&mut self, path: &[u8]) {
        self.names.remove(path);
        self.touch(path);
    }

    /// The next wait that ends now, and how.
    pub fn ready(&mut self) -> Option<(u64, Answer)> {
        let waits: Vec<u64> = self.waits.keys().copied().collect();
        for wait in waits {
            let (process, ask) = self.waits[&wait].clone();
            let answer = self.open(process, &ask);
            if answer != Answer::Wait {
                self.waits.remove(&wait);
                return Some((wait, answer));
            }
        }
        None
    }

    /// Whether nothing is left for which somebody may come.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.generations.is_empty()
    }

    /// Whether a program may still have to learn that a writer died.
    pub fn has_unreported_deaths(&self) -> bool {
        self.names.values().any(|name| name.dead.is_some())
    }

    /// The options of the file of a generation.
    pub(crate) fn options_of(&self, area: Area) -> Option<&Options> {
        let generation = self.generations.get(&area)?;
        self.names.get(&generation.path).map(|name| &name.options)
    }

    /// Whether readers may have a generation when its writer synchronises it.
    pub(crate) fn is_shown_at_sync(&self, area: Area) -> bool {
        self.options_of(area).is_some_and(|options| options.at_sync)
    }

    /// The number that will be given next.
    pub(crate) fn next_number_of_all(&self) -> u64 {
        self.last + 1
    }

    /// Numbers up to this one were given by an earlier agent.
    pub(crate) fn count_behind(&mut self, number: u64) {
        self.last = self.last.max(number);
    }

    /// Something has changed that is known of a file.
    pub(crate) fn touch(&mut self, path: &[u8]) {
        self.touched.insert(path.to_vec());
    }

    /// Something has changed that is known of a process which may write.
    pub(crate) fn touch_written_by(&mut self, process: Process) {
        let Some(job) = self.processes.get(&process).map(|who| who.job) else { return };
        let written = self.names.iter().filter(|(_, name)| name.writer == Some(job));
        self.touched.extend(written.map(|(path, _)| path.clone()));
    }

    /// Files of which something has changed since the last call.
    pub(crate) fn touched(&mut self) -> BTreeSet<Path> {
        std::mem::take(&mut self.touched)
    }

    /// Whether a generation that is complete was written by an open that has ended.
    pub(crate) fn has_completed(&self, handle: Handle) -> bool {
        let mut all = self.generations.values();
        all.any(|one| one.state == State::Complete && one.handles.contains(&handle))
    }

    /// A number that nothing else has: no generation, open, process, connection, wait or ticket.
    pub(crate) fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn job(&self, process: Process) -> Job {
        self.processes.get(&process).map_or(0, |who| who.job)
    }

    /// The newest generation of a name.
    pub(crate) fn newest(&self, path: &[u8]) -> Option<(Area, &Generation)> {
        let area = *self.names.get(path)?.generations.values().next_back()?;
        self.generations.get(&area).map(|generation| (area, generation))
    }
}
