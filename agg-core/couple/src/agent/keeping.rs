//! Bytes that programs of this node wrote to generations of other nodes, and that stay here.

use super::Agent;
use crate::peers::{Asked, Kept, Key, Message, PIECE, Then};
use crate::protocol::{Request, bad};
use aggio_base::Extent;
use aggio_base::log;
use aggio_base::log::Level;
use aggio_link::{Body, Peer};
use std::io;

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
    /// It wants too much at a time.
    pub(super) fn hear_take(
        &mut self,
        peer: Peer,
        tag: u64,
        (owner, area): (&str, u64),
        extent: Extent,
    ) -> io::Result<()> {
        if extent.is_empty() || extent.len > PIECE || i64::try_from(extent.end()).is_err() {
            return Err(bad("it wants too much at a time, or nothing"));
        }
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let found = match peers.known(owner) {
            _ if owner == peers.directory.own().words() => {
                let span = self.areas.open(area, true, false, false).and_then(|file| {
                    let hosted = peers.hosted.entry(area).or_default();
                    hosted.bytes(&file, extent.offset, extent.len)
                });
                span.map(|span| Some(vec![(extent.offset, Body::Mapped(span))]))
            }
            Some(of) => {
                let changes = peers.copies.get((of, area)).is_some();
                peers.keeps.bytes((of, area), extent, changes)
            }
            None => Ok(None),
        };
        let found = found.unwrap_or_else(|error| {
            log!(Level::Error, "agent: bytes that other nodes want cannot be read: {error}");
            None
        });
        let Some(parts) = found else { return peers.say(peer, &Message::NotKept(tag), Body::None) };
        parts
            .into_iter()
            .try_for_each(|(offset, body)| peers.say(peer, &Message::Kept(tag, offset), body))
    }
}
