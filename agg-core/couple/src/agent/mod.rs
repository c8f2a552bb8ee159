//! The agent: one process a node and user that knows the names of coupled files and holds their
//! memory. One thread; it sleeps unless a program wants something or ends.

mod answers;
mod background;
mod caller;
mod clients;
mod complete;
mod deferred;
mod disk;
mod forward;
mod generations;
mod handover;
mod inbound;
mod kept_bytes;
mod lifetime;
mod links;
mod listing;
mod memory;
mod multi_writer;
mod pending_events;
mod poll;
mod pulls;
mod readers;
mod renames;
mod replica_sync;
mod run;
mod serve;
mod socket_watch;
mod spill;
mod status;
mod step;
mod survive;
mod waits;

#[cfg(test)]
mod background_tests;
#[cfg(test)]
mod multi_writer_tests;
#[cfg(test)]
mod pushes_tests;
#[cfg(test)]
mod step_tests;
#[cfg(test)]
mod survive_tests;
#[cfg(test)]
mod tests;

use crate::peers::Peers;
use crate::place::Place;
use crate::protocol::Reply;
use crate::registry::{Directory, Effect, Options, Process};
use aggio_base::log;
use aggio_base::log::Level;
use aggio_config::settings::couple::CoupleLink;
use background::Background;
use clients::Clients;
use generations::Generations;
use lifetime::Lifetime;
use links::Links;
use poll::poll;
pub use run::run;
use socket_watch::SocketWatch;
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};
use survive::Survivors;
use waits::Waits;

/// How often a file is looked at after a description that could write was closed, once a
/// millisecond.
const LOOKS: u32 = 50;

/// All that an agent has.
#[derive(Debug)]
pub struct Agent {
    links: Links,
    own: Generations,
    clients: Clients,
    waits: Waits,
    /// Agents of other nodes, where the directory is one that several nodes may see.
    peers: Option<Peers>,
    /// Files that are looked at again soon, and how often they were.
    closing: BTreeMap<u64, u32>,
    /// Events before a request are just being found out.
    catches_up: bool,
    lifetime: Lifetime,
    folders: spill::Folders,
    survivors: Survivors,
    background: Background,
    steps: step::Steps,
    storage: disk::Storage,
}

/// Events, in the order in which they are served.
enum Source {
    /// A description that could write was closed.
    Areas,
    Storage,
    Connection(u64),
    Client(Process),
    Listener,
    /// Something that is heard in any case.
    Other,
}

impl Agent {
    /// The agent of the directory `path`, which reaches others by `link`; `None` if there is one
    /// already.
    ///
    /// # Errors
    /// The directory is not the user's alone; the system has no memory files or no local sockets,
    /// or not this link.
    pub fn new(path: &str, link: CoupleLink) -> io::Result<Option<Self>> {
        let place = Place::open(path)?;
        let Some(lock) = place.lock("lock", false)? else { return Ok(None) };
        place.remove("sock");
        let links = Links::new(&place.file("sock"))?;
        let socket_watch = SocketWatch::new(place, lock)?;
        let place = socket_watch.place();
        let peers = if place.is_own() { None } else { Some(Peers::new(place, fresh(), link)?) };
        Ok(Some(Self {
            links,
            own: Generations::new(fresh())?,
            clients: Clients::default(),
            waits: Waits::default(),
            peers,
            closing: BTreeMap::new(),
            catches_up: false,
            lifetime: Lifetime::begin(socket_watch),
            folders: spill::Folders::default(),
            survivors: Survivors::default(),
            background: Background::new()?,
            steps: step::Steps::default(),
            storage: disk::Storage::default(),
        }))
    }

    /// Serves programs until nothing is left to do.
    ///
    /// # Errors
    /// The system refuses to report events.
    pub fn run(&mut self) -> io::Result<()> {
        // A lease that is being broken is told by a signal that would end the process.
        // SAFETY: the disposition of one signal changes; no handler is installed.
        unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
        while !self.is_done() {
            self.turn()?;
        }
        if let Some(peers) = &self.peers {
            peers.nodes.directory.withdraw();
        }
        self.survivors.leave(self.lifetime.quits);
        self.lifetime.socket_watch.leave();
        Ok(())
    }

    /// Waits for the next event, and serves it.
    fn turn(&mut self) -> io::Result<()> {
        let listener = self.links.events();
        let mut sources = vec![(Source::Areas, self.own.memory.areas.events())];
        sources.push((Source::Storage, self.storage.events()));
        sources.extend(self.links.all().map(|(link, fd)| (Source::Connection(link), fd)));
        sources.extend(self.clients.lives().map(|(process, fd)| (Source::Client(process), fd)));
        sources.push((Source::Listener, listener));
        let others = [
            self.lifetime.socket_watch.events(),
            self.own.memory.spares.events(),
            self.background.events(),
        ];
        let peers = self
            .peers
            .iter()
            .flat_map(|all| [all.nodes.descriptor(), all.replication.replicas.events()]);
        sources.extend(others.into_iter().chain(peers).map(|fd| (Source::Other, fd)));
        let timeout = self.until_next().map(|left| left + Duration::from_millis(1));
        let happened = match poll(sources.into_iter(), timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            happened => happened?,
        };
        let again = std::mem::take(&mut self.closing);
        again.into_iter().for_each(|(area, looks)| self.look_again(area, looks));
        for source in happened {
            match source {
                Source::Areas => {
                    let closed = self.own.memory.areas.closed();
                    closed.into_iter().for_each(|area| self.look_again(area, 0));
                }
                Source::Storage => self.storage.hear(&mut self.own.registry),
                Source::Connection(link) => self.hear(link),
                Source::Client(process) => self.lose(process),
                Source::Listener => self.links.accept(&mut self.own.registry),
                Source::Other => {}
            }
        }
        self.lifetime.socket_watch.hear();
        self.own.memory.spares.hear();
        self.storage.try_again(&mut self.own.registry);
        if self.folders.try_again(&mut self.own.registry) {
            self.settle();
        }
        self.folders.forget_told(&self.own.registry);
        self.hear_background();
        self.hear_peers()?;
        self.settle();
        self.remind();
        self.save();
        Ok(())
    }

