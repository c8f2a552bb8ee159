//! Limits the memory of generations: chooses those that are dropped or moved first.

use super::{Area, Ask, Effect, Generation, Home, Name, Process, Reader, Registry, State, Stored};
use aggio_config::settings::couple::{Full, Pick};

/// Whether there is memory for another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Enough,
    Later,
    /// Nobody will make room: the error of the directory that is full.
    Never(i32),
}

/// The memory that another generation needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    pub(super) budget: u64,
    /// Bytes that it is expected to have.
    pub(super) expected: u64,
    /// The generation of which it begins as a copy.
    pub(super) source: Option<Area>,
}

impl Need {
    /// Whether it may begin beside `used` bytes. One that is larger than all may begin alone.
    pub(super) fn is_met(&self, used: u64) -> bool {
        let all = used.saturating_add(self.expected);
        self.budget == 0 || used == 0 || used < self.budget && all <= self.budget
    }
}

impl Registry {
    /// Tells how many bytes of memory all generations have or are expected to have, how many others
    /// are being freed, and how many there may be where a rule says nothing.
    pub fn measure(&mut self, used: u64, leaving: u64, limit: u64) {
        (self.used, self.leaving, self.limit) = (used, leaving, limit);
    }

    pub(super) fn need(&self, ask: &Ask, source: Option<Area>) -> Need {
        let budget = if ask.options.budget > 0 { ask.options.budget } else { self.limit };
        Need { budget, expected: self.expected(&ask.path, source), source }
    }

    /// Whether another generation has to wait for memory. What readers are done with goes first,
    /// although its writer might open it again; then others move to a directory; then, with
    /// `full=drop`, what nobody has read is given up.
    pub(super) fn room(&mut self, process: Process, ask: &Ask, source: Option<Area>) -> Room {
        let need = self.need(ask, source);
        self.give_up_read(need);
        if !need.is_met(self.used) && self.makes_room(need) {
            return Room::Later;
        }
        if ask.options.full == Full::Drop {
            while !need.is_met(self.used) && self.drop_oldest(&ask.path) {
                // It may have made room in a directory.
                if !need.is_met(self.used) && self.makes_room(need) {
                    return Room::Later;
                }
            }
        }
        if need.is_met(self.used + self.leaving) {
            return Room::Enough;
        }
        let comes_back = ask.options.full == Full::Wait && self.comes_back(source);
        match self.full_for(ask).filter(|_| comes_back && !self.is_somebody_there(process)) {
            Some(error) => Room::Never(error),
            None if comes_back || self.leaving > 0 => Room::Later,
            None => Room::Enough,
        }
    }

    /// Whether memory comes back by what readers do, or from what is being stored.
    fn comes_back(&self, source: Option<Area>) -> bool {
        let mut complete = self.generations.iter().filter(|(area, one)| {
            one.state == State::Complete && Some(**area) != source && one.bytes > 0
        });
        complete.any(|(area, one)| {
            if let Home::Directory(_, next) = one.home {
                return self.opens.range(..next).any(|(_, open)| open.area == *area);
            }
            let is_pending = !matches!(one.stored, Stored::Never | Stored::Done);
            let name = self.names.get(&one.path);
            is_pending || !one.read || name.is_some_and(|name| one.is_being_read(name))
        })
    }

    /// Gives up generations that all readers are done with, the oldest first, until there is room.
    /// Those that are to be on disk are stored before.
    fn give_up_read(&mut self, need: Need) {
        let mut after = 0;
        while !need.is_met(self.used) {
            let mut later = self.generations.range(after + 1..);
            let found = later.find(|(area, one)| {
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

    pub(super) fn is_dispensable(&self, area: Area, generation: &Generation) -> bool {
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
    /// file `path`, or else of another one whose rule allows it. Whether that gives room back.
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
        let bytes = generation.in_memory();
        self.used = self.used.saturating_sub(bytes);
        self.leaving += bytes;
        self.has_left(&generation.home);
        self.effects.push(Effect::Free(area));
        self.touch(&generation.path);
        let Some(name) = self.names.get_mut(&generation.path) else { return };
        name.generations.remove(&generation.number);
        name.lost = name.lost.max(generation.number);
        if !generation.unlinked {
            name.dropped = generation.number.max(name.dropped);
        }
    }
}

impl Generation {
    /// Whether a reader that is there has yet to read it.
    fn is_being_read(&self, name: &Name) -> bool {
        // Readers of the newest get it again and again.
        let is_it = |reader: &Reader| !self.is_passed_by(reader);
        name.options.pick == Pick::Next && name.readers.values().any(is_it)
    }

    /// Whether all processes of a reader that have come are done with it.
    pub(super) fn is_passed_by(&self, reader: &Reader) -> bool {
        reader.processes.values().all(|position| {
            let is_closed = position.at == self.number && position.open == 0;
            position.at > self.number
                || is_closed && (position.seen || position.finished >= self.number)
        })
    }
}
