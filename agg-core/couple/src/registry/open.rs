//! Opens: a new generation, the one that is being written, or the reader's next one.

use super::room::Room;
use super::{
    Answer, Area, Ask, Dead, Effect, Generation, Home, Job, Name, Open, Opening, Position, Process,
    Reader, Registry, State, Stored,
};
use aggio_config::settings::couple::{Pick, WriterDeath};

/// The result of looking for a generation to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The generation that its own program writes or wrote.
    Own(Area),
    /// The generation that it is to read.
    Next(Area),
    /// Nothing yet.
    Wait,
    /// The writer of this generation died.
    Dead(u64),
    /// The generation up to this one that it was to read was given up.
    Lost(u64),
    /// The generation that its own program wrote was dropped.
    Dropped,
}

impl Registry {
    /// Opens a file for a process, or says that it has to wait.
    pub fn open(&mut self, process: Process, ask: &Ask) -> Answer {
        if let Some(opening) = self.asked_before(process, ask.key) {
            return Answer::Opened(opening);
        }
        if ask.write {
            return self.open_to_write(process, ask);
        }
        if ask.view {
            return self.view(process, ask);
        }
        match self.choose(process, ask) {
            // What programs of other nodes have closed may not be here yet.
            Choice::Own(area) if self.is_on_its_way(area) => Answer::Wait,
            Choice::Own(area) => Answer::Opened(self.opened(process, area, ask, false)),
            Choice::Next(area) => Answer::Opened(self.read_on(process, area, ask)),
            Choice::Wait => {
                self.announce(process, ask);
                Answer::Wait
            }
            Choice::Lost(number) => {
                self.move_on(process, ask, number);
                Answer::Fail(libc::ESTALE)
            }
            Choice::Dropped => Answer::Fail(libc::ESTALE),
            Choice::Dead(number) => {
                self.move_on(process, ask, number);
                let dead = self.names.get(&ask.path).and_then(|name| name.dead.as_ref());
                if let Some(area) = dead.map(|dead| dead.area) {
                    self.has_told_of_death(process, area);
                }
                match ask.options.death {
                    WriterDeath::File => Answer::OnDisk,
                    _ => Answer::Fail(libc::EIO),
                }
            }
        }
    }

    /// The open that a process has asked for by `key` before: an earlier agent has made it, and
    /// died before it could say so.
    fn asked_before(&self, process: Process, key: u64) -> Option<Opening> {
        let is_it = |open: &Open| open.process == process && open.key == key;
        let (handle, open) = self.opens.iter().find(|(_, open)| key != 0 && is_it(open))?;
        let generation = self.generations.get(&open.area)?.number;
        Some(Opening { handle: *handle, area: open.area, generation })
    }

    fn open_to_write(&mut self, process: Process, ask: &Ask) -> Answer {
        self.retract_unanswered(process, ask);
        if let Some(answer) = self.refused_after_abort(process, ask) {
            return answer;
        }
        let emptied = self.names.get(&ask.path).is_some_and(|name| name.emptied);
        let there = self.newest(&ask.path).filter(|(_, newest)| !newest.unlinked);
        let there = there.map(|(area, newest)| (area, newest.state));
        if ask.exclusive && ask.create && (there.is_some() || emptied) {
            return Answer::Fail(libc::EEXIST);
        }
        if there.is_none() && !emptied && !ask.truncate && !ask.exclusive {
            // Its bytes were to be kept.
            if self.names.get(&ask.path).is_some_and(Name::is_dropped) {
                return Answer::Fail(libc::ESTALE);
            }
        }
        match there {
            // What is on its way to this node is as good as complete for a writer.
            Some((area, State::Writing)) if self.is_on_its_way(area) => match ask.truncate {
                true => self.begin_if_room(process, ask, None),
                false => Answer::Wait,
            },
            Some((area, State::Writing)) => {
                if ask.truncate {
                    self.effects.push(Effect::Empty(area));
                }
                Answer::Opened(self.opened(process, area, ask, false))
            }
            Some((area, State::Complete)) => {
                let copy_of = (!ask.truncate && !emptied).then_some(area);
                self.begin_if_room(process, ask, copy_of)
            }
            None if ask.create || emptied => self.begin_if_room(process, ask, None),
            None => Answer::Fail(libc::ENOENT),
        }
    }

    fn begin_if_room(&mut self, process: Process, ask: &Ask, copy_of: Option<Area>) -> Answer {
        match self.room(process, ask, copy_of) {
            Room::Enough => Answer::Opened(self.begin(process, ask, copy_of)),
            Room::Later => Answer::Wait,
            Room::Never(number) => Answer::Fail(number),
        }
    }

