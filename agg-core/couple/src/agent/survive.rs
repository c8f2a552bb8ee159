//! Generations that survive this agent: what it writes of them, and what it finds of an earlier
//! one.

mod recover;

use super::Agent;
use crate::registry::{
    Area, Directory, Handle, Job, Name, Open, Path, Position, Process, State, Stored, Who,
};
use crate::spool::{Held, Kept, ProcessRecord, Record, Spool, Written};
use aggio_base::host;
use aggio_base::log;
use aggio_base::log::Level;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// The directories of rules whose generations survive, and what is in them.
#[derive(Debug)]
pub(super) struct Spools {
    open: BTreeMap<Directory, Spool>,
    /// Generations whose bytes are in one of them.
    areas: BTreeMap<Area, Directory>,
    /// Those whose bytes have their name.
    named: BTreeSet<Area>,
    /// Files of which there is a record, and its number.
    records: BTreeMap<Path, (Directory, u64)>,
    /// Files whose record could not be written, and the number of the error.
    unsaved: BTreeMap<Path, i32>,
    boot: String,
}

impl Default for Spools {
    fn default() -> Self {
        let (open, areas, records) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (named, unsaved) = (BTreeSet::new(), BTreeMap::new());
        Self { open, areas, named, records, unsaved, boot: host::boot() }
    }
}

impl Agent {
    /// A file for a generation that is to survive; `None` if it is not to.
    pub(super) fn surviving_file(
        &mut self,
        area: Area,
    ) -> io::Result<Option<std::os::fd::OwnedFd>> {
        let generation = self.registry.generations.get(&area);
        let name = generation.and_then(|one| self.registry.names.get(&one.path));
        let options = name.map(|name| name.options.clone()).unwrap_or_default();
        let Some(directory) = options.spill.as_ref().filter(|_| options.survives) else {
            return Ok(None);
        };
        self.find_survivors(&options)?;
        let Some(spool) = self.spools.open.get(directory) else { return Ok(None) };
        let file = spool.file()?;
        self.spools.areas.insert(area, directory.clone());
        Ok(Some(file))
    }

    /// A generation is complete: from now on it survives.
    ///
    /// # Errors
    /// What is known of it, or its name, could not be written. It is complete all the same, and
    /// lost if this agent dies.
    pub(super) fn keep(&mut self, area: Area) -> io::Result<()> {
        let Some(directory) = self.spools.areas.get(&area).cloned() else { return Ok(()) };
        let Some(generation) = self.registry.generations.get(&area) else { return Ok(()) };
        let (path, number) = (generation.path.clone(), generation.number);
        self.registry.touch(&path);
        self.save();
        self.name(&path, area, &directory).inspect_err(|error| {
            let path = String::from_utf8_lossy(&path);
            let text = format!("{path}: generation {number} does not survive this agent");
            log!(Level::Error, "agent: {text}: {directory}: {error}");
        })?;
        // That it has its name is written before its writer is told.
        self.spools.named.insert(area);
        self.registry.touch(&path);
        Ok(())
    }

    fn name(&self, path: &Path, area: Area, directory: &Directory) -> io::Result<()> {
        if let Some(number) = self.spools.unsaved.get(path) {
            return Err(io::Error::from_raw_os_error(*number));
        }
        let file = self.areas.open(area, true, false, false)?;
        self.spools.open.get(directory).map_or(Ok(()), |spool| spool.keep(area, &file))
    }

    /// Something has changed that is known of a process which may write.
    pub(super) fn touch_written_by(&mut self, process: Process) {
        let Some(job) = self.registry.processes.get(&process).map(|who| who.job) else { return };
        let all = self.registry.names.iter().filter(|(_, name)| name.writer == Some(job));
        let paths: Vec<Path> = all.map(|(path, _)| path.clone()).collect();
        paths.iter().for_each(|path| self.registry.touch(path));
    }

    /// The directory that has a generation which survives.
    pub(super) fn spool_of(&self, area: Area) -> Option<&str> {
        self.spools.areas.get(&area).map(|directory| &**directory)
    }

