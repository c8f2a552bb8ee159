//! Ends of opens, of generations that are being written, and of processes.

use super::{
    Answer, Area, Dead, Effect, Generation, Handle, Path, Position, Process, Registry, State,
};
use std::collections::BTreeSet;

/// Fewer bytes than this are a look at the beginning of a file, not a use of it. netCDF looks at
/// 1,024.
const LOOK: u64 = 2048;

impl Registry {
    /// A process has closed what `handle` stood for, after reading `moved` bytes, which were the
    /// whole file if `whole`.
    pub fn close(&mut self, process: Process, handle: Handle, moved: u64, whole: bool) {
        self.lost.retain(|lost, (whose, ..)| *lost != handle || *whose != process);
        if self.opens.get(&handle).is_none_or(|open| open.process != process) {
            return;
        }
        let Some(open) = self.opens.remove(&handle) else { return };
        let Some(path) = self.generations.get(&open.area).map(|found| found.path.clone()) else {
            return;
        };
        if open.reads_on {
            self.stop_reading(process, &path, !open.is_part && (moved >= LOOK || whole));
        }
        self.effects.push(Effect::Look(open.area));
        self.give_up(&path);
    }

    /// A process that still has `handle` has read `moved` bytes, which were the whole file if
    /// `whole`: its program has not only looked, whoever of it opens the file next.
    pub fn see(&mut self, process: Process, handle: Handle, moved: u64, whole: bool) {
        let reads = |open: &&super::Open| open.reads_on && !open.is_part;
        let open = self.opens.get(&handle).filter(|open| open.process == process);
        let open = open.filter(reads);
        let generation = open.and_then(|open| self.generations.get(&open.area));
        let Some(generation) = generation.filter(|_| moved >= LOOK || whole) else { return };
        let job = self.job(process);
        let name = self.names.get_mut(&generation.path);
        let reader = name.and_then(|name| name.readers.get_mut(&job));
        if let Some(position) = reader.and_then(|reader| reader.processes.get_mut(&process)) {
            position.seen |= position.at == generation.number;
        }
    }

    pub(super) fn stop_reading(&mut self, process: Process, path: &Path, seen: bool) {
        let job = self.job(process);
        let Some(name) = self.names.get_mut(path) else { return };
        let Some(reader) = name.readers.get_mut(&job) else { return };
        let Some(position) = reader.processes.get_mut(&process) else { return };
        position.open = position.open.saturating_sub(1);
        position.seen |= seen;
        if position.open > 0 || !position.seen {
            return;
        }
        position.finished = position.at;
        if let Some(area) = name.generations.get(&position.at)
            && let Some(generation) = self.generations.get_mut(area)
        {
            generation.read = true;
        }
    }

    /// An open that could not be carried out is taken back.
    pub fn withdraw(&mut self, process: Process, handle: Handle) {
        let Some(open) = self.opens.get(&handle).copied() else { return };
        self.close(process, handle, 0, false);
        let others = self.opens.values().any(|other| other.area == open.area);
        let Some(generation) = self.generations.get(&open.area) else { return };
        let is_new = generation.state == State::Writing && generation.alone == Some(handle);
        if open.process == process && is_new && !others {
            let (path, emptied) = (generation.path.clone(), generation.emptied);
            self.discard(open.area);
            if let Some(name) = self.names.get_mut(&path) {
                name.emptied |= emptied;
            }
        }
    }

    /// Nobody can write to a generation any more; `changed` is false if it is still the copy as
    /// which it began, and therefore none of its own.
    pub fn commit(&mut self, area: Area, changed: bool) {
        let Some(generation) = self.generations.get_mut(&area) else { return };
        if generation.state == State::Complete {
            return;
        }
        if generation.is_for_nobody || !changed {
            self.discard(area);
            return;
        }
        generation.state = State::Complete;
        self.sites.remove(&area);
        generation.copy_of = None;
        let path = generation.path.clone();
        self.want_stored(area);
        self.give_up(&path);
    }

    /// The state of a generation so far may be read.
    pub fn publish(&mut self, process: Process, handle: Handle) {
        let Some(open) = self.opens.get(&handle).filter(|open| open.process == process) else {
            return;
        };
        if let Some(generation) = self.generations.get_mut(&open.area).filter(|_| open.write) {
            generation.published = true;
        }
    }

