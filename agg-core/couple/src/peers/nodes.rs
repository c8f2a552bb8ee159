//! The agents of other nodes that this one knows: the connections with them, and which names they
//! own.

use super::batches::{Batch, Parts};
use super::directory::Directory;
use super::{Agents, Instance, Message, Owner};
use crate::place::Place;
use crate::protocol::bad;
use crate::registry::Path;
use aggio_config::settings::couple::CoupleLink;
use aggio_link::tcp::{Tcp, own_address};
use aggio_link::ucx::Ucx;
use aggio_link::{Body, Event, Frame, Framed, Limits, Link, Peer, Places, Token};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Bytes that wait for a peer before all others are held back: the link takes no more.
const FULL: usize = 32 << 20;

/// Bytes that wait for a peer before small parts are copied for it.
const COPIED: usize = 1 << 20;

/// A message, or several, for which the link has no room yet.
enum Outgoing {
    Frame(Frame),
    /// Bytes that were wanted by a tag, or announced by it.
    Parts {
        tag: u64,
        pushed: bool,
        parts: Parts,
    },
}

impl Outgoing {
    /// Bytes that may wait for the peer when the next message is sent.
    fn limit(&self) -> usize {
        match self {
            Outgoing::Parts { parts, .. } if parts.are_copied_next() => COPIED,
            _ => FULL,
        }
    }
}

/// The link to other nodes, and their agents.
pub(crate) struct Nodes {
    kind: CoupleLink,
    link: Box<dyn Link>,
    pub(crate) directory: Directory,
    /// Agents that this one has connected to.
    known: BTreeMap<Peer, Instance>,
    /// Agents that have connected to this one and named themselves.
    callers: BTreeMap<Peer, Instance>,
    owners: BTreeMap<Path, Option<Peer>>,
    /// Messages for which the link has no room yet, in their order.
    later: BTreeMap<Peer, VecDeque<Outgoing>>,
    more: bool,
    /// Messages that were sent.
    pub(crate) said: u64,
}

/// Takes the next message; `None` if all parts of an entry were sent.
fn next_frame(waiting: &mut VecDeque<Outgoing>, said: &mut u64) -> Option<Frame> {
    let (message, body) = match waiting.pop_front()? {
        Outgoing::Frame(frame) => return Some(frame),
        Outgoing::Parts { tag, pushed, mut parts } => {
            let message = match parts.next()? {
                Batch::Parts(body) => (Message::Parts { tag, pushed }, Body::Bytes(body)),
                Batch::Part(offset, body) => (Message::Part { tag, pushed, offset }, body),
            };
            waiting.push_front(Outgoing::Parts { tag, pushed, parts });
            message
        }
    };
    *said += 1;
    Some(Frame { head: message.encode(), body })
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nodes").field("known", &self.known).finish_non_exhaustive()
    }
}

impl Nodes {
    /// Listens for the agents of other nodes, and tells them where and how.
    ///
    /// # Errors
    /// The directory or the token is not the user's alone; there is no such link; the system's.
    pub(crate) fn new(place: &Place, kind: CoupleLink) -> io::Result<Self> {
        let (token, limits, own) = (Token::of(place.path())?, Limits::default(), own_address());
        let link: Box<dyn Link> = match kind {
            CoupleLink::Tcp => Box::new(Framed::new(Tcp::listen(own)?, token, limits)),
            CoupleLink::Ucx => Box::new(Framed::new(Ucx::listen(own)?, token, limits)),
        };
        Self::with(place, kind, link)
    }

    /// The same with a link that listens.
    ///
    /// # Errors
    /// The directory is not the user's alone; the system's.
    pub(crate) fn with(place: &Place, kind: CoupleLink, link: Box<dyn Link>) -> io::Result<Self> {
        let directory = Directory::new(place)?;
        directory.publish(&format!("{} {}", kind.name(), link.address()))?;
        directory.sweep()?;
        let (known, callers, owners) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (later, more) = (BTreeMap::new(), false);
        Ok(Self { kind, link, directory, known, callers, owners, later, more, said: 0 })
    }

    pub(crate) fn descriptor(&self) -> i32 {
        self.link.descriptor()
    }

    /// The link to others.
    pub(crate) fn kind(&self) -> CoupleLink {
        self.kind
    }

    /// [`Nodes::progress`] is to be called soon.
    pub(crate) fn go_on(&mut self) {
        self.more = true;
    }

