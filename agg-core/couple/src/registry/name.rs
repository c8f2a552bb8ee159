//! One name: its sequence of generations, its readers and their positions.

use super::{Area, Caller, Family, Generation, Handle, Job, Options, Process, Who};
use aggio_config::settings::couple::Pick;
use std::collections::{BTreeMap, BTreeSet};

/// The position of one process that reads a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The generation of the last open, 0 before the first.
    pub(crate) at: u64,
    /// The number of times that it has this generation open.
    pub(crate) open: u32,
    /// It was read, not only looked at.
    pub(crate) seen: bool,
    /// The newest generation that it is done with.
    pub(crate) finished: u64,
}

/// The program that reads a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reader {
    /// The number of its processes.
    pub(crate) ranks: u32,
    /// The first generation that it could have got when it came.
    pub(crate) from: u64,
    /// Those that have opened the file.
    pub(crate) processes: BTreeMap<Process, Position>,
}

/// A generation that will never be complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dead {
    /// The number of the generation.
    pub(crate) number: u64,
    /// The process that died.
    pub(crate) writer: String,
    /// Its memory; 0 if nobody has read anything.
    pub(crate) area: Area,
    /// Processes that read a part of it, and have not been told.
    pub(crate) untold: BTreeSet<Process>,
    /// Processes that had written and closed it, and have not been told.
    pub(crate) writers: BTreeSet<Process>,
}

impl Dead {
    /// A generation without readers.
    pub(crate) fn unread(number: u64, writer: String) -> Self {
        Self { number, writer, area: 0, untold: BTreeSet::new(), writers: BTreeSet::new() }
    }
}

/// A generation that was being written when an earlier agent died: it will never be complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Aborted {
    /// The number of the generation.
    pub(crate) number: u64,
    /// The process that began it, as messages name it.
    pub(crate) maker: String,
    /// Opens by which it was being written, and by which key each was asked for, if it was open.
    pub(crate) opens: BTreeMap<Handle, u64>,
    /// Processes that know that it is lost.
    pub(crate) told: BTreeSet<Process>,
}

/// All that is known under one name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Name {
    /// The last number that was given.
    pub(crate) last: u64,
    /// The generations, by number.
    pub(crate) generations: BTreeMap<u64, Area>,
    /// The programs that read it.
    pub(crate) readers: BTreeMap<Job, Reader>,
    /// The newest generation that each family of ended processes was done with.
    pub(crate) ended: BTreeMap<Family, u64>,
    /// The last generation that each family of processes removed without having written it.
    pub(crate) removed: BTreeMap<Family, u64>,
    /// The newest generation that was given up.
    pub(crate) lost: u64,
    /// Generations that were lost although others follow them: their writers died later, or went
    /// on without being told that they were lost with an agent.
    pub(crate) missing: BTreeSet<u64>,
    /// The newest generation that was stored on disk.
    pub(crate) on_disk: u64,
    /// The newest generation that was given up although the name still meant it for its writer.
    pub(crate) dropped: u64,
    /// The newest generation, if its writer died.
    pub(crate) dead: Option<Dead>,
    /// The program that wrote last.
    pub(crate) writer: Option<Job>,
    /// Generations that programs were writing when an earlier agent died, and may write again.
    pub(crate) aborted: BTreeMap<Job, Aborted>,
    /// For its writer the file has no bytes, and its next open makes a generation.
    pub(crate) emptied: bool,
    /// The options of the last open.
    pub(crate) options: Options,
}

impl Name {
    /// Whether the generation that the file was for its writer was given up.
    pub(super) fn is_dropped(&self) -> bool {
        self.dropped > 0 && self.dropped == self.last
    }

    /// Whether nothing was ever written under it: it has readers that wait, at most.
    pub(crate) fn is_unwritten(&self) -> bool {
        let ended = self.ended.values().chain(self.removed.values()).all(|at| *at == 0);
        let is_alive = self.dead.is_none() && self.aborted.is_empty();
        self.last == 0 && self.writer.is_none() && !self.emptied && is_alive && ended
    }