    /// A process has written to what it has open; false if it has no such open.
    pub fn wrote(&mut self, process: Process, handle: Handle) -> bool {
        let open = self.opens.get(&handle).filter(|open| open.process == process && open.write);
        let generation = open.and_then(|open| self.generations.get_mut(&open.area));
        generation.map(|generation| generation.written = true).is_some()
    }

    /// A generation that is not complete is no more.
    pub(super) fn discard(&mut self, area: Area) {
        let Some(generation) = self.generations.remove(&area) else { return };
        if let Some(name) = self.names.get_mut(&generation.path) {
            name.generations.remove(&generation.number);
        }
        self.sites.remove(&area);
        self.effects.push(Effect::Free(area));
        self.touch(&generation.path);
        self.tidy(&generation.path);
    }

    /// A process has ended. What it wrote is complete if it ended `orderly`; if not, what it had
    /// open for writing since the last commit will never be.
    pub fn end(&mut self, process: Process, orderly: bool) {
        self.lost.retain(|_, (whose, ..)| *whose != process);
        self.waits.retain(|_, (waiting, _)| *waiting != process);
        if !orderly {
            self.abort_written_by(process);
        }
        let opens = self.opens.values().filter(|open| open.process == process);
        let opens: BTreeSet<Area> = opens.map(|open| open.area).collect();
        // What it had closed may have been kept from being complete until now.
        let written = self.written_by(process);
        let areas: BTreeSet<Area> = opens.into_iter().chain(written).collect();
        self.opens.retain(|_, open| open.process != process);
        self.effects.extend(areas.into_iter().map(Effect::Look));
        self.nodes.remove(&process);
        let Some(who) = self.processes.remove(&process) else { return };
        self.end_aborted(who.job);
        let paths: Vec<Path> = self.names.keys().cloned().collect();
        for path in paths {
            let Some(name) = self.names.get_mut(&path) else { continue };
            if let Some(reader) = name.readers.get_mut(&who.job)
                && let Some(position) = reader.processes.remove(&process)
            {
                let finished = match orderly && position.seen {
                    true => position.at,
                    false => position.finished,
                };
                let ended = name.ended.entry(who.family).or_default();
                *ended = finished.max(*ended);
                self.finish(&path, finished, who.job);
            }
            self.give_up(&path);
            self.tidy(&path);
        }
    }

    /// A reader has ended that was done with generations up to `number`.
    fn finish(&mut self, path: &[u8], number: u64, job: u64) {
        let Some(name) = self.names.get_mut(path) else { return };
        if name.readers.get(&job).is_some_and(|reader| reader.processes.is_empty()) {
            name.readers.remove(&job);
        }
        for area in name.generations.range(..=number).map(|(_, area)| area) {
            if let Some(generation) = self.generations.get_mut(area) {
                generation.read = true;
            }
        }
    }

    /// Discards the generations that a process was writing when it died.
    fn abort_written_by(&mut self, process: Process) {
        for area in self.written_by(process) {
            self.abort(area, process);
        }
        self.abort_next(process);
    }

    /// A generation is discarded because one of its writers died, or cannot reach the others.
    fn abort(&mut self, area: Area, process: Process) {
        let writer = self.processes.get(&process).map(|who| who.label.clone());
        self.opens.retain(|_, open| open.area != area || open.process != process);
        self.declare_dead(area, writer.unwrap_or_default());
    }

    /// A generation will never be complete because of `writer`, of whom readers are told.
    pub(super) fn declare_dead(&mut self, area: Area, writer: String) {
        let Some(generation) = self.generations.get(&area) else { return };
        let (path, number) = (String::from_utf8_lossy(&generation.path), generation.number);
        let text = format!("{path}: {writer} died before generation {number} was complete");
        self.give_area_up(area, writer, (libc::EIO, text));
    }

    /// Gives a generation up whose `writer` died; other writers get the error `told`.
    pub(super) fn give_area_up(&mut self, area: Area, writer: String, told: (i32, String)) {
        let Some(generation) = self.generations.get(&area) else { return };
        let (number, path) = (generation.number, generation.path.clone());
        let unlinked = generation.unlinked;
        self.lose_writers(area, &told);
        self.discard(area);
        let name = self.names.entry(path).or_default();
        name.last = name.last.max(number);
        if !unlinked {
            let readers = name.readers.values().flat_map(|reader| &reader.processes);
            let reads = |at: &Position| at.at == number && at.finished < number;
            let untold = readers.filter(|(_, at)| reads(at)).map(|(process, _)| *process);
            name.dead = Some(Dead { number, writer, area, untold: untold.collect() });
        }
    }

