//! Ends of opens, of generations that are lost, and of processes.

use super::{Area, Effect, Handle, Path, Process, Registry};
use std::collections::BTreeSet;

/// Fewer bytes than this are a look at the beginning of a file, not a use of it. netCDF looks at
/// 1,024.
const LOOK: u64 = 2048;

impl Registry {
    /// A process has closed `handle` after reading `moved` bytes, which were the whole file if
    /// `whole`.
    pub(crate) fn close(&mut self, process: Process, handle: Handle, moved: u64, whole: bool) {
        let Some(open) = self.opens.close(process, handle) else { return };
        let Some(generation) = self.files.generations.get_mut(&open.area) else { return };
        generation.close(handle);
        let path = generation.path.clone();
        if open.reads_on {
            let seen = !open.is_part && (moved >= LOOK || whole);
            self.files.stop_reading(&path, process, open.job, seen);
        }
        self.files.effects.push(Effect::Look(open.area));
        self.give_up(&path);
    }

    /// A process that still has `handle` has read `moved` bytes, which were the whole file if
    /// `whole`: its program has not only looked, whichever of its processes opens the file next.
    pub(crate) fn see(&mut self, process: Process, handle: Handle, moved: u64, whole: bool) {
        let open = self.opens.of(process, handle).filter(|open| open.reads_on && !open.is_part);
        let Some(open) = open.filter(|_| moved >= LOOK || whole) else { return };
        let Some(generation) = self.files.generations.get(&open.area) else { return };
        if let Some(name) = self.files.names.get_mut(&generation.path) {
            name.see(process, open.job, generation.number);
        }
    }

    /// An open that could not be carried out is taken back.
    pub(crate) fn withdraw(&mut self, process: Process, handle: Handle) {
        let Some(open) = self.opens.of(process, handle) else { return };
        self.close(process, handle, 0, false);
        let Some(generation) = self.files.generations.get(&open.area) else { return };
        let is_new = !generation.is_complete() && generation.writers.alone == Some(handle);
        if !is_new || generation.is_open() {
            return;
        }
        let (path, emptied) = (generation.path.clone(), generation.emptied);
        self.discard(open.area);
        if let Some(name) = self.files.names.get_mut(&path) {
            name.emptied |= emptied;
        }
    }

    /// Nobody can write to a generation any more; `changed` is false if it is still the copy as
    /// which it began, and therefore none of its own.
    pub(crate) fn commit(&mut self, area: Area, changed: bool) {
        let generation = self.files.generations.get_mut(&area);
        let Some(generation) = generation.filter(|one| !one.is_complete()) else { return };
        if generation.is_for_nobody || !changed {
            return self.discard(area);
        }
        generation.complete();
        let path = generation.path.clone();
        self.files.want_stored(area);
        self.give_up(&path);
    }

    /// The state of a generation so far may be read.
    pub(crate) fn publish(&mut self, process: Process, handle: Handle) {
        let area = self.opens.written(process, handle);
        if let Some(generation) = area.and_then(|area| self.files.generations.get_mut(&area)) {
            generation.early.published = true;
        }
    }

    /// A process has written to a generation; false if it has no such open.
    pub(crate) fn wrote(&mut self, process: Process, handle: Handle) -> bool {
        let area = self.opens.written(process, handle);
        let generation = area.and_then(|area| self.files.generations.get_mut(&area));
        generation.map(|generation| generation.writers.written = true).is_some()
    }

    /// A process has ended. Generations that it wrote are complete if it ended `orderly`; if not,
    /// those that it had open for writing since the last commit will never be.
    pub(crate) fn end(&mut self, process: Process, orderly: bool) {
        self.waits.end(process);
        let opens = self.opens.end(process);
        for (handle, open) in &opens {
            if let Some(generation) = self.files.generations.get_mut(&open.area) {
                generation.close(*handle);
            }
        }
        if !orderly {
            self.abort(process);
        }
        // Generations that it had closed may have been kept from being complete until now.
        let written = self.files.generations.written_by(process);
        let areas = opens.iter().map(|(_, open)| open.area).chain(written);
        let areas: BTreeSet<Area> =
            areas.filter(|area| self.files.generations.contains_key(area)).collect();
        self.files.effects.extend(areas.into_iter().map(Effect::Look));
        let Some(who) = self.processes.end(process) else { return };
        let has_ended = self.processes.count(who.job) == 0;
        self.files.names.end_aborted(|job| has_ended && job == who.job);
        let paths: Vec<Path> = self.files.names.keys().cloned().collect();
        for path in paths {
            let name = self.files.names.get_mut(&path);
            if let Some(finished) = name.and_then(|name| name.end(process, &who, orderly)) {
                self.files.mark_read(&path, 0..finished + 1, None);
            }
            self.give_up(&path);
            self.files.names.tidy(&path, &self.processes);
        }
    }

