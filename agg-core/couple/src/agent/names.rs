//! Names that move to other nodes, and requests about names that other nodes own.
//!
//! A name moves to the node of its first writer. Readers that came first have only waited, so that
//! nothing is known of the name but its owner; where the bytes are made is the better place for it.
//! The owner of the bytes carries out a rename, and becomes the owner of the new name, unless
//! something was written under that.

use super::owner::Owner;
use super::waits::Waiting;
use crate::peers;
use crate::peers::{Action, Asked, Instance, Message, Peers};
use crate::protocol::{Reply, Request};
use crate::registry::{Ask, Path};
use aggio_base::log;
use aggio_base::log::Level;
use aggio_link::{Body, Peer};
use std::io;

/// The agent that carries out a rename.
enum Whom {
    /// This node owns both names.
    Here,
    There(Peer),
    /// This node owns the new name, and that agent the bytes.
    HandOver(Peer, Instance),
}

fn whom(peers: &mut Peers, from: &[u8], to: &[u8]) -> io::Result<Whom> {
    let Some(owner) = peers.nodes.owner(from, false)? else {
        return Ok(peers.nodes.owner(to, true)?.map_or(Whom::Here, Whom::There));
    };
    if let Some(other) = peers.nodes.owner(to, false)? {
        return Ok(Whom::There(other));
    }
    Ok(match (peers.nodes.directory.owner(to)?, peers.nodes.directory.owner(from)?) {
        (Some(peers::Owner::Here), Some(peers::Owner::There(instance))) => {
            Whom::HandOver(owner, instance)
        }
        _ => Whom::There(owner),
    })
}

/// The owners of names, and what is known of the names of this node.
pub(super) struct Names<'a> {
    pub(super) owner: &'a mut Owner,
    pub(super) peers: &'a mut Peers,
}

impl Names<'_> {
    /// Makes another agent the owner of a name, if nothing was written under it yet.
    fn hand_over(&mut self, path: &Path, to: &Instance) -> bool {
        if !self.owner.may_hand_over(path) {
            return false;
        }
        if let Err(error) = self.peers.nodes.hand_over(path, to) {
            log!(Level::Debug, "agent: a name stays on this node: {error}");
            return false;
        }
        // The opens that wait for the name ask its new owner.
        for (waiting, ask) in self.owner.hand_over_name(path) {
            let action = match self.peers.guests.end(waiting.link) {
                Some((peer, ticket)) => Action::Say(peer, Message::Moved(ticket), Body::None),
                None => Action::Route(open(&waiting, ask)),
            };
            self.owner.life.actions.push(action);
        }
        true
    }

    /// Makes the owner of the bytes the owner of the name that they are to get.
    fn give(&mut self, to: &Path, owner: &Instance) -> io::Result<()> {
        match self.hand_over(to, owner) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::EXDEV)),
        }
    }

    /// Sends a rename to the node that can do something for it; gives it back if that is this one.
    ///
    /// # Errors
    /// What follows instead of serving it here.
    pub(super) fn forward_rename(&mut self, asked: Asked) -> Result<Asked, Vec<Action>> {
        let Request::Rename(from, to, _) = &asked.request else { return Ok(asked) };
        let peer = whom(self.peers, from, to).and_then(|whom| match whom {
            Whom::Here => Ok(None),
            Whom::There(peer) => Ok(Some(peer)),
            Whom::HandOver(peer, owner) => self.give(to, &owner).map(|()| Some(peer)),
        });
        match peer {
            Ok(None) => Ok(asked),
            Ok(Some(peer)) => Err(self.peers.ask(peer, asked)),
            Err(error) => Err(vec![Action::Reply(asked.link, Reply::from(&error))]),
        }
    }

    /// The answer to a request of another node that this one cannot serve.
    pub(super) fn turn_away(
        &mut self,
        peer: Peer,
        ticket: u64,
        request: &Request,
    ) -> Option<Message> {
        let owner = |path: &[u8]| self.peers.nodes.known_owner(path);
        let moved = match (request, request.name().map(|(path, _)| owner(path))) {
            (Request::Rename(from, to, _), _) => self.is_elsewhere(from, to),
            (_, Some(Some(peers::Owner::There(_)))) => Ok(true),
            (_, None | Some(Some(peers::Owner::Here))) => Ok(self.goes_to(peer, request)),
            (_, Some(None)) => {
                let text = "the node that was asked does not own the file any more".into();
                let reply = Reply::Failed(libc::ESTALE, text).encode();
                return Some(Message::Answer(ticket, reply));
            }
        };
        match moved {
            Ok(false) => None,
            Ok(true) => Some(Message::Moved(ticket)),
            Err(error) => Some(Message::Answer(ticket, Reply::from(&error).encode())),
        }
    }

    /// Makes the node of `peer` the owner of the name that its process wants to write, if nothing
    /// was written under it yet. False if this node stays the owner.
    fn goes_to(&mut self, peer: Peer, request: &Request) -> bool {
        let Request::Open { ask: Ask { write: true, path, .. }, .. } = request else {
            return false;
        };
        let to = self.peers.nodes.caller(peer).cloned();
        to.is_some_and(|to| self.hand_over(path, &to))
    }

    /// False if this node owns both names of a rename, true if another one is to be asked.
    fn is_elsewhere(&mut self, from: &Path, to: &Path) -> io::Result<bool> {
        let nodes = &mut self.peers.nodes;
        // Names are handed over without a word to their new owner.
        nodes.forget_owner(to);
        match nodes.directory.owner(from)? {
            None => Err(io::Error::from_raw_os_error(libc::ENOENT)),
            Some(peers::Owner::Here) => Ok(nodes.owner(to, true)?.is_some()),
            Some(peers::Owner::There(owner)) => match nodes.directory.owner(to)? {
                Some(peers::Owner::Here) => self.give(to, &owner).map(|()| true),
                _ => Ok(true),
            },
        }
    }
}

/// The request of an open that waits.
fn open(waiting: &Waiting, ask: Ask) -> Asked {
    let (read, append) = (waiting.access.read, waiting.access.append);
    let (parts, mode) = (waiting.parts, waiting.mode);
    let request = Request::Open { ask, read, append, blocking: true, parts, mode };
    Asked { link: waiting.link, process: waiting.process, request }
}
