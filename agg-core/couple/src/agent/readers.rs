//! Readers of generations of this node on other nodes.
//!
//! The owner of a series of files offers each complete generation to the nodes that have read an
//! earlier one. Such a node fetches the bytes that its programs have read of that one, so that most
//! of them are there when they open the next. Offers that nobody opens go with the generation.

use super::Agent;
use crate::peers::{Away, LEAST, Message};
use crate::registry::{Area, Handle, State, series};
use aggio_link::{Body, Peer};

impl Agent {
    /// A node opens a generation, with this handle: it reads the series if it does not write.
    pub(super) fn note_reader(&mut self, peer: Peer, handle: Handle) {
        let open = self.own.registry.opens.get(&handle).filter(|open| !open.write);
        let Some(area) = open.map(|open| open.area) else { return };
        let generation = self.own.registry.files.generations.get(&area);
        let complete = generation.filter(|one| one.state == State::Complete);
        if let (Some(generation), Some(peers)) = (complete, &mut self.peers) {
            peers.offers.opened(series(&generation.path), peer, area);
        }
    }

    /// A generation of so many bytes is complete.
    pub(super) fn offer(&mut self, area: Area, size: u64, mode: u32) {
        let Some(generation) = self.own.registry.files.generations.get(&area) else { return };
        let Some(peers) = self.peers.as_mut().filter(|_| size >= LEAST) else { return };
        let (path, number) = (generation.path.clone(), generation.number);
        let away = Away { generation: number, area, size, mode, ..Away::default() };
        let readers = peers.offers.complete(&series(&path), area);
        let map = if readers.is_empty() { Body::None } else { self.own.map_of(area, size, true) };
        for peer in readers {
            // One that is gone needs no bytes.
            let _ = peers.nodes.say(peer, &Message::Offer(path.clone(), away), map.clone());
        }
    }

    /// Lets other nodes know that a file which their programs read has other bytes.
    pub(super) fn tell_readers(&mut self, area: Area) {
        for node in self.own.registry.opens.readers_away(area) {
            self.tell(Peer(node), &Message::News(area));
        }
    }
}
