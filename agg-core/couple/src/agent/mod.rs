//! The agent: one process a node and user that knows the names of coupled files and holds their
//! memory. One thread; it sleeps unless a program wants something or ends.

mod act;
mod answers;
mod background;
mod caller;
mod clients;
mod completion;
mod deferred;
mod disk;
mod generations;
mod inbound;
mod kept_bytes;
mod lifecycle;
mod lifetime;
mod links;
mod listing;
mod memory;
mod names;
mod owner;
mod pending_events;
mod programs;
mod run;
mod serve;
mod socket_watch;
mod spill;
mod status;
mod step;
mod survive;
mod waits;
mod writers;

#[cfg(test)]
mod background_tests;
#[cfg(test)]
mod multi_writer_tests;
#[cfg(test)]
mod pushes_tests;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod step_tests;
#[cfg(test)]
mod survive_tests;
#[cfg(test)]
mod tests;

use crate::peers::{Nodes, Peers};
use crate::place::Place;
use crate::poll::poll;
use aggio_config::settings::couple::CoupleLink;
use lifetime::Lifetime;
use links::Links;
use owner::Owner;
pub use run::run;
use socket_watch::SocketWatch;
use std::io;
use std::time::{Duration, Instant};

/// How often a file is looked at after a description that could write was closed, once a
/// millisecond.
const LOOKS: u32 = 50;

/// All that an agent has: it reads what comes, calls its parts, and carries out their actions.
#[derive(Debug)]
pub struct Agent {
    links: Links,
    owner: Owner,
    /// Agents of other nodes, where the directory is one that several nodes may see.
    peers: Option<Peers>,
    /// Events before a request are just being found out.
    catches_up: bool,
    /// Actions of the owner are just being carried out.
    acts: bool,
    lifetime: Lifetime,
}

/// Events, in the order in which they are served.
enum Source {
    /// A description that could write was closed.
    Areas,
    Storage,
    Connection(u64),
    Client(u64),
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
        Self::at(|| Place::open(path), |place| Nodes::new(place, link))
    }

    /// The agent of a directory, which reaches others by `nodes`.
    fn at(
        open: impl Fn() -> io::Result<Place>,
        nodes: impl FnOnce(&Place) -> io::Result<Nodes>,
    ) -> io::Result<Option<Self>> {
        let place = open()?;
        let Some(lock) = place.lock("lock")? else { return Ok(None) };
        place.remove("sock");
        let links = Links::new(&place.file("sock"))?;
        let socket_watch = SocketWatch::new(place, lock)?;
        let place = socket_watch.place();
        let peers = if place.is_own() { None } else { Some(Peers::new(nodes(place)?, fresh())?) };
        let owner = Owner::new(open()?, fresh())?;
        let lifetime = Lifetime::begin(socket_watch);
        Ok(Some(Self { links, owner, peers, catches_up: false, acts: false, lifetime }))
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
            let timeout = self.until_next();
            self.turn(timeout)?;
        }
        if let Some(peers) = &self.peers {
            peers.nodes.directory.withdraw();
        }
        self.owner.life.survivors.leave(self.lifetime.quits);
        self.lifetime.socket_watch.leave();
        Ok(())
    }

    /// Waits for the next event, so long at most, and serves it.
    fn turn(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let (listener, life) = (self.links.events(), &self.owner.life);
        let mut sources = vec![(Source::Areas, life.own.memory.areas.events())];
        sources.push((Source::Storage, life.storage.events()));
        sources.extend(self.links.all().map(|(link, fd)| (Source::Connection(link), fd)));
        sources.extend(life.clients.lives().map(|(process, fd)| (Source::Client(process), fd)));
        sources.push((Source::Listener, listener));
        let (spares, background) = (life.own.memory.spares.events(), life.background.events());
        let others = [self.lifetime.socket_watch.events(), spares, background];
        let peers = self
            .peers
            .iter()
            .flat_map(|all| [all.nodes.descriptor(), all.replication.replicas.areas.events()]);
        sources.extend(others.into_iter().chain(peers).map(|fd| (Source::Other, fd)));
        let happened = match poll(sources.into_iter(), timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            happened => happened?,
        };
        let life = &mut self.owner.life;
        let again = std::mem::take(&mut life.closing);
        again.into_iter().for_each(|(area, looks)| life.look_again(area, looks));
        for source in happened {
            let life = &mut self.owner.life;
            match source {
                Source::Areas => {
                    let closed = life.own.memory.areas.closed();
                    closed.into_iter().for_each(|area| life.look_again(area, 0));
                }
                Source::Storage => life.storage.hear(&mut life.own.registry),
                Source::Connection(link) => self.hear(link),
                Source::Client(process) => self.lose(process),
                Source::Listener => self.links.accept(&mut life.own.registry),
                Source::Other => {}
            }
        }
        self.lifetime.socket_watch.hear();
        self.owner.tick();
        self.settle();
        self.hear_peers()?;
        self.settle();
        self.owner.life.save();
        Ok(())
    }

    /// How long nothing has to be done unless something happens.
    fn until_next(&self) -> Option<Duration> {
        let replicas = self.peers.as_ref().map(|peers| &peers.replication.replicas);
        let looks = replicas.is_some_and(|replicas| !replicas.closing.is_empty());
        let end = self.lifetime.end(&self.owner.life.own.registry);
        let look = looks.then(Instant::now);
        let next = [self.owner.next(), end, look, self.links.next()].into_iter().flatten().min();
        let next = next.map(|next| next.saturating_duration_since(Instant::now()));
        let peers = self.peers.as_ref().and_then(|peers| peers.nodes.timeout());
        let next = next.into_iter().chain(peers).min();
        next.map(|left| left + Duration::from_millis(1))
    }
}

/// A number that no earlier agent has given: programs may still hold its numbers.
fn fresh() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| (now.as_micros() as u64) << 8)
}
