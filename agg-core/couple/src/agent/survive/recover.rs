//! Takes over generations of an earlier agent.

use super::super::clients::{ClientProcess, Clients};
use super::Survivors;
use crate::areas::Areas;
use crate::place::Place;
use crate::registry::{
    Aborted, Dead, Directory, Generation, Job, Name, Open, Path, Process, Registry, State, Stored,
    Who, Writers,
};
use crate::spool::{Held, Kept, ProcessRecord, Record, Spool, Written};
use aggio_base::log;
use aggio_base::log::Level;
use std::collections::BTreeMap;
use std::io;

/// A process of a record.
#[derive(Debug)]
struct Known {
    process: Process,
    /// It has something open that it reads.
    has_open: bool,
    /// Its program wrote a file last, and may write the next generation.
    writes: bool,
}

/// How an agent takes over a directory.
struct Recovery<'a> {
    directory: &'a Directory,
    spool: Spool,
    /// Processes of records, by number and start.
    processes: BTreeMap<(u32, u64), Known>,
    survivors: &'a mut Survivors,
    registry: &'a mut Registry,
    areas: &'a mut Areas,
    clients: &'a mut Clients,
}

impl Survivors {
    /// Takes over the files that an earlier agent has left in a directory; false if that was done.
    ///
    /// # Errors
    /// The directory cannot be used.
    pub(in crate::agent) fn find(
        &mut self,
        directory: &Directory,
        place: &Place,
        registry: &mut Registry,
        areas: &mut Areas,
        clients: &mut Clients,
    ) -> io::Result<bool> {
        if self.spools.contains_key(directory) {
            return Ok(false);
        }
        let spool = Spool::open(directory, place)?;
        let found = spool.find(&self.boot)?;
        registry.numbers.skip(found.last);
        for (name, why) in found.strange {
            log!(Level::Warn, "agent: {}/{name}: {why}; it is left there", spool.path());
        }
        let (survivors, processes) = (self, BTreeMap::new());
        let mut recovery =
            Recovery { directory, spool, processes, survivors, registry, areas, clients };
        for (number, record) in found.records {
            recovery.recover(number, record);
        }
        recovery.end();
        Ok(true)
    }
}

