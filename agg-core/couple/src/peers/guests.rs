//! Processes of other nodes, which ask for files of this one.

use crate::registry::Process;
use aggio_link::Peer;
use std::collections::BTreeMap;
use std::io;

/// All such processes, and their requests without an answer.
#[derive(Debug, Default)]
pub(crate) struct Guests {
    /// The processes, by the peer and their number there.
    all: BTreeMap<(Peer, u64), Process>,
    /// The peer and its ticket, by the numbers that stand for connections.
    requests: BTreeMap<u64, (Peer, u64)>,
}

impl Guests {
    pub(crate) fn are_none(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn join(&mut self, peer: Peer, number: u64, process: Process) {
        self.all.insert((peer, number), process);
    }

    /// The process with a number of its node.
    ///
    /// # Errors
    /// No such process has joined, or it has left.
    pub(crate) fn get(&self, peer: Peer, number: u64) -> io::Result<Process> {
        let found = self.all.get(&(peer, number)).copied();
        found.ok_or_else(|| io::Error::other("a process that nobody has named asks"))
    }

    /// A process has ended.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(crate) fn leave(&mut self, peer: Peer, number: u64) -> io::Result<Process> {
        let process = self.get(peer, number)?;
        self.all.remove(&(peer, number));
        Ok(process)
    }

    /// The numbers of the processes of a node.
    pub(crate) fn of(&self, peer: Peer) -> Vec<u64> {
        self.all.keys().filter(|(of, _)| *of == peer).map(|(_, number)| *number).collect()
    }

    /// A request without a connection comes; `link` stands for one.
    pub(crate) fn asks(&mut self, link: u64, peer: Peer, ticket: u64) {
        self.requests.insert(link, (peer, ticket));
    }

    /// The peer and the ticket of a request, if `link` stands for one.
    pub(crate) fn request(&self, link: u64) -> Option<(Peer, u64)> {
        self.requests.get(&link).copied()
    }

    /// The number that stands for the connection of a request.
    pub(crate) fn link(&self, peer: Peer, ticket: u64) -> Option<u64> {
        let mut found = self.requests.iter().filter(|(_, asked)| **asked == (peer, ticket));
        found.next().map(|(link, _)| *link)
    }

    /// A request is answered, or has no reader any more.
    pub(crate) fn end(&mut self, link: u64) -> Option<(Peer, u64)> {
        self.requests.remove(&link)
    }
}
