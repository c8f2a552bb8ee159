//! Renames where another node owns one of the names. The owner of the bytes carries them out, and
//! becomes the owner of the new name, unless something was written under that.

use super::Agent;
use crate::peers::{Instance, Message, Owner, Peers};
use crate::protocol::{Reply, Request};
use crate::registry::{Path, Process};
use aggio_link::Peer;
use std::io;

/// The agent that carries out a rename.
enum Ask {
    /// This node owns both names.
    Here,
    There(Peer),
    /// This node owns the new name, and that agent the bytes.
    HandOver(Peer, Instance),
}

fn whom(peers: &mut Peers, from: &[u8], to: &[u8]) -> io::Result<Ask> {
    let Some(owner) = peers.nodes.owner(from, false)? else {
        return Ok(peers.nodes.owner(to, true)?.map_or(Ask::Here, Ask::There));
    };
    if let Some(other) = peers.nodes.owner(to, false)? {
        return Ok(Ask::There(other));
    }
    Ok(match (peers.nodes.directory.owner(to)?, peers.nodes.directory.owner(from)?) {
        (Some(Owner::Here), Some(Owner::There(instance))) => Ask::HandOver(owner, instance),
        _ => Ask::There(owner),
    })
}

impl Agent {
    /// Sends a rename to the node that can do something for it, if that is another one; `None` if
    /// it was sent or answered.
    pub(super) fn forward_rename(
        &mut self,
        link: u64,
        process: Process,
        request: Request,
    ) -> Option<Request> {
        let Request::Rename(from, to, _) = &request else { return Some(request) };
        let Some(peers) = &mut self.peers else { return Some(request) };
        let peer = whom(peers, from, to).and_then(|ask| match ask {
            Ask::Here => Ok(None),
            Ask::There(peer) => Ok(Some(peer)),
            Ask::HandOver(peer, owner) => self.give_name(to, &owner).map(|()| Some(peer)),
        });
        match peer {
            Ok(None) => return Some(request),
            Ok(Some(peer)) => self.ask(peer, link, process, request),
            Err(error) => _ = self.reply(link, &Reply::from(&error), None),
        }
        None
    }

    /// Whether this node cannot serve a request of another node; if so, it tells that node.
    pub(super) fn turns_away(&mut self, peer: Peer, ticket: u64, request: &Request) -> bool {
        let turned = match request {
            Request::Rename(from, to, _) => self.turn_rename(from, to),
            request => {
                let nodes = self.peers.as_ref().map(|peers| &peers.nodes);
                Ok(nodes.is_some_and(|nodes| nodes.is_of_another(request)))
            }
        };
        let word = match turned {
            Ok(false) => return false,
            Ok(true) => Message::Moved(ticket),
            Err(error) => Message::Answer(ticket, Reply::from(&error).encode()),
        };
        self.tell(peer, &word);
        true
    }

    /// False if this node owns both names, true if another one is to be asked.
    fn turn_rename(&mut self, from: &Path, to: &Path) -> io::Result<bool> {
        let Some(peers) = &mut self.peers else { return Ok(false) };
        // Names are handed over without a word to their new owner.
        peers.nodes.forget_owner(to);
        match peers.nodes.directory.owner(from)? {
            None => Err(io::Error::from_raw_os_error(libc::ENOENT)),
            Some(Owner::Here) => Ok(peers.nodes.owner(to, true)?.is_some()),
            Some(Owner::There(owner)) => match peers.nodes.directory.owner(to)? {
                Some(Owner::Here) => self.give_name(to, &owner).map(|()| true),
                _ => Ok(true),
            },
        }
    }

    /// Makes the owner of the bytes the owner of the name that they are to get.
    fn give_name(&mut self, to: &Path, owner: &Instance) -> io::Result<()> {
        match self.hands_name_over(to, owner) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::EXDEV)),
        }
    }
}
