//! Reports to the owners of generations that programs of this node have written.

use super::{Agent, LOOKS};
use crate::areas::data;
use crate::peers::{Key, Message, differences, shown};
use crate::registry::{Process, series};
use aggio_base::log::Level;
use aggio_base::overlay::Overlay;
use aggio_base::{Extent, log, os};
use aggio_link::{Body, Peer};
use std::io;
use std::os::fd::AsRawFd;

impl Agent {
    /// Lets the owner of a copy know what was written if nobody on this node can write to it any
    /// more.
    pub(super) fn look_away(&mut self, key: Key) {
        if self.peers.as_ref().is_some_and(|peers| peers.awaits_descriptor(key)) {
            // Nobody has it open, but somebody is about to write.
            return;
        }
        if self.look_at_shared(key) {
            return;
        }
        let Some(peers) = &mut self.peers else { return };
        let is_dirty =
            |key| peers.copies.get(key).is_some_and(|copy| copy.dirty && copy.is_whole());
        if !is_dirty(key) || !peers.copies.is_quiet(key) {
            return;
        }
        // How a writer ended must be known before what it wrote counts.
        self.lose_the_dead();
        let copy = self.peers.as_ref().and_then(|peers| peers.copies.get(key));
        let Some(copy) = copy.filter(|copy| copy.dirty) else { return };
        if self.clients.any_dies(&copy.writers) {
            // Its end will be told, and is to be told to the owner first.
            return;
        }
        if let Err(error) = self.keep_all(key) {
            self.cannot_send(key, &error);
        }
    }

    /// Tells the owner that all bytes of a copy stay here, which programs of this node alone have
    /// written.
    fn keep_all(&mut self, key: Key) -> io::Result<()> {
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let file = peers.copies.open(key, (true, false, false))?;
        let size = os::fstat(file.as_raw_fd())?.st_size.unsigned_abs();
        let mut found = Overlay::default();
        data(file.as_raw_fd(), |offset, len| {
            found.join(Extent::new(offset, len as u64), ());
            Ok(())
        })?;
        let extents: Vec<Extent> = found.into_ranges().map(|(extent, ())| extent).collect();
        peers.keeps.keep(key, file, &extents)?;
        let Some(copy) = peers.copies.get_mut(key) else { return Ok(()) };
        copy.dirty = false;
        copy.writers.clear();
        let (granted, series) = (copy.granted, series(&copy.path));
        // The owner has no other bytes: all between the extents are holes.
        for size in [0, size] {
            peers.nodes.say(key.0, &Message::Size(key.1, size, true), Body::None)?;
        }
        let places = Body::Bytes(differences::places(&extents));
        let report = peers.keeps.report(key);
        peers.nodes.say(key.0, &Message::Keeps(key.1, report), places)?;
        let stored = Message::Stored(key.1, granted, series.clone());
        peers.nodes.say(key.0, &stored, Body::None)?;
        self.push_kept(key, &series);
        Ok(())
    }

    /// After a description that could write was closed: the kernel tells that before it counts one
    /// fewer, so that a copy may be found open that is not.
    pub(super) fn look_away_again(&mut self, key: Key, looks: u32) {
        self.look_away(key);
        let Some(peers) = &mut self.peers else { return };
        if looks < LOOKS && peers.copies.get(key).is_some_and(|copy| copy.dirty) {
            peers.closing.insert(key, looks + 1);
        }
    }

    pub(super) fn cannot_send(&mut self, key: Key, error: &io::Error) {
        let Some(peers) = &mut self.peers else { return };
        let path = peers.copies.get(key).map(|copy| shown(&copy.path)).unwrap_or_default();
        log!(Level::Error, "agent: {path}: what was written does not reach its owner: {error}");
        peers.nodes.close(key.0);
        self.lose_peer(key.0, error);
    }

    /// A process of this node has ended.
    pub(super) fn leave(&mut self, process: Process, orderly: bool) {
        let Some(peers) = &mut self.peers else { return };
        let told: Vec<Peer> =
            peers.joined.iter().filter(|(_, one)| *one == process).map(|(peer, _)| *peer).collect();
        let copies = peers.copies.used_by(process);
        for peer in told {
            peers.joined.remove(&(peer, process));
            // One that is gone needs not be told.
            let _ = peers.nodes.say(peer, &Message::Left(process, orderly), Body::None);
        }
        peers.copies.leave(process);
        self.decline_offers();
        copies.into_iter().for_each(|key| self.look_away(key));
    }
}
