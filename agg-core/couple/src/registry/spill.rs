//! Room for the next generation: others are dropped, or move to a directory.

use super::{Area, Ask, Directory, Effect, Files, Generation, Home, Need, Place, Stored};
use aggio_config::settings::couple::{Full, Pick};

impl Files {
    /// Tells how many bytes a complete generation has.
    pub(crate) fn weigh(&mut self, area: Area, bytes: u64) {
        let Some(generation) = self.generations.get_mut(&area) else { return };
        generation.bytes = bytes;
        let name = self.names.get(&generation.path);
        let spills = name.is_some_and(|name| name.options.spill.is_some());
        self.room.weigh(&generation.path, bytes, spills);
    }

    /// Bytes that another generation of a file is expected to have.
    pub(crate) fn expected(&self, path: &[u8], copy_of: Option<Area>) -> u64 {
        let source = copy_of.and_then(|area| self.generations.get(&area));
        self.room.expected(path, source.map_or(0, |source| source.bytes))
    }

    /// Whether another generation has to wait for memory. Generations that readers are done with go
    /// first, although their writer might open them again; then others move to a directory; then,
    /// with `full=drop`, unread ones are given up.
    pub(super) fn make_room(&mut self, ask: &Ask, source: Option<Area>) -> Place {
        let need = self.room.need(&ask.options, self.expected(&ask.path, source), source);
        self.give_up_read(need);
        if !self.room.has(need) && self.moves_one(source) {
            return Place::Later;
        }
        if ask.options.full == Full::Drop {
            while !self.room.has(need) && self.drop_oldest(&ask.path) {
                // It may have made room in a directory.
                if !self.room.has(need) && self.moves_one(source) {
                    return Place::Later;
                }
            }
        }
        if self.room.has_now(need) {
            return Place::Enough;
        }
        let error = ask.options.spill.as_ref().and_then(|one| self.room.error_of(one));
        match (ask.options.full == Full::Wait && self.comes_back(source), error) {
            (true, Some(error)) => Place::Full(error),
            (true, None) => Place::Later,
            (false, _) if self.room.is_leaving() => Place::Later,
            (false, _) => Place::Enough,
        }
    }

    /// Whether memory comes back because readers go on, or when bytes have been stored.
    fn comes_back(&self, source: Option<Area>) -> bool {
        let mut all = self
            .generations
            .iter()
            .filter(|(area, one)| one.is_complete() && Some(**area) != source && one.bytes > 0);
        all.any(|(_, one)| {
            one.is_left_in_memory().unwrap_or_else(|| {
                let name = self.names.get(&one.path);
                let is_being_read = || name.is_some_and(|name| name.is_being_read(one));
                !one.stored.is_settled() || !one.read || is_being_read()
            })
        })
    }

    fn is_dispensable(&self, area: Area, one: &Generation) -> bool {
        self.sequence(&one.path).is_some_and(|sequence| sequence.is_dispensable(area, one))
    }

