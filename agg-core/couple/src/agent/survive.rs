//! Generations that survive this agent: what it writes of them, and what it finds of an earlier
//! one.

use super::Agent;
use super::people::Person;
use crate::registry::{
    Area, Directory, Generation, Home, Name, Open, Options, Path, Process, Reader, State, Stored,
    Who,
};
use crate::spool::{Being, Kept, Record, Spool, boot};
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
    boot: String,
}

impl Default for Spools {
    fn default() -> Self {
        let (open, areas, records) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { open, areas, named: BTreeSet::new(), records, boot: boot() }
    }
}

/// Processes of records, by number and start.
type Beings = BTreeMap<(u32, u64), (Process, bool)>;

impl Agent {
    /// Makes sure that what an earlier agent has left for the files of a rule is known.
    ///
    /// # Errors
    /// Its directory cannot be used.
    pub(super) fn find_survivors(&mut self, options: &Options) -> io::Result<()> {
        let Some(directory) = options.spill.as_ref().filter(|_| options.survives) else {
            return Ok(());
        };
        if self.spools.open.contains_key(directory) {
            return Ok(());
        }
        let spool = Spool::open(directory, &self.place)?;
        let found = spool.find(&self.spools.boot)?;
        for (name, why) in found.strange {
            log!(Level::Warn, "agent: {}/{name}: {why}; it is left there", spool.path());
        }
        let mut beings = Beings::new();
        for (number, record) in found.records {
            self.revive(&spool, directory, number, record, &mut beings);
        }
        self.spools.open.insert(directory.clone(), spool);
        for ((pid, start), (process, has_open)) in beings {
            match Person::of(pid.cast_signed()) {
                Ok((mut person, _)) if person.start == start => {
                    // One that has nothing to write may end as it likes.
                    person.orderly = true;
                    self.people.insert(process, person);
                }
                _ => self.registry.end(process, !has_open),
            }
        }
        self.settle();
        Ok(())
    }

    /// Takes over a file of an earlier agent.
    fn revive(
        &mut self,
        spool: &Spool,
        directory: &Directory,
        number: u64,
        record: Record,
        beings: &mut Beings,
    ) {
        if self.registry.names.contains_key(&record.path) {
            let path = String::from_utf8_lossy(&record.path);
            let text = "what an earlier agent has left is not read: there is a newer file";
            log!(Level::Warn, "agent: {path}: {text}");
            return;
        }
        let mut jobs = |texts: &[(String, u64)]| {
            texts.iter().map(|(text, number)| (self.jobs.of(text), *number)).collect()
        };
        let [last, lost, on_disk, dropped] = record.numbers;
        let (ended, removed) = (jobs(&record.ended), jobs(&record.removed));
        let dead = record.dead.map(|(number, writer)| crate::registry::Dead { number, writer });
        let writer = record.writer.map(|text| self.jobs.of(&text));
        let name = Name {
            last,
            lost,
            ended,
            removed,
            on_disk,
            dropped,
            dead,
            writer,
            emptied: record.emptied,
            options: record.options,
            ..Name::default()
        };
        self.registry.names.insert(record.path.clone(), name);
        self.spools.records.insert(record.path.clone(), (directory.clone(), number));
        self.registry.count_behind(number);
        for kept in record.generations {
            let (number, named) = (kept.number, kept.named);
            if let Err(error) = self.revive_generation(spool, directory, &record.path, kept) {
                if error.kind() != io::ErrorKind::NotFound {
                    let path = String::from_utf8_lossy(&record.path);
                    let text = format!("{path}: generation {number} of an earlier agent");
                    log!(Level::Warn, "agent: {text} is not read: {error}");
                }
                // One that was about to get its name was not complete: its writer was not told so.
                if let Some(name) = self.registry.names.get_mut(&record.path).filter(|_| named) {
                    name.lost = name.lost.max(number);
                }
            }
        }
        for being in record.readers {
            self.revive_reader(&record.path, being, beings);
        }
        self.registry.touch(&record.path);
    }

    fn revive_generation(
        &mut self,
        spool: &Spool,
        directory: &Directory,
        path: &Path,
        kept: Kept,
    ) -> io::Result<()> {
        let (area, number) = (kept.area, kept.number);
        self.areas.adopt(area, spool.kept(&kept)?)?;
        self.spools.areas.insert(area, directory.clone());
        self.spools.named.insert(area);
        let generation = Generation {
            path: path.clone(),
            number,
            state: State::Complete,
            jobs: kept.jobs.iter().map(|job| self.jobs.of(job)).collect(),
            writers: BTreeSet::new(),
            maker: kept.maker,
            published: false,
            step: false,
            records: None,
            read: kept.read,
            unlinked: kept.unlinked,
            stored: if kept.stored { Stored::Done } else { Stored::Never },
            alone: None,
            emptied: false,
            bytes: 0,
            expected: 0,
            home: Home::Memory,
            copy_of: None,
            handles: kept.handles.into_iter().collect(),
        };
        self.registry.count_behind(area);
        self.registry.generations.insert(area, generation);
        if let Some(name) = self.registry.names.get_mut(path) {
            name.generations.insert(number, area);
        }
        if kept.wanted {
            self.registry.want_stored(area);
        }
        let stat = self.areas.stat(area, 0).unwrap_or_default();
        self.registry.weigh(area, 512 * stat.blocks);
        Ok(())
    }

