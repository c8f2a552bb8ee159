//! A name moves to the node of its first writer. Readers that came first have only waited, so that
//! nothing is known of the name but its owner; where the bytes are made is the better place for it.

use super::Agent;
use super::waits::Waiting;
use crate::peers::{Instance, Message};
use crate::protocol::Request;
use crate::registry::{Ask, Path};
use aggio_base::log;
use aggio_base::log::Level;
use aggio_link::Peer;

impl Agent {
    /// Makes the node of `peer` the owner of the name that its process wants to write, if nothing
    /// was written under it yet. False if this node stays the owner.
    pub(super) fn hands_over(&mut self, peer: Peer, ticket: u64, request: &Request) -> bool {
        let Request::Open { ask, .. } = request else { return false };
        let Some(to) = self.peers.as_ref().and_then(|peers| peers.nodes.caller(peer)) else {
            return false;
        };
        let (path, to) = (ask.path.clone(), to.clone());
        if !ask.write || !self.hands_name_over(&path, &to) {
            return false;
        }
        self.tell(peer, &Message::Moved(ticket));
        true
    }

    /// Makes another agent the owner of a name, if nothing was written under it yet.
    pub(super) fn hands_name_over(&mut self, path: &Path, to: &Instance) -> bool {
        let is_unwritten =
            self.own.registry.files.names.get(path).is_none_or(|one| one.is_unwritten());
        if !is_unwritten || self.waits.written().any(|other| other == path) {
            return false;
        }
        let Some(peers) = &mut self.peers else { return false };
        if let Err(error) = peers.nodes.hand_over(path, to) {
            log!(Level::Debug, "agent: a name stays on this node: {error}");
            return false;
        }
        self.own.registry.files.names.forget(path);
        self.send_readers_away(path);
        true
    }

    /// Lets the opens that wait for a name ask its new owner.
    fn send_readers_away(&mut self, path: &Path) {
        for (waiting, ask) in self.waits.take(&mut self.own.registry, |one| one.path == *path) {
            let peers = self.peers.as_mut();
            match peers.and_then(|peers| peers.guests.end(waiting.link)) {
                Some((peer, ticket)) => _ = self.tell(peer, &Message::Moved(ticket)),
                None => self.serve_again(waiting.link, waiting.process, open(&waiting, ask)),
            }
        }
    }

    /// An agent that was asked does not own the name any more: its new owner is asked.
    pub(super) fn hear_moved(&mut self, peer: Peer, ticket: u64) {
        let Some(peers) = &mut self.peers else { return };
        if peers.requests.of(peer, ticket).is_none() {
            return;
        }
        let Some(kept) = peers.requests.take(ticket) else { return };
        peers.nodes.forget_owner(&kept.path);
        if let Ok(request) = Request::decode(&kept.request) {
            if let Request::Rename(_, to, _) = &request {
                peers.nodes.forget_owner(to);
            }
            self.serve_again(kept.link, kept.process, request);
        }
    }
}

/// The request of an open that waits.
fn open(waiting: &Waiting, ask: Ask) -> Request {
    let (read, append) = (waiting.access.read, waiting.access.append);
    let (parts, mode) = (waiting.parts, waiting.mode);
    Request::Open { ask, read, append, blocking: true, parts, mode }
}