    /// A generation is given up.
    pub(super) fn give_up_kept(&mut self, area: Area) {
        self.spools.named.remove(&area);
        let Some(directory) = self.spools.areas.remove(&area) else { return };
        let Some(spool) = self.spools.open.get(&directory) else { return };
        if let Err(error) = spool.give_up(area) {
            log!(Level::Error, "agent: {}: a file is left: {error}", spool.path());
        }
    }

    /// Writes what has changed of files whose generations survive.
    pub(super) fn save(&mut self) {
        for path in self.registry.touched() {
            let name = self.registry.names.get(&path).filter(|name| name.options.survives);
            let directory = name.and_then(|name| name.options.spill.clone());
            let spool =
                directory.and_then(|one| self.spools.open.contains_key(&one).then_some(one));
            let result = match (spool, self.spools.records.get(&path).cloned()) {
                (Some(directory), known) => self.write_record(&path, directory, known),
                (None, Some((directory, number))) => {
                    self.spools.records.remove(&path);
                    self.spools.open.get(&directory).map_or(Ok(()), |spool| spool.forget(number))
                }
                (None, None) => Ok(()),
            };
            let Err(error) = result else {
                self.spools.unsaved.remove(&path);
                continue;
            };
            let text = String::from_utf8_lossy(&path).into_owned();
            let number = error.raw_os_error().unwrap_or(libc::EIO);
            // It is tried again whenever something happens.
            self.registry.touch(&path);
            if self.spools.unsaved.insert(path, number).is_none() {
                let what = "what is known of it does not survive this agent for now";
                log!(Level::Error, "agent: {text}: {what}: {error}");
            }
        }
    }

    fn write_record(
        &mut self,
        path: &Path,
        directory: Directory,
        known: Option<(Directory, u64)>,
    ) -> io::Result<()> {
        let number = match known {
            Some((_, number)) => number,
            None => {
                let number = self.registry.next_number_of_all();
                self.registry.count_behind(number);
                number
            }
        };
        let Some(record) = self.record(path) else { return Ok(()) };
        self.spools.records.insert(path.clone(), (directory.clone(), number));
        self.spools.open.get(&directory).map_or(Ok(()), |spool| spool.write(number, &record))
    }

    fn record(&self, path: &Path) -> Option<Record> {
        let name = self.registry.names.get(path)?;
        let texts = |numbers: &BTreeMap<u64, u64>| {
            let texts = numbers.iter();
            texts.map(|(text, number)| (self.jobs.text(*text).to_owned(), *number)).collect()
        };
        let generations = name.generations.values().filter_map(|area| self.kept(*area));
        let readers = name.readers.values().flat_map(|reader| {
            let processes = reader.processes.iter();
            processes
                .filter_map(|(process, position)| self.process_record(path, *process, *position))
        });
        let is_orderly = |process| self.clients.get(&process).is_none_or(|one| one.orderly);
        let generations_of = |job| {
            let mut all = name.generations.values();
            all.any(|area| {
                let one = self.registry.generations.get(area);
                one.is_some_and(|one| one.state == State::Writing && one.jobs.contains(&job))
            })
        };
        let is_writer = |process, who: &Who| {
            let writes = name.writer == Some(who.job) || generations_of(who.job);
            writes && !is_orderly(process)
        };
        let writers = self.registry.processes.iter();
        let writers = writers.filter(|(process, who)| is_writer(**process, who));
        let writers = writers
            .filter_map(|(process, _)| self.process_record(path, *process, Position::default()));
        Some(Record {
            boot: self.spools.boot.clone(),
            path: path.clone(),
            options: name.options.clone(),
            numbers: [name.last, name.lost, name.on_disk, name.dropped, name.unreported],
            emptied: name.emptied,
            dead: name.dead.as_ref().map(|dead| (dead.number, dead.writer.clone())),
            writer: name.writer.map(|job| self.jobs.text(job).to_owned()),
            ended: texts(&name.ended),
            removed: texts(&name.removed),
            generations: generations.collect(),
            readers: readers.collect(),
            writers: writers.collect(),
            aborted: self.aborted(name),
        })
    }