    /// Begins a generation.
    fn begin(&mut self, process: Process, ask: &Ask, copy_of: Option<Area>) -> Opening {
        let (area, expected) = (self.number(), self.expected(&ask.path, copy_of));
        self.note_unreported(self.job(process), &ask.path);
        let name = self.names.entry(ask.path.clone()).or_default();
        name.last += 1;
        let emptied = std::mem::take(&mut name.emptied);
        name.dead = None;
        name.generations.insert(name.last, area);
        let maker = self.processes.get(&process).map(|who| who.label.clone());
        let generation = Generation {
            path: ask.path.clone(),
            number: name.last,
            state: State::Writing,
            jobs: [].into(),
            writers: [].into(),
            maker: maker.unwrap_or_default(),
            written: false,
            untold: false,
            published: false,
            step: ask.options.at_step,
            records: None,
            read: false,
            unlinked: false,
            is_for_nobody: false,
            stored: Stored::Never,
            alone: None,
            emptied,
            bytes: 0,
            expected,
            home: Home::Memory,
            copy_of,
            handles: [].into(),
        };
        self.generations.insert(area, generation);
        self.effects.push(Effect::Make(area, copy_of));
        let opening = self.opened(process, area, ask, false);
        self.give_up(&ask.path);
        opening
    }

    /// Notes an open of `area`.
    pub(super) fn opened(
        &mut self,
        process: Process,
        area: Area,
        ask: &Ask,
        reads_on: bool,
    ) -> Opening {
        let (handle, job) = (self.number(), self.job(process));
        let is_part = reads_on && self.is_read_in_part(job, area);
        let (write, tells, key) = (ask.write, ask.tells, ask.key);
        let open = Open { process, area, write, tells, reads_on, is_part, key };
        self.opens.insert(handle, open);
        if !reads_on {
            self.is_used_by(process, area);
        }
        if let Some(name) = self.names.get_mut(&ask.path) {
            name.options = ask.options.clone();
            if ask.write {
                name.writer = Some(job);
            }
        }
        let mut number = 0;
        if let Some(generation) = self.generations.get_mut(&area) {
            number = generation.number;
            if ask.write {
                generation.alone = generation.writers.is_empty().then_some(handle);
                generation.jobs.insert(job);
                generation.writers.insert(process);
                generation.handles.insert(handle);
                generation.untold |= !ask.tells;
            }
        }
        Opening { handle, area, generation: number }
    }

    /// Whether a program that opens `area` for reading now will open it again to have the rest.
    /// Processes that open it together are told the same, although it may become complete between
    /// the first and the last of them.
    fn is_read_in_part(&self, job: Job, area: Area) -> bool {
        let generation = self.generations.get(&area);
        let has_part =
            |open: &Open| open.area == area && open.is_part && self.job(open.process) == job;
        generation.is_some_and(|one| one.records.is_some() && one.state == State::Writing)
            || self.opens.values().any(has_part)
    }

    /// A process holds a descriptor of `area` that another one opened. Whether it may write, and
    /// tells what it wrote, and its key are those of [`Ask`].
    pub fn adopt(
        &mut self,
        process: Process,
        area: Area,
        [write, tells]: [bool; 2],
        key: u64,
    ) -> Option<Opening> {
        if let Some(opening) = self.asked_before(process, key) {
            return Some(opening);
        }
        let generation = self.generations.get(&area)?;
        let path = generation.path.clone();
        let is_own = generation.jobs.contains(&self.job(process));
        let options = self.names.get(&path).map(|name| name.options.clone()).unwrap_or_default();
        let writer = self.names.get(&path).and_then(|name| name.writer);
        let ask = Ask { path, write, tells, key, options, ..Ask::default() };
        let opening = match write || is_own {
            true => self.opened(process, area, &ask, false),
            false => self.read_on(process, area, &ask),
        };
        // The next one is made by whoever opens it, not by a child with its descriptor.
        if let (Some(name), Some(_)) = (self.names.get_mut(&ask.path), writer) {
            name.writer = writer;
        }
        Some(opening)
    }

    /// Opens the generation that a reader is to read, which it has by that announced.
    fn read_on(&mut self, process: Process, area: Area, ask: &Ask) -> Opening {
        let opening = self.opened(process, area, ask, true);
        let position = self.announce(process, ask);
        if position.at != opening.generation {
            (position.at, position.seen) = (opening.generation, false);
        }
        position.open += 1;
        self.pass(process, &ask.path, opening.generation);
        opening
    }

    /// Generations older than `number` were asked for, or passed over.
    fn pass(&mut self, process: Process, path: &[u8], number: u64) {
        let job = self.job(process);
        let Some(name) = self.names.get(path) else { return };
        for area in name.generations.range(..number).map(|(_, area)| area) {
            if let Some(older) = self.generations.get_mut(area) {
                older.read |= !older.jobs.contains(&job);
            }
        }
        self.give_up(path);
    }

    /// The position of a reader, made if it is new.
    fn announce(&mut self, process: Process, ask: &Ask) -> &mut Position {
        let start = self.position(process, &ask.path);
        let ranks = self.processes.get(&process).map_or(1, |who| who.ranks);
        let job = self.job(process);
        let name = self.names.entry(ask.path.clone()).or_default();
        name.options = ask.options.clone();
        let reader = name.readers.entry(job).or_default();
        reader.ranks = ranks;
        reader.processes.entry(process).or_insert(start)
    }

