//! `ready=step`: records of netCDF files that readers get while others are still being written.
//!
//! The writer's program tells when it has written the number of records, after that call. What the
//! header says then, and the bytes of the records that are there, decide what readers are told of
//! instead of the number in the file, which may be written before its records are.

use super::Agent;
use crate::classic::Header;
use crate::protocol::{Before, Reply};
use crate::records::{self, News};
use crate::registry::{Area, Handle, Process, State};
use aggio_base::log;
use aggio_base::log::Level;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// How often a wait is told of.
const REMINDS: Duration = Duration::from_secs(60);

/// What is known of a generation whose records are read while it is written.
#[derive(Debug, Default)]
pub(super) struct Step {
    header: Header,
    /// The process that has written the number of records last.
    writer: Process,
    /// Records that it has announced, and has written as far as is known.
    announced: u64,
    /// Those of which all bytes are there.
    there: u64,
    /// The header was changed: the rest is for readers of the whole file.
    is_spoiled: bool,
    /// Opens for reading that know the header which holds no more.
    spoiled: BTreeSet<Handle>,
}

/// A reader that waits for more records.
#[derive(Debug)]
pub(super) struct Waits {
    link: u64,
    process: Process,
    handle: Handle,
    /// One more than the number that it knows.
    told: u64,
    since: Instant,
    reminded: u32,
}

/// For what nodes are to send what they have written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gathering {
    Sync(Process, Handle),
    Announce(Process, Handle, Before),
}

impl Step {
    /// What may be news behind the records that are there.
    pub(super) fn news(&self) -> News {
        News::behind(&self.header, self.there)
    }
}

impl Waits {
    fn next(&self) -> Instant {
        self.since + REMINDS * (self.reminded + 1)
    }
}

impl Agent {
    /// Whether a process has written the number of records last.
    pub(super) fn has_announced(&self, area: Area, process: Process) -> bool {
        self.steps.get(&area).is_some_and(|step| step.writer == process)
    }

    /// Whether readers may have records of a generation that is being written.
    pub(super) fn is_step(&self, area: Area) -> bool {
        let generation = self.registry.generations.get(&area);
        generation
            .is_some_and(|one| one.step && one.copy_of.is_none() && one.state == State::Writing)
    }

    /// A process has written the number of records of `area`, or written all that it announces.
    pub(super) fn announce(&mut self, area: Area, process: Process, before: Before) {
        // A copy that is being changed is for no reader before it is complete.
        if !self.is_step(area) {
            return;
        }
        if self.steps.get(&area).is_some_and(|step| step.is_spoiled) {
            return;
        }
        let header = self.header(area).unwrap_or_default();
        match (self.steps.get_mut(&area), header) {
            // Before its first record a header may still get variables.
            (None, header) if header.as_ref().is_none_or(|header| header.records == 0) => return,
            (None, None) => return,
            (None, Some(header)) => {
                self.steps.insert(area, Step { header, ..Step::default() });
            }
            (Some(step), Some(header)) if step.header.rest == header.rest => step.header = header,
            (Some(_), _) => return self.spoil(area),
        }
        if let Some(step) = self.steps.get_mut(&area) {
            let written = records::announced(&step.header, before);
            step.announced = step.announced.max(written);
            step.writer = process;
        }
        self.count(area);
    }

    fn header(&self, area: Area) -> io::Result<Option<Header>> {
        records::header(self.areas.open(area, true, false, false)?.as_raw_fd())
    }

    /// Finds out how many of the announced records are there.
    fn count(&mut self, area: Area) {
        let Some(step) = self.steps.get(&area).filter(|step| !step.is_spoiled) else { return };
        let there = self.records_there(area, step).unwrap_or(step.there);
        if let Some(step) = self.steps.get_mut(&area) {
            step.there = there;
        }
        self.registry.show_records(area, there);
    }

    fn records_there(&self, area: Area, step: &Step) -> io::Result<u64> {
        let fd = self.areas.open(area, true, false, false)?;
        records::there(fd.as_raw_fd(), &step.header, step.there, step.announced)
    }

    /// The header of a generation is another one now: who has read the one before cannot go on.
    pub(super) fn spoil(&mut self, area: Area) {
        let Some(step) = self.steps.get_mut(&area) else { return };
        let opens = self.registry.opens.iter();
        let readers = opens.filter(|(_, open)| open.area == area && !open.write);
        step.spoiled.extend(readers.map(|(handle, _)| *handle));
        step.is_spoiled = true;
        self.registry.hide_records(area);
        let path = self.registry.generations.get(&area).map(|one| one.path.clone());
        let path = path.unwrap_or_default();
        let text = "its header was changed while its records were read (ready=step)";
        log!(Level::Warn, "agent: {}: {text}", String::from_utf8_lossy(&path));
    }