    /// What programs lose if this agent dies, or have lost before.
    fn aborted(&self, name: &Name) -> Vec<Written> {
        let text = |job: &Job| self.jobs.text(*job).to_owned();
        let before = name.aborted.iter().map(|(job, aborted)| Written {
            job: text(job),
            number: aborted.number,
            maker: aborted.maker.clone(),
            opens: aborted.opens.iter().map(|(handle, key)| (*handle, *key)).collect(),
        });
        let key = |handle| self.registry.opens.get(handle).map_or(0, |open| open.key);
        let generations = name.generations.values();
        let generations = generations.filter_map(|area| self.registry.generations.get(area));
        let written = generations.filter(|one| one.state == State::Writing).flat_map(|one| {
            one.jobs.iter().map(|job| Written {
                job: text(job),
                number: one.number,
                maker: one.maker.clone(),
                opens: one.handles.iter().map(|handle| (*handle, key(handle))).collect(),
            })
        });
        before.chain(written).collect()
    }

    /// What is written of a generation, if it is complete.
    fn kept(&self, area: Area) -> Option<Kept> {
        let one = self.registry.generations.get(&area)?;
        let is_it = one.state == State::Complete && self.spools.areas.contains_key(&area);
        let stat = self.areas.stat(area, one.number).ok().filter(|_| is_it)?;
        Some(Kept {
            area,
            number: one.number,
            size: stat.size,
            mode: stat.mode & 0o7777,
            inode: stat.inode,
            modified: stat.modified,
            maker: one.maker.clone(),
            jobs: one.jobs.iter().map(|job| self.jobs.text(*job).to_owned()).collect(),
            handles: one.handles.iter().copied().collect(),
            read: one.read,
            unlinked: one.unlinked,
            wanted: !matches!(one.stored, Stored::Never | Stored::Done),
            stored: one.stored == Stored::Done,
            named: self.spools.named.contains(&area),
        })
    }

    /// What is written of a process of this node, and of what it reads.
    fn process_record(
        &self,
        path: &Path,
        process: Process,
        position: Position,
    ) -> Option<ProcessRecord> {
        let (client, who) = (self.clients.get(&process)?, self.registry.processes.get(&process)?);
        let is_own =
            |area: &Area| self.registry.generations.get(area).is_some_and(|one| one.path == *path);
        let opens = self
            .registry
            .opens
            .iter()
            .filter(|(_, open)| open.process == process && open.reads_on && is_own(&open.area));
        Some(ProcessRecord {
            pid: client.pid.cast_unsigned(),
            start: client.start,
            job: self.jobs.text(who.job).to_owned(),
            ranks: who.ranks,
            family: self.jobs.text(who.family).to_owned(),
            label: who.label.clone(),
            position,
            opens: opens.map(|(handle, open)| held(*handle, open)).collect(),
        })
    }

    /// The agent ends: nothing is left of what nobody can come for. Generations that were not given
    /// up are left for another agent.
    pub(super) fn leave_spools(&mut self) {
        if self.quit {
            let all: Vec<Area> = self.spools.areas.keys().copied().collect();
            all.into_iter().for_each(|area| self.give_up_kept(area));
        }
        let left: BTreeSet<Directory> = self.spools.areas.values().cloned().collect();
        let records = std::mem::take(&mut self.spools.records);
        for (directory, number) in records.into_values().filter(|(one, _)| !left.contains(one)) {
            if let Some(spool) = self.spools.open.get(&directory) {
                let _ = spool.forget(number);
            }
        }
        for (directory, spool) in std::mem::take(&mut self.spools.open) {
            if !left.contains(&directory) {
                spool.close();
            }
        }
    }
}

fn held(handle: Handle, open: &Open) -> Held {
    let Open { area, key, is_part, .. } = *open;
    Held { handle, area, key, is_part }
}
