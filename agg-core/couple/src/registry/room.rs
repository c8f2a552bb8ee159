//! How much memory generations may have, and which ones go first if there is no more.

use super::{Area, Ask, Effect, Generation, Registry, State, Stored};
use aggio_config::settings::couple::Full;

impl Registry {
    /// Tells how many bytes of memory all generations have, and how many they may have where a rule
    /// says nothing.
    pub fn measure(&mut self, used: u64, limit: u64) {
        (self.used, self.limit) = (used, limit);
    }

    /// Tells how many bytes of memory a complete generation has.
    pub fn weigh(&mut self, area: Area, bytes: u64) {
        if let Some(generation) = self.generations.get_mut(&area) {
            generation.bytes = bytes;
        }
    }

    /// Whether another generation has to wait for memory. What readers are done with goes first,
    /// although its writer might open it again; then, with `full=drop`, what nobody has read.
    pub(super) fn has_no_room(&mut self, ask: &Ask) -> bool {
        let budget = if ask.options.budget > 0 { ask.options.budget } else { self.limit };
        if budget == 0 || self.used < budget {
            return false;
        }
        self.give_up_read(ask, budget);
        if self.used < budget {
            return false;
        }
        if ask.options.full == Full::Drop {
            while self.used >= budget && self.drop_oldest(&ask.path) {}
            return false;
        }
        // Memory comes back from what somebody may yet read, and from what is being stored.
        let comes_back =
            |one: &Generation| !one.read || !matches!(one.stored, Stored::Never | Stored::Done);
        self.generations.values().any(|one| one.state == State::Complete && comes_back(one))
    }

    /// Gives up generations that all readers are done with, the oldest first, until there is room.
    /// Those that are to be on disk are stored before.
    fn give_up_read(&mut self, ask: &Ask, budget: u64) {
        let mut after = 0;
        while self.used >= budget {
            let mut later = self.generations.range(after + 1..);
            let found = later.find(|(area, one)| {
                let is_source = one.path == ask.path && !ask.truncate;
                one.bytes > 0 && !is_source && self.is_dispensable(**area, one)
            });
            let Some((area, stored)) = found.map(|(area, one)| (*area, one.stored)) else { return };
            after = area;
            match stored {
                Stored::Never | Stored::Done => self.drop_generation(area),
                Stored::Wanted => self.store(area),
                Stored::Busy | Stored::Failed => {}
            }
        }
    }

    fn is_dispensable(&self, area: Area, generation: &Generation) -> bool {
        let Some(name) = self.names.get(&generation.path) else { return false };
        let is_complete = |area: &Area| {
            self.generations.get(area).is_some_and(|one| one.state == State::Complete)
        };
        let newer = name.generations.range(generation.number + 1..);
        let age = newer.filter(|(_, area)| is_complete(area)).count();
        generation.state == State::Complete
            && !self.is_held(area)
            && self.is_read_by_all(name, generation, age)
    }

    /// Gives up the oldest generation that nobody has open, and that is not to be stored: of the
    /// file `path`, or else of another one whose rule allows it. Whether that gives memory back.
    fn drop_oldest(&mut self, path: &[u8]) -> bool {
        let may_go = |area: Area, one: &Generation| {
            let is_safe = matches!(one.stored, Stored::Never | Stored::Done);
            let name = self.names.get(&one.path);
            let is_allowed = name.is_some_and(|name| name.options.full == Full::Drop);
            one.state == State::Complete && is_safe && is_allowed && !self.is_held(area)
        };
        let mut all = self.generations.iter().filter(|(area, one)| may_go(**area, one));
        let own = all.clone().find(|(_, one)| one.path == path);
        let Some((area, oldest)) = own.or_else(|| all.next()) else { return false };
        let (area, bytes) = (*area, oldest.bytes);
        self.effects.push(Effect::Dropped(oldest.path.clone(), oldest.number));
        self.drop_generation(area);
        bytes > 0
    }

    /// Whether somebody has a generation open, or another one begins as a copy of it.
    pub(super) fn is_held(&self, area: Area) -> bool {
        self.opens.values().any(|open| open.area == area)
            || self.generations.values().any(|other| other.copy_of == Some(area))
    }

    /// Gives up a complete generation that somebody may yet ask for.
    pub(super) fn drop_generation(&mut self, area: Area) {
        let Some(generation) = self.generations.remove(&area) else { return };
        self.used = self.used.saturating_sub(generation.bytes);
        self.effects.push(Effect::Free(area));
        let Some(name) = self.names.get_mut(&generation.path) else { return };
        name.generations.remove(&generation.number);
        name.lost = name.lost.max(generation.number);
        if !generation.unlinked {
            name.dropped = generation.number.max(name.dropped);
        }
    }
}
