//! What an agent takes over from an earlier one.

use super::super::Agent;
use super::super::clients::ClientProcess;
use crate::registry::{
    Aborted, Dead, Directory, Generation, Home, Job, Name, Open, Options, Path, Process, Reader,
    State, Stored, Who,
};
use crate::spool::{Held, Kept, ProcessRecord, Record, Spool, Written};
use aggio_base::log;
use aggio_base::log::Level;
use std::collections::{BTreeMap, BTreeSet};
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

/// Processes of records, by number and start.
type Recovered = BTreeMap<(u32, u64), Known>;

impl Agent {
    /// Makes sure that what an earlier agent has left for the files of a rule is known.
    ///
    /// # Errors
    /// Its directory cannot be used.
    pub(in crate::agent) fn find_survivors(&mut self, options: &Options) -> io::Result<()> {
        let directory = options.spill.as_ref().filter(|_| options.survives);
        directory.map_or(Ok(()), |directory| self.find_in(directory))
    }

    /// The same for all that is in a directory.
    ///
    /// # Errors
    /// It cannot be used.
    pub(in crate::agent) fn find_in(&mut self, directory: &Directory) -> io::Result<()> {
        if self.spools.open.contains_key(directory) {
            return Ok(());
        }
        let spool = Spool::open(directory, &self.place)?;
        let found = spool.find(&self.spools.boot)?;
        self.registry.count_behind(found.last);
        for (name, why) in found.strange {
            log!(Level::Warn, "agent: {}/{name}: {why}; it is left there", spool.path());
        }
        let mut recovered = Recovered::new();
        for (number, record) in found.records {
            self.recover(&spool, directory, number, record, &mut recovered);
        }
        self.spools.open.insert(directory.clone(), spool);
        for ((pid, start), known) in recovered {
            let Known { process, has_open, writes } = known;
            match ClientProcess::of(pid.cast_signed()) {
                Ok((mut client, _)) if client.start == start => {
                    // One that has nothing to write may end as it likes.
                    client.orderly = !writes;
                    self.clients.insert(process, client);
                }
                _ => self.registry.end(process, !has_open),
            }
        }
        for job in self.registry.aborted_without_processes() {
            self.registry.end_aborted(job);
        }
        self.settle();
        Ok(())
    }

    /// Takes over a file of an earlier agent.
    fn recover(
        &mut self,
        spool: &Spool,
        directory: &Directory,
        number: u64,
        record: Record,
        recovered: &mut Recovered,
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
        let [last, lost, on_disk, dropped, unreported] = record.numbers;
        let (ended, removed) = (jobs(&record.ended), jobs(&record.removed));
        let dead = record.dead.map(|(number, writer)| Dead::unread(number, writer));
        let writer = record.writer.map(|text| self.jobs.of(&text));
        let mut aborted = BTreeMap::<_, Aborted>::new();
        for written in record.aborted {
            add_aborted(&mut aborted, self.jobs.of(&written.job), written);
        }
        let name = Name {
            last,
            lost,
            unreported,
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
        self.registry.names.insert(record.path.clone(), name);
        self.spools.records.insert(record.path.clone(), (directory.clone(), number));
        self.registry.count_behind(number);
        for kept in record.generations {
            if let Err(error) = self.recover_generation(spool, directory, &record.path, &kept) {
                self.note_lost(&record.path, kept, &error);
            }
        }
        for recorded in record.readers {
            self.recover_reader(&record.path, recorded, recovered);
        }
        for recorded in record.writers {
            let key = (recorded.pid, recorded.start);
            let _ = self.recover_process(&recorded, recovered);
            recovered.entry(key).and_modify(|known| known.writes = true);
        }
        self.registry.touch(&record.path);
    }

    /// A generation of a record is not there.
    fn note_lost(&mut self, path: &Path, kept: Kept, error: &io::Error) {
        let number = kept.number;
        if error.kind() != io::ErrorKind::NotFound {
            let path = String::from_utf8_lossy(path);
            let text = format!("{path}: generation {number} of an earlier agent");
            log!(Level::Warn, "agent: {text} is not read: {error}");
        }
        let Some(name) = self.registry.names.get_mut(path) else { return };
        if kept.named {
            name.lost = name.lost.max(number);
            return;
        }
        // It was about to get its name: its writers were not told that it is complete.
        for job in kept.jobs {
            let opens = kept.handles.iter().map(|handle| (*handle, 0)).collect();
            let written = Written { job, number, maker: kept.maker.clone(), opens };
            add_aborted(&mut name.aborted, self.jobs.of(&written.job), written);
        }
    }

    fn recover_generation(
        &mut self,
        spool: &Spool,
        directory: &Directory,
        path: &Path,
        kept: &Kept,
    ) -> io::Result<()> {
        let (area, number) = (kept.area, kept.number);
        if self.registry.generations.contains_key(&area) {
            return Err(io::Error::other("it has another name by now"));
        }
        self.areas.adopt(area, spool.kept(kept)?)?;
        self.spools.areas.insert(area, directory.clone());
        self.spools.named.insert(area);
        let generation = Generation {
            path: path.clone(),
            number,
            state: State::Complete,
            jobs: kept.jobs.iter().map(|job| self.jobs.of(job)).collect(),
            writers: BTreeSet::new(),
            maker: kept.maker.clone(),
            written: false,
            untold: true,
            published: false,
            step: false,
            records: None,
            read: kept.read,
            unlinked: kept.unlinked,
            is_for_nobody: false,
            stored: if kept.stored { Stored::Done } else { Stored::Never },
            alone: None,
            emptied: false,
            bytes: 0,
            expected: 0,
            home: Home::Memory,
            copy_of: None,
            handles: kept.handles.iter().copied().collect(),
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

    /// The process that a record tells of, which may be known.
    fn recover_process(&mut self, recorded: &ProcessRecord, recovered: &mut Recovered) -> Process {
        let key = (recorded.pid, recorded.start);
        let is_it = |one: &ClientProcess| (one.pid.cast_unsigned(), one.start) == key;
        let known = self.clients.iter().find(|(_, one)| is_it(one)).map(|(process, _)| *process);
        if let Some(process) = known.or_else(|| recovered.get(&key).map(|known| known.process)) {
            return process;
        }
        self.last += 1;
        let (job, family) = (self.jobs.of(&recorded.job), self.jobs.of(&recorded.family));
        let (ranks, label) = (recorded.ranks, recorded.label.clone());
        self.registry.join(self.last, Who { job, ranks, family, label });
        let process = self.last;
        recovered.insert(key, Known { process, has_open: false, writes: false });
        process
    }

    fn recover_reader(&mut self, path: &Path, recorded: ProcessRecord, recovered: &mut Recovered) {
        let process = self.recover_process(&recorded, recovered);
        let job = self.jobs.of(&recorded.job);
        let opens = recorded.opens.into_iter();
        let opens = opens.filter(|held| self.registry.generations.contains_key(&held.area));
        let opens: Vec<_> = opens.collect();
        let mut position = recorded.position;
        position.open = u32::try_from(opens.len()).unwrap_or(u32::MAX);
        if let Some(known) = recovered.get_mut(&(recorded.pid, recorded.start)) {
            known.has_open |= !opens.is_empty();
        }
        for Held { handle, area, key, is_part } in opens {
            self.registry.count_behind(handle);
            let open =
                Open { process, area, write: false, tells: false, reads_on: true, is_part, key };
            self.registry.opens.insert(handle, open);
        }
        if let Some(name) = self.registry.names.get_mut(path) {
            let reader = name.readers.entry(job).or_insert_with(Reader::default);
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
