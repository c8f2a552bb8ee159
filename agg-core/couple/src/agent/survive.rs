//! Generations that survive this agent: its records of them, and those that it finds of an earlier
//! one.

mod recorder;
mod recover;

use super::clients::Clients;
use crate::areas::Areas;
use crate::registry::{Area, Directory, Path, Registry};
use crate::spool::Spool;
use aggio_base::host;
use aggio_base::log;
use aggio_base::log::Level;
use recorder::Recorder;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;

/// The directories of rules with generations that survive, and their contents.
#[derive(Debug)]
pub(super) struct Survivors {
    spools: BTreeMap<Directory, Spool>,
    /// Generations with bytes in one of them.
    areas: BTreeMap<Area, Directory>,
    /// Those with bytes that have their name.
    named: BTreeSet<Area>,
    /// Files with a record, and its number.
    records: BTreeMap<Path, (Directory, u64)>,
    /// Files with a record that could not be written, and the number of the error.
    unsaved: BTreeMap<Path, i32>,
    boot: String,
}

impl Default for Survivors {
    fn default() -> Self {
        let (spools, areas, records) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (named, unsaved) = (BTreeSet::new(), BTreeMap::new());
        Self { spools, areas, named, records, unsaved, boot: host::boot() }
    }
}

impl Survivors {
    /// A file for a generation that is to survive; `None` if it is not to.
    ///
    /// # Errors
    /// The error of the system.
    pub(super) fn file(&mut self, area: Area, registry: &Registry) -> io::Result<Option<OwnedFd>> {
        let options = registry.files.options_of(area).filter(|options| options.survives);
        let Some(directory) = options.and_then(|options| options.spill.clone()) else {
            return Ok(None);
        };
        let Some(spool) = self.spools.get(&directory) else { return Ok(None) };
        let file = spool.file()?;
        self.areas.insert(area, directory);
        Ok(Some(file))
    }

    /// The directory that has a generation which survives.
    pub(super) fn directory(&self, area: Area) -> Option<&str> {
        self.areas.get(&area).map(|directory| &**directory)
    }

    /// A generation is complete: from now on it survives.
    ///
    /// # Errors
    /// Its record, or its name, could not be written. It is complete all the same, and
    /// lost if this agent dies.
    pub(super) fn keep(
        &mut self,
        area: Area,
        registry: &mut Registry,
        areas: &Areas,
        clients: &Clients,
    ) -> io::Result<()> {
        let Some(directory) = self.areas.get(&area).cloned() else { return Ok(()) };
        let Some(generation) = registry.files.generations.get(&area) else { return Ok(()) };
        let (path, number) = (generation.path.clone(), generation.number);
        registry.files.names.touch(&path);
        self.save(registry, areas, clients);
        self.name(&path, area, &directory, areas).inspect_err(|error| {
            let path = String::from_utf8_lossy(&path);
            let text = format!("{path}: generation {number} does not survive this agent");
            log!(Level::Error, "agent: {text}: {directory}: {error}");
        })?;
        // That it has its name is written before its writer is told.
        self.named.insert(area);
        registry.files.names.touch(&path);
        Ok(())
    }

    fn name(&self, path: &Path, area: Area, at: &Directory, areas: &Areas) -> io::Result<()> {
        if let Some(number) = self.unsaved.get(path) {
            return Err(io::Error::from_raw_os_error(*number));
        }
        let file = areas.open(area, true, false, false)?;
        self.spools.get(at).map_or(Ok(()), |spool| spool.keep(area, &file))
    }

    /// A generation is given up.
    pub(super) fn give_up(&mut self, area: Area) {
        self.named.remove(&area);
        let Some(directory) = self.areas.remove(&area) else { return };
        let Some(spool) = self.spools.get(&directory) else { return };
        if let Err(error) = spool.give_up(area) {
            log!(Level::Error, "agent: {}: a file is left: {error}", spool.path());
        }
    }

