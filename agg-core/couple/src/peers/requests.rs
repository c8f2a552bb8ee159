//! Requests of programs of this node that other nodes have not answered.

use super::{Asked, Away, Key, Listing, RemoteProcess};
use crate::protocol::{Reply, Request};
use crate::registry::{Path, Process};
use aggio_link::Peer;
use std::collections::{BTreeMap, BTreeSet};

/// An open, or another request, that the owner of the name has not answered yet.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    pub(crate) peer: Peer,
    pub(crate) asked: Asked,
    pub(crate) path: Path,
    pub(crate) access: (bool, bool, bool),
    /// The program fetches the bytes that it reads.
    pub(crate) parts: bool,
    /// The opened file, while its bytes are on their way.
    pub(crate) opened: Option<Away>,
}

impl Ticket {
    /// Whether its program gets a descriptor by which it can write to a replica, as soon as that
    /// has its bytes.
    fn promises(&self, (peer, area): Key) -> bool {
        let is_open = self.access.1 && matches!(self.asked.request, Request::Open { .. });
        is_open && self.peer == peer && self.opened.is_some_and(|away| away.area == area)
    }
}

/// All requests.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    tickets: BTreeMap<u64, Ticket>,
    last: u64,
    /// The processes of this node as other nodes are told of them.
    known: BTreeMap<Process, RemoteProcess>,
    /// Processes of this node that owners know.
    joined: BTreeSet<(Peer, Process)>,
    /// Opens for writing that were closed, by the owner's handles, until the owner has answered.
    unanswered: BTreeSet<(Peer, u64)>,
    /// Listings that wait for other nodes, by the connections of the programs that asked.
    listings: BTreeMap<u64, Listing>,
}

impl Requests {
    pub(crate) fn are_none(&self) -> bool {
        self.tickets.is_empty()
    }

    /// A process of this node may ask.
    pub(crate) fn know(&mut self, process: Process, as_told: RemoteProcess) {
        self.known.insert(process, as_told);
    }

    /// An owner gets a request of a process. Returns what it is to be told of it before; `None` if
    /// the process has ended.
    pub(crate) fn join(&mut self, peer: Peer, process: Process) -> Option<Option<RemoteProcess>> {
        let known = self.known.get(&process)?;
        Some(self.joined.insert((peer, process)).then(|| known.clone()))
    }

    /// Whether a process of this node has asked an owner.
    pub(crate) fn has_joined(&self, peer: Peer) -> bool {
        self.joined.iter().any(|(owner, _)| *owner == peer)
    }

    /// The owners that processes of this node have asked.
    pub(crate) fn owners(&self) -> BTreeSet<Peer> {
        self.joined.iter().map(|(peer, _)| *peer).collect()
    }

    /// A process has ended. Returns the owners that it has asked.
    pub(crate) fn leave(&mut self, process: Process) -> Vec<Peer> {
        let own = self.joined.iter().filter(|(_, one)| *one == process);
        let owners = own.map(|(peer, _)| *peer).collect();
        self.joined.retain(|(_, one)| *one != process);
        self.known.remove(&process);
        owners
    }

    /// A request is sent. Returns its number.
    pub(crate) fn add(&mut self, ticket: Ticket) -> u64 {
        self.last += 1;
        self.tickets.insert(self.last, ticket);
        self.last
    }

    /// The request with this ticket, if `peer` was asked.
    pub(crate) fn of(&mut self, peer: Peer, number: u64) -> Option<&mut Ticket> {
        self.tickets.get_mut(&number).filter(|ticket| ticket.peer == peer)
    }

    pub(crate) fn take(&mut self, number: u64) -> Option<Ticket> {
        self.tickets.remove(&number)
    }

    /// A node has answered a request, for good unless the program still waits.
    pub(crate) fn answered(&mut self, peer: Peer, number: u64, waits: bool) -> Option<Ticket> {
        let ticket = self.of(peer, number)?.clone();
        if !waits {
            self.tickets.remove(&number);
            if let Request::Close(theirs, _) = ticket.asked.request {
                self.unanswered.remove(&(peer, theirs));
            }
        }
        Some(ticket)
    }

    /// An open for writing was closed, which its owner is to answer.
    pub(crate) fn closes(&mut self, peer: Peer, theirs: u64) {
        self.unanswered.insert((peer, theirs));
    }

    /// The opens of a connection that no node has answered: tickets, nodes and processes.
    pub(crate) fn unopened(&self, link: u64) -> Vec<(u64, Peer, Process)> {
        let is_it = |ticket: &Ticket| ticket.asked.link == link && ticket.opened.is_none();
        let waiting = self.tickets.iter().filter(|(_, ticket)| is_it(ticket));
        waiting.map(|(number, ticket)| (*number, ticket.peer, ticket.asked.process)).collect()
    }