    /// Gives up generations that all readers are done with, the oldest first, until there is room.
    /// Those that are to be on disk are stored before.
    fn give_up_read(&mut self, need: Need) {
        let mut after = 0;
        while !self.room.has(need) {
            let found = self.generations.range(after + 1..).find(|(area, one)| {
                let is_source = need.source == Some(**area);
                one.in_memory() > 0 && !is_source && self.is_dispensable(**area, one)
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

    /// Gives up the oldest generation that nobody has open, and that is not to be stored: of the
    /// file `path`, or else of another one if its rule allows that. Whether that gives room back.
    fn drop_oldest(&mut self, path: &[u8]) -> bool {
        let may_go = |area: Area, one: &Generation| {
            let name = self.names.get(&one.path);
            let is_allowed = name.is_some_and(|name| name.options.full == Full::Drop);
            let is_safe = one.is_complete() && one.stored.is_settled();
            is_safe && is_allowed && !self.generations.is_held(area)
        };
        let mut all = self.generations.iter().filter(|(area, one)| may_go(**area, one));
        let own = all.clone().find(|(_, one)| one.path == path);
        let Some((area, oldest)) = own.or_else(|| all.next()) else { return false };
        let (area, bytes) = (*area, oldest.bytes);
        self.effects.push(Effect::Dropped(oldest.path.clone(), oldest.number));
        self.drop_generation(area);
        bytes > 0
    }

    /// Lets a generation move to a directory. Whether one is on its way: there is one at a time.
    fn moves_one(&mut self, source: Option<Area>) -> bool {
        if self.generations.is_moving() {
            return true;
        }
        let mut found = self.to_be_moved(source);
        // Generations that readers are done with make room in directories, too.
        while found.is_none() && self.give_up_moved() {
            found = self.to_be_moved(source);
        }
        let Some((area, directory)) = found else { return false };
        if let Some(generation) = self.generations.get_mut(&area) {
            generation.home = Home::Moving(directory.clone());
            self.effects.push(Effect::Move(area, directory));
        }
        true
    }

    /// The generation that readers need last, of those for which there is a directory that takes
    /// them. One that a process has open would keep its memory.
    fn to_be_moved(&self, source: Option<Area>) -> Option<(Area, Directory)> {
        let all = self.generations.iter().filter_map(|(area, one)| {
            let is_there = one.is_complete() && one.home == Home::Memory && one.bytes > 0;
            let is_free = one.stored != Stored::Busy && source != Some(*area);
            if !is_there || !is_free || self.generations.is_held(*area) {
                return None;
            }
            let options = &self.names.get(&one.path)?.options;
            let directory = options.spill.as_ref().filter(|_| !options.survives)?;
            // A reader of the newest one only may never come to the oldest.
            let turn = match options.pick {
                Pick::Latest => (true, Area::MAX - area),
                Pick::Next => (false, *area),
            };
            self.room.error_of(directory).is_none().then_some((turn, *area, directory))
        });
        all.max_by_key(|(turn, ..)| *turn).map(|(_, area, directory)| (area, directory.clone()))
    }

    /// Gives up a generation in a full directory that all readers are done with, if there is one.
    fn give_up_moved(&mut self) -> bool {
        let is_full = |home: &Home| match home {
            Home::Directory(directory, _) => self.room.error_of(directory).is_some(),
            _ => false,
        };
        let found = self.generations.iter().find(|(area, one)| {
            is_full(&one.home) && one.stored.is_settled() && self.is_dispensable(**area, one)
        });
        found.map(|(area, _)| *area).map(|area| self.drop_generation(area)).is_some()
    }

    /// The bytes of a generation are in its directory. Opens with numbers below `next` have its
    /// memory.
    pub(crate) fn moved(&mut self, area: Area, next: u64) {
        let Some(generation) = self.generations.get_mut(&area) else { return };
        if let Home::Moving(directory) = &generation.home {
            generation.home = Home::Directory(directory.clone(), next);
            self.room.grown = Some(generation.path.clone());
        }
    }

    /// The bytes of a generation could not be written to its directory: they stay in memory, and
    /// the directory takes no more for now.
    pub(crate) fn not_moved(&mut self, area: Area, error: i32) {
        let Some(generation) = self.generations.get_mut(&area) else { return };
        if let Home::Moving(directory) = generation.home.clone() {
            generation.home = Home::Memory;
            self.room.refuse(directory, error);
        }
    }

    /// Lets a generation move before the next one of the file `path` begins, if there will be no
    /// room for that.
    pub(crate) fn move_ahead(&mut self, path: &[u8]) {
        // A generation that is being written may be the one that readers need last.
        let is_written = self.generations.values().any(|one| !one.is_complete());
        let Some(name) = self.names.get(path).filter(|_| !is_written) else { return };
        let need = self.room.need(&name.options, self.expected(path, None), None);
        if !self.room.has(need) {
            self.moves_one(None);
        }
    }
}