    /// Closes what `handle` is open to write, which will not be complete: its process cannot reach
    /// others that write it. False if the process has nothing open so.
    pub fn spoil(&mut self, process: Process, handle: Handle) -> bool {
        let open = self.opens.get(&handle).copied();
        let Some(open) = open.filter(|open| open.process == process && open.write) else {
            return false;
        };
        let state = self.generations.get(&open.area).map(|generation| generation.state);
        match state {
            Some(State::Writing) => self.abort(open.area, process),
            _ => self.close(process, handle, 0, false),
        }
        true
    }

    /// A child of a process ended before it could say who it is. What it had inherited, a
    /// generation that the process has open for writing by `handle`, is discarded. False if the
    /// process has nothing open so.
    pub fn lose_child(&mut self, process: Process, handle: Handle) -> bool {
        let open = self.opens.get(&handle).copied();
        let Some(open) = open.filter(|open| open.process == process && open.write) else {
            return false;
        };
        let generation = self.generations.get(&open.area);
        if generation.is_some_and(|generation| generation.state == State::Writing) {
            let parent = self.processes.get(&process).map_or("", |who| &who.label);
            self.declare_dead(open.area, format!("a child of {parent}"));
        }
        true
    }

    /// Returns the generations that are being written and that a process had open for writing.
    fn written_by(&self, process: Process) -> Vec<Area> {
        let is_it =
            |one: &Generation| one.state == State::Writing && one.writers.contains(&process);
        self.generations.iter().filter(|(_, one)| is_it(one)).map(|(area, _)| *area).collect()
    }

    /// Notes the loss for other processes that have a discarded generation open for writing; they
    /// get the error when they close it.
    fn lose_writers(&mut self, area: Area, (number, text): &(i32, String)) {
        let losers = self.opens.iter().filter(|(_, open)| open.area == area && open.write);
        self.lost
            .extend(losers.map(|(handle, open)| (*handle, (open.process, *number, text.clone()))));
        self.opens.retain(|_, open| open.area != area || !open.write);
    }

    /// The error of an open for writing whose generation died with another writer, or because
    /// what was written could not be kept, and what is to be said of it.
    pub fn loss(&self, handle: Handle) -> Option<(i32, &str)> {
        self.lost.get(&handle).map(|(_, number, text)| (*number, &**text))
    }

    /// Between two generations, the one that a program that died would have made next is lost:
    /// whoever waits for it would wait for ever.
    fn abort_next(&mut self, process: Process) {
        let Some(who) = self.processes.get(&process) else { return };
        if self.processes.values().filter(|other| other.job == who.job).count() > 1 {
            return;
        }
        for (path, name) in &mut self.names {
            let is_written = |one: &Generation| one.path == *path && one.state == State::Writing;
            let is_told = name.dead.as_ref().is_some_and(|dead| dead.number == name.last);
            if name.writer == Some(who.job)
                && !is_told
                && !self.generations.values().any(is_written)
            {
                name.last += 1;
                name.dead = Some(Dead::unread(name.last, who.label.clone()));
            }
        }
    }

    /// Returns the writer whose death an answer of `EIO` reports.
    pub fn dead_writer(&self, path: &[u8], answer: &Answer) -> Option<&Dead> {
        let told = matches!(answer, Answer::Fail(libc::EIO) | Answer::OnDisk);
        self.names.get(path)?.dead.as_ref().filter(|_| told)
    }

    /// Nobody has to learn any more that writers died.
    pub fn forget_the_dead(&mut self) {
        self.names.values_mut().for_each(|name| name.dead = None);
        let paths: Vec<Path> = self.names.keys().cloned().collect();
        paths.iter().for_each(|path| self.tidy(path));
    }

    /// Forgets a name of which nothing is left but numbers.
    fn tidy(&mut self, path: &[u8]) {
        let Some(name) = self.names.get(path) else { return };
        let is_left = name.generations.is_empty() && name.readers.is_empty();
        if is_left && name.dead.is_none() && self.processes.is_empty() {
            self.names.remove(path);
        }
    }
}
