//! `ready=step`: records of netCDF files that readers get while others are still being written.
//!
//! The writer's program tells when it has written the number of records, after that call. What the
//! header says then, and the bytes of the records that are there, decide what readers are told of
//! instead of the number in the file, which may be written before its records are.

use super::caller::lost;
use super::waits::Since;
use crate::areas::Areas;
use crate::netcdf_header::Header;
use crate::protocol::{Before, Reply};
use crate::records::{self, News};
use crate::registry::{Area, Generation, Handle, Process, Registry, State};
use aggio_base::log;
use aggio_base::log::Level;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsRawFd;
use std::time::Instant;

/// The records of a generation that are read while it is written.
#[derive(Debug, Default)]
struct Step {
    header: Header,
    /// The process that has written the number of records last.
    writer: Process,
    /// Records that it has announced, and has written as far as is known.
    announced: u64,
    /// Those with all bytes.
    there: u64,
    /// The header was changed: the rest is for readers of the whole file.
    is_spoiled: bool,
    /// Opens for reading that know the header which holds no more.
    spoiled: BTreeSet<Handle>,
}

impl Step {
    /// The number of records that readers may have.
    fn reply(&self) -> Reply {
        Reply::Records(Some((self.there, self.header.width as u64)))
    }
}

/// A reader that waits for more records.
#[derive(Debug)]
struct Reader {
    link: u64,
    process: Process,
    handle: Handle,
    /// One more than the number that it knows.
    told: u64,
    since: Since,
}

/// Generations with records that are read while they are written, and readers that wait for more.
#[derive(Debug, Default)]
pub(super) struct Steps {
    steps: BTreeMap<Area, Step>,
    waits: Vec<Reader>,
}

impl Reader {
    fn describe(&self, registry: &Registry) -> Option<String> {
        let open = registry.opens.get(&self.handle)?;
        let generation = registry.files.generations.get(&open.area)?;
        let who = registry.processes.get(&self.process).map_or("", |who| &who.label);
        let (path, number) = (String::from_utf8_lossy(&generation.path), generation.number);
        let (seconds, record) = (self.since.seconds(), self.told);
        Some(format!(
            "{path}: {who} has waited {seconds} s for record {record} of generation {number}; {} \
             is writing it",
            generation.writers.maker
        ))
    }
}

impl Steps {
    /// Whether a process has written the number of records last.
    pub(super) fn has_announced(&self, area: Area, process: Process) -> bool {
        self.steps.get(&area).is_some_and(|step| step.writer == process)
    }

    /// The parts that may have changed behind the records that are there.
    pub(super) fn news(&self, area: Area) -> News {
        let step = self.steps.get(&area);
        step.map_or(News::ALL, |step| News::behind(&step.header, step.there))
    }

    /// A process has written the number of records of `area`, or written all that it announces.
    pub(super) fn announce(
        &mut self,
        area: Area,
        process: Process,
        before: Before,
        registry: &mut Registry,
        areas: &Areas,
    ) {
        // A copy that is being changed is for no reader before it is complete.
        let is_spoiled = self.steps.get(&area).is_some_and(|step| step.is_spoiled);
        if is_spoiled || !registry.files.generations.is_step(area) {
            return;
        }
        match (self.steps.get_mut(&area), header(area, areas).unwrap_or_default()) {
            // Before its first record a header may still get variables.
            (None, header) if header.as_ref().is_none_or(|header| header.records == 0) => return,
            (None, None) => return,
            (None, Some(header)) => {
                self.steps.insert(area, Step { header, ..Step::default() });
            }
            (Some(step), Some(header)) if step.header.rest == header.rest => step.header = header,
            (Some(_), _) => return self.spoil(area, registry),
        }
        if let Some(step) = self.steps.get_mut(&area) {
            let written = records::announced(&step.header, before);
            step.announced = step.announced.max(written);
            step.writer = process;
        }
        self.count(area, registry, areas);
    }

    /// A process has written the number of records of an open file: the answer.
    pub(super) fn announced(
        &mut self,
        (process, handle): (Process, Handle),
        before: Before,
        registry: &mut Registry,
        areas: &Areas,
    ) -> Reply {
        let open = registry.opens.get(&handle).copied();
        match open.filter(|open| open.write && open.process == process) {
            Some(open) => {
                self.announce(open.area, process, before, registry, areas);
                Reply::Done
            }
            None => lost(registry, process, handle),
        }
    }

    /// Finds out how many of the announced records are there.
    pub(super) fn count(&mut self, area: Area, registry: &mut Registry, areas: &Areas) {
        let step = self.steps.get_mut(&area).filter(|step| !step.is_spoiled);
        let Some(step) = step else { return };
        step.there = records_there(area, step, areas).unwrap_or(step.there);
        registry.files.generations.show_records(area, Some(step.there));
    }

