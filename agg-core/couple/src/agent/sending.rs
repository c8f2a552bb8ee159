//! What was written on this node and another one owns: on its way there.

use super::{Agent, LOOKS};
use crate::peers::{ENOUGH, Key, Message, shown};
use crate::registry::Process;
use aggio_base::log;
use aggio_base::log::Level;
use aggio_link::{Body, Peer};
use std::collections::BTreeSet;
use std::io;

impl Agent {
    /// Sends a copy to its owner if nobody on this node can write to it any more.
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
        let Some(peers) = &mut self.peers else { return };
        let sent = peers.copies.send(key).and_then(|(size, time)| {
            peers.say(key.0, &Message::Begin(key.1, size, time), Body::None)
        });
        match sent {
            Ok(()) => self.send_copies(),
            Err(error) => self.cannot_send(key, &error),
        }
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
        peers.close(key.0);
        self.lose_peer(key.0, error);
    }

    /// Sends more of the copies that are on their way; of one owner's one after the other, so that
    /// generations become complete in their order.
    pub(super) fn send_copies(&mut self) {
        let Some(peers) = &mut self.peers else { return };
        let mut busy = BTreeSet::new();
        for key in peers.copies.sending() {
            if busy.contains(&key.0) {
                continue;
            }
            while let Some(peers) = self.peers.as_mut().filter(|peers| peers.queued(key.0) < ENOUGH)
            {
                let said = match peers.copies.next_to_send(key) {
                    Ok(Some((offset, time, bytes))) => {
                        let message = Message::Store(key.1, offset, time);
                        peers.say(key.0, &message, Body::Bytes(bytes)).map(|()| true)
                    }
                    Ok(None) => {
                        let opens = peers.copies.get(key).map_or(0, |copy| copy.sent);
                        let message = Message::Stored(key.1, opens);
                        peers.say(key.0, &message, Body::None).map(|()| false)
                    }
                    Err(error) => Err(error),
                };
                match said {
                    Ok(true) => {}
                    Ok(false) => {
                        self.share_now(key);
                        break;
                    }
                    Err(error) => return self.cannot_send(key, &error),
                }
            }
            let copies = self.peers.as_ref().map(|peers| &peers.copies);
            if copies.and_then(|all| all.get(key)).is_some_and(|copy| copy.sending.is_some()) {
                busy.insert(key.0);
            }
        }
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
            let _ = peers.say(peer, &Message::Left(process, orderly), Body::None);
        }
        peers.copies.leave(process);
        self.decline_offers();
        copies.into_iter().for_each(|key| self.look_away(key));
    }
}