    /// Whether nothing but numbers is left.
    pub(super) fn is_over(&self) -> bool {
        self.generations.is_empty() && self.readers.is_empty() && self.dead.is_none()
    }

    /// A generation gets the next number.
    pub(super) fn add(&mut self, area: Area) -> u64 {
        self.last += 1;
        (self.dead, self.emptied) = (None, false);
        self.generations.insert(self.last, area);
        self.last
    }

    /// A generation has died. Processes that have read a part of it, and `writers`, have to learn
    /// that. If others follow it, its writers have learned nothing: readers get an error between
    /// the one before and those.
    pub(super) fn lose(
        &mut self,
        (number, area): (u64, Area),
        writer: String,
        writers: BTreeSet<Process>,
    ) {
        let readers = self.readers.values().flat_map(|reader| &reader.processes);
        let reads = |at: &Position| at.at == number && at.finished < number;
        let untold: BTreeSet<_> =
            readers.filter(|(_, at)| reads(at)).map(|(process, _)| *process).collect();
        if self.generations.range(number + 1..).next().is_some() {
            self.missing.insert(number);
            return self.step_back(number, &untold);
        }
        match &mut self.dead {
            // One error for all that died.
            Some(dead) if dead.number > number => {
                dead.untold.extend(untold);
                dead.writers.extend(writers);
            }
            dead => *dead = Some(Dead { number, writer, area, untold, writers }),
        }
    }

    /// These readers of a part of generation `number` come to it once more.
    fn step_back(&mut self, number: u64, processes: &BTreeSet<Process>) {
        let readers = self.readers.values_mut().flat_map(|reader| &mut reader.processes);
        for (_, position) in readers.filter(|(process, _)| processes.contains(process)) {
            if position.open == 0 {
                (position.at, position.seen) = (number - 1, true);
            }
        }
    }

    /// The position of a process. A new one begins at the end of those before it.
    pub(super) fn position(&self, caller: &Caller) -> Position {
        let Some(family) = caller.family else { return Position::default() };
        let reader = self.readers.get(&caller.job);
        let known = reader.and_then(|reader| reader.processes.get(&caller.process));
        known.copied().unwrap_or_else(|| {
            let finished = self.ended.get(&family).copied().unwrap_or(0);
            Position { at: finished, open: 0, seen: true, finished }
        })
    }

    /// Whether a process has opened the file for reading, or has tried to.
    pub(super) fn knows(&self, caller: &Caller) -> bool {
        let reader = self.readers.get(&caller.job);
        reader.is_some_and(|reader| reader.processes.contains_key(&caller.process))
    }

    /// The first generation that a program could get, or could have got when it came.
    pub(super) fn first_for(&self, job: Job) -> u64 {
        let first = self.generations.keys().next().copied();
        match self.readers.get(&job) {
            Some(reader) => reader.from,
            // Nobody has read anything.
            None if self.readers.is_empty() && self.ended.is_empty() => 1,
            None => first.unwrap_or(self.last + 1),
        }
    }

    /// The position of a reader, made if it is new.
    pub(super) fn announce(&mut self, caller: &Caller) -> &mut Position {
        let (start, from) = (self.position(caller), self.first_for(caller.job));
        let reader = self.readers.entry(caller.job).or_default();
        (reader.ranks, reader.from) = (caller.ranks, from);
        reader.processes.entry(caller.process).or_insert(start)
    }

    /// A reader has opened a generation.
    pub(super) fn read_on(&mut self, caller: &Caller, number: u64) {
        let position = self.announce(caller);
        if position.at != number {
            (position.at, position.seen) = (number, false);
        }
        position.open += 1;
    }

    /// A reader learns that it does not get the generations up to `number`.
    pub(super) fn pass(&mut self, caller: &Caller, number: u64) {
        let position = self.announce(caller);
        *position = Position { at: number, seen: true, finished: number, ..*position };
    }

    /// A reader does not want a generation.
    pub(super) fn skip(&mut self, caller: &Caller, number: u64) {
        let position = self.position(caller);
        let finished = if position.open == 0 { number } else { position.finished };
        *self.announce(caller) = Position { at: number, seen: true, finished, ..position };
        if let Some(family) = caller.family {
            self.removed.insert(family, number);
        }
    }

