//! Bytes that programs of this node wrote to generations of other nodes, and that stay here.

use super::Agent;
use super::spill::number;
use crate::hosted::Hosted;
use crate::peers::{Asked, BODY, Holder, Kept, Key, Message, Then, differences};
use crate::protocol::{Request, bad};
use crate::registry::{Area, Directory};
use aggio_base::Extent;
use aggio_base::log;
use aggio_base::log::Level;
use aggio_link::{Body, Peer};
use std::io;
use std::os::fd::OwnedFd;

impl Agent {
    /// Sends the owner the bytes that were written to a copy, or their extents if the bytes stay
    /// here. `then` follows.
    pub(super) fn push(&mut self, key: Key, then: Then) {
        let Some(peers) = &mut self.peers else { return };
        let kept = match peers.keep(key) {
            Ok(kept) => kept,
            Err(error) => return self.cannot_send(key, &error),
        };
        let shared = peers.copies.get_mut(key).and_then(|copy| copy.shared.as_mut());
        let Some(shared) = shared else { return };
        match kept {
            Kept::No(reported) => {
                shared.report(&reported);
                shared.push(then);
            }
            Kept::Here(extents) => {
                if !extents.is_empty() {
                    let goes_on =
                        matches!(&then, Then::Ask(Asked { request: Request::Sync(_), .. }));
                    shared.push_size(Then::Keep(extents, goes_on));
                }
                shared.push_size(then);
            }
        }
    }

    /// A program says which bytes of a copy it has written.
    pub(super) fn note_extents(&mut self, key: Key, extents: &[Extent]) {
        let copies = self.peers.as_mut().map(|peers| &mut peers.copies);
        if let Some(copy) = copies.and_then(|copies| copies.get_mut(key)) {
            extents.iter().for_each(|extent| copy.written.join(*extent, ()));
        }
    }

    /// A node wants bytes that stay here, or that this node owns.
    ///
    /// # Errors
    /// The message is malformed, or it wants too much at a time.
    pub(super) fn hear_take(
        &mut self,
        peer: Peer,
        tag: u64,
        (owner, area): (&str, u64),
        body: &[u8],
    ) -> io::Result<()> {
        let places = differences::extents(body)?;
        let is_too_much = |place: &Extent| place.len > BODY;
        if places.is_empty() || places.iter().any(is_too_much) {
            return Err(bad("it wants too much at a time, or nothing"));
        }
        let found = self.kept_bytes((owner, area), &places).unwrap_or_else(|error| {
            log!(Level::Error, "agent: bytes that other nodes want cannot be read: {error}");
            None
        });
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let Some(parts) = found else {
            return peers.nodes.say(peer, &Message::NotKept(tag), Body::None);
        };
        parts
            .into_iter()
            .try_for_each(|(offset, body)| peers.nodes.say(peer, &Message::Kept(tag, offset), body))
    }

    /// The bytes of places that this node keeps for an owner, or owns; `None` if it lacks some.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn kept_bytes(
        &mut self,
        (owner, area): (&str, u64),
        places: &[Extent],
    ) -> io::Result<Option<Vec<(u64, Body)>>> {
        let Some(peers) = &mut self.peers else { return Ok(None) };
        match peers.nodes.known(owner) {
            _ if owner == peers.nodes.directory.own().words() => {
                let file = self.areas.open(area, true, false, false);
                file.and_then(|file| {
                    let hosted = self.hosted.host(area);
                    let body = |place: &Extent| {
                        let span = hosted.bytes(&file, *place)?;
                        Ok((place.offset, Body::Mapped(span)))
                    };
                    places.iter().map(body).collect::<io::Result<_>>().map(Some)
                })
            }
            Some(of) => {
                let changes = peers.copies.get((of, area)).is_some();
                let keeps = &mut peers.keeps;
                let parts = places.iter().map(|place| keeps.bytes((of, area), *place, changes));
                let parts: io::Result<Option<Vec<_>>> = parts.collect();
                parts.map(|parts| parts.map(|parts| parts.into_iter().flatten().collect()))
            }
            None => Ok(None),
        }
    }

    /// Lets the nodes that keep bytes of a generation move these to a directory.
    pub(super) fn move_kept_out(&mut self, area: Area, directory: &Directory) {
        let Some(peers) = &mut self.peers else { return };
        let hosted = self.hosted.host(area);
        let mut left = hosted.holders();
        left.retain(|holder| {
            let message = Message::Spill(holder.area, directory.to_string());
            // The bytes of a node that is gone are lost.
            peers.nodes.say(holder.peer, &message, Body::None).is_ok()
        });
        hosted.begin_move(left);
    }

    /// The bytes that this node has of a generation are in its directory, or could not be written
    /// there.
    pub(super) fn has_moved_own(&mut self, area: Area, result: io::Result<OwnedFd>) {
        if self.peers.is_none() {
            return self.has_moved(area, result);
        }
        self.hosted.moved_here(area, result);
        self.end_moves();
    }

    /// Goes on with generations that all nodes have moved.
    pub(super) fn end_moves(&mut self) {
        while let Some((area, result)) = self.hosted.next_moved() {
            self.has_moved(area, result);
        }
    }

    /// A node has moved its kept bytes, or could not, with this error.
    pub(super) fn hear_spilled(&mut self, holder: Holder, error: i32) {
        self.hosted.moved(holder, error);
        self.end_moves();
    }

    /// The owner wants bytes that stay here to move to a directory.
    pub(super) fn spill_kept(&mut self, key: Key, directory: &str) {
        let Some(peers) = &mut self.peers else { return };
        let files = match peers.keeps.in_memory(key) {
            Ok(files) if files.is_empty() => return self.have_moved_kept(key, Ok(files)),
            files => files,
        };
        let ordered = files.and_then(|files| {
            let folder = self.folders.open(&directory.into())?.try_clone()?;
            self.aside.take_kept(key, files, folder)
        });
        if let Err(error) = ordered {
            self.have_moved_kept(key, Err(error));
        }
    }

    /// They have moved, or could not.
    pub(super) fn have_moved_kept(&mut self, key: Key, result: io::Result<Vec<(u64, OwnedFd)>>) {
        let Some(peers) = &mut self.peers else { return };
        let error = match result {
            Ok(files) => {
                files.into_iter().for_each(|(inode, to)| peers.keeps.has_moved(key, inode, to));
                0
            }
            Err(error) => {
                log!(Level::Warn, "agent: bytes that stay on this node cannot move: {error}");
                number(&error)
            }
        };
        self.tell(key.0, &Message::Spilled(key.1, error));
    }

    /// A generation is complete: the most bytes of it that any other node keeps.
    pub(super) fn note_shares(&mut self, area: Area) -> u64 {
        let holders = self.hosted.complete(area);
        self.peers.iter_mut().for_each(|peers| peers.nodes.release(&holders));
        self.hosted.get(area).map_or(0, Hosted::largest_share)
    }

    /// A generation is given up.
    pub(super) fn free_hosted(&mut self, area: Area) {
        let (holders, pull) = self.hosted.free(area);
        if let Some(peers) = &mut self.peers {
            peers.nodes.release(&holders);
            let offered = peers.offers.free(area);
            peers.tell_nodes(offered, &Message::Free(area));
        }
        if let Some(mut pull) = pull {
            pull.fail("the generation was given up".into());
            self.finish_pull(area, pull.end());
        }
    }
}
