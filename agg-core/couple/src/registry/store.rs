//! Generations that are stored on disk as well.

use super::{Area, Effect, Registry, Stored};
use aggio_config::settings::couple::Persist;

impl Registry {
    /// A generation became complete: it is stored now, later or never, as the rule says.
    pub(crate) fn want_stored(&mut self, area: Area) {
        let Some(generation) = self.generations.get_mut(&area) else { return };
        let name = self.names.get(&generation.path);
        let persist = name.map(|name| name.options.persist).unwrap_or_default();
        generation.stored = Stored::Wanted;
        match persist {
            Persist::No => generation.stored = Stored::Never,
            Persist::Yes => self.store(area),
            Persist::After => {}
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

    /// A generation is on disk, or could not be stored: then it is kept until it can.
    pub fn stored(&mut self, area: Area, done: bool) {
        let Some(generation) = self.generations.get_mut(&area) else { return };
        if generation.stored != Stored::Busy {
            return;
        }
        generation.stored = if done { Stored::Done } else { Stored::Failed };
        let path = generation.path.clone();
        self.give_up(&path);
    }

    /// Stores what waits for its readers before it is, and tries again what could not be stored if
    /// `again`; how many generations are not on disk although they are to be.
    pub fn store_all(&mut self, again: bool) -> usize {
        let is_wanted = |one: &super::Generation| match one.stored {
            Stored::Wanted => true,
            Stored::Failed => again,
            _ => false,
        };
        let wanted = self.generations.iter().filter(|(_, one)| is_wanted(one));
        let wanted: Vec<Area> = wanted.map(|(area, _)| *area).collect();
        wanted.into_iter().for_each(|area| self.store(area));
        self.generations.values().filter(|one| one.stored == Stored::Busy).count()
    }

    /// Tries again to store what could not be stored.
    pub fn store_again(&mut self, area: Area) {
        let has_failed = |one: &super::Generation| one.stored == Stored::Failed;
        if self.generations.get(&area).is_some_and(has_failed) {
            self.store(area);
        }
    }
}
