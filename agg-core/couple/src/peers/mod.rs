//! Agents of other nodes: who owns which name, and the connections with them.
//!
//! The agent whose program first writes a name owns it: its registry decides about the
//! generations. The agents of other nodes ask it for their programs, and give these memory of their
//! own. Bytes stay on the node whose programs wrote them, if these say which bytes that is; the
//! owner knows the nodes. Other bytes go to the owner when nobody on the node can write any more.
//! The nodes of readers fetch each byte from the node that has it.

mod copies;
pub(crate) mod differences;
mod directory;
mod kept;
mod listing;
pub(crate) mod mapped;
mod message;
mod nodes;
mod offers;
mod pieces;
mod runs;
mod shared;
mod sources;
mod subscribers;
mod subscriptions;
mod takes;
pub(crate) mod twin;

pub(crate) use copies::{AWAY, Copies, Copy, Held, Key, Wanting, agree};
pub(crate) use directory::{Instance, Owner, shown};
use kept::Keeps;
pub(crate) use listing::{Listing, page};
pub(crate) use message::{Away, Message, RemoteProcess};
use nodes::Nodes;
use offers::Offers;
pub(crate) use pieces::UNIT;
pub(crate) use shared::{Asked, Step, Then, Wants};
pub(crate) use sources::{Holder, Source, Sources, Where};
use subscribers::Subscribers;
pub(crate) use subscribers::Subscription;
pub(crate) use subscriptions::{Announced, Route, Template};
use subscriptions::{Pushed, Subscriptions};
pub(crate) use takes::{Part, Takes, Target};

use crate::place::Place;
use crate::registry::{Area, Path, Process, series};
use aggio_base::{Extent, os};
use aggio_config::settings::couple::CoupleLink;
use aggio_link::{Body, Event, Peer, Places, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsRawFd;

/// Bytes of file data in one message, if they are compared or written before they are sent or are
/// stored.
pub(crate) const PIECE: u64 = 1 << 20;

/// Bytes of file data in one message, at most: the link takes no more.
pub(crate) const BODY: u64 = 4 << 20;

/// Bytes that wait for a peer before less urgent ones are held back.
pub(crate) const ENOUGH: usize = 8 << 20;

/// An open, or another request, that the owner of the name has not answered yet.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    pub(crate) peer: Peer,
    /// The connection of the program that asked.
    pub(crate) link: u64,
    pub(crate) process: Process,
    /// The request, so that it can be made again.
    pub(crate) request: Vec<u8>,
    pub(crate) path: Path,
    pub(crate) access: (bool, bool, bool),
    /// The program fetches what it reads.
    pub(crate) parts: bool,
    /// What was opened, while its bytes are on their way.
    pub(crate) opened: Option<Away>,
}

impl Ticket {
    /// Whether its program gets a descriptor by which it can write to a copy, as soon as that has
    /// its bytes.
    fn promises(&self, (peer, area): Key) -> bool {
        let is_open = self.access.1 && !self.request.is_empty();
        is_open && self.peer == peer && self.opened.is_some_and(|away| away.area == area)
    }
}

/// What programs have said that they wrote to a copy.
#[derive(Debug)]
pub(crate) enum Kept {
    /// It stays on this node.
    Here(Vec<Extent>),
    /// The owner gets it.
    No(Vec<Extent>),
}

