//! Records of files with generations that survive.

use super::super::clients::Clients;
use super::Survivors;
use crate::areas::Areas;
use crate::registry::{
    Area, Handle, Job, Name, Open, Path, Position, Process, Registry, State, Stored, Who,
};
use crate::spool::{Held, Kept, ProcessRecord, Record, Written};
use std::collections::BTreeMap;

/// All from which records are made.
pub(super) struct Recorder<'a> {
    pub(super) survivors: &'a Survivors,
    pub(super) registry: &'a Registry,
    pub(super) areas: &'a Areas,
    pub(super) clients: &'a Clients,
}

impl Recorder<'_> {
    /// All that is known of a file.
    pub(super) fn record(&self, path: &Path) -> Option<Record> {
        let name = self.registry.files.names.get(path)?;
        let texts = |numbers: &BTreeMap<u64, u64>| {
            let texts = numbers.iter();
            texts
                .map(|(text, number)| (self.clients.jobs.text(*text).to_owned(), *number))
                .collect()
        };
        let generations = name.generations.values().filter_map(|area| self.kept(*area));
        let readers = name.readers.values().flat_map(|reader| {
            let processes = reader.processes.iter();
            processes
                .filter_map(|(process, position)| self.process_record(path, *process, *position))
        });
        let is_orderly = |process| self.clients.get(process).is_none_or(|one| one.orderly);
        let generations_of = |job| {
            let mut all = name.generations.values();
            all.any(|area| {
                let one = self.registry.files.generations.get(area);
                one.is_some_and(|one| {
                    one.state == State::Writing && one.writers.jobs.contains(&job)
                })
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
            boot: self.survivors.boot.clone(),
            path: path.clone(),
            options: name.options.clone(),
            numbers: [name.last, name.lost, name.on_disk, name.dropped],
            missing: name.missing.iter().copied().collect(),
            emptied: name.emptied,
            dead: name.dead.as_ref().map(|dead| (dead.number, dead.writer.clone())),
            writer: name.writer.map(|job| self.clients.jobs.text(job).to_owned()),
            ended: texts(&name.ended),
            removed: texts(&name.removed),
            generations: generations.collect(),
            readers: readers.collect(),
            writers: writers.collect(),
            aborted: self.aborted(name),
        })
    }

    /// The generations that programs lose if this agent dies, or have lost before.
    fn aborted(&self, name: &Name) -> Vec<Written> {
        let text = |job: &Job| self.clients.jobs.text(*job).to_owned();
        let before = name.aborted.iter().map(|(job, aborted)| Written {
            job: text(job),
            number: aborted.number,
            maker: aborted.maker.clone(),
            opens: aborted.opens.iter().map(|(handle, key)| (*handle, *key)).collect(),
        });
        let key = |handle| self.registry.opens.get(handle).map_or(0, |open| open.key);
        let generations = name.generations.values();
        let generations = generations.filter_map(|area| self.registry.files.generations.get(area));
        let written = generations.filter(|one| one.state == State::Writing).flat_map(|one| {
            one.writers.jobs.iter().map(|job| Written {
                job: text(job),
                number: one.number,
                maker: one.writers.maker.clone(),
                opens: one.writers.handles.iter().map(|handle| (*handle, key(handle))).collect(),
            })
        });
        before.chain(written).collect()
    }

    /// The record of a generation, if it is complete.
    fn kept(&self, area: Area) -> Option<Kept> {
        let one = self.registry.files.generations.get(&area)?;
        let is_it = one.state == State::Complete && self.survivors.areas.contains_key(&area);
        let stat = self.areas.stat(area, one.number).ok().filter(|_| is_it)?;
        Some(Kept {
            area,
            number: one.number,
            size: stat.size,
            mode: stat.mode & 0o7777,
            inode: stat.inode,
            modified: stat.modified,
            maker: one.writers.maker.clone(),
            jobs: one
                .writers
                .jobs
                .iter()
                .map(|job| self.clients.jobs.text(*job).to_owned())
                .collect(),
            handles: one.writers.handles.iter().copied().collect(),
            read: one.read,
            unlinked: one.unlinked,
            wanted: !matches!(one.stored, Stored::Never | Stored::Done),
            stored: one.stored == Stored::Done,
            named: self.survivors.named.contains(&area),
        })
    }

    /// The record of a process of this node and of its opens for reading.
    fn process_record(
        &self,
        path: &Path,
        process: Process,
        position: Position,
    ) -> Option<ProcessRecord> {
        let (client, who) = (self.clients.get(process)?, self.registry.processes.get(&process)?);
        let is_own = |area: &Area| {
            self.registry.files.generations.get(area).is_some_and(|one| one.path == *path)
        };
        let opens = self
            .registry
            .opens
            .iter()
            .filter(|(_, open)| open.process == process && open.reads_on && is_own(&open.area));
        Some(ProcessRecord {
            pid: client.pid.cast_unsigned(),
            start: client.start,
            job: self.clients.jobs.text(who.job).to_owned(),
            ranks: who.ranks,
            family: self.clients.jobs.text(who.family).to_owned(),
            label: who.label.clone(),
            position,
            opens: opens.map(|(handle, open)| held(*handle, open)).collect(),
        })
    }
}

fn held(handle: Handle, open: &Open) -> Held {
    let Open { area, key, is_part, .. } = *open;
    Held { handle, area, key, is_part }
}