    /// How soon [`Nodes::progress`] must be called.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        if self.more { Some(Duration::ZERO) } else { self.link.timeout() }
    }

    /// Sends a message, as soon as there is room for it.
    ///
    /// # Errors
    /// There is no such peer any more; the message is too long.
    pub(crate) fn say(&mut self, peer: Peer, message: &Message, body: Body) -> io::Result<()> {
        self.more = true;
        self.said += 1;
        let frame = Frame { head: message.encode(), body };
        if self.later.contains_key(&peer) || self.link.queued(peer) >= FULL {
            self.later.entry(peer).or_default().push_back(Outgoing::Frame(frame));
            return Ok(());
        }
        self.link.send(peer, frame)
    }

    /// Sends bytes that were wanted by a tag, or announced by it, as soon as there is room. If the
    /// connection has ended, that is told soon.
    pub(crate) fn say_parts(
        &mut self,
        peer: Peer,
        tag: u64,
        pushed: bool,
        parts: Vec<(u64, Body)>,
    ) {
        let parts = Outgoing::Parts { tag, pushed, parts: Parts::new(parts) };
        self.later.entry(peer).or_default().push_back(parts);
        self.say_later();
    }

    /// Sends messages in their order.
    ///
    /// # Errors
    /// As [`say`](Self::say), for the first one that fails.
    pub(crate) fn say_all(&mut self, peer: Peer, messages: Vec<(Message, Body)>) -> io::Result<()> {
        let mut all = messages.into_iter();
        all.try_for_each(|(message, body)| self.say(peer, &message, body))
    }

    /// Sends waiting messages as far as there is room for them by now.
    fn say_later(&mut self) {
        let (link, more, said) = (&mut self.link, &mut self.more, &mut self.said);
        self.later.retain(|peer, waiting| {
            while let Some(first) = waiting.front() {
                if link.queued(*peer) >= first.limit() {
                    return true;
                }
                *more = true;
                if let Some(frame) = next_frame(waiting, said)
                    && link.send(*peer, frame).is_err()
                {
                    // The connection has ended, which is told.
                    return false;
                }
            }
            false
        });
    }

    pub(crate) fn queued(&self, peer: Peer) -> usize {
        match self.later.contains_key(&peer) {
            true => usize::MAX,
            false => self.link.queued(peer),
        }
    }

    pub(crate) fn close(&mut self, peer: Peer) {
        self.later.remove(&peer);
        self.link.close(peer);
    }

    /// The events since the last call.
    ///
    /// # Errors
    /// The link does not work any more.
    pub(crate) fn progress(&mut self, places: &mut dyn Places) -> io::Result<Vec<Event>> {
        let mut events = Vec::new();
        self.more = self.link.progress(places, &mut events)?;
        self.say_later();
        Ok(events)
    }

    /// The owner of `path`: another agent, or `None` for this one. Without an owner this agent
    /// becomes it if `claim`.
    ///
    /// # Errors
    /// The directory cannot be read or written; the owner cannot be reached.
    pub(crate) fn owner(&mut self, path: &[u8], claim: bool) -> io::Result<Option<Peer>> {
        if let Some(owner) = self.owners.get(path) {
            return Ok(*owner);
        }
        loop {
            let owner = match claim {
                true => Some(self.directory.claim(path)?),
                false => self.directory.owner(path)?,
            };
            let found = match owner {
                None => return Ok(None),
                Some(Owner::Here) => None,
                Some(Owner::There(instance)) => match self.connect(&instance)? {
                    Some(peer) => Some(peer),
                    None => {
                        self.directory.bequeath(path, &instance)?;
                        continue;
                    }
                },
            };
            self.owners.insert(path.to_vec(), found);
            return Ok(found);
        }
    }

    /// The other agents that own files in the directory `dir`.
    ///
    /// # Errors
    /// The directory of agents cannot be read; an owner cannot be reached.
    pub(crate) fn owners_in(&mut self, dir: &[u8]) -> io::Result<BTreeSet<Peer>> {
        let (found, ended) = self.reach_owners_in(dir)?;
        if !ended {
            return Ok(found);
        }
        // Others may own its names by now.
        self.directory.forget();
        self.reach_owners_in(dir).map(|(found, _)| found)
    }

    /// Those that can be reached, and whether one has ended.
    fn reach_owners_in(&mut self, dir: &[u8]) -> io::Result<(BTreeSet<Peer>, bool)> {
        let owners = self.directory.owners_in(dir)?;
        let all: Vec<Option<Peer>> =
            owners.iter().map(|owner| self.connect(owner)).collect::<io::Result<_>>()?;
        let ended = all.contains(&None);
        Ok((all.into_iter().flatten().collect(), ended))
    }

    /// The agent that owns `path`, if that is known.
    pub(crate) fn known_owner(&self, path: &[u8]) -> Option<Owner> {
        match self.directory.owns(path) {
            true => Some(Owner::Here),
            false => self.directory.owner(path).ok().flatten(),
        }
    }

    /// The connection with an agent; `None` if it has ended.
    fn connect(&mut self, instance: &Instance) -> io::Result<Option<Peer>> {
        if let Some((peer, _)) = self.known.iter().find(|(_, known)| *known == instance) {
            return Ok(Some(*peer));
        }
        let Some(address) = self.directory.address(instance)? else { return Ok(None) };
        let (kind, address) = address.split_once(' ').unwrap_or(("", &address));
        if kind != self.kind.name() {
            let (own, variable) = (self.kind.name(), CoupleLink::VARIABLE);
            let why = format!(
                "the agent of node {} speaks \"{kind}\", that of this node \"{own}\": {variable} \
                 must be the same on all nodes",
                instance.host
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let local = address.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback());
        if local && instance.host != self.directory.host() {
            let why = format!("the name of node {} stands for no address", instance.host);
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let peer = match self.link.connect(address) {
            Err(_) if self.directory.is_dead(instance) => return Ok(None),
            result => result?,
        };
        self.known.insert(peer, instance.clone());
        let caller = self.directory.own().words();
        self.say(peer, &Message::Caller(caller), Body::None)?;
        Ok(Some(peer))
    }

    /// An agent that has connected names itself.
    ///
    /// # Errors
    /// `InvalidData` for words that no agent sends.
    pub(crate) fn called(&mut self, peer: Peer, words: &str) -> io::Result<()> {
        let instance = Instance::of_words(words).ok_or_else(|| bad("it names no agent"))?;
        self.callers.insert(peer, instance);
        Ok(())
    }

    /// The agent that has connected.
    pub(crate) fn caller(&self, peer: Peer) -> Option<&Instance> {
        self.callers.get(&peer)
    }

    /// Tells all agents that have asked this one for anything: each may have a copy, also if the
    /// processes have ended that read it.
    pub(crate) fn tell_callers(&mut self, message: &Message) {
        for peer in self.callers.keys().copied().collect::<Vec<Peer>>() {
            // One that is gone needs not be told.
            let _ = self.say(peer, message, Body::None);
        }
    }

    /// Makes another agent the owner of a name of this one.
    ///
    /// # Errors
    /// The system's; this agent does not own the name.
    pub(crate) fn hand_over(&mut self, path: &[u8], to: &Instance) -> io::Result<()> {
        self.directory.hand_over(path, to)?;
        self.owners.remove(path);
        Ok(())
    }

    /// The owner of a name is to be looked up anew.
    pub(crate) fn forget_owner(&mut self, path: &[u8]) {
        self.owners.remove(path);
    }

    /// The node of an agent that this one has connected to.
    pub(crate) fn host(&self, peer: Peer) -> String {
        let known = self.known.get(&peer).map(|known| known.host.clone());
        known.unwrap_or_else(|| String::from("another node"))
    }

    /// The names that an agent owns, as far as programs of this node have used them.
    pub(crate) fn names_of(&self, peer: Peer) -> BTreeSet<Path> {
        let all = self.owners.iter().filter(|(_, owner)| **owner == Some(peer));
        all.map(|(name, _)| name.clone()).collect()
    }

    /// A connection has ended: the names that the other side owned are to be looked up anew.
    /// Whether that agent has ended, so that they are free.
    pub(crate) fn forget(&mut self, peer: Peer) -> bool {
        self.later.remove(&peer);
        self.callers.remove(&peer);
        let instance = self.known.remove(&peer);
        let instance = instance.filter(|instance| self.directory.is_dead(instance));
        let names: Vec<Path> = self
            .owners
            .iter()
            .filter(|(_, owner)| **owner == Some(peer))
            .map(|(path, _)| path.clone())
            .collect();
        for name in names {
            self.owners.remove(&name);
            if let Some(instance) = &instance {
                // An agent that cannot take it will say so when the name is needed.
                let _ = self.directory.bequeath(&name, instance);
            }
        }
        instance.is_some()
    }
}

impl Agents for Nodes {
    fn own(&self) -> String {
        self.directory.own().words()
    }

    fn words(&self, peer: Peer) -> Option<String> {
        self.known.get(&peer).map(Instance::words)
    }

    fn known(&self, words: &str) -> Option<Peer> {
        let instance = Instance::of_words(words)?;
        let mut found = self.known.iter().filter(|(_, known)| **known == instance);
        found.next().map(|(peer, _)| *peer)
    }

    fn reach(&mut self, words: &str) -> io::Result<Option<Peer>> {
        let instance = Instance::of_words(words).ok_or_else(|| bad("it names no agent"))?;
        self.connect(&instance)
    }

    fn host(&self, peer: Peer) -> String {
        let caller = self.callers.get(&peer).map(|node| node.host.clone());
        caller.unwrap_or_else(|| self.host(peer))
    }
}