    /// Whether a program is about to get a descriptor by which it can write to a replica.
    pub(crate) fn await_descriptor(&self, key: Key) -> bool {
        self.tickets.values().any(|ticket| ticket.promises(key))
    }

    /// An owner has ended. Returns the processes of this node that it has known.
    pub(crate) fn part(&mut self, peer: Peer) -> Vec<Process> {
        let known = self.joined.iter().filter(|(owner, _)| *owner == peer);
        let known = known.map(|(_, process)| *process).collect();
        self.joined.retain(|(other, _)| *other != peer);
        known
    }

    /// An owner has ended. Returns the requests that it has not answered, and of each whether it is
    /// the close of an open for writing.
    pub(crate) fn lose(&mut self, peer: Peer) -> Vec<(Ticket, bool)> {
        let all: Vec<u64> =
            self.tickets.iter().filter(|(_, one)| one.peer == peer).map(|(one, _)| *one).collect();
        let mut lost = Vec::new();
        for ticket in all.into_iter().filter_map(|number| self.tickets.remove(&number)) {
            let closes = match ticket.asked.request {
                Request::Close(theirs, _) => self.unanswered.contains(&(peer, theirs)),
                _ => false,
            };
            lost.push((ticket, closes));
        }
        self.unanswered.retain(|(of, _)| *of != peer);
        lost
    }

    /// A program waits for a listing.
    pub(crate) fn list(&mut self, link: u64, listing: Listing) {
        self.listings.insert(link, listing);
    }

    pub(crate) fn lists(&self, link: u64) -> bool {
        self.listings.contains_key(&link)
    }

    /// A connection has ended.
    pub(crate) fn hang_up(&mut self, link: u64) {
        self.listings.remove(&link);
    }

    /// A node has answered a program. Returns the answer for the program: none as long as other
    /// nodes have to answer, too.
    pub(crate) fn answer(&mut self, link: u64, reply: Reply) -> Option<Reply> {
        let Some(listing) = self.listings.get_mut(&link) else { return Some(reply) };
        let is_last = listing.hear(reply);
        is_last.then(|| self.listings.remove(&link).map(Listing::reply)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Peer = Peer(1);

    fn ticket(link: u64, request: Request) -> Ticket {
        let (asked, access) = (Asked { link, process: 7, request }, (false, false, false));
        Ticket { peer: OWNER, asked, path: Vec::new(), access, parts: false, opened: None }
    }

    fn process() -> RemoteProcess {
        let (job, family, label) = (String::new(), String::new(), String::new());
        RemoteProcess { job, family, ranks: 1, label }
    }

    #[test]
    fn a_request_is_answered_by_the_node_that_was_asked() {
        let mut requests = Requests::default();
        assert_eq!(requests.add(ticket(5, Request::Sync(9))), 1);
        assert!(requests.answered(Peer(2), 1, false).is_none());
        assert!(requests.answered(OWNER, 1, true).is_some_and(|ticket| ticket.asked.link == 5));
        assert_eq!(requests.unopened(5), [(1, OWNER, 7)]);
        assert!(requests.answered(OWNER, 1, false).is_some() && requests.are_none());
    }

    #[test]
    fn closes_that_an_owner_has_not_answered_are_those_of_writers() {
        let mut requests = Requests::default();
        assert_eq!(requests.join(OWNER, 7), None, "it has ended, or has not named itself");
        requests.know(7, process());
        assert_eq!(requests.join(OWNER, 7), Some(Some(process())));
        assert_eq!(requests.join(OWNER, 7), Some(None));
        for (number, theirs) in [(1, 11), (2, 12)] {
            requests.add(ticket(number, Request::Close(theirs, 0)));
        }
        requests.closes(OWNER, 11);
        assert!(requests.lose(Peer(2)).is_empty());
        let lost: Vec<_> =
            requests.lose(OWNER).into_iter().map(|(one, is)| (one.asked.link, is)).collect();
        assert_eq!(lost, [(1, true), (2, false)]);
        assert_eq!(requests.leave(7), [OWNER]);
        assert!(requests.owners().is_empty());
    }

    #[test]
    fn a_listing_is_answered_when_all_nodes_have_answered() {
        let mut requests = Requests::default();
        let names =
            |names: &[&[u8]]| Reply::Names(names.iter().map(|name| name.to_vec()).collect(), false);
        requests.list(5, Listing::new(2, names(&[b"b"])));
        assert_eq!(requests.answer(6, Reply::Done), Some(Reply::Done));
        assert_eq!(requests.answer(5, names(&[b"a"])), None);
        assert_eq!(requests.answer(5, names(&[b"c"])), Some(names(&[b"a", b"b", b"c"])));
        assert_eq!(requests.answer(5, Reply::Done), Some(Reply::Done));
    }
}