    /// The header of a generation is another one now: readers of the one before cannot go on.
    pub(super) fn spoil(&mut self, area: Area, registry: &mut Registry) {
        let Some(step) = self.steps.get_mut(&area) else { return };
        let readers = registry.opens.iter().filter(|(_, open)| open.area == area && !open.write);
        step.spoiled.extend(readers.map(|(handle, _)| *handle));
        step.is_spoiled = true;
        registry.files.generations.show_records(area, None);
        let path = registry.files.generations.get(&area).map(|one| one.path.clone());
        let path = path.unwrap_or_default();
        let text = "its header was changed while its records were read (ready=step)";
        log!(Level::Warn, "agent: {}: {text}", String::from_utf8_lossy(&path));
    }

    /// A generation is given up.
    pub(super) fn remove(&mut self, area: Area) {
        self.steps.remove(&area);
    }

    /// The answer to a reader that knows one record fewer than `told`; `None` if it has to wait.
    pub(super) fn records(
        &self,
        process: Process,
        handle: Handle,
        told: u64,
        registry: &mut Registry,
    ) -> Option<Reply> {
        let area = match self.read_by(process, handle, registry) {
            Ok(area) => area,
            Err(reply) => return Some(reply),
        };
        let generation = registry.files.generations.get(&area)?;
        let name = registry.files.names.get(&generation.path);
        let now = name.is_some_and(|name| name.options.records_now);
        let is_written = generation.state == State::Writing;
        match self.steps.get(&area).filter(|_| is_written && !is_own(generation, process, registry))
        {
            None => {
                registry.opens.has_all_records(handle);
                Some(Reply::Records(None))
            }
            Some(step) if now || step.there >= told => Some(step.reply()),
            Some(_) => None,
        }
    }

    /// The answer to a reader that needs the bytes of records, of which another process of its
    /// program may have been told: it is not told by this that it has all.
    pub(super) fn reach(&self, process: Process, handle: Handle, registry: &mut Registry) -> Reply {
        let area = match self.read_by(process, handle, registry) {
            Ok(area) => area,
            Err(reply) => return reply,
        };
        let generation = registry.files.generations.get(&area);
        let Some(generation) = generation.filter(|one| one.state == State::Writing) else {
            return Reply::Whole;
        };
        let step = self.steps.get(&area).filter(|_| !is_own(generation, process, registry));
        step.map_or(Reply::Records(None), Step::reply)
    }

    /// The generation that a process reads.
    ///
    /// # Errors
    /// The answer for the process, if it cannot get more of that.
    fn read_by(
        &self,
        process: Process,
        handle: Handle,
        registry: &mut Registry,
    ) -> Result<Area, Reply> {
        let open = registry.opens.get(&handle).filter(|open| open.process == process);
        let Some(open) = open.copied() else { return Err(lost(registry, process, handle)) };
        let Some(generation) = registry.files.generations.get(&open.area) else {
            registry.files.names.has_told_of_death(process, open.area);
            let text = "the writer of an open file died before it was complete (ready=step)";
            return Err(Reply::Failed(libc::EIO, text.into()));
        };
        let step = self.steps.get(&open.area);
        if step.is_some_and(|step| step.spoiled.contains(&handle)) {
            let path = String::from_utf8_lossy(&generation.path);
            let text = "its writer has changed the header that this reader knows (ready=step)";
            return Err(Reply::Failed(libc::EIO, format!("{path}: {text}")));
        }
        Ok(open.area)
    }

    /// Lets a reader wait for more records.
    pub(super) fn wait(&mut self, link: u64, process: Process, handle: Handle, told: u64) {
        self.waits.push(Reader { link, process, handle, told, since: Since::now() });
    }

    /// Answers to readers for which there are more records, and to all of a file that is complete.
    pub(super) fn answers(&mut self, registry: &mut Registry) -> Vec<(u64, Reply)> {
        let mut answers = Vec::new();
        for waits in std::mem::take(&mut self.waits) {
            match self.records(waits.process, waits.handle, waits.told, registry) {
                Some(reply) => answers.push((waits.link, reply)),
                None => self.waits.push(waits),
            }
        }
        answers
    }

    /// Ends the wait of a connection without an answer; false if there is none.
    pub(super) fn cancel(&mut self, link: u64) -> bool {
        let before = self.waits.len();
        self.waits.retain(|waits| waits.link != link);
        self.waits.len() < before
    }

    /// A process waits for nothing any more. The connections by which it asked.
    pub(super) fn forget(&mut self, process: Process) -> Vec<u64> {
        let ended = self.waits.extract_if(.., |waits| waits.process == process);
        ended.map(|waits| waits.link).collect()
    }

