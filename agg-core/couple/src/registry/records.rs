//! Generations whose records are read while they are written.

use super::{Area, Handle, Registry, State};

impl Registry {
    /// Whether readers may have records of a generation that is being written.
    pub(crate) fn is_step(&self, area: Area) -> bool {
        let generation = self.generations.get(&area);
        generation
            .is_some_and(|one| one.step && one.copy_of.is_none() && one.state == State::Writing)
    }

    /// Readers may have so many records of a generation.
    pub(crate) fn show_records(&mut self, area: Area, records: u64) {
        if let Some(generation) = self.generations.get_mut(&area) {
            generation.records = Some(records);
        }
    }

    /// Readers that come from now on wait until the generation is complete.
    pub(crate) fn hide_records(&mut self, area: Area) {
        if let Some(generation) = self.generations.get_mut(&area) {
            generation.records = None;
        }
    }

    /// A reader was told that the file is complete, so that it has all of it.
    pub(crate) fn has_all_records(&mut self, handle: Handle) {
        if let Some(open) = self.opens.get_mut(&handle) {
            open.is_part = false;
        }
    }
}
