//! The agent: one process a node and user that knows the names of coupled files and holds their
//! memory. One thread; it sleeps unless a program wants something or ends.

mod answers;
mod aside;
mod away;
mod before;
mod clients;
mod disk;
mod early;
mod handover;
mod keeping;
mod links;
mod listing;
mod memory;
mod offers;
mod owners;
mod parts;
mod pulls;
mod reach;
mod remote;
mod renames;
mod run;
mod sending;
mod serve;
mod several;
mod spill;
mod spread;
mod status;
mod step;
mod survive;
mod taking;
mod waits;

#[cfg(test)]
mod aside_tests;
#[cfg(test)]
mod spread_tests;
#[cfg(test)]
mod step_tests;
#[cfg(test)]
mod survive_tests;
#[cfg(test)]
mod tests;

use crate::areas::{Areas, Quiet};
use crate::keeper::Keeper;
use crate::peers::{ALL, Peers};
use crate::place::Place;
use crate::registry::{Effect, Process, Registry, State};
use crate::spares::Spares;
use aggio_base::log;
use aggio_base::log::Level;
use aggio_base::spare_memory;
use aggio_config::settings::couple::CoupleLink;
use clients::ClientProcess;
use links::Link;
pub(crate) use links::address;
use pulls::After;
use reach::Reach;
pub use run::run;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::time::{Duration, Instant};
use waits::Waiting;

/// How often a file is looked at after a description that could write was closed, once a
/// millisecond.
const LOOKS: u32 = 50;

/// How long an agent without programs and generations stays.
const LINGERS: Duration = Duration::from_millis(500);

/// How long it stays if a program may still have to learn that a writer died.
const LINGERS_AFTER_DEATH: Duration = Duration::from_secs(10);

