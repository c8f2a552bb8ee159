//! Agents of other nodes: the names that they own, and the connections with them.
//!
//! The agent of the program that first writes a name owns it: its registry decides about the
//! generations. The agents of other nodes ask it for their programs, and give these memory of their
//! own. Bytes stay on the node that wrote them, if its programs say which bytes that is; the
//! owner knows the nodes. Other bytes go to the owner when nobody on the node can write any more.
//! The nodes of readers fetch each byte from the node that has it.

mod action;
mod asking;
mod batches;
pub(crate) mod differences;
mod directory;
mod guests;
mod kept;
mod listing;
mod losses;
pub(crate) mod mapped;
mod message;
mod nodes;
mod opens;
mod pieces;
mod replicas;
mod replication;
mod requests;
mod shared;
mod sources;
mod subscribers;
mod subscriptions;
mod takes;
pub(crate) mod twin;

pub(crate) use action::{Action, Agents, Opened};
pub(crate) use directory::{Instance, Owner, shown};
use guests::Guests;
use kept::Keeps;
pub(crate) use listing::{Listing, page};
use losses::Losses;
pub(crate) use losses::gone;
pub(crate) use message::{Away, Message, RemoteProcess};
pub(crate) use nodes::Nodes;
use opens::Opens;
pub(crate) use opens::{AWAY, Held};
pub(crate) use pieces::UNIT;
use replicas::agree;
pub(crate) use replicas::{Replica, Replicas, Wanting};
pub(crate) use replication::{Host, Replication};
use requests::Requests;
pub(crate) use requests::Ticket;
pub(crate) use shared::{Asked, Step, Then, Wants};
pub(crate) use sources::{Holder, Source, Sources, Where};
use subscribers::Subscribers;
pub(crate) use subscribers::Subscription;
pub(crate) use subscriptions::{Announced, Route, Template};
use subscriptions::{Pushed, Subscriptions};
pub(crate) use takes::{Part, Takes, Target};

use crate::client::Stat;
use crate::huge_pages::Pages;
use crate::protocol::{Reply, Request, bad};
use crate::registry::{Area, Path, Process, series};
use aggio_base::Extent;
use aggio_link::{Body, Event, Peer, Received};
use std::collections::BTreeSet;
use std::io;

/// The owner of a generation, and its number of the memory.
pub(crate) type Key = (Peer, u64);

/// Bytes of file data in one message, if they are compared or written before they are sent or are
/// stored.
pub(crate) const PIECE: u64 = 1 << 20;

/// Bytes of file data in one message, at most: the link takes no more.
pub(crate) const BODY: u64 = 4 << 20;

/// Bytes that wait for a peer before less urgent ones are held back.
pub(crate) const ENOUGH: usize = 8 << 20;

/// Fewer bytes are fetched faster than they are subscribed to.
pub(crate) const LEAST: u64 = 256 << 10;

/// Places of a subscription, at most.
pub(crate) const PLACES: usize = 100_000;

/// Smaller files are copied as a whole.
const LARGE: u64 = 256 << 10;

/// The bytes that programs have said that they wrote to a replica.
#[derive(Debug)]
pub(crate) enum Kept {
    /// They stay on this node.
    Here(Vec<Extent>),
    /// The owner gets them.
    No(Vec<Extent>),
}

/// All that an agent has of others.
#[derive(Debug)]
pub(crate) struct Peers {
    pub(crate) nodes: Nodes,
    /// Requests of programs of this node.
    pub(crate) requests: Requests,
    /// Programs of other nodes.
    pub(crate) guests: Guests,
    pub(crate) replication: Replication,
    /// Nodes that get bytes of the next generations without a request.
    pub(crate) subscribers: Subscribers,
    /// Names whose owners have ended.
    pub(crate) losses: Losses,
}