impl Recovery<'_> {
    /// All records are read: processes that they name are there, or have ended.
    fn end(self) {
        self.survivors.spools.insert(self.directory.clone(), self.spool);
        for ((pid, start), known) in self.processes {
            let Known { process, has_open, writes } = known;
            match ClientProcess::of(pid.cast_signed()) {
                Ok((mut client, _)) if client.start == start => {
                    // One that has nothing to write may end as it likes.
                    client.orderly = !writes;
                    self.clients.add(process, client);
                }
                _ => self.registry.end(process, !has_open),
            }
        }
        self.registry.files.names.end_aborted(|job| self.registry.processes.count(job) == 0);
    }

    /// Takes over a file of an earlier agent.
    fn recover(&mut self, number: u64, record: Record) {
        if self.registry.files.names.contains_key(&record.path) {
            let path = String::from_utf8_lossy(&record.path);
            let text = "what an earlier agent has left is not read: there is a newer file";
            log!(Level::Warn, "agent: {path}: {text}");
            return;
        }
        let mut jobs = |texts: &[(String, u64)]| {
            texts.iter().map(|(text, number)| (self.clients.jobs.of(text), *number)).collect()
        };
        let [last, lost, on_disk, dropped] = record.numbers;
        let (ended, removed) = (jobs(&record.ended), jobs(&record.removed));
        let dead = record.dead.map(|(number, writer)| Dead::unread(number, writer));
        let writer = record.writer.map(|text| self.clients.jobs.of(&text));
        let mut aborted = BTreeMap::<_, Aborted>::new();
        for written in record.aborted {
            add_aborted(&mut aborted, self.clients.jobs.of(&written.job), written);
        }
        let name = Name {
            last,
            lost,
            missing: record.missing.iter().copied().collect(),
            ended,
            removed,
            on_disk,
            dropped,
            dead,
            writer,
            aborted,
            emptied: record.emptied,
            options: record.options,
            ..Name::default()
        };
        self.registry.files.names.insert(record.path.clone(), name);
        self.survivors.records.insert(record.path.clone(), (self.directory.clone(), number));
        self.registry.numbers.skip(number);
        for kept in record.generations {
            if let Err(error) = self.recover_generation(&record.path, &kept) {
                self.note_lost(&record.path, kept, &error);
            }
        }
        for recorded in record.readers {
            self.recover_reader(&record.path, recorded);
        }
        for recorded in record.writers {
            self.recover_process(&recorded);
            let known = self.processes.entry((recorded.pid, recorded.start));
            known.and_modify(|known| known.writes = true);
        }
        self.registry.files.names.touch(&record.path);
    }

    /// A generation of a record is not there.
    fn note_lost(&mut self, path: &Path, kept: Kept, error: &io::Error) {
        let number = kept.number;
        if error.kind() != io::ErrorKind::NotFound {
            let path = String::from_utf8_lossy(path);
            let text = format!("{path}: generation {number} of an earlier agent");
            log!(Level::Warn, "agent: {text} is not read: {error}");
        }
        let Some(name) = self.registry.files.names.get_mut(path) else { return };
        if kept.named {
            name.lost = name.lost.max(number);
            return;
        }
        // It was about to get its name: its writers were not told that it is complete.
        for job in kept.jobs {
            let opens = kept.handles.iter().map(|handle| (*handle, 0)).collect();
            let written = Written { job, number, maker: kept.maker.clone(), opens };
            add_aborted(&mut name.aborted, self.clients.jobs.of(&written.job), written);
        }
    }

    fn recover_generation(&mut self, path: &Path, kept: &Kept) -> io::Result<()> {
        let (area, number) = (kept.area, kept.number);
        if self.registry.files.generations.contains_key(&area) {
            return Err(io::Error::other("it has another name by now"));
        }
        self.areas.adopt(area, self.spool.kept(kept)?)?;
        self.survivors.areas.insert(area, self.directory.clone());
        self.survivors.named.insert(area);
        let writers = Writers {
            jobs: kept.jobs.iter().map(|job| self.clients.jobs.of(job)).collect(),
            handles: kept.handles.iter().copied().collect(),
            maker: kept.maker.clone(),
            untold: true,
            ..Writers::default()
        };
        let generation = Generation {
            path: path.clone(),
            number,
            state: State::Complete,
            writers,
            read: kept.read,
            unlinked: kept.unlinked,
            stored: if kept.stored { Stored::Done } else { Stored::Never },
            ..Generation::default()
        };
        self.registry.numbers.skip(area);
        self.registry.files.generations.insert(area, generation);
        if let Some(name) = self.registry.files.names.get_mut(path) {
            name.generations.insert(number, area);
        }
        if kept.wanted {
            self.registry.files.want_stored(area);
        }
        let stat = self.areas.stat(area, 0).unwrap_or_default();
        self.registry.files.weigh(area, 512 * stat.blocks);
        Ok(())
    }

    /// The process that a record tells of, which may be known.
    fn recover_process(&mut self, recorded: &ProcessRecord) -> Process {
        let key = (recorded.pid, recorded.start);
        let known = self.clients.find(recorded.pid.cast_signed(), recorded.start);
        if let Some(process) = known.or_else(|| self.processes.get(&key).map(|known| known.process))
        {
            return process;
        }
        let process = self.registry.numbers.next();
        let (job, family) =
            (self.clients.jobs.of(&recorded.job), self.clients.jobs.of(&recorded.family));
        let (ranks, label) = (recorded.ranks, recorded.label.clone());
        self.registry.join(process, Who { job, ranks, family, label });
        self.processes.insert(key, Known { process, has_open: false, writes: false });
        process
    }

    fn recover_reader(&mut self, path: &Path, recorded: ProcessRecord) {
        let process = self.recover_process(&recorded);
        let job = self.clients.jobs.of(&recorded.job);
        let opens = recorded.opens.into_iter();
        let opens = opens.filter(|held| self.registry.files.generations.contains_key(&held.area));
        let opens: Vec<_> = opens.collect();
        let mut position = recorded.position;
        position.open = u32::try_from(opens.len()).unwrap_or(u32::MAX);
        if let Some(known) = self.processes.get_mut(&(recorded.pid, recorded.start)) {
            known.has_open |= !opens.is_empty();
        }
        for Held { handle, area, key, is_part } in opens {
            self.registry.numbers.skip(handle);
            let open = Open { process, job, area, reads_on: true, is_part, key, ..Open::default() };
            self.registry.add_open(handle, open);
        }
        if let Some(name) = self.registry.files.names.get_mut(path) {
            let reader = name.readers.entry(job).or_default();
            reader.ranks = recorded.ranks;
            reader.processes.insert(process, position);
        }
    }
}

/// Notes that a program has lost a generation.
fn add_aborted(all: &mut BTreeMap<Job, Aborted>, job: Job, written: Written) {
    let one = all.entry(job).or_default();
    one.opens.extend(written.opens);
    if written.number >= one.number {
        (one.number, one.maker) = (written.number, written.maker);
    }
}
