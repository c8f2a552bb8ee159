//! All files: their names, their generations, and the room for these.

use super::{
    Area, Ask, Caller, Choice, Dead, Effect, Generation, Generations, Job, Names, Options, Process,
    Processes, Room, Sequence, State, Stored,
};
use std::ops::Range;

/// All files.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) names: Names,
    pub(crate) generations: Generations,
    pub(crate) room: Room,
    /// Changes of memory that the caller has yet to carry out.
    pub(crate) effects: Vec<Effect>,
}

impl Files {
    /// A name and its generations.
    pub(super) fn sequence(&self, path: &[u8]) -> Option<Sequence<'_>> {
        let name = self.names.get(path)?;
        Some(Sequence { name, generations: &self.generations })
    }

    /// The newest generation of a name.
    pub(crate) fn newest(&self, path: &[u8]) -> Option<(Area, &Generation)> {
        self.sequence(path)?.newest()
    }

    /// The newest generation that a name means for its writer.
    pub(super) fn named(&self, path: &[u8]) -> Option<(Area, &Generation)> {
        self.newest(path).filter(|(_, newest)| !newest.unlinked)
    }

    /// The options of the file of a generation.
    pub(crate) fn options_of(&self, area: Area) -> Option<&Options> {
        let generation = self.generations.get(&area)?;
        self.names.get(&generation.path).map(|name| &name.options)
    }

    /// Whether readers may have a generation when its writer synchronises it.
    pub(crate) fn is_shown_at_sync(&self, area: Area) -> bool {
        self.options_of(area).is_some_and(|options| options.at_sync)
    }

    /// Whether readers may have a generation before it is complete.
    pub(crate) fn is_early(&self, area: Area) -> bool {
        let Some(generation) = self.generations.get(&area) else { return false };
        let is_shown = generation.early.step || generation.early.published;
        !generation.is_complete() && (is_shown || self.is_shown_at_sync(area))
    }

    /// The generation that an open for reading gets now.
    pub(super) fn choose(&self, caller: &Caller, path: &[u8], options: &Options) -> Choice {
        self.sequence(path).map_or(Choice::Wait, |sequence| sequence.choose(caller, options))
    }

    /// The generation that a process finds under a name, if any. `Some(None)` is a file that it has
    /// cut to no bytes, which has no memory.
    pub(super) fn look(
        &self,
        caller: &Caller,
        path: &[u8],
        options: &Options,
    ) -> Option<Option<Area>> {
        let name = self.names.get(path).filter(|_| caller.family.is_some())?;
        if name.emptied && name.writer == Some(caller.job) {
            return Some(None);
        }
        let is_here = |one: &Generation| !one.is_elsewhere(caller.node) || !one.is_elsewhere(0);
        match self.choose(caller, path, options) {
            Choice::Own(area) if !self.generations.get(&area).is_none_or(is_here) => None,
            Choice::Own(area) | Choice::Next(area) => Some(Some(area)),
            _ => None,
        }
    }

    /// The newest generation that a process may read of a name, and the options of the file.
    pub(super) fn view(&self, caller: &Caller, path: &[u8]) -> Option<(Area, &Options)> {
        let sequence = self.sequence(path)?;
        Some((sequence.newest_readable(caller.node)?, &sequence.name.options))
    }

    /// Begins a generation; `maker` is the process in messages.
    pub(super) fn begin(
        &mut self,
        area: Area,
        caller: &Caller,
        maker: String,
        ask: &Ask,
        copy_of: Option<Area>,
    ) {
        let expected = self.expected(&ask.path, copy_of);
        let name = self.names.entry(ask.path.clone()).or_default();
        name.note_unreported(caller.job);
        let emptied = name.emptied;
        let (path, number) = (ask.path.clone(), name.add(area));
        let mut one = Generation { path, number, emptied, expected, copy_of, ..Default::default() };
        (one.writers.maker, one.early.step) = (maker, ask.options.at_step);
        self.generations.insert(area, one);
        self.effects.push(Effect::Make(area, copy_of));
    }

    /// A reader is done with the generations of a name that have these numbers, except with those
    /// of the program `job`.
    pub(super) fn mark_read(&mut self, path: &[u8], numbers: Range<u64>, job: Option<Job>) {
        let Some(name) = self.names.get(path) else { return };
        for (_, area) in name.generations.range(numbers) {
            if let Some(generation) = self.generations.get_mut(area) {
                generation.read |= !job.is_some_and(|job| generation.is_by(job));
            }
        }
    }

    /// An open for reading has ended; `seen`: its process has not only looked.
    pub(super) fn stop_reading(&mut self, path: &[u8], process: Process, job: Job, seen: bool) {
        let Some(name) = self.names.get_mut(path) else { return };
        if let Some(number) = name.stop_reading(process, job, seen) {
            self.mark_read(path, number..number + 1, None);
        }
    }

    /// A reader does not want a generation.
    pub(super) fn skip(&mut self, caller: &Caller, area: Area) {
        let Some(generation) = self.generations.get_mut(&area) else { return };
        let Some(name) = self.names.get_mut(&generation.path) else { return };
        // Of a program that has not read it, it is no word for others that may.
        generation.read |= name.position(caller).at == generation.number;
        name.skip(caller, generation.number);
    }

    /// Takes a generation out of its name, and frees its memory.
    pub(super) fn remove(&mut self, area: Area) -> Option<Generation> {
        let generation = self.generations.remove(&area)?;
        self.room.leave(&generation.home);
        self.effects.push(Effect::Free(area));
        self.names.touch(&generation.path);
        if let Some(name) = self.names.get_mut(&generation.path) {
            name.generations.remove(&generation.number);
        }
        Some(generation)
    }

    /// Gives up a complete generation that a program may yet ask for.
    pub(super) fn drop_generation(&mut self, area: Area) {
        let Some(generation) = self.remove(area) else { return };
        self.room.free(generation.in_memory());
        let Some(name) = self.names.get_mut(&generation.path) else { return };
        name.lost = name.lost.max(generation.number);
        if !generation.unlinked {
            name.dropped = generation.number.max(name.dropped);
        }
    }

    /// Gives up all complete generations of a name that nobody has open, read or not; how many.
    pub(crate) fn drop_all(&mut self, path: &[u8]) -> usize {
        let Some(name) = self.names.get_mut(path) else { return 0 };
        name.dead = None;
        let may_go = |area: &Area| {
            let one = self.generations.get(area);
            one.is_some_and(|one| one.is_complete() && one.stored != Stored::Busy && !one.is_open())
        };
        let gone: Vec<Area> = name.generations.values().copied().filter(may_go).collect();
        gone.iter().for_each(|area| self.drop_generation(*area));
        gone.len()
    }

    /// Gives up all generations of a name that nobody needs any more.
    pub(super) fn give_up(&mut self, path: &[u8], processes: &Processes) {
        self.names.touch(path);
        let Some(sequence) = self.sequence(path) else { return };
        let unneeded = sequence.unneeded(processes);
        let (mut gone, rest): (Vec<_>, Vec<_>) =
            unneeded.into_iter().partition(|(_, stored)| stored.is_settled());
        let due = rest.into_iter().rev().filter(|(_, stored)| *stored == Stored::Wanted);
        // The newest comes last, and stays.
        for (area, _) in due {
            self.store(area);
            if self.generations.get(&area).is_some_and(|one| one.stored == Stored::Done) {
                gone.push((area, Stored::Done));
            }
        }
        for (area, _) in gone {
            if let Some(one) = self.remove(area)
                && let Some(name) = self.names.get_mut(path)
            {
                name.lost = name.lost.max(one.number);
            }
        }
    }

    /// The name means this generation no more for its writer, nor one before it.
    pub(super) fn hide(&mut self, area: Area) {
        let Some(generation) = self.generations.get_mut(&area) else { return };
        let (path, number) = (generation.path.clone(), generation.number);
        generation.unlinked = true;
        generation.is_for_nobody = generation.is_open_to_write() && !generation.is_complete();
        if generation.stored != Stored::Never {
            self.effects.push(Effect::Remove(path.clone()));
            generation.stored = Stored::Never;
        }
        self.effects.push(Effect::Look(area));
        let Some(name) = self.names.get_mut(&path) else { return };
        name.on_disk = name.on_disk.max(number);
        for (_, older) in name.generations.range(..number) {
            if let Some(older) = self.generations.get_mut(older) {
                older.unlinked |= older.is_complete();
            }
        }
    }

    /// Cuts the file of this name to no bytes: the writer's next open begins a generation.
    ///
    /// # Errors
    /// `ENOENT`
    pub(super) fn empty(&mut self, job: Job, path: &[u8]) -> Result<(), i32> {
        // A generation on its way to this node is as good as complete.
        let is_written = |one: &Generation| !one.is_complete() && !one.is_on_its_way();
        let newest = self.named(path).map(|(area, newest)| (area, is_written(newest)));
        let name = self.names.get_mut(path).ok_or(libc::ENOENT)?;
        match newest {
            Some((area, true)) => self.effects.push(Effect::Empty(area)),
            Some((_, false)) => (name.emptied, name.writer) = (true, Some(job)),
            None if name.emptied => {}
            None => return Err(libc::ENOENT),
        }
        Ok(())
    }

    /// Gives a generation the name `to`, as its newest generation.
    pub(super) fn rename(&mut self, area: Area, job: Job, to: &[u8], options: Options) {
        let is_replaced = |one: &Generation| !one.is_complete() && one.is_open_to_write();
        let replaced = self.newest(to).filter(|(_, old)| is_replaced(old)).map(|(area, _)| area);
        // A generation that is closed is for readers as soon as it is complete.
        replaced.into_iter().for_each(|replaced| self.hide(replaced));
        let name = self.names.entry(to.to_vec()).or_default();
        let number = name.add(area);
        (name.writer, name.options) = (Some(job), options);
        let Some(generation) = self.generations.get_mut(&area) else { return };
        if let Some(old) = self.names.get_mut(&generation.path) {
            old.generations.remove(&generation.number);
            // Nor does the disk have the old name any more, unless a newer generation has it there.
            if generation.stored != Stored::Never {
                if old.on_disk == generation.number {
                    self.effects.push(Effect::Remove(generation.path.clone()));
                }
                old.on_disk = old.on_disk.max(generation.number);
            }
        }
        generation.stored = Stored::Never;
        (generation.path, generation.number) = (to.to_vec(), number);
        (generation.read, generation.unlinked) = (false, false);
        // The program that gives it its name has made it.
        if generation.state == State::Complete {
            generation.writers.jobs = [job].into();
            self.want_stored(area);
        } else {
            generation.writers.jobs.insert(job);
        }
    }

    /// A program that died was to make the next generation of files, and of these none is being
    /// written: readers would wait for it for ever.
    pub(super) fn lose_next(&mut self, job: Job, writer: &str) {
        let generations = &self.generations;
        for name in self.names.values_mut().filter(|name| name.writer == Some(job)) {
            let is_told = name.dead.as_ref().is_some_and(|dead| dead.number == name.last);
            if !is_told && !(Sequence { name: &*name, generations }).is_written() {
                name.last += 1;
                name.dead = Some(Dead::unread(name.last, writer.to_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &[u8] = b"/d/f";
    const CALLER: Caller = Caller { process: 1, job: 1, ranks: 1, family: Some(1), node: 0 };

    fn complete(files: &mut Files, area: Area, path: &[u8]) {
        let ask = Ask { path: path.to_vec(), ..Ask::default() };
        files.begin(area, &CALLER, "p".into(), &ask, None);
        let generation = files.generations.get_mut(&area).unwrap();
        generation.writers.jobs.insert(1);
        generation.complete();
    }

    fn freed(files: &mut Files) -> Vec<Effect> {
        files.effects.drain(..).filter(|effect| matches!(effect, Effect::Free(_))).collect()
    }

    #[test]
    fn generations_that_were_read_are_given_up_unless_one_begins_as_a_copy() {
        let mut files = Files::default();
        [10, 20, 30].into_iter().for_each(|area| complete(&mut files, area, FILE));
        files.give_up(FILE, &Processes::default());
        assert_eq!(freed(&mut files), [], "nobody has read");
        files.mark_read(FILE, 0..3, Some(2));
        let ask = Ask { path: b"/d/g".to_vec(), ..Ask::default() };
        files.begin(40, &CALLER, "p".into(), &ask, Some(10));
        files.give_up(FILE, &Processes::default());
        assert_eq!(freed(&mut files), [Effect::Free(20)]);
        assert_eq!(files.names[FILE].lost, 2);
        assert_eq!(files.remove(40).unwrap().path, b"/d/g");
        files.give_up(FILE, &Processes::default());
        assert_eq!(freed(&mut files), [Effect::Free(40), Effect::Free(10)]);
    }

    #[test]
    fn a_renamed_generation_is_the_newest_of_its_new_name_and_made_by_its_renamer() {
        let mut files = Files::default();
        complete(&mut files, 10, FILE);
        complete(&mut files, 20, b"/d/g");
        files.rename(10, 2, b"/d/g", Options::default());
        let (area, newest) = files.newest(b"/d/g").unwrap();
        assert!(area == 10 && newest.number == 2 && newest.is_by(2) && !newest.is_by(1));
        assert!(files.newest(FILE).is_none());
        files.hide(10);
        assert!(files.named(b"/d/g").is_none() && files.generations[&20].unlinked);
        assert_eq!(files.empty(1, b"/d/g"), Err(libc::ENOENT));
    }

    #[test]
    fn a_dropped_generation_leaves_its_number_and_frees_its_memory() {
        let mut files = Files::default();
        complete(&mut files, 10, FILE);
        files.weigh(10, 7);
        assert_eq!((files.expected(b"/d/f", None), files.drop_all(FILE)), (7, 1));
        assert!(files.names[FILE].is_dropped() && files.room.is_leaving());
        assert_eq!(files.choose(&CALLER, FILE, &Options::default()), Choice::Wait);
        files.lose_next(1, "p");
        assert!(files.names[FILE].dead.is_none(), "another program wrote last");
    }
}