impl Peers {
    /// Reaches the agents of other nodes by `nodes`; handles are counted from `handles` on.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn new(nodes: Nodes, handles: u64) -> io::Result<Self> {
        let (requests, guests) = (Requests::default(), Guests::default());
        let (subscribers, losses) = (Subscribers::default(), Losses::default());
        let replication = Replication::new(handles)?;
        Ok(Self { nodes, requests, guests, replication, subscribers, losses })
    }

    /// Whether bytes of generations of other nodes are all that anybody needs of this agent.
    pub(crate) fn keeps_alone(&self) -> bool {
        !self.replication.keeps.is_empty() && self.guests.are_none() && self.requests.are_none()
    }

    /// Whether nobody of another node needs this agent, and it needs nobody.
    pub(crate) fn are_idle(&self) -> bool {
        let serves = !self.guests.are_none() || !self.replication.keeps.is_empty();
        !serves && self.requests.are_none() && self.replication.replicas.are_idle()
    }

    /// The events since the last call.
    ///
    /// # Errors
    /// The link does not work any more.
    pub(crate) fn progress(&mut self) -> io::Result<Vec<Event>> {
        self.nodes.progress(&mut &self.replication)
    }

    /// Handles a message about replicas, or the answer to a request.
    ///
    /// # Errors
    /// The message is malformed, or of another kind; the system's.
    pub(crate) fn hear(
        &mut self,
        peer: Peer,
        message: Message,
        body: &Received,
        pages: &mut Pages,
    ) -> io::Result<Vec<Action>> {
        let map: &[u8] = if let Received::Bytes(bytes) = body { bytes } else { &[] };
        match message {
            Message::Answer(ticket, reply) => {
                return Ok(self.answered(peer, ticket, &Reply::decode(&reply)?, pages));
            }
            Message::Opened(ticket, away) => return self.opened(peer, (ticket, away), map, pages),
            Message::Moved(ticket) => return Ok(self.moved(peer, ticket)),
            Message::Subscribe { owner, series, number, credit } => {
                let places = differences::extents(map)?;
                if places.len() > PLACES {
                    return Err(bad("it subscribes to too much"));
                }
                let subscription = Subscription { number, places, credit };
                let (credit, after) =
                    self.subscribers.subscribe((&owner, &series), peer, subscription);
                let noted = Message::Subscribed { owner, series, number, credit, after };
                return Ok(vec![Action::Say(peer, noted, Body::None)]);
            }
            Message::Where(area) => {
                let opens = self.replication.replicas.unconfirmed((peer, area));
                if !opens.is_empty() {
                    return self.confirmed(peer, &opens, map, pages);
                }
            }
            _ => {}
        }
        let mut host = Host { agents: &self.nodes, pages, requests: &self.requests };
        self.replication.hear(peer, message, body, &mut host)
    }

    /// The owner has named the nodes with the bytes that an early replica has: the opens with these
    /// tickets, which have waited for that, go on.
    fn confirmed(
        &mut self,
        peer: Peer,
        opens: &[u64],
        map: &[u8],
        pages: &mut Pages,
    ) -> io::Result<Vec<Action>> {
        let mut actions = Vec::new();
        for ticket in opens {
            let away = self.requests.of(peer, *ticket).and_then(|kept| kept.opened);
            let Some(away) = away else { continue };
            actions.extend(self.opened(peer, (*ticket, away), map, pages)?);
        }
        Ok(actions)
    }

    /// The owner has answered a request.
    fn answered(
        &mut self,
        peer: Peer,
        ticket: u64,
        reply: &Reply,
        pages: &mut Pages,
    ) -> Vec<Action> {
        let waits = matches!(reply, Reply::Waits(_));
        let Some(kept) = self.requests.answered(peer, ticket, waits) else { return Vec::new() };
        let (Asked { link, process, request }, writes) = (kept.asked, kept.access.1);
        let replicas = &mut self.replication.replicas;
        match (reply, kept.opened) {
            (Reply::Opened(theirs, generation), Some(away)) => {
                let key = (peer, away.area);
                let handle = replicas.keep(Held { theirs: *theirs, key, process, writes });
                if let Some(replica) = replicas.get_mut(key).filter(|_| writes) {
                    // Those that opened it know whether written bytes stay here.
                    replica.is_written_by(process, kept.parts);
                }
                let generation = *generation;
                vec![Action::Open(Opened { link, process, handle, generation, file: None })]
            }
            (Reply::Records(_) | Reply::Whole, None) => {
                let asked = Asked { link, process, request };
                vec![self.replication.hear_records(peer, asked, reply)]
            }
            (Reply::Stat(Some(stat)), None) => {
                let stat = self.described((peer, stat.area), &kept.path, *stat, pages);
                vec![Action::Reply(link, Reply::Stat(Some(stat)))]
            }
            (reply, _) => self.answer(link, reply.clone()),
        }
    }

    /// A program gets an answer, unless that is a part of a listing.
    pub(crate) fn answer(&mut self, link: u64, reply: Reply) -> Vec<Action> {
        let reply = self.requests.answer(link, reply);
        reply.into_iter().map(|reply| Action::Reply(link, reply)).collect()
    }

    /// The attributes of a file of another node as the descriptors of this node will show them:
    /// those of its replica, which is made before it is opened. Programs compare them.
    fn described(&mut self, key: Key, path: &Path, stat: Stat, pages: &mut Pages) -> Stat {
        if stat.area == 0 {
            return stat;
        }
        let replicas = &mut self.replication.replicas;
        let (generation, area, size) = (stat.generation, stat.area, stat.size);
        let mode = stat.mode & 0o7777;
        let away = Away { generation, area, size, mode, ..Away::default() };
        let spare = pages.file(replicas.expected(path, &away));
        // Without memory a program finds that the file was replaced.
        replicas.describe(key, path, &away, stat.modified, spare).unwrap_or(stat)
    }

    /// The owner has opened a file; `map` names the nodes that have its parts, or is empty.
    ///
    /// # Errors
    /// The map is malformed.
    fn opened(
        &mut self,
        peer: Peer,
        (ticket, away): (u64, Away),
        map: &[u8],
        pages: &mut Pages,
    ) -> io::Result<Vec<Action>> {
        let map = if map.is_empty() { None } else { Some(Where::decode(map)?) };
        let Some(kept) = self.requests.of(peer, ticket) else { return Ok(Vec::new()) };
        kept.opened = Some(away);
        let (kept, key, mut actions) = (kept.clone(), (peer, away.area), Vec::new());
        let writes = kept.access.1;
        let old = self.replication.replicas.get(key);
        if old.is_some_and(|replica| replica.is_outdated(&away)) {
            actions = self.replication.abandon(key);
        }
        let (nodes, replicas) = (&self.nodes, &mut self.replication.replicas);
        let none = Where::default();
        let found = if away.is_renewed() || writes { Some(&none) } else { map.as_ref() };
        match replicas.confirm(key, away.size, found, |peer| nodes.words(peer)) {
            Ok(places) if places.is_empty() => {}
            Ok(places) => {
                actions.extend(replicas.wait_for_map(key, ticket, places));
                return Ok(actions);
            }
            Err(error) => {
                actions.push(Action::Refuse(peer, error));
                return Ok(actions);
            }
        }
        let spare = pages.file(replicas.expected(&kept.path, &away));
        if let Err(error) = replicas.make(key, &kept.path, &away, spare) {
            if writes {
                // The owner does not wait for bytes of this open.
                let none = Message::Stored(away.area, 1, series(&kept.path));
                actions.push(Action::Say(peer, none, Body::None));
            }
            actions.push(Action::Withdraw(ticket, Reply::from(&error)));
            return Ok(actions);
        }
        if let Some(replica) = replicas.get_mut(key) {
            map.into_iter().for_each(|map| _ = replica.incoming.sources.note(map));
            if writes {
                replica.is_written_by(kept.asked.process, away.keeps && kept.parts);
            }
            if replica.shared.is_some() {
                let size = (kept.parts && writes).then_some(away.size);
                actions.extend(self.replication.open_shared(key, ticket, size));
                return Ok(actions);
            }
            if kept.parts && !writes && away.size >= LARGE {
                actions.push(Action::HandOver(ticket));
            } else {
                replica.waits.waiting.push(ticket);
                replica.incoming.pieces.want_all();
            }
        }
        replicas.note_habit(key);
        actions.push(Action::Fetch(key));
        Ok(actions)
    }

    /// An agent that was asked does not own the name any more: its new owner is asked.
    fn moved(&mut self, peer: Peer, ticket: u64) -> Vec<Action> {
        if self.requests.of(peer, ticket).is_none() {
            return Vec::new();
        }
        let Some(kept) = self.requests.take(ticket) else { return Vec::new() };
        self.nodes.forget_owner(&kept.path);
        if let Request::Rename(_, to, _) = &kept.asked.request {
            self.nodes.forget_owner(to);
        }
        vec![Action::Route(kept.asked)]
    }

    /// The generation of an open was given up before its program had a descriptor. A reader opens
    /// the file anew, and a writer gets the reason from the owner.
    pub(crate) fn open_again(&mut self, ticket: u64) -> Vec<Action> {
        let Some(kept) = self.requests.take(ticket) else { return Vec::new() };
        let Some(away) = kept.opened else { return Vec::new() };
        let (owner, link, process) = (kept.peer, kept.asked.link, kept.asked.process);
        match kept.access.1 {
            true => vec![Action::ask(owner, link, process, Request::Check(away.handle, 0))],
            false => vec![
                Action::ask(owner, 0, process, Request::Withdraw(away.handle)),
                Action::Route(kept.asked),
            ],
        }
    }

    /// A process of this node has ended. Returns the replicas that it has used.
    pub(crate) fn leave(
        &mut self,
        process: Process,
        orderly: bool,
    ) -> (BTreeSet<Key>, Vec<Action>) {
        self.losses.forget(process);
        let left = Message::Left(process, orderly);
        let owners = self.requests.leave(process).into_iter();
        let mut actions: Vec<Action> =
            owners.map(|owner| Action::Say(owner, left.clone(), Body::None)).collect();
        let used = self.replication.replicas.used_by(process);
        self.replication.replicas.leave(process);
        actions.extend(self.replication.decline(&self.requests.owners(), &self.nodes));
        (used, actions)
    }

    /// Opens of a connection that no owner has answered are not wanted any more.
    pub(crate) fn cancel(&self, link: u64) -> Vec<Action> {
        let cancel = |(ticket, peer, process)| {
            let request = Request::Cancel.encode();
            Action::Say(peer, Message::Ask { process, ticket, request }, Body::None)
        };
        self.requests.unopened(link).into_iter().map(cancel).collect()
    }

    /// The connection with a node has ended: it sends and keeps nothing any more.
    pub(crate) fn lose(&mut self, peer: Peer) {
        if let Some(words) = self.nodes.words(peer) {
            self.subscribers.forget_owner(&words);
        }
        self.subscribers.forget(peer);
        self.replication.subscriptions.forget(peer);
        self.replication.keeps.lose(peer);
    }

    /// The connection with an owner has ended.
    pub(crate) fn lose_owner(&mut self, peer: Peer, why: &io::Error) -> Vec<Action> {
        let text = format!("the agent of {} has ended: {why}", self.nodes.host(peer));
        let (names, joined) = (self.nodes.names_of(peer), self.requests.part(peer));
        // Nobody was there, and the names are free: all requests can be made again.
        let never = self.nodes.forget(peer) && why.kind() == io::ErrorKind::ConnectionRefused;
        // A program that reads the next file would wait for another writer.
        for process in joined.into_iter().filter(|_| !never) {
            self.losses.note(process, &names, &text);
        }
        let (unsaved, mut actions) = self.replication.lose_owner(peer, &text);
        for (kept, closes) in self.requests.lose(peer) {
            let failed = Reply::Failed(libc::EIO, text.clone());
            let asked = kept.asked;
            let reply = match asked.request {
                // It owns no files any more.
                Request::List(..) => {
                    if self.requests.lists(asked.link) {
                        let none = Reply::Names(Vec::new(), false);
                        actions.extend(self.answer(asked.link, none));
                    }
                    continue;
                }
                _ if never => {
                    actions.push(Action::Route(asked));
                    continue;
                }
                // Whether the owner got the written bytes is not known.
                Request::Close(..) if closes => failed,
                Request::Close(..) | Request::Check(..) if !unsaved => Reply::Done,
                _ => {
                    self.losses.forget(asked.process);
                    failed
                }
            };
            actions.push(Action::Reply(asked.link, reply));
        }
        actions
    }
}

/// The gaps between `parts` in `extent`: they are in it, in order and apart.
pub(crate) fn gaps(extent: Extent, parts: &[Extent]) -> Vec<Extent> {
    let ends = std::iter::once(extent.offset).chain(parts.iter().map(|part| part.end()));
    let starts = parts.iter().map(|part| part.offset).chain([extent.end()]);
    let all = ends.zip(starts).map(|(end, start)| Extent::between(end, start));
    all.filter(|gap| !gap.is_empty()).collect()
}
