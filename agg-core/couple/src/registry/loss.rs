//! Generations that are lost, because a writer has died or bytes could not be kept.

use super::Registry;
use super::types::{Area, Handle, Process};

impl Registry {
    /// A generation will never be complete, because `writer` has died, of whom readers are told, or
    /// for another reason: an error number and a text. Other writers get the error.
    pub(super) fn lose(&mut self, area: Area, writer: Option<String>, why: Option<(i32, &str)>) {
        let Some(generation) = self.files.generations.get(&area) else { return };
        let (number, path) = (generation.number, generation.path.clone());
        let unlinked = generation.unlinked;
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
        if !unlinked {
            name.lose(number, writer, area);
        }
    }

    /// The bytes of a generation that nobody has open any more will never come.
    pub fn fail(&mut self, area: Area) {
        self.lose(area, None, None);
    }

    /// Gives a generation up because bytes of it could not be stored. All that have it open for
    /// writing get this error.
    pub fn spoil_area(&mut self, area: Area, number: i32, why: &str) {
        self.lose(area, None, Some((number, why)));
    }

    /// Gives a generation up because one of its writers died, or cannot reach the others.
    fn lose_by(&mut self, area: Area, process: Process) {
        self.opens.forget(process, area);
        self.lose(area, Some(self.processes.name(process)), None);
    }

    /// Closes the generation that `handle` is open to write, which will not be complete: its
    /// process cannot reach others that write it. False if the process has nothing open so.
    pub fn spoil(&mut self, process: Process, handle: Handle) -> bool {
        let Some(area) = self.opens.written(process, handle) else { return false };
        match self.files.generations.get(&area) {
            Some(generation) if !generation.is_complete() => self.lose_by(area, process),
            _ => self.close(process, handle, 0, false),
        }
        true
    }

    /// A child of a process ended before it could say its name. The generation that it had
    /// inherited, which the process has open for writing by `handle`, is given up. False if the
    /// process has nothing open so.
    pub fn lose_child(&mut self, process: Process, handle: Handle) -> bool {
        let Some(area) = self.opens.written(process, handle) else { return false };
        if self.files.generations.get(&area).is_some_and(|one| !one.is_complete()) {
            let parent = self.processes.name(process);
            self.lose(area, Some(format!("a child of {parent}")), None);
        }
        true
    }

    /// A process has died: so have the generations that it was writing, and the one that its
    /// program would have made next.
    pub(super) fn abort(&mut self, process: Process) {
        for area in self.files.generations.written_by(process) {
            self.lose_by(area, process);
        }
        let Some(who) = self.processes.get(&process) else { return };
        if self.processes.count(who.job) == 1 {
            self.files.lose_next(who.job, &who.label);
        }
    }

    /// A process learns that the generation that it wrote by `handle` is lost.
    pub(crate) fn report_aborted(&mut self, process: Process, handle: Handle) {
        self.files.names.report_aborted(&self.processes.caller(process), handle);
    }

    /// An earlier agent has died, and programs with it: readers learn of their losses.
    pub(crate) fn end_aborted(&mut self) {
        self.files.names.end_aborted(|job| self.processes.count(job) == 0);
    }
}