    /// When a wait is to be told of.
    pub(super) fn next(&self) -> Option<Instant> {
        self.waits.iter().map(|waits| waits.since.next()).min()
    }

    /// The connections that have waited for another minute, with the text for each.
    pub(super) fn reminders(&mut self, registry: &Registry) -> Vec<(u64, String)> {
        let now = Instant::now();
        let due = self.waits.iter_mut().filter_map(|one| one.since.is_due(now).then_some(&*one));
        due.filter_map(|waits| Some((waits.link, waits.describe(registry)?))).collect()
    }
}

/// Whether the program of a process writes a generation.
fn is_own(generation: &Generation, process: Process, registry: &Registry) -> bool {
    let job = registry.processes.get(&process).map(|process| process.job);
    job.is_some_and(|job| generation.writers.jobs.contains(&job))
}

fn header(area: Area, areas: &Areas) -> io::Result<Option<Header>> {
    records::header(areas.open(area, true, false, false)?.as_raw_fd())
}

fn records_there(area: Area, step: &Step, areas: &Areas) -> io::Result<u64> {
    let fd = areas.open(area, true, false, false)?;
    records::there(fd.as_raw_fd(), &step.header, step.there, step.announced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netcdf_header::tests::header;
    use crate::registry::{Answer, Ask, Options, Who};
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    fn open(registry: &mut Registry, process: Process, write: bool) -> (Area, Handle) {
        let options = Options { at_step: true, ..Options::default() };
        let [create, truncate] = [write; 2];
        let path = b"/d/f".to_vec();
        let ask = Ask { path, write, create, truncate, options, ..Ask::default() };
        match registry.open(process, &ask) {
            Answer::Opened(opening) => (opening.area, opening.handle),
            answer => panic!("{answer:?}"),
        }
    }

    #[test]
    fn a_reader_waits_for_the_record_that_it_does_not_know_until_all_bytes_are_there() {
        let (mut registry, mut areas) = (Registry::behind(0), Areas::new().unwrap());
        for process in [1, 2] {
            let label = format!("p{process}");
            registry.join(process, Who { job: process, ranks: 1, family: process, label });
        }
        let (area, writer) = open(&mut registry, 1, true);
        areas.make(area, 0o600, None).unwrap();
        let file = File::from(areas.open(area, true, true, false).unwrap());
        let mut steps = Steps::default();
        let announce = |steps: &mut Steps, registry: &mut Registry, records, variables| {
            file.write_all_at(&header(1, records, &[2048; 2], 4096), 0).unwrap();
            let start = 4096 + 8192 * (records - 1);
            (0..variables).for_each(|at| file.write_all_at(&[7; 4096], start + 4096 * at).unwrap());
            steps.announce(area, 1, Before::All, registry, &areas);
        };
        announce(&mut steps, &mut registry, 1, 2);
        assert!(steps.has_announced(area, 1) && !steps.has_announced(area, 2));
        let (_, reader) = open(&mut registry, 2, false);
        let known = steps.records(2, reader, 1, &mut registry);
        assert_eq!(known, Some(Reply::Records(Some((1, 4)))));
        assert_eq!(steps.reach(2, reader, &mut registry), Reply::Records(Some((1, 4))));
        assert_eq!(steps.reach(1, writer, &mut registry), Reply::Records(None), "it is its own");
        let lost = matches!(steps.reach(1, reader, &mut registry), Reply::Failed(..));
        assert!(lost, "it is another's");
        steps.wait(7, 2, reader, 2);
        announce(&mut steps, &mut registry, 2, 1);
        assert_eq!(steps.answers(&mut registry), [], "a variable of the record is missing");
        assert!(steps.next().is_some() && steps.reminders(&registry).is_empty());
        announce(&mut steps, &mut registry, 2, 2);
        assert_eq!(steps.answers(&mut registry), [(7, Reply::Records(Some((2, 4))))]);
        steps.wait(8, 2, reader, 3);
        assert!(steps.cancel(8) && !steps.cancel(8));
        steps.wait(9, 2, reader, 3);
        assert_eq!(steps.forget(2), [9]);
        // It has the bytes of all records, but was not told so.
        registry.close(1, writer, 0, false);
        registry.commit(area, true);
        assert_eq!(steps.reach(2, reader, &mut registry), Reply::Whole);
        assert!(registry.opens.get(&reader).unwrap().is_part);
        assert_eq!(steps.records(2, reader, 3, &mut registry), Some(Reply::Records(None)));
        assert!(!registry.opens.get(&reader).unwrap().is_part);
    }
}
