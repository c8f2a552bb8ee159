//! Names without opening them: what is there, removing, renaming, cutting.

use super::open::Choice;
use super::{Area, Ask, Effect, Generation, Name, Options, Path, Process, Registry, State, Stored};

/// The name of the file `path` in the directory `dir`, if it is in that itself.
pub(crate) fn name_in<'a>(path: &'a [u8], dir: &[u8]) -> Option<&'a [u8]> {
    let dir = dir.strip_suffix(b"/").unwrap_or(dir);
    let rest = path.strip_prefix(dir)?.strip_prefix(b"/")?;
    (!rest.is_empty() && !rest.contains(&b'/')).then_some(rest)
}

impl Registry {
    /// Returns the generation that a process finds under a name, if any. `Some(None)` is a file
    /// that it has cut to no bytes, which has no memory.
    pub fn look(&self, process: Process, path: &[u8], options: Options) -> Option<Option<Area>> {
        let ask = Ask { path: path.to_vec(), options, ..Ask::default() };
        let job = self.processes.get(&process)?.job;
        let name = self.names.get(path)?;
        if name.emptied && name.writer == Some(job) {
            return Some(None);
        }
        match self.choose(process, &ask) {
            Choice::Own(area) if self.is_only_elsewhere(process, area) => None,
            Choice::Own(area) | Choice::Next(area) => Some(Some(area)),
            _ => None,
        }
    }

    /// Names below the directory `dir`, without it, that a process finds there.
    pub fn list(&self, process: Process, dir: &[u8]) -> Vec<Path> {
        let is_there =
            |path: &[u8], name: &Name| self.look(process, path, name.options.clone()).is_some();
        self.names_in(dir, is_there)
    }

    /// The names below the directory `dir`, without it, for which `is_there`.
    pub(super) fn names_in(
        &self,
        dir: &[u8],
        is_there: impl Fn(&[u8], &Name) -> bool,
    ) -> Vec<Path> {
        let found = self.names.iter().filter_map(|(path, name)| {
            let rest = name_in(path, dir)?;
            is_there(path, name).then(|| rest.to_vec())
        });
        found.collect()
    }

    /// Removes a name for its writer, or says that a reader is done with its generation.
    ///
    /// # Errors
    /// `ENOENT`
    pub fn unlink(&mut self, process: Process, path: &[u8], options: Options) -> Result<(), i32> {
        let job = self.job(process);
        let ask = Ask { path: path.to_vec(), options, ..Ask::default() };
        let is_writer = self.names.get(path).is_some_and(|name| name.writer == Some(job));
        if let Some(name) = self.names.get_mut(path).filter(|name| name.emptied && is_writer) {
            name.emptied = false;
            return Ok(());
        }
        match self.choose(process, &ask) {
            Choice::Own(area) => self.hide(area),
            Choice::Dropped => self.names.get_mut(path).into_iter().for_each(|n| n.dropped = 0),
            // What it has read last, which is no word on those that came meanwhile.
            _ if self.is_removed_first(process, path) => {}
            Choice::Next(area) => self.skip(process, path, area),
            _ => return Err(libc::ENOENT),
        }
        Ok(())
    }

    /// Whether a reader that has read a generation, and closed it, removes it now.
    fn is_removed_first(&mut self, process: Process, path: &[u8]) -> bool {
        let position = self.position(process, path);
        let Some(family) = self.processes.get(&process).map(|who| who.family) else { return false };
        let Some(name) = self.names.get_mut(path) else { return false };
        let removed = name.removed.entry(family).or_default();
        let is_first = position.open == 0 && position.seen && position.at > *removed;
        if is_first {
            *removed = position.at;
        }
        is_first
    }

    /// The name means this generation no more for its writer, nor one before it.
    fn hide(&mut self, area: Area) {
        if let Some(generation) = self.generations.get(&area)
            && let Some(name) = self.names.get_mut(&generation.path)
        {
            let number = generation.number;
            name.on_disk = name.on_disk.max(number);
            for older in name.generations.range(..number).map(|(_, area)| area) {
                let older = self.generations.get_mut(older);
                if let Some(older) = older.filter(|older| older.state == State::Complete) {
                    older.unlinked = true;
                }
            }
        }
        let is_open = self.is_open_to_write(area);
        if let Some(generation) = self.generations.get_mut(&area) {
            generation.unlinked = true;
            generation.is_for_nobody = is_open && generation.state == State::Writing;
            if generation.stored != Stored::Never {
                self.effects.push(Effect::Remove(generation.path.clone()));
                generation.stored = Stored::Never;
            }
        }
        self.effects.push(Effect::Look(area));
    }

