//! Generations for which there is no memory move to a directory.

use super::room::Need;
use super::{Area, Ask, Directory, Effect, Generation, Home, Path, Process, Registry};
use super::{State, Stored};
use aggio_config::settings::couple::Pick;

impl Registry {
    /// Lets a generation move to a directory. Whether one is on its way, of which there is one at a
    /// time.
    pub(super) fn makes_room(&mut self, need: Need) -> bool {
        if self.is_moving() {
            return true;
        }
        let mut found = self.to_be_moved(need);
        // What readers are done with makes room in directories, too.
        while found.is_none() && self.give_up_moved() {
            found = self.to_be_moved(need);
        }
        let Some((area, directory)) = found else { return false };
        if let Some(generation) = self.generations.get_mut(&area) {
            generation.home = Home::Moving(directory.clone());
            self.effects.push(Effect::Move(area, directory));
        }
        true
    }

    /// Whether a generation is on its way to a directory.
    pub(crate) fn is_moving(&self) -> bool {
        self.generations.values().any(|one| matches!(one.home, Home::Moving(_)))
    }

    /// The generation that readers need last, of those for which there is a directory that takes
    /// them. One that somebody has open would keep its memory.
    fn to_be_moved(&self, need: Need) -> Option<(Area, Directory)> {
        let all = self.generations.iter().filter(|(area, one)| {
            let is_there = one.state == State::Complete && one.home == Home::Memory;
            let is_needed = need.source == Some(**area) || self.is_held(**area);
            is_there && one.bytes > 0 && one.stored != Stored::Busy && !is_needed
        });
        let all = all.filter_map(|(area, one)| {
            let options = &self.names.get(&one.path)?.options;
            let directory = options.spill.clone().filter(|_| !options.survives)?;
            let takes = !self.full.contains_key(&directory);
            takes.then(|| (self.turn(*area, one), *area, directory))
        });
        all.max_by_key(|(turn, ..)| *turn).map(|(_, area, directory)| (area, directory))
    }

    /// Returns the order in which readers need generations: those with the largest value last.
    fn turn(&self, area: Area, generation: &Generation) -> (bool, u64) {
        let name = self.names.get(&generation.path);
        // Who reads the newest only may never come to the oldest.
        match name.is_some_and(|name| name.options.pick == Pick::Latest) {
            true => (true, Area::MAX - area),
            false => (false, area),
        }
    }

    /// Gives up a generation in a full directory that all readers are done with, if there is one.
    fn give_up_moved(&mut self) -> bool {
        let is_it = |area: Area, one: &Generation| {
            let is_there = |directory| self.full.contains_key(directory);
            matches!(&one.home, Home::Directory(directory, _) if is_there(directory))
                && matches!(one.stored, Stored::Never | Stored::Done)
                && self.is_dispensable(area, one)
        };
        let found = self.generations.iter().find(|(area, one)| is_it(**area, one));
        found.map(|(area, _)| *area).map(|area| self.drop_generation(area)).is_some()
    }

    /// The bytes of a generation are in its directory, or could not be written there: then they
    /// stay in memory, and the directory takes no more for now.
    pub fn moved(&mut self, area: Area, result: Result<(), i32>) {
        let next = self.next_number_of_all();
        let Some(generation) = self.generations.get_mut(&area) else { return };
        let Home::Moving(directory) = generation.home.clone() else { return };
        match result {
            Ok(()) => {
                generation.home = Home::Directory(directory, next);
                self.grown = Some(generation.path.clone());
            }
            Err(error) => {
                generation.home = Home::Memory;
                self.full.insert(directory, error);
            }
        }
    }

    /// A generation is given up: its directory may take others now.
    pub(super) fn has_left(&mut self, home: &Home) {
        if let Home::Moving(directory) | Home::Directory(directory, _) = home {
            self.full.remove(directory);
        }
    }

    /// Directories that took no more may do so now; whether there are any.
    pub fn try_directories_again(&mut self) -> bool {
        !std::mem::take(&mut self.full).is_empty()
    }

    /// Directories that take no more, and why.
    pub fn full_directories(&self) -> impl Iterator<Item = (&Directory, i32)> {
        self.full.iter().map(|(directory, error)| (directory, *error))
    }

    /// The error of the directory of a rule, if that is full.
    pub(super) fn full_for(&self, ask: &Ask) -> Option<i32> {
        self.full.get(ask.options.spill.as_ref()?).copied()
    }

    /// Whether somebody else is there who may read generations, or store them.
    pub(super) fn is_somebody_there(&self, process: Process) -> bool {
        let job = self.job(process);
        let waits = |process| {
            let mut waits = self.waits.values();
            waits.any(|(waiting, ask)| *waiting == process && ask.write)
        };
        let is_stored = |one: &Generation| matches!(one.stored, Stored::Busy | Stored::Failed);
        self.processes.iter().any(|(one, who)| who.job != job && !waits(*one))
            || self.generations.values().any(is_stored)
    }

    /// A file whose rule names a directory, if its generations may be too many since the last call.
    pub fn grown(&mut self) -> Option<Path> {
        self.grown.take()
    }

    /// Lets a generation move before the next one of the file `path` begins, if there will be no
    /// room for that.
    pub fn move_ahead(&mut self, path: &[u8]) {
        // What is still written may be the one that readers need last.
        let is_written = self.generations.values().any(|one| one.state == State::Writing);
        let Some(name) = self.names.get(path).filter(|_| !is_written) else { return };
        let options = name.options.clone();
        let need = self.need(&Ask { path: path.to_vec(), options, ..Ask::default() }, None);
        if !need.is_met(self.used) {
            self.makes_room(need);
        }
    }
}
