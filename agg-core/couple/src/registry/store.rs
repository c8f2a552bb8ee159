//! Generations that are stored on disk as well.

use super::{Area, Effect, Files, Path, Stored};
use aggio_config::settings::couple::Persist;

impl Files {
    /// A generation became complete: it is stored now, later or never, as the rule says.
    pub(crate) fn want_stored(&mut self, area: Area) {
        let persist = self.options_of(area).map(|options| options.persist).unwrap_or_default();
        let Some(generation) = self.generations.get_mut(&area) else { return };
        generation.stored = if persist == Persist::No { Stored::Never } else { Stored::Wanted };
        if persist == Persist::Yes {
            self.store(area);
        }
    }

    /// Stores a generation, unless a newer one was: that is not to be replaced by it.
    pub(super) fn store(&mut self, area: Area) {
        let Some(generation) = self.generations.get_mut(&area) else { return };
        let Some(name) = self.names.get_mut(&generation.path) else { return };
        if name.on_disk > generation.number {
            generation.stored = Stored::Done;
            return;
        }
        name.on_disk = generation.number;
        generation.stored = Stored::Busy;
        self.effects.push(Effect::Store(area, generation.path.clone()));
    }

    /// Whether a generation is still to be stored under this name. It may have got another one, or
    /// none, while its bytes came from other nodes.
    pub(crate) fn is_storing(&self, area: Area, path: &[u8]) -> bool {
        let generation = self.generations.get(&area);
        generation.is_some_and(|one| one.stored == Stored::Busy && one.path == path)
    }

    /// A generation is on disk, or could not be stored: then it is kept until it can. Returns its
    /// name, if it was being stored.
    pub(super) fn stored(&mut self, area: Area, done: bool) -> Option<Path> {
        let generation = self.generations.get_mut(&area);
        let generation = generation.filter(|one| one.stored == Stored::Busy)?;
        generation.stored = if done { Stored::Done } else { Stored::Failed };
        Some(generation.path.clone())
    }

    /// Stores generations that wait for their readers, and tries again those that could not be
    /// stored if `again`; how many are being stored.
    pub(crate) fn store_all(&mut self, again: bool) -> usize {
        let wanted = self.generations.iter().filter(|(_, one)| match one.stored {
            Stored::Wanted => true,
            Stored::Failed => again,
            _ => false,
        });
        let wanted: Vec<Area> = wanted.map(|(area, _)| *area).collect();
        wanted.into_iter().for_each(|area| self.store(area));
        self.generations.storing().0
    }

    /// Tries again to store a generation that could not be stored.
    pub(crate) fn store_again(&mut self, area: Area) {
        if self.generations.get(&area).is_some_and(|one| one.stored == Stored::Failed) {
            self.store(area);
        }
    }
}