    /// Writes the changed records of files with generations that survive.
    pub(super) fn save(&mut self, registry: &mut Registry, areas: &Areas, clients: &Clients) {
        for path in registry.files.names.touched() {
            let name = registry.files.names.get(&path).filter(|name| name.options.survives);
            let directory = name.and_then(|name| name.options.spill.clone());
            let known = self.records.get(&path).cloned();
            let result = match (directory.filter(|one| self.spools.contains_key(one)), known) {
                (Some(directory), known) => {
                    let number =
                        known.map_or_else(|| registry.numbers.next(), |(_, number)| number);
                    self.records.insert(path.clone(), (directory.clone(), number));
                    let recorder = Recorder { survivors: self, registry, areas, clients };
                    let record = recorder.record(&path);
                    let spool = self.spools.get(&directory).zip(record);
                    spool.map_or(Ok(()), |(spool, record)| spool.write(number, &record))
                }
                (None, Some((directory, number))) => {
                    self.records.remove(&path);
                    self.spools.get(&directory).map_or(Ok(()), |spool| spool.forget(number))
                }
                (None, None) => Ok(()),
            };
            let Err(error) = result else {
                self.unsaved.remove(&path);
                continue;
            };
            let text = String::from_utf8_lossy(&path).into_owned();
            let number = error.raw_os_error().unwrap_or(libc::EIO);
            // It is tried again whenever something happens.
            registry.files.names.touch(&path);
            if self.unsaved.insert(path, number).is_none() {
                let what = "what is known of it does not survive this agent for now";
                log!(Level::Error, "agent: {text}: {what}: {error}");
            }
        }
    }

    /// The agent ends: nothing is left that nobody can come for. Generations that were not given
    /// up are left for another agent, unless this one was told to `quit`.
    pub(super) fn leave(&mut self, quit: bool) {
        if quit {
            let all: Vec<Area> = self.areas.keys().copied().collect();
            all.into_iter().for_each(|area| self.give_up(area));
        }
        let left: BTreeSet<&Directory> = self.areas.values().collect();
        for (directory, number) in std::mem::take(&mut self.records).into_values() {
            if let Some(spool) = self.spools.get(&directory).filter(|_| !left.contains(&directory))
            {
                let _ = spool.forget(number);
            }
        }
        let spools = std::mem::take(&mut self.spools).into_iter();
        let empty = spools.filter(|(directory, _)| !left.contains(directory));
        empty.for_each(|(_, spool)| spool.close());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;
    use crate::registry::{Answer, Ask, Options, Who};
    use crate::spares::Spare;
    use crate::tests::apart;

    /// The knowledge of one agent.
    #[derive(Default)]
    struct Known {
        survivors: Survivors,
        registry: Registry,
        clients: Clients,
    }

    impl Known {
        /// All that is in `directory`.
        fn find(directory: &Directory, place: &Place, areas: &mut Areas) -> Self {
            let mut known = Self::default();
            let Self { survivors, registry, clients } = &mut known;
            assert!(survivors.find(directory, place, registry, areas, clients).unwrap());
            known
        }

        /// A complete generation of `path`.
        fn make(&mut self, path: &str, directory: &Directory, areas: &mut Areas) -> Area {
            let job = self.clients.jobs.of("writer");
            self.registry.join(1, Who { job, ranks: 1, family: job, label: "writer".into() });
            let spill = Some(directory.clone());
            let options = Options { survives: true, spill, ..Options::default() };
            let [write, create, truncate] = [true; 3];
            let path = path.as_bytes().to_vec();
            let ask = Ask { path, write, create, truncate, options, ..Ask::default() };
            let Answer::Opened(opening) = self.registry.open(1, &ask) else { panic!() };
            let file = self.survivors.file(opening.area, &self.registry).unwrap().unwrap();
            areas.make_of(Some(Spare::from(file)), opening.area, 0o600, None).unwrap();
            self.registry.close(1, opening.handle, 0, false);
            self.registry.commit(opening.area, true);
            let (survivors, clients) = (&mut self.survivors, &self.clients);
            survivors.keep(opening.area, &mut self.registry, areas, clients).unwrap();
            survivors.save(&mut self.registry, areas, clients);
            opening.area
        }
    }

    #[test]
    fn another_agent_finds_what_was_kept_and_nothing_of_what_was_given_up() {
        apart::begin();
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
        std::fs::create_dir(at("kept")).unwrap();
        let (place, directory) = (Place::open(&at("place")).unwrap(), Directory::from(at("kept")));
        let (mut areas, mut again) = (Areas::new().unwrap(), Areas::new().unwrap());
        let mut first = Known::find(&directory, &place, &mut areas);
        let kept = first.make("/d/kept", &directory, &mut areas);
        let gone = first.make("/d/gone", &directory, &mut areas);
        first.survivors.give_up(gone);
        first.survivors.leave(false);
        drop(first);
        let mut second = Known::find(&directory, &place, &mut again);
        assert_eq!(second.registry.files.generations.keys().collect::<Vec<_>>(), [&kept]);
        assert_eq!(second.survivors.directory(kept), Some(&*directory));
        assert_eq!(second.survivors.directory(gone), None);
        second.survivors.leave(true);
        assert_eq!(std::fs::read_dir(at("kept")).unwrap().count(), 0);
    }
}
