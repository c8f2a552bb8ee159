//! Readers of generations of this node on other nodes.
//!
//! The owner of a series of files offers each complete generation to the nodes that have read an
//! earlier one. Such a node fetches the bytes that its programs have read of that one, so that most
//! of them are there when they open the next. Offers that nobody opens go with the generation.

use super::Agent;
use crate::peers::{Away, LEAST, Message, differences};
use crate::registry::{Area, State, series};
use aggio_base::Extent;
use aggio_link::{Body, Peer};
use std::io;

/// Parts that one message names, at most.
const PARTS: usize = 200_000;

/// Parts that are named before anybody asks, at most.
const FEW_PARTS: usize = 1000;

impl Agent {
    /// A node opens a generation for reading.
    pub(super) fn note_reader(&mut self, peer: Peer, area: Area) {
        let generation = self.registry.generations.get(&area);
        let complete = generation.filter(|one| one.state == State::Complete);
        if let (Some(generation), Some(peers)) = (complete, &mut self.peers) {
            peers.offers.opened(series(&generation.path), peer, area);
        }
    }

    /// A generation of so many bytes is complete.
    pub(super) fn offer(&mut self, area: Area, size: u64, mode: u32) {
        let Some(generation) = self.registry.generations.get(&area) else { return };
        let Some(peers) = self.peers.as_mut().filter(|_| size >= LEAST) else { return };
        let (path, number) = (generation.path.clone(), generation.number);
        let away = Away { generation: number, area, size, mode, ..Away::default() };
        for peer in peers.offers.complete(&series(&path), area) {
            let map = self.map_of(area, size);
            let Some(peers) = &mut self.peers else { return };
            // One that is gone needs no bytes.
            let _ = peers.nodes.say(peer, &Message::Offer(path.clone(), away), map);
        }
    }

    /// Lets other nodes know that a file which their programs read has other bytes.
    pub(super) fn tell_readers(&mut self, area: Area) {
        for node in self.registry.readers_away(area) {
            self.tell(Peer(node), &Message::News(area));
        }
    }

    /// Another node asks for the nodes that have parts of a generation.
    ///
    /// # Errors
    /// The message is malformed.
    pub(super) fn hear_locate(&mut self, peer: Peer, area: Area, body: &[u8]) -> io::Result<()> {
        let places = differences::extents(body)?;
        let Some(peers) = &mut self.peers else { return Ok(()) };
        if self.memory.areas.open(area, true, false, false).is_err() {
            return peers.nodes.say(peer, &Message::Free(area), Body::None);
        }
        let generation = self.registry.generations.get(&area);
        let series = generation.map(|one| series(&one.path)).unwrap_or_default();
        let (found, _) = self.hosted.find((area, &series), &places, PARTS);
        peers.nodes.say(peer, &Message::Where(area), Body::Bytes(found.encode()))
    }

    /// The body of a message about a complete generation of so many bytes: the nodes that have its
    /// parts, if these are few.
    pub(super) fn map_of(&self, area: Area, size: u64) -> Body {
        if self.peers.is_none() {
            return Body::None;
        }
        let generation = self.registry.generations.get(&area);
        let series = generation.map(|one| series(&one.path)).unwrap_or_default();
        match self.hosted.find((area, &series), &[Extent::new(0, size)], FEW_PARTS) {
            (found, true) => Body::Bytes(found.encode()),
            _ => Body::None,
        }
    }
}