    /// A reader does not want a generation.
    fn skip(&mut self, process: Process, path: &[u8], area: Area) {
        let Some(generation) = self.generations.get(&area) else { return };
        let number = generation.number;
        let mut position = self.position(process, path);
        // Of a program that has not read it, it is no word for others that may.
        if let Some(generation) = self.generations.get_mut(&area) {
            generation.read |= position.at == number;
        }
        (position.at, position.seen) = (number, true);
        if position.open == 0 {
            position.finished = number;
        }
        let (job, ranks) = self.processes.get(&process).map_or((0, 1), |who| (who.job, who.ranks));
        if let Some(name) = self.names.get_mut(path) {
            let reader = name.readers.entry(job).or_default();
            reader.ranks = ranks;
            reader.processes.insert(process, position);
            if let Some(family) = self.processes.get(&process).map(|who| who.family) {
                name.removed.insert(family, number);
            }
        }
        self.give_up(path);
    }

    /// Cuts the file of this name to no bytes: the writer's next open begins a generation.
    ///
    /// # Errors
    /// `ENOENT`
    pub fn empty(&mut self, process: Process, path: &[u8]) -> Result<(), i32> {
        let job = self.job(process);
        let newest = self.newest(path).filter(|(_, newest)| !newest.unlinked);
        // What is on its way to this node is as good as complete.
        let state = |area, one: &Generation| match self.is_on_its_way(area) {
            true => State::Complete,
            false => one.state,
        };
        let newest = newest.map(|(area, newest)| (area, state(area, newest)));
        let Some(name) = self.names.get_mut(path) else { return Err(libc::ENOENT) };
        match newest {
            Some((area, State::Writing)) => self.effects.push(Effect::Empty(area)),
            Some((_, State::Complete)) => (name.emptied, name.writer) = (true, Some(job)),
            None if name.emptied => {}
            None => return Err(libc::ENOENT),
        }
        Ok(())
    }

    /// Gives what the writer finds under `from` the name `to`, as its newest generation.
    ///
    /// # Errors
    /// `ENOENT`
    pub fn rename(
        &mut self,
        process: Process,
        from: &[u8],
        to: &[u8],
        options: Options,
    ) -> Result<(), i32> {
        let job = self.job(process);
        let area = self.meant(process, from).ok_or(libc::ENOENT)?;
        if from == to {
            return Ok(());
        }
        self.end_reading(area, &from.to_vec());
        let replaced = self.newest(to).filter(|(_, old)| old.state == State::Writing);
        let replaced = replaced.map(|(area, _)| area);
        // What is closed is for readers as soon as it is complete.
        if let Some(replaced) = replaced.filter(|area| self.is_open_to_write(*area)) {
            self.hide(replaced);
        }
        let name = self.names.entry(to.to_vec()).or_default();
        name.last += 1;
        (name.emptied, name.dead, name.writer) = (false, None, Some(job));
        name.options = options;
        let number = name.last;
        name.generations.insert(number, area);
        if let Some(generation) = self.generations.get_mut(&area) {
            if let Some(old) = self.names.get_mut(from) {
                old.generations.remove(&generation.number);
            }
            (generation.path, generation.number) = (to.to_vec(), number);
            generation.read = false;
            // Whoever gives it its name has made it.
            if generation.state == State::Complete {
                generation.jobs.clear();
            }
            generation.jobs.insert(job);
            if generation.state == State::Complete {
                self.want_stored(area);
            }
        }
        self.give_up(to);
        Ok(())
    }

    /// Returns the generation that a name means for a process: the one that it has written, or else
    /// the one that it would read.
    fn meant(&self, process: Process, path: &[u8]) -> Option<Area> {
        let options = self.names.get(path)?.options.clone();
        match self.choose(process, &Ask { path: path.to_vec(), options, ..Ask::default() }) {
            Choice::Own(area) | Choice::Next(area) => Some(area),
            // Closed by whoever wrote it, and complete as soon as that is seen.
            Choice::Wait => {
                let (area, newest) = self.newest(path).filter(|(_, newest)| !newest.unlinked)?;
                let is_closed = !self.is_open_to_write(area);
                (newest.state == State::Writing && is_closed).then_some(area)
            }
            Choice::Dead(_) | Choice::Lost(_) | Choice::Dropped => None,
        }
    }

    /// Ends the reading of a generation under a name, because it gets another name.
    fn end_reading(&mut self, area: Area, path: &Path) {
        let readers = self.opens.values_mut().filter(|open| open.area == area && open.reads_on);
        let readers: Vec<Process> = readers
            .map(|open| {
                open.reads_on = false;
                open.process
            })
            .collect();
        readers.into_iter().for_each(|process| self.stop_reading(process, path, true));
    }

    /// Gives up all complete generations of a name that nobody has open, read or not; how many.
    pub fn drop_all(&mut self, path: &[u8]) -> usize {
        let Some(name) = self.names.get_mut(path) else { return 0 };
        name.dead = None;
        let areas: Vec<Area> = name.generations.values().copied().collect();
        let may_go = |area: &Area| {
            let one = &self.generations[area];
            let is_open = self.opens.values().any(|open| open.area == *area);
            one.state == State::Complete && one.stored != Stored::Busy && !is_open
        };
        let gone: Vec<Area> = areas.into_iter().filter(may_go).collect();
        gone.iter().for_each(|area| self.drop_generation(*area));
        gone.len()
    }
}