/// All that an agent has of others.
#[derive(Debug)]
pub(crate) struct Peers {
    pub(crate) nodes: Nodes,
    /// Processes of this node that owners know.
    pub(crate) joined: BTreeSet<(Peer, Process)>,
    pub(crate) tickets: BTreeMap<u64, Ticket>,
    /// Opens for writing that were closed, by the owner's handles, until the owner has answered.
    pub(crate) unanswered: BTreeSet<(Peer, u64)>,
    pub(crate) copies: Copies,
    /// Processes of other nodes, by the peer and the number that they have there.
    pub(crate) remote: BTreeMap<(Peer, u64), Process>,
    /// Whom the answers of requests without a connection go to: the peer and its ticket.
    pub(crate) answers: BTreeMap<u64, (Peer, u64)>,
    /// Listings that wait for other nodes, by the connections of the programs that asked.
    pub(crate) listings: BTreeMap<u64, Listing>,
    /// What other nodes will probably read.
    pub(crate) offers: Offers,
    /// What was written to generations of other nodes, and stays here.
    pub(crate) keeps: Keeps,
    /// Bytes on their way here from nodes that keep them.
    pub(crate) takes: Takes,
    /// Nodes that get bytes of the next generations without a request.
    pub(crate) subscribers: Subscribers,
    /// Bytes that other nodes send here without a request.
    pub(crate) subscriptions: Subscriptions,
    /// Copies that are looked at again soon, and how often they were.
    pub(crate) closing: BTreeMap<Key, u32>,
}

/// Finds the memory for the bodies of messages.
struct Rooms<'a> {
    copies: &'a Copies,
    takes: &'a Takes,
    subscriptions: &'a Subscriptions,
}

impl Places for Rooms<'_> {
    fn place(&mut self, peer: Peer, head: &[u8], len: u64) -> Option<Span> {
        match Message::decode(head).ok()? {
            Message::Kept(tag, offset) => {
                match self.takes.target(tag, peer, Extent::new(offset, len))? {
                    Target::Copy(key, local) => self.copies.made(key, local)?.room(offset, len),
                    Target::Own(_) => None,
                }
            }
            Message::Pushed(tag, offset) => {
                let announced = self.subscriptions.target(peer, tag)?;
                let copy = self.copies.made(announced.key, announced.local)?;
                let is_coming = copy.pushed.is_coming(Extent::new(offset, len), peer);
                copy.room(offset, len).filter(|_| is_coming)
            }
            _ => None,
        }
    }
}

impl Peers {
    /// Listens for the agents of other nodes; handles are counted from `handles` on.
    ///
    /// # Errors
    /// As [`Nodes::new`]; no memory.
    pub(crate) fn new(place: &Place, handles: u64, kind: CoupleLink) -> io::Result<Self> {
        Ok(Self {
            nodes: Nodes::new(place, kind)?,
            joined: BTreeSet::new(),
            tickets: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            copies: Copies::new(handles)?,
            remote: BTreeMap::new(),
            answers: BTreeMap::new(),
            listings: BTreeMap::new(),
            offers: Offers::default(),
            keeps: Keeps::default(),
            takes: Takes::default(),
            subscribers: Subscribers::default(),
            subscriptions: Subscriptions::default(),
            closing: BTreeMap::new(),
        })
    }

    /// Whether a program is about to get a descriptor by which it can write to a copy.
    pub(crate) fn awaits_descriptor(&self, key: Key) -> bool {
        self.tickets.values().any(|ticket| ticket.promises(key))
    }

    /// Whether bytes of generations of other nodes are all that anybody needs of this agent.
    pub(crate) fn keeps_alone(&self) -> bool {
        !self.keeps.is_empty() && self.remote.is_empty() && self.tickets.is_empty()
    }

    /// Whether nobody of another node needs this agent, and it needs nobody.
    pub(crate) fn are_idle(&self) -> bool {
        let serves = !self.remote.is_empty() || !self.keeps.is_empty();
        !serves && self.tickets.is_empty() && self.copies.are_idle()
    }