    fn revive_reader(&mut self, path: &Path, being: Being, beings: &mut Beings) {
        let key = (being.pid, being.start);
        let is_it = |one: &Person| (one.pid.cast_unsigned(), one.start) == key;
        let known = self.people.iter().find(|(_, one)| is_it(one)).map(|(process, _)| *process);
        let (job, family) = (self.jobs.of(&being.job), self.jobs.of(&being.family));
        let process = match (known, beings.get(&key)) {
            (Some(process), _) => process,
            (None, Some((process, _))) => *process,
            (None, None) => {
                self.last += 1;
                let (ranks, label) = (being.ranks, being.label);
                self.registry.join(self.last, Who { job, ranks, family, label });
                self.last
            }
        };
        let opens = being.opens.into_iter();
        let opens = opens.filter(|(_, area, _)| self.registry.generations.contains_key(area));
        let opens: Vec<_> = opens.collect();
        let mut position = being.position;
        position.open = u32::try_from(opens.len()).unwrap_or(u32::MAX);
        if known.is_none() {
            beings.entry(key).or_insert((process, false)).1 |= !opens.is_empty();
        }
        for (handle, area, is_part) in opens {
            self.registry.count_behind(handle);
            let open = Open { process, area, write: false, reads_on: true, is_part };
            self.registry.opens.insert(handle, open);
        }
        if let Some(name) = self.registry.names.get_mut(path) {
            let reader = name.readers.entry(job).or_insert_with(Reader::default);
            reader.ranks = being.ranks;
            reader.processes.insert(process, position);
        }
    }

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
    pub(super) fn keep(&mut self, area: Area) -> io::Result<()> {
        let Some(directory) = self.spools.areas.get(&area).cloned() else { return Ok(()) };
        let Some(generation) = self.registry.generations.get(&area) else { return Ok(()) };
        let path = generation.path.clone();
        self.save();
        let file = self.areas.open(area, true, false, false)?;
        let kept = self.spools.open.get(&directory).map(|spool| spool.keep(area, &file));
        kept.unwrap_or(Ok(())).inspect_err(|error| {
            let text = "a generation does not survive this agent";
            log!(Level::Error, "agent: {directory}: {text}: {error}");
        })?;
        // That it has its name is written before its writer is told.
        self.spools.named.insert(area);
        self.registry.touch(&path);
        Ok(())
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
            if let Err(error) = result {
                let path = String::from_utf8_lossy(&path);
                let text = "what is known of it does not survive this agent";
                log!(Level::Error, "agent: {path}: {text}: {error}");
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
            reader.processes.keys().filter_map(|process| self.being(path, reader, *process))
        });
        Some(Record {
            boot: self.spools.boot.clone(),
            path: path.clone(),
            options: name.options.clone(),
            numbers: [name.last, name.lost, name.on_disk, name.dropped],
            emptied: name.emptied,
            dead: name.dead.as_ref().map(|dead| (dead.number, dead.writer.clone())),
            writer: name.writer.map(|job| self.jobs.text(job).to_owned()),
            ended: texts(&name.ended),
            removed: texts(&name.removed),
            generations: generations.collect(),
            readers: readers.collect(),
        })
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

    /// What is written of a process of this node that reads.
    fn being(&self, path: &Path, reader: &Reader, process: Process) -> Option<Being> {
        let (person, who) = (self.people.get(&process)?, self.registry.processes.get(&process)?);
        let is_own =
            |area: &Area| self.registry.generations.get(area).is_some_and(|one| one.path == *path);
        let opens = self
            .registry
            .opens
            .iter()
            .filter(|(_, open)| open.process == process && open.reads_on && is_own(&open.area));
        Some(Being {
            pid: person.pid.cast_unsigned(),
            start: person.start,
            job: self.jobs.text(who.job).to_owned(),
            ranks: reader.ranks,
            family: self.jobs.text(who.family).to_owned(),
            label: who.label.clone(),
            position: *reader.processes.get(&process)?,
            opens: opens.map(|(handle, open)| (*handle, open.area, open.is_part)).collect(),
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