    /// A generation that is not complete is no more.
    fn discard(&mut self, area: Area) {
        if let Some(generation) = self.files.remove(area) {
            self.files.names.tidy(&generation.path, &self.processes);
        }
    }

    /// A generation will never be complete, because `writer` has died, as readers are told, or for
    /// another reason: an error number and a text. Other writers get the error.
    pub(super) fn lose(&mut self, area: Area, writer: Option<String>, why: Option<(i32, &str)>) {
        let Some(generation) = self.files.generations.get(&area) else { return };
        let (number, path) = (generation.number, generation.path.clone());
        let is_for_nobody = generation.is_for_nobody;
        let is_open = |process: &&Process| self.opens.writes(**process, area);
        let closed = generation.writers.processes.iter().filter(|one| !is_open(one)).copied();
        let closed: BTreeSet<Process> = closed.collect();
        let writer = writer.unwrap_or_else(|| generation.writers.maker.clone());
        let shown = String::from_utf8_lossy(&path);
        let (error, text) = match why {
            Some((error, why)) => (error, format!("{shown}: generation {number} is lost: {why}")),
            None => {
                let text = format!("{writer} died before generation {number} was complete");
                (libc::EIO, format!("{shown}: {text}"))
            }
        };
        self.opens.lose_writers(area, error, &text);
        self.discard(area);
        let name = self.files.names.entry(path).or_default();
        name.last = name.last.max(number);
        if !is_for_nobody {
            name.lose((number, area), writer, closed);
        }
    }

    /// The bytes of a generation will never come, or could not be stored: an error number and a
    /// text. All that have it open for writing get an error.
    pub(crate) fn fail(&mut self, area: Area, why: Option<(i32, &str)>) {
        self.lose(area, None, why);
    }

    /// Closes the generation that `handle` is open to write, which will not be complete: its
    /// process cannot reach others that write it. False if the process has nothing open so.
    pub(crate) fn spoil(&mut self, process: Process, handle: Handle) -> bool {
        let Some(area) = self.opens.written(process, handle) else { return false };
        match self.files.generations.get(&area) {
            Some(generation) if !generation.is_complete() => {
                self.opens.take(|open| open.area == area && open.process == process);
                self.lose(area, Some(self.processes.name(process)), None);
                self.files.names.has_told_of_death(process, area);
            }
            _ => self.close(process, handle, 0, false),
        }
        true
    }

    /// A child of a process ended before it could say its name. The generation that it had
    /// inherited, which the process has open for writing by `handle`, is given up. False if the
    /// process has nothing open so.
    pub(crate) fn lose_child(&mut self, process: Process, handle: Handle) -> bool {
        let Some(area) = self.opens.written(process, handle) else { return false };
        if self.files.generations.get(&area).is_some_and(|one| !one.is_complete()) {
            let parent = self.processes.name(process);
            self.lose(area, Some(format!("a child of {parent}")), None);
        }
        true
    }

    /// A process has died: so have the generations that it was writing, and the one that its
    /// program would have made next.
    fn abort(&mut self, process: Process) {
        // The newest first: others must not seem to follow those before.
        let written = self.files.generations.written_by(process);
        for area in written.into_iter().rev() {
            self.lose(area, Some(self.processes.name(process)), None);
        }
        let who = self.processes.get(&process);
        if let Some(who) = who.filter(|who| self.processes.count(who.job) == 1) {
            self.files.lose_next(who.job, &who.label);
        }
    }

    /// A process learns that the generation that it wrote by `handle` is lost.
    pub(crate) fn report_aborted(&mut self, process: Process, handle: Handle) {
        self.files.names.report_aborted(&self.processes.caller(process), handle);
    }
}