    /// Notes that a reader that has read a generation, and closed it, removes it now; false if it
    /// has done so before, or has read nothing.
    pub(super) fn removes_first(&mut self, caller: &Caller) -> bool {
        let (position, Some(family)) = (self.position(caller), caller.family) else { return false };
        let removed = self.removed.entry(family).or_default();
        let is_first = position.open == 0 && position.seen && position.at > *removed;
        *removed = if is_first { position.at } else { *removed };
        is_first
    }

    fn known(&mut self, process: Process, job: Job) -> Option<&mut Position> {
        self.readers.get_mut(&job)?.processes.get_mut(&process)
    }

    /// A reader has read from the generation `number`, and not only looked at it.
    pub(super) fn see(&mut self, process: Process, job: Job, number: u64) {
        if let Some(position) = self.known(process, job) {
            position.seen |= position.at == number;
        }
    }

    /// An open for reading has ended. Returns the generation that its reader is done with now.
    pub(super) fn stop_reading(&mut self, process: Process, job: Job, seen: bool) -> Option<u64> {
        let position = self.known(process, job)?;
        position.open = position.open.saturating_sub(1);
        position.seen |= seen;
        if position.open > 0 || !position.seen {
            return None;
        }
        position.finished = position.at;
        Some(position.at)
    }

    /// A process has ended. Returns the newest generation that it was done with, if it was a
    /// reader.
    pub(super) fn end(&mut self, process: Process, who: &Who, orderly: bool) -> Option<u64> {
        let reader = self.readers.get_mut(&who.job)?;
        let position = reader.processes.remove(&process)?;
        if reader.processes.is_empty() {
            self.readers.remove(&who.job);
        }
        let finished = if orderly && position.seen { position.at } else { position.finished };
        let ended = self.ended.entry(who.family).or_default();
        *ended = finished.max(*ended);
        Some(finished)
    }

    /// Whether any process of a program has read the generation at `position`.
    pub(super) fn was_seen(&self, job: Job, position: &Position) -> bool {
        let others = self.readers.get(&job).into_iter().flat_map(|one| one.processes.values());
        // A process that has opened a later one has got that because this one was seen.
        let has_seen =
            |other: &Position| other.at > position.at || other.at == position.at && other.seen;
        position.seen || others.into_iter().any(has_seen)
    }

    /// The newest generation from number `at` on that a process of a program has open to read.
    pub(super) fn open_elsewhere(&self, job: Job, at: u64) -> Option<u64> {
        let processes = self.readers.get(&job)?.processes.values();
        processes.filter(|one| one.open > 0 && one.at >= at).map(|one| one.at).max()
    }

    /// Whether nobody needs a complete generation; `age` of the complete ones are newer, and
    /// `is_alive` if a program that wrote it is there.
    pub(super) fn is_done_with(&self, one: &Generation, age: usize, is_alive: bool) -> bool {
        let newest = self.generations.last_key_value().map(|(number, _)| *number);
        if newest == Some(one.number) && !one.unlinked && is_alive {
            // Its writer may open it again.
            return false;
        }
        let keep = match (self.options.keep, self.options.pick) {
            (0, Pick::Next) => return self.is_read_by_all(one, age),
            (0, Pick::Latest) => 1,
            (keep, _) => usize::try_from(keep).unwrap_or(usize::MAX),
        };
        let is_used = !self.readers.is_empty() || is_alive;
        age >= keep || one.read && !is_used
    }

    /// Whether all readers are done with a complete generation; `age` of the complete ones are
    /// newer.
    pub(super) fn is_read_by_all(&self, one: &Generation, age: usize) -> bool {
        if self.options.pick == Pick::Latest && age == 0 {
            // Readers get it again.
            return false;
        }
        let mut readers = self.readers.values();
        // Processes of a reader that have not come yet find the last two.
        let is_missing = |one: &Reader| (one.processes.len() as u64) < u64::from(one.ranks);
        let are_missing = age < 2 && readers.clone().any(is_missing);
        one.read && !are_missing && readers.all(|reader| one.is_passed_by(reader))
    }