    /// A process that had read a part of a generation knows that its writer has died.
    pub(crate) fn has_told_of_death(&mut self, process: Process, area: Area) {
        let dead = self.names.values_mut().filter_map(|name| name.dead.as_mut());
        dead.filter(|dead| dead.area == area).for_each(|dead| _ = dead.untold.remove(&process));
    }

    fn move_on(&mut self, process: Process, ask: &Ask, number: u64) {
        let position = self.announce(process, ask);
        *position = Position { at: number, seen: true, finished: number, ..*position };
        self.pass(process, &ask.path, number);
    }

    /// Returns the position of a process in a file. A new process begins at the end of those before
    /// it.
    pub(super) fn position(&self, process: Process, path: &[u8]) -> Position {
        let (Some(name), Some(who)) = (self.names.get(path), self.processes.get(&process)) else {
            return Position::default();
        };
        let known = name.readers.get(&who.job).and_then(|reader| reader.processes.get(&process));
        known.copied().unwrap_or_else(|| {
            let finished = name.ended.get(&who.family).copied().unwrap_or(0);
            Position { at: finished, open: 0, seen: true, finished }
        })
    }

    /// Looks for the generation that an open for reading gets now.
    pub(super) fn choose(&self, process: Process, ask: &Ask) -> Choice {
        let job = self.job(process);
        let Some(name) = self.names.get(&ask.path) else { return Choice::Wait };
        if let Some((area, newest)) = self.newest(&ask.path)
            && newest.jobs.contains(&job)
            && !newest.unlinked
        {
            return Choice::Own(area);
        }
        if name.is_dropped() && name.writer == Some(job) && name.generations.is_empty() {
            return Choice::Dropped;
        }
        let position = self.position(process, &ask.path);
        let looked_only = position.at > 0 && !self.was_seen(name.readers.get(&job), &position);
        if (position.open > 0 || looked_only)
            && let Some(area) = name.generations.get(&position.at)
        {
            let generation = &self.generations[area];
            let is_hidden = generation.step && generation.records.is_none();
            if is_hidden && generation.state == State::Writing {
                return Choice::Wait;
            }
            return Choice::Next(*area);
        }
        let reader = name.readers.get(&job);
        let is_known = reader.is_some_and(|reader| reader.processes.contains_key(&process));
        let mut ready = name.generations.range(position.at + 1..).filter(|(_, area)| {
            let generation = &self.generations[area];
            let by_records = ask.options.at_step && generation.records.is_some();
            let is_shown = generation.published || by_records;
            let is_ready = generation.state == State::Complete || is_shown;
            is_ready && !generation.jobs.contains(&job)
        });
        let found = match ask.options.pick {
            Pick::Next if is_known && position.at > 0 && name.lost > position.at => {
                return Choice::Lost(name.lost);
            }
            Pick::Next if self.is_overtaken(job, name, position.at, ask) => return Choice::Wait,
            Pick::Next => {
                let next = ready.next();
                let is_behind = next.is_none_or(|(number, _)| *number > name.unreported);
                if is_known && name.unreported > position.at && is_behind {
                    return Choice::Lost(name.unreported);
                }
                next
            }
            // The newest once more, if there is none after it.
            Pick::Latest => ready.next_back().or_else(|| {
                name.generations.get_key_value(&position.at).filter(|_| position.at > 0)
            }),
        };
        match (found, &name.dead) {
            (Some((_, area)), _) => Choice::Next(*area),
            (None, Some(Dead { number, untold, .. })) => {
                let knows = *number <= position.at && !untold.contains(&process);
                let waits = ask.options.death == WriterDeath::Wait || knows;
                if waits { Choice::Wait } else { Choice::Dead(*number) }
            }
            (None, None) => Choice::Wait,
        }
    }

    /// Whether the generation after `at` that a reader is to get is closed and not complete yet,
    /// and another one has begun.
    fn is_overtaken(&self, job: Job, name: &Name, at: u64, ask: &Ask) -> bool {
        let last = name.generations.last_key_value().map(|(number, _)| *number);
        let mut others = name.generations.range(at + 1..).filter(|(_, area)| {
            let generation = &self.generations[area];
            !generation.is_for_nobody && !generation.jobs.contains(&job)
        });
        others.next().is_some_and(|(number, area)| {
            let generation = &self.generations[area];
            let by_records = ask.options.at_step && generation.records.is_some();
            let is_shown = generation.published || by_records;
            generation.state == State::Writing && !is_shown && last != Some(*number)
        })
    }

    /// Whether any process of the program has read the generation at `position`.
    fn was_seen(&self, reader: Option<&Reader>, position: &Position) -> bool {
        let others = reader.into_iter().flat_map(|reader| reader.processes.values());
        // A process that has opened a later one has got that because this one was seen.
        let has_seen =
            |other: &Position| other.at > position.at || other.at == position.at && other.seen;
        position.seen || others.into_iter().any(has_seen)
    }

    /// The generation that a reader waits for.
    pub(crate) fn next_number(&self, process: Process, path: &[u8]) -> u64 {
        self.position(process, path).at + 1
    }
}