    /// Answers how many records a reader may have, now or when there are more than it knows.
    pub(super) fn serve_records(&mut self, link: u64, process: Process, handle: u64, told: u64) {
        let open = self.registry.opens.get(&handle).copied();
        if let Some(area) = open.map(|open| open.area) {
            self.count(area);
        }
        if let Some(reply) = self.records(process, handle, told) {
            self.settle();
            self.reply(link, &reply, None);
            return;
        }
        if let Some(found) = self.links.get_mut(&link) {
            found.waits = true;
        }
        let since = Instant::now();
        self.record_waits.push(Waits { link, process, handle, told, since, reminded: 0 });
        self.settle();
    }

    /// `None` if it has to wait.
    fn records(&mut self, process: Process, handle: Handle, told: u64) -> Option<Reply> {
        let open = self.registry.opens.get(&handle).filter(|open| open.process == process);
        let Some(open) = open.copied() else { return Some(self.lost(process, handle)) };
        let Some(generation) = self.registry.generations.get(&open.area) else {
            self.registry.has_told_of_death(process, open.area);
            let text = "the writer of an open file died before it was complete (ready=step)";
            return Some(Reply::Failed(libc::EIO, text.into()));
        };
        let step = self.steps.get(&open.area);
        if step.is_some_and(|step| step.spoiled.contains(&handle)) {
            let path = String::from_utf8_lossy(&generation.path);
            let text = "its writer has changed the header that this reader knows (ready=step)";
            return Some(Reply::Failed(libc::EIO, format!("{path}: {text}")));
        }
        let is_own = generation.jobs.contains(&self.registry.processes.get(&process)?.job);
        let name = self.registry.names.get(&generation.path);
        let now = name.is_some_and(|name| name.options.records_now);
        match step.filter(|_| generation.state == State::Writing && !is_own) {
            None => {
                self.registry.has_all_records(handle);
                Some(Reply::Records(None))
            }
            Some(step) if now || step.there >= told => {
                Some(Reply::Records(Some((step.there, step.header.width as u64))))
            }
            Some(_) => None,
        }
    }

    /// Answers readers for which there are more records, and all if the file is complete.
    pub(super) fn answer_records(&mut self) {
        for waits in std::mem::take(&mut self.record_waits) {
            match self.records(waits.process, waits.handle, waits.told) {
                Some(reply) => drop(self.reply(waits.link, &reply, None)),
                None => self.record_waits.push(waits),
            }
        }
    }

    /// The wait of a connection, if it is one for records, ends without an answer.
    pub(super) fn forget_records(&mut self, link: u64) -> bool {
        let before = self.record_waits.len();
        self.record_waits.retain(|waits| waits.link != link);
        self.record_waits.len() < before
    }

    /// A process of another node has ended: it waits for nothing.
    pub(super) fn forget_records_of(&mut self, process: Process) {
        let ended: Vec<Waits> =
            self.record_waits.extract_if(.., |waits| waits.process == process).collect();
        if let Some(peers) = &mut self.peers {
            ended.iter().for_each(|waits| _ = peers.answers.remove(&waits.link));
        }
    }

    /// When a wait is to be told of.
    pub(super) fn next_records(&self) -> Option<Instant> {
        self.record_waits.iter().map(Waits::next).min()
    }

    /// Tells of waits that have lasted another minute.
    pub(super) fn remind_of_records(&mut self) {
        let now = Instant::now();
        let mut texts = Vec::new();
        for waits in self.record_waits.iter().filter(|waits| waits.next() <= now) {
            let open = self.registry.opens.get(&waits.handle);
            let generation = open.and_then(|open| self.registry.generations.get(&open.area));
            let Some(generation) = generation else { continue };
            let who = self.registry.processes.get(&waits.process).map_or("", |who| &who.label);
            let (path, number) = (String::from_utf8_lossy(&generation.path), generation.number);
            let (seconds, record) = (waits.since.elapsed().as_secs(), waits.told);
            let text = format!(
                "{path}: {who} has waited {seconds} s for record {record} of generation {number}; \
                 {} is writing it",
                generation.maker
            );
            texts.push((waits.link, text));
        }
        for waits in self.record_waits.iter_mut().filter(|waits| waits.next() <= now) {
            waits.reminded += 1;
        }
        for (link, text) in texts {
            log!(Level::Warn, "agent: {text}");
            self.reply(link, &Reply::Waits(text), None);
        }
    }
}