    /// Whether a reader that is there has yet to read a generation.
    pub(super) fn is_being_read(&self, one: &Generation) -> bool {
        // Readers of the newest get it again and again.
        self.options.pick == Pick::Next && !self.readers.values().all(|it| one.is_passed_by(it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(process: Process) -> Caller {
        Caller { process, job: process, ranks: 1, family: Some(9), node: 0 }
    }

    fn who(job: Job) -> Who {
        Who { job, ranks: 1, family: 9, label: String::new() }
    }

    #[test]
    fn a_process_reads_on_behind_those_of_its_family_that_have_ended() {
        let mut name = Name::default();
        name.read_on(&caller(1), 3);
        assert_eq!(name.stop_reading(1, 1, false), None, "it only looked");
        assert!(!name.was_seen(1, &name.position(&caller(1))));
        name.read_on(&caller(1), 3);
        assert_eq!(name.stop_reading(1, 1, true), Some(3));
        name.read_on(&caller(1), 4);
        name.see(1, 1, 4);
        assert_eq!(name.clone().end(1, &who(1), true), Some(4));
        assert_eq!(name.end(1, &who(1), false), Some(3), "it was killed");
        assert!(name.readers.is_empty() && !name.knows(&caller(1)));
        assert_eq!(name.position(&caller(2)).at, 3);
    }

    #[test]
    fn a_reader_removes_a_generation_once() {
        let mut name = Name::default();
        assert!(!name.removes_first(&caller(1)), "it has read nothing");
        name.read_on(&caller(1), 1);
        assert!(!name.removes_first(&caller(1)), "it is open");
        name.stop_reading(1, 1, true);
        assert!(name.removes_first(&caller(1)) && !name.removes_first(&caller(1)));
        name.skip(&caller(1), 2);
        assert!(!name.removes_first(&caller(1)));
    }

    #[test]
    fn readers_of_a_part_have_to_learn_of_a_death() {
        let mut name = Name::default();
        assert_eq!(name.add(70), 1);
        [1, 2].iter().for_each(|process| name.read_on(&caller(*process), 1));
        name.stop_reading(2, 2, true);
        name.lose((1, 70), "p".into(), BTreeSet::new());
        assert_eq!(name.dead.as_ref().unwrap().untold, [1].into());
        assert_eq!(name.add(71), 2);
        assert!(name.dead.is_none());
    }

    #[test]
    fn readers_of_a_part_of_what_others_follow_come_to_it_once_more() {
        let mut name = Name::default();
        (70..73).for_each(|area| assert_eq!(name.add(area), area - 69));
        [1, 2].iter().for_each(|process| name.read_on(&caller(*process), 2));
        name.stop_reading(1, 1, false);
        name.generations.remove(&2);
        name.lose((2, 71), "p".into(), BTreeSet::new());
        assert_eq!((&name.missing, &name.dead), (&[2].into(), &None));
        assert_eq!([1, 2].map(|process| name.position(&caller(process)).at), [1, 2]);
        name.generations.clear();
        name.lose((3, 72), "p".into(), [4].into());
        name.lose((2, 71), "p".into(), [5].into());
        assert_eq!(name.dead.unwrap().writers, [4, 5].into(), "of the newer one");
    }

    #[test]
    fn a_generation_is_kept_for_ranks_that_have_not_come() {
        let mut name = Name::default();
        let one = Generation { number: 1, read: true, ..Generation::default() };
        name.generations.insert(1, 70);
        name.pass(&Caller { ranks: 2, ..caller(1) }, 1);
        let ages = [0, 1, 2].map(|age| name.is_read_by_all(&one, age));
        assert_eq!(ages, [false, false, true]);
        assert!(!name.is_being_read(&one) && !name.is_done_with(&one, 2, true));
        assert!(name.is_done_with(&one, 2, false));
        name.options.keep = 3;
        assert!(!name.is_done_with(&one, 2, false) && name.is_done_with(&one, 3, false));
    }
}
