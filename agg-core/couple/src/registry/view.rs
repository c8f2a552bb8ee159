//! Opens that look at a file for people, and that no writer and no reader waits for.

use super::{Answer, Area, Ask, Path, Process, Registry, State};

impl Registry {
    /// Opens the newest generation that may be read. It stays until it is closed, as any open
    /// generation; whoever is to read it still finds it, and nobody learns that it was looked at.
    pub(super) fn view(&mut self, process: Process, ask: &Ask) -> Answer {
        let Some(area) = self.newest_readable(process, &ask.path) else {
            return Answer::Fail(libc::ENOENT);
        };
        let known = self.names.get(&ask.path).map(|name| &name.options);
        let options = known.unwrap_or(&ask.options).clone();
        let ask = Ask { options, ..ask.clone() };
        Answer::Opened(self.opened(process, area, &ask, false))
    }

    /// Names below the directory `dir`, without it, of which [`view`](Self::view) opens something.
    pub(crate) fn list_viewed(&self, process: Process, dir: &[u8]) -> Vec<Path> {
        self.names_in(dir, |path, _| self.newest_readable(process, path).is_some())
    }

    /// Whether a process has nothing open, and has neither read nor written what is there.
    pub(crate) fn has_no_part(&self, process: Process) -> bool {
        let opens = self.opens.values().any(|open| open.process == process);
        let writes = self.generations.values().any(|one| one.writers.contains(&process));
        let mut readers = self.names.values().flat_map(|name| name.readers.values());
        !opens && !writes && !readers.any(|reader| reader.processes.contains_key(&process))
    }

    fn newest_readable(&self, process: Process, path: &[u8]) -> Option<Area> {
        let areas = self.names.get(path)?.generations.values();
        areas.copied().rev().find(|area| {
            let generation = &self.generations[area];
            // What is still written cannot be copied to another node.
            let is_shown = generation.published && !self.is_elsewhere(process, *area);
            !generation.unlinked && (generation.state == State::Complete || is_shown)
        })
    }
}
