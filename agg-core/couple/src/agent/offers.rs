//! Generations that are sent to the nodes of their readers before these ask for them.
//!
//! The owner of a series of files offers each complete generation to the nodes that have read an
//! earlier one. Such a node fetches what its programs have read of that one, so that most of it is
//! there when they open the next. What nobody opens is given up with the generation.

use super::Agent;
use crate::peers::{Away, Message, Where};
use crate::protocol::bad;
use crate::registry::{Area, Path, State, series};
use crate::spares::has_room;
use aggio_link::Peer;
use std::collections::BTreeSet;
use std::io;

/// Fewer bytes are copied faster than they are offered.
pub(super) const LEAST: u64 = 256 << 10;

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

    /// The owner of a series has a complete generation that programs of this node will open.
    ///
    /// # Errors
    /// It is none that can be fetched.
    pub(super) fn hear_offer(
        &mut self,
        peer: Peer,
        path: &Path,
        away: Away,
        map: &[u8],
    ) -> io::Result<()> {
        let map = if map.is_empty() { None } else { Some(Where::decode(map)?) };
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let key = (peer, away.area);
        if away.is_renewed() || away.size == 0 {
            return Err(bad("an offer of what is not complete"));
        }
        if peers.confirm(key, away.size, map.as_ref())? {
            peers.copies.offered(key);
            self.fetch(key);
            return Ok(());
        }
        let is_read = peers.joined.iter().any(|(owner, _)| *owner == peer);
        if peers.copies.get(key).is_some() || !is_read || !has_room(away.size) {
            return Ok(());
        }
        let spare = self.pages.file(away.size);
        // Without memory it is fetched when it is opened, if it can be then.
        if peers.copies.make(key, path, &away, spare).is_ok() {
            peers.copies.offered(key);
            let copy = peers.copies.get_mut(key);
            copy.into_iter().zip(map).for_each(|(copy, map)| _ = copy.sources.note(map));
            self.fetch(key);
        }
        Ok(())
    }

    /// Gives up what owners have offered that no process of this node asks any more.
    pub(super) fn decline_offers(&mut self) {
        let Some(peers) = &mut self.peers else { return };
        let asked: BTreeSet<Peer> = peers.joined.iter().map(|(peer, _)| *peer).collect();
        peers.copies.decline(&asked);
        let mut owners = peers.subscriptions.owners();
        owners.retain(|owner| !asked.contains(owner));
        owners.into_iter().for_each(|owner| self.end_subscriptions(owner, None));
    }
}