    /// How long nothing has to be done unless something happens.
    fn until_next(&self) -> Option<Duration> {
        let reminder = self.waits.next();
        let again = self.storage.next();
        let folders = self.folders.next();
        let end = self.lifetime.end(&self.own.registry);
        let is_closing = |peers: &Peers| !peers.replication.replicas.closing.is_empty();
        let looks = !self.closing.is_empty() || self.peers.as_ref().is_some_and(is_closing);
        let look = looks.then(Instant::now);
        let spare = self.own.memory.spares.until();
        let records = self.steps.next();
        let next = [reminder, again, folders, end, look, spare, records, self.links.next()];
        let next = next.into_iter().flatten().min();
        let next = next.map(|next| next.saturating_duration_since(Instant::now()));
        let peers = self.peers.as_ref().and_then(|peers| peers.nodes.timeout());
        next.into_iter().chain(peers).min()
    }

    /// Tells of waits that have lasted another minute.
    fn remind(&mut self) {
        let mut all = self.steps.reminders(&self.own.registry);
        all.extend(self.waits.reminders(&self.own.registry, &self.own.memory.areas));
        for (link, text) in all {
            log!(Level::Warn, "agent: {text}");
            self.reply(link, &Reply::Waits(text), None);
        }
    }

    /// Carries out effects of the registry, until nothing changes any more.
    fn settle(&mut self) {
        self.own.memory.free_left(&self.own.registry);
        loop {
            if let Some(number) = self.carry_out(0) {
                let error = io::Error::from_raw_os_error(number);
                log!(Level::Error, "agent: memory of a generation: {error}");
            }
            self.own.memory.measure_for_waits(&self.waits, &mut self.own.registry);
            if let Some((waiting, answer)) = self.waits.ready(&mut self.own.registry) {
                self.answer(&waiting, answer);
            } else if !self.own.move_ahead() && self.own.registry.files.effects.is_empty() {
                break;
            }
        }
        self.finish_held();
        for (link, reply) in self.steps.answers(&mut self.own.registry) {
            self.reply(link, &reply, None);
        }
    }

    /// Carries out effects on memory; the number of the first error, if any.
    fn carry_out(&mut self, mode: u32) -> Option<i32> {
        let mut failed = None;
        loop {
            let effects = self.own.registry.effects();
            if effects.is_empty() {
                return failed;
            }
            for effect in effects {
                let result = match effect {
                    Effect::Make(area, Some(source)) => self.make_copy(area, mode, source),
                    Effect::Make(area, None) => {
                        let (registry, survivors) = (&self.own.registry, &mut self.survivors);
                        self.own.memory.make(area, (mode, None), registry, survivors)
                    }
                    Effect::Empty(area) => self.empty(area),
                    Effect::Look(area) => self.look_at(area),
                    Effect::Store(area, path) => {
                        self.store(area, path);
                        Ok(())
                    }
                    Effect::Move(area, directory) => {
                        self.move_out(area, &directory);
                        Ok(())
                    }
                    Effect::Remove(path) => {
                        self.storage.remove(path);
                        Ok(())
                    }
                    Effect::Dropped(path, number) => {
                        let path = String::from_utf8_lossy(&path);
                        let text = "was given up unread: the budget is used up";
                        log!(Level::Warn, "agent: {path}: generation {number} {text}");
                        Ok(())
                    }
                    Effect::Free(area) => {
                        self.steps.remove(area);
                        self.survivors.give_up(area);
                        self.own.memory.free(area, &self.own.registry);
                        self.free_hosted(area);
                        Ok(())
                    }
                };
                if let Err(error) = result {
                    failed.get_or_insert(error.raw_os_error().unwrap_or(libc::EIO));
                }
            }
        }
    }

    /// Writes the changed records of files with generations that survive.
    fn save(&mut self) {
        self.survivors.save(&mut self.own.registry, &self.own.memory.areas, &self.clients);
    }

    /// Takes over the files that an earlier agent has left under a rule.
    ///
    /// # Errors
    /// Its directory cannot be used.
    fn find_survivors(&mut self, options: &Options) -> io::Result<()> {
        let directory = options.spill.as_ref().filter(|_| options.survives);
        directory.map_or(Ok(()), |directory| self.find_in(directory))
    }

    /// The same for all that is in a directory.
    ///
    /// # Errors
    /// It cannot be used.
    fn find_in(&mut self, directory: &Directory) -> io::Result<()> {
        let (registry, areas, clients) =
            (&mut self.own.registry, &mut self.own.memory.areas, &mut self.clients);
        if self.survivors.find(
            directory,
            self.lifetime.socket_watch.place(),
            registry,
            areas,
            clients,
        )? {
            self.settle();
        }
        Ok(())
    }
}

/// A number that no earlier agent has given: programs may still hold its numbers.
fn fresh() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| (now.as_micros() as u64) << 8)
}
