//! All generations, by their memory.

use super::{Area, Generation, Handle, Home, Process, State, Stored};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

/// All generations, by their memory.
#[derive(Debug, Default)]
pub(crate) struct Generations(BTreeMap<Area, Generation>);

impl Deref for Generations {
    type Target = BTreeMap<Area, Generation>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Generations {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Generations {
    fn is(&self, area: Area, what: impl FnOnce(&Generation) -> bool) -> bool {
        self.get(&area).is_some_and(what)
    }

    /// Whether programs of several nodes use a generation that is being written.
    pub(crate) fn is_shared(&self, area: Area) -> bool {
        self.is(area, |one| one.writers.sites.len() > 1)
    }

    /// Whether readers were given a generation that is being written.
    pub(crate) fn is_shown(&self, area: Area) -> bool {
        self.is(area, |one| one.early.published)
    }

    /// Whether readers may have records of a generation that is being written.
    pub(crate) fn is_step(&self, area: Area) -> bool {
        self.is(area, |one| one.early.step && one.copy_of.is_none() && !one.is_complete())
    }

    /// Readers may have so many records of a generation. With none, those that come from now on
    /// wait until it is complete.
    pub(crate) fn show_records(&mut self, area: Area, records: Option<u64>) {
        if let Some(generation) = self.get_mut(&area) {
            generation.early.records = records;
        }
    }

    /// No process can write to a generation any more; its bytes are fetched or compared.
    pub(crate) fn end(&mut self, area: Area) {
        self.0.get_mut(&area).into_iter().for_each(|one| one.writers.are_done = true);
    }

    /// Whether a generation is on its way to a directory.
    pub(crate) fn is_moving(&self) -> bool {
        self.values().any(|one| matches!(one.home, Home::Moving(_)))
    }

    /// Whether a generation that is complete was written by an open that has ended.
    pub(crate) fn has_completed(&self, handle: Handle) -> bool {
        self.values().any(|one| one.is_complete() && one.writers.handles.contains(&handle))
    }

    /// The generations that are being written and that a process had open for writing.
    pub(super) fn written_by(&self, process: Process) -> Vec<Area> {
        let is_it = |one: &Generation| {
            one.state == State::Writing && one.writers.processes.contains(&process)
        };
        self.iter().filter(|(_, one)| is_it(one)).map(|(area, _)| *area).collect()
    }

    /// How many generations are being stored, and how many could not be.
    pub(super) fn storing(&self) -> (usize, usize) {
        let count = |stored| self.values().filter(|one| one.stored == stored).count();
        (count(Stored::Busy), count(Stored::Failed))
    }

    /// Whether a process has a generation open, or another one begins as a copy of it.
    pub(super) fn is_held(&self, area: Area) -> bool {
        let is_source = || self.values().any(|other| other.copy_of == Some(area));
        self.is(area, Generation::is_open) || is_source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_held_while_it_is_open_or_copied() {
        let mut all = Generations::default();
        all.insert(1, Generation::default());
        assert!(!all.is_held(1));
        all.insert(2, Generation { copy_of: Some(1), ..Generation::default() });
        assert!(all.is_held(1) && !all.is_held(2));
        all.get_mut(&2).unwrap().complete();
        assert!(!all.is_held(1));
        all.get_mut(&1).unwrap().readers.insert(9);
        assert!(all.is_held(1));
    }

    #[test]
    fn records_are_shown_of_what_is_written_anew() {
        let mut all = Generations::default();
        let mut one = Generation::default();
        one.early.step = true;
        all.insert(1, one.clone());
        all.insert(2, Generation { copy_of: Some(1), ..one });
        assert!(all.is_step(1) && !all.is_step(2) && !all.is_step(3));
        all.show_records(1, Some(4));
        assert_eq!(all[&1].early.records, Some(4));
        all.get_mut(&1).unwrap().complete();
        assert!(!all.is_step(1));
    }
}