/// All that an agent has.
#[derive(Debug)]
pub struct Agent {
    place: Place,
    _lock: OwnedFd,
    listener: links::Listener,
    reach: Reach,
    registry: Registry,
    areas: Areas,
    spares: Spares,
    pages: memory::Pages,
    links: BTreeMap<u64, Link>,
    clients: BTreeMap<Process, ClientProcess>,
    waits: BTreeMap<u64, Waiting>,
    /// Agents of other nodes, where the directory is one that several nodes may see.
    peers: Option<Peers>,
    /// Generations of which other nodes were told something that they have not done yet.
    pending: BTreeMap<u64, several::Pending>,
    /// Bytes that are fetched from the nodes that keep them.
    pulls: pulls::Pulls,
    /// Opens for writing whose programs have no descriptor yet.
    promised: BTreeSet<(u64, u64)>,
    /// Handles of which what was written is lost: whose they are, and why.
    lost: BTreeMap<u64, (Process, String)>,
    jobs: clients::Numbers,
    /// Files that are looked at again soon, and how often they were.
    closing: BTreeMap<u64, u32>,
    /// What happened before a request is just being found out.
    catches_up: bool,
    began: Instant,
    idle_since: Option<Instant>,
    told_cycle: bool,
    /// Bytes of all generations that became complete.
    written: u64,
    /// Bytes of memory that there were at most.
    peak: u64,
    folders: spill::Folders,
    spools: survive::Spools,
    quit: bool,
    keeper: Option<Keeper>,
    aside: aside::Aside,
    /// Generations whose records are read while they are written, and who waits for more.
    steps: BTreeMap<u64, step::Step>,
    record_waits: Vec<step::Waits>,
    /// Errors of files that their writers have not been told.
    troubles: BTreeMap<Vec<u8>, (i32, String)>,
    failed: Vec<disk::Failed>,
    /// Bytes that generations may have where no rule says so.
    limit: u64,
    /// It was started by hand: it stays until the first program has come.
    stays: bool,
    last: u64,
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
        let listener = links::Listener::new(&place.file("sock"))?;
        let reach = Reach::new(&place)?;
        let peers = if place.is_own() { None } else { Some(Peers::new(&place, fresh(), link)?) };
        Ok(Some(Self {
            place,
            _lock: lock,
            listener,
            reach,
            registry: Registry::behind(fresh()),
            areas: Areas::new()?,
            spares: Spares::default(),
            pages: memory::Pages::default(),
            links: BTreeMap::new(),
            clients: BTreeMap::new(),
            waits: BTreeMap::new(),
            peers,
            pending: BTreeMap::new(),
            pulls: pulls::Pulls::default(),
            promised: BTreeSet::new(),
            lost: BTreeMap::new(),
            jobs: clients::Numbers::default(),
            closing: BTreeMap::new(),
            catches_up: false,
            began: Instant::now(),
            idle_since: None,
            told_cycle: false,
            written: 0,
            peak: 0,
            folders: spill::Folders::default(),
            spools: survive::Spools::default(),
            quit: false,
            keeper: None,
            aside: aside::Aside::new()?,
            steps: BTreeMap::new(),
            record_waits: Vec::new(),
            troubles: BTreeMap::new(),
            failed: Vec::new(),
            limit: spare_memory::limit().unwrap_or(0) / 2,
            stays: false,
            last: 0,
        }))
    }

    /// Serves programs until nothing is left to do.
    ///
    /// # Errors
    /// The system refuses to tell what happens.
    pub fn run(&mut self) -> io::Result<()> {
        // A lease that is being broken is told by a signal that would end the process.
        // SAFETY: the disposition of one signal changes; no handler is installed.
        unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
        while !self.is_done() {
            self.turn()?;
        }
        if let Some(peers) = &self.peers {
            peers.directory.withdraw();
        }
        self.leave_spools();
        // Where the socket is gone, the names may be another agent's by now.
        if !self.reach.is_lost() {
            ["sock", "start", "lock"].into_iter().for_each(|name| self.place.remove(name));
        }
        Ok(())
    }

    /// Waits for what happens next, and serves it.
    fn turn(&mut self) -> io::Result<()> {
        let mut polled: Vec<libc::pollfd> = Vec::new();
        let watch = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        polled.push(watch(self.listener.events()));
        polled.push(watch(self.areas.events()));
        let links: Vec<u64> = self.links.keys().copied().collect();
        polled.extend(self.links.values().map(|link| watch(link.packets.fd())));
        polled.push(watch(self.keeper.as_ref().map_or(-1, Keeper::events)));
        let clients: Vec<Process> = self.clients.keys().copied().collect();
        polled.extend(self.clients.values().map(|client| watch(client.life())));
        if let Some(peers) = &self.peers {
            polled.extend([watch(peers.descriptor()), watch(peers.copies.events())]);
        }
        let timeout = self
            .until_next()
            .map_or(-1, |left| i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX));
        polled.extend([watch(self.reach.events()), watch(self.spares.events())]);
        polled.push(watch(self.aside.events()));
        // SAFETY: the kernel reads and writes the entries of the local vector.
        let count =
            unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout) };
        if count == -1 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        let happened = |index: usize| polled[index].revents != 0;
        let again = std::mem::take(&mut self.closing);
        again.into_iter().for_each(|(area, looks)| self.look_again(area, looks));
        if happened(1) {
            for area in self.areas.closed() {
                self.look_again(area, 0);
            }
        }
        if happened(2 + links.len()) {
            self.hear_keeper();
        }
        for (index, link) in links.iter().enumerate() {
            if happened(2 + index) {
                self.hear(*link);
            }
        }
        for (index, client) in clients.iter().enumerate() {
            if happened(3 + links.len() + index) {
                self.lose(*client);
            }
        }
        if happened(0) {
            self.accept();
        }
        self.reach.hear();
        self.spares.hear();
        self.store_again();
        self.try_folders_again();
        self.hear_aside();
        self.hear_peers()?;
        self.settle();
        self.remind();
        self.save();
        Ok(())
    }

    /// Does what the registry wants done, until nothing changes any more.
    fn settle(&mut self) {
        self.free_left();
        loop {
            if let Some(number) = self.carry_out(0) {
                let error = io::Error::from_raw_os_error(number);
                log!(Level::Error, "agent: memory of a generation: {error}");
            }
            self.measure_for_waits();
            if let Some((wait, answer)) = self.registry.ready() {
                let Some(waiting) = self.waits.remove(&wait) else { continue };
                self.answer(&waiting, answer);
            } else if !self.move_ahead() && !self.registry.has_effects() {
                break;
            }
        }
        self.answer_pending();
        self.answer_records();
    }

    /// Carries out what is to be done with memory; the number of the first error, if any.
    fn carry_out(&mut self, mode: u32) -> Option<i32> {
        let mut failed = None;
        loop {
            let effects = self.registry.effects();
            if effects.is_empty() {
                return failed;
            }
            for effect in effects {
                let result = match effect {
                    Effect::Make(area, Some(source)) => self.make_copy(area, mode, source),
                    Effect::Make(area, None) => self.make(area, mode, None),
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
                        self.remove_stored(path);
                        Ok(())
                    }
                    Effect::Dropped(path, number) => {
                        let path = String::from_utf8_lossy(&path);
                        let text = "was given up unread: the budget is used up";
                        log!(Level::Warn, "agent: {path}: generation {number} {text}");
                        Ok(())
                    }
                    Effect::Free(area) => {
                        self.steps.remove(&area);
                        self.free(area);
                        self.free_hosted(area);
                        self.end_pending(area);
                        Ok(())
                    }
                };
                if let Err(error) = result {
                    failed.get_or_insert(error.raw_os_error().unwrap_or(libc::EIO));
                }
            }
        }
    }

    /// After a description that could write was closed: the kernel tells that before it counts one
    /// fewer, so that a file may be found open that is not.
    fn look_again(&mut self, area: u64, looks: u32) {
        self.look(area);
        let generation = self.registry.generations.get(&area);
        if looks < LOOKS && generation.is_some_and(|one| one.state == State::Writing) {
            self.closing.insert(area, looks + 1);
        }
    }

    /// Makes the memory of a generation that begins with the bytes of another one. Bytes that other
    /// nodes have stay there.
    fn make_copy(&mut self, area: u64, mode: u32, source: u64) -> io::Result<()> {
        if let Some(peers) = &mut self.peers {
            peers.locations.inherit(area, source);
        }
        match self.is_large(source) {
            true => self.copy_aside(area, mode, source),
            false => self.make(area, mode, Some(source)),
        }
    }

    /// Completes a generation if nobody can write to it any more. An error is its writer's.
    fn look(&mut self, area: u64) {
        if let Err(error) = self.look_at(area)
            && let Some(generation) = self.registry.generations.get(&area)
        {
            let number = error.raw_os_error().unwrap_or(libc::EIO);
            self.troubles.insert(generation.path.clone(), (number, error.to_string()));
        }
    }

    fn look_at(&mut self, area: u64) -> io::Result<()> {
        let Some(generation) = self.registry.generations.get(&area) else { return Ok(()) };
        if self.aside.fills(area) || self.is_hosted(area) || self.is_promised(area) {
            return Ok(());
        }
        let is_open = || self.registry.opens.values().any(|open| open.area == area && open.write);
        let quiet = generation.state == State::Writing
            && match self.areas.is_quiet(area) {
                Quiet::Yes => true,
                Quiet::No => false,
                Quiet::Unknown => !is_open(),
            };
        // What a process wrote that dies before this is complete is dead: its end is yet to come.
        if quiet && !self.any_dies(&generation.writers) {
            if self.must_be_here(area) && self.pulls_first(area, &[ALL], After::Look(area)).is_ok()
            {
                return Ok(());
            }
            let Some(generation) = self.registry.generations.get(&area) else { return Ok(()) };
            let (copy_of, written) = (generation.copy_of, generation.written);
            self.note_peak();
            if let Err(error) = self.areas.trim(area) {
                log!(Level::Debug, "agent: memory that nobody wrote to is kept: {error}");
            }
            let changed = if written { Some(true) } else { self.is_changed(area, copy_of) };
            let Some(changed) = changed else { return Ok(()) };
            self.registry.commit(area, changed);
            let stat = self.areas.stat(area, 0).unwrap_or_default();
            self.registry.weigh(area, 512 * stat.blocks);
            self.spares.note(area, 512 * stat.blocks, 512 * stat.blocks >= stat.size / 8 * 7);
            self.written += stat.size;
            self.tell_readers(area);
            self.offer(area, stat.size, stat.mode & 0o7777);
            return self.keep(area);
        }
        Ok(())
    }

    /// Whether nothing is left to do, and has not been for a while.
    fn is_done(&mut self) -> bool {
        let is_lost = self.reach.is_lost() && self.clients.is_empty();
        if is_lost && self.registry.store_all(false) > 0 {
            self.settle();
        }
        let is_busy = self.is_storing();
        if self.quit && self.clients.is_empty() && !is_busy {
            return true;
        }
        if is_lost && !is_busy {
            let left = self.registry.generations.len();
            let text = "its socket was removed, so that no program can reach it";
            log!(Level::Warn, "agent: ends with {left} generations that nobody read: {text}");
            return true;
        }
        let is_needed = self.peers.as_ref().is_some_and(|peers| !peers.are_idle());
        let serves = is_busy || is_needed || !self.links.is_empty();
        if self.stays || serves || !self.registry.is_empty() {
            self.idle_since = None;
            return false;
        }
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        since.elapsed() >= self.linger()
    }

    fn linger(&self) -> Duration {
        if self.registry.has_unreported_deaths() { LINGERS_AFTER_DEATH } else { LINGERS }
    }
}

/// A number that no earlier agent has given: programs may still hold its numbers.
fn fresh() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| (now.as_micros() as u64) << 8)
}
