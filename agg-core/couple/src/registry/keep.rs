//! Drops generations that nobody needs any more.

use super::{Area, Effect, Generation, Name, Registry, State, Stored};
use aggio_config::settings::couple::Pick;

impl Registry {
    /// Gives up all generations of a name that nobody needs any more.
    pub(super) fn give_up(&mut self, path: &[u8]) {
        self.touch(path);
        let Some(name) = self.names.get(path) else { return };
        let complete: Vec<(u64, Area)> = name
            .generations
            .iter()
            .map(|(number, area)| (*number, *area))
            .filter(|(_, area)| self.generations[area].state == State::Complete)
            .collect();
        let (mut gone, mut due) = (Vec::new(), Vec::new());
        for (age, (number, area)) in complete.into_iter().rev().enumerate() {
            let stored = self.generations[&area].stored;
            let is_due =
                !self.is_held(area) && self.is_done_with(name, &self.generations[&area], age);
            match stored {
                Stored::Never | Stored::Done if is_due => gone.push((number, area)),
                Stored::Wanted if is_due => due.push((number, area)),
                _ => {}
            }
        }
        // The newest comes last, and stays.
        for (number, area) in due.into_iter().rev() {
            self.store(area);
            if self.generations[&area].stored == Stored::Done {
                gone.push((number, area));
            }
        }
        for (number, area) in gone {
            let home = self.generations.remove(&area).map(|one| one.home);
            home.iter().for_each(|home| self.has_left(home));
            self.effects.push(Effect::Free(area));
            if let Some(name) = self.names.get_mut(path) {
                name.generations.remove(&number);
                name.lost = name.lost.max(number);
            }
        }
    }

    /// Whether nobody needs a complete generation that `age` of the complete ones are newer than.
    fn is_done_with(&self, name: &Name, generation: &Generation, age: usize) -> bool {
        let is_newest = name.generations.last_key_value().map(|(number, _)| *number);
        let is_alive = self.processes.values().any(|who| generation.jobs.contains(&who.job));
        if is_newest == Some(generation.number) && !generation.unlinked && is_alive {
            // Its writer may open it again.
            return false;
        }
        if name.options.keep > 0 {
            let keep = usize::try_from(name.options.keep).unwrap_or(usize::MAX);
            let is_used = !name.readers.is_empty() || is_alive;
            return age >= keep || generation.read && !is_used;
        }
        if name.options.pick == Pick::Latest {
            let is_used = !name.readers.is_empty() || is_alive;
            return age > 0 || generation.read && !is_used;
        }
        self.is_read_by_all(name, generation, age)
    }

    /// Whether all readers are done with a complete generation that `age` of the complete ones are
    /// newer than.
    pub(super) fn is_read_by_all(&self, name: &Name, generation: &Generation, age: usize) -> bool {
        if name.options.pick == Pick::Latest && age == 0 {
            // Readers get it again.
            return false;
        }
        let readers = || name.readers.values();
        // Processes of a reader that have not come yet find the last two.
        let are_missing = readers().any(|one| (one.processes.len() as u64) < u64::from(one.ranks));
        generation.read
            && readers().all(|one| generation.is_passed_by(one))
            && (age >= 2 || !are_missing)
    }
}