    /// What programs have said that they wrote to a copy; it stays here, if all of them say so.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn keep(&mut self, key: Key) -> io::Result<Kept> {
        let Some(copy) = self.copies.get_mut(key) else { return Ok(Kept::No(Vec::new())) };
        let written = std::mem::take(&mut copy.written);
        let mut extents: Vec<Extent> = written.into_ranges().map(|(extent, ())| extent).collect();
        if !copy.keeps {
            return Ok(Kept::No(extents));
        }
        if !extents.is_empty() {
            let file = self.copies.open(key, (true, false, false))?;
            let whole = Extent::new(0, os::fstat(file.as_raw_fd())?.st_size.unsigned_abs());
            extents.iter_mut().for_each(|extent| *extent = extent.intersect(whole));
            extents.retain(|extent| !extent.is_empty());
            self.keeps.keep(key, file, &extents)?;
        }
        Ok(Kept::Here(extents))
    }

    /// Lets the open of a ticket have a copy before its bytes, if its program fetches what it
    /// reads and writes and nobody has used the copy before.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn begin_empty(&mut self, key: Key, ticket: u64) -> io::Result<bool> {
        let Some(kept) = self.tickets.get(&ticket).filter(|kept| kept.parts && kept.access.1)
        else {
            return Ok(false);
        };
        let size = kept.opened.map_or(0, |away| away.size);
        self.copies.begin_empty(key, size)
    }

    /// Requests bytes of a node.
    ///
    /// # Errors
    /// As [`say`](Self::say).
    pub(crate) fn say_take(
        &mut self,
        peer: Peer,
        take: &Message,
        places: &[Extent],
    ) -> io::Result<()> {
        self.takes.sent += 1;
        self.nodes.say(peer, take, Body::Bytes(differences::places(places)))
    }

    /// The parts of `extent` that are to come from a node, which knows them by a number, into a
    /// copy: none that it has pushed already. `announced` says whether the node has announced them
    /// to its subscribers.
    pub(crate) fn parts_from(
        &self,
        key: Key,
        extent: Extent,
        (peer, area, announced): (Peer, Area, bool),
    ) -> Vec<Part> {
        let asked = Part { extent, peer, area, pushed: false };
        let Some(copy) = self.copies.get(key).filter(|copy| area == key.1 && copy.shared.is_none())
        else {
            return vec![asked];
        };
        if let Some(missing) = copy.pushed.missing(extent, peer) {
            let coming = missing.into_iter();
            return coming.map(|extent| Part { extent, pushed: true, ..asked }).collect();
        }
        let route = (peer, key.0, series(&copy.path));
        let pushed = announced && self.subscriptions.promises(&route, area, extent);
        vec![Part { pushed, ..asked }]
    }

    /// The owner says that a generation is complete, and where its bytes are: as
    /// [`Copies::confirm`].
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn confirm(
        &mut self,
        key: Key,
        size: u64,
        found: Option<&Where>,
    ) -> io::Result<bool> {
        let nodes = &self.nodes;
        self.copies.confirm(key, size, found, |peer| nodes.words(peer))
    }

    /// What has happened since the last call.
    ///
    /// # Errors
    /// The link does not work any more.
    pub(crate) fn progress(&mut self) -> io::Result<Vec<Event>> {
        let (copies, takes, subscriptions) = (&self.copies, &self.takes, &self.subscriptions);
        self.nodes.progress(&mut Rooms { copies, takes, subscriptions })
    }

    /// Tells all agents that have processes here, and `others`.
    pub(crate) fn tell_nodes(&mut self, others: Vec<Peer>, message: &Message) {
        let peers: BTreeSet<Peer> = self.remote.keys().map(|(peer, _)| *peer).collect();
        for peer in peers.into_iter().chain(others).collect::<BTreeSet<Peer>>() {
            // One that is gone needs not be told.
            let _ = self.nodes.say(peer, message, Body::None);
        }
    }
}

/// What is between `parts` in `extent`: they are in it, in order and apart.
pub(crate) fn gaps(extent: Extent, parts: &[Extent]) -> Vec<Extent> {
    let ends = std::iter::once(extent.offset).chain(parts.iter().map(|part| part.end()));
    let starts = parts.iter().map(|part| part.offset).chain([extent.end()]);
    let all = ends.zip(starts).map(|(end, start)| Extent::between(end, start));
    all.filter(|gap| !gap.is_empty()).collect()
}
