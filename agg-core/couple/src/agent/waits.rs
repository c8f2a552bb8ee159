//! Opens that wait, and what is said of those that wait long.

use super::Agent;
use crate::peers::{Message, Peers, Ticket};
use crate::protocol::{Reply, Request};
use crate::registry::{Ask, Path, Process};
use aggio_base::log;
use aggio_base::log::Level;
use aggio_link::{Body, Peer};
use std::time::{Duration, Instant};

/// How often a wait is told of.
const REMINDS: Duration = Duration::from_secs(60);

/// How a descriptor is to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) read: bool,
    pub(super) write: bool,
    pub(super) append: bool,
}

/// An open that has not been answered.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) link: u64,
    pub(super) process: Process,
    pub(super) access: Access,
    pub(super) since: Instant,
    /// How often it was told of.
    pub(super) told: u32,
    pub(super) mode: u32,
    /// The program fetches what it reads.
    pub(super) parts: bool,
    pub(super) path: Path,
}

impl Waiting {
    fn next(&self) -> Instant {
        self.since + REMINDS * (self.told + 1)
    }
}

impl Agent {
    pub(super) fn make_wait(&mut self, waiting: Waiting, ask: Ask) {
        self.last += 1;
        self.registry.wait(self.last, waiting.process, ask);
        if let Some(link) = self.links.get_mut(&waiting.link) {
            link.waits = true;
        }
        self.waits.insert(self.last, waiting);
        self.settle();
        self.name_cycle();
    }

    /// An open that an owner was asked for, and has not answered, is not wanted any more.
    pub(super) fn cancel_away(&mut self, link: u64) {
        let Some(peers) = &mut self.peers else { return };
        let is_it = |kept: &Ticket| kept.link == link && kept.opened.is_none();
        let waiting = peers.tickets.iter().filter(|(_, kept)| is_it(kept));
        let waiting: Vec<(u64, Peer, Process)> =
            waiting.map(|(ticket, kept)| (*ticket, kept.peer, kept.process)).collect();
        for (ticket, peer, process) in waiting {
            let request = Request::Cancel.encode();
            // A connection that has ended is told soon, with all its tickets.
            let _ = peers.say(peer, &Message::Ask { process, ticket, request }, Body::None);
        }
    }

    /// How long nothing has to be done unless something happens.
    pub(super) fn until_next(&self) -> Option<Duration> {
        let reminder = self.waits.values().map(Waiting::next).min();
        let again = self.failed.iter().map(|failed| failed.again).min();
        let folders = self.folders.again;
        let end = self.idle_since.map(|since| since + self.linger());
        let is_closing = |peers: &Peers| !peers.closing.is_empty();
        let looks = !self.closing.is_empty() || self.peers.as_ref().is_some_and(is_closing);
        let look = looks.then(Instant::now);
        let spare = self.spares.until();
        let records = self.next_records();
        let next = [reminder, again, folders, end, look, spare, records, self.listener.rests];
        let next = next.into_iter().flatten().min();
        let next = next.map(|next| next.saturating_duration_since(Instant::now()));
        let peers = self.peers.as_ref().and_then(|peers| peers.timeout());
        next.into_iter().chain(peers).min()
    }

    /// Tells of waits that have lasted another minute.
    pub(super) fn remind(&mut self) {
        self.remind_of_records();
        let now = Instant::now();
        let due: Vec<u64> =
            self.waits.iter().filter(|(_, one)| one.next() <= now).map(|(wait, _)| *wait).collect();
        for wait in due {
            let Some(text) = self.describe(wait) else { continue };
            log!(Level::Warn, "agent: {text}");
            let Some(waiting) = self.waits.get_mut(&wait) else { continue };
            waiting.told += 1;
            let link = waiting.link;
            self.reply(link, &Reply::Waits(text), None);
        }
    }

    /// Who waits for whom, for which file and generation.
    pub(super) fn describe(&self, wait: u64) -> Option<String> {
        let waiting = self.waits.get(&wait)?;
        let path = String::from_utf8_lossy(&waiting.path);
        let seconds = waiting.since.elapsed().as_secs();
        let who = self.registry.processes.get(&waiting.process).map_or("", |who| &who.label);
        if waiting.access.write {
            let bytes = self.areas.bytes();
            let full = self.full_folders();
            let full = full.map(|(directory, error)| format!("; {directory} is full: {error}"));
            return Some(format!(
                "{path}: {who} has waited {seconds} s for memory: all generations have {bytes} \
                 bytes, with the next one no less than their budget, and some were not read{}",
                full.collect::<String>()
            ));
        }
        let next = self.registry.next_number(waiting.process, &waiting.path);
        let name = self.registry.names.get(&waiting.path);
        let newest = name.and_then(|name| name.generations.values().next_back());
        let newest = newest.and_then(|area| Some((area, self.registry.generations.get(area)?)));
        let whom = match (newest, name.and_then(|name| name.writer)) {
            (Some((area, generation)), _) if generation.number >= next => {
                let bytes = self.areas.stat(*area, 0).map_or(0, |stat| stat.size);
                format!("{} has it open for writing ({bytes} bytes so far)", generation.maker)
            }
            (_, Some(writer)) => format!("{} wrote the one before", self.registry.label(writer)),
            (_, None) => "no program has opened it for writing".into(),
        };
        Some(format!("{path}: {who} has waited {seconds} s for generation {next}; {whom}"))
    }

    /// Says once that programs wait for each other.
    fn name_cycle(&mut self) {
        let Some(cycle) = self.registry.cycle() else {
            self.told_cycle = false;
            return;
        };
        if std::mem::replace(&mut self.told_cycle, true) {
            return;
        }
        let labels: Vec<&str> = cycle.iter().map(|job| self.registry.label(*job)).collect();
        let text = format!("programs wait for each other: {}", labels.join(", for "));
        log!(Level::Warn, "agent: {text}");
        let jobs = |process: &Process| self.registry.processes.get(process).map(|who| who.job);
        let links: Vec<u64> = self
            .waits
            .values()
            .filter(|waiting| jobs(&waiting.process).is_some_and(|job| cycle.contains(&job)))
            .map(|waiting| waiting.link)
            .collect();
        for link in links {
            self.reply(link, &Reply::Waits(text.clone()), None);
        }
    }
}
