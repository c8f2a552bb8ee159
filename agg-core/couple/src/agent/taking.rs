//! Fetches bytes for the programs of this node from the nodes that keep them.

use super::Agent;
use super::pulls::gone;
use crate::peers::{Copy, Holder, Key, Message, PIECE, Target, Where, differences, gaps};
use crate::protocol::{Reply, Request, bad};
use aggio_base::Extent;
use aggio_link::{Body, Peer, Received};
use std::io;
use std::os::fd::AsRawFd;

impl Agent {
    /// Handles a message about bytes that stay on the node that wrote them.
    ///
    /// # Errors
    /// The message is malformed, or not of this kind.
    pub(super) fn hear_of_kept(
        &mut self,
        peer: Peer,
        message: Message,
        body: Received,
    ) -> io::Result<()> {
        match (message, body) {
            (Message::Where(area, offset, len), Received::Bytes(body)) => {
                self.hear_where((peer, area), Extent::new(offset, len), &body)
            }
            (Message::Take { tag, owner, area, offset, len }, _) => {
                self.hear_take(peer, tag, (&owner, area), Extent::new(offset, len))
            }
            (Message::Kept(tag, offset), body) => self.hear_kept(peer, (tag, offset), body),
            (Message::Rest(area, offset, len), body) => {
                let bytes = if let Received::Bytes(bytes) = body { bytes } else { Vec::new() };
                self.hear_rest((peer, area), Extent::new(offset, len), &bytes)
            }
            (Message::NotKept(tag), _) => {
                self.hear_not_kept(peer, tag);
                Ok(())
            }
            (Message::Spill(area, directory), _) => {
                self.spill_kept((peer, area), &directory);
                Ok(())
            }
            (Message::Spilled(area, error), _) => {
                self.hear_spilled(Holder { peer, area }, error);
                Ok(())
            }
            _ => Err(io::Error::other("it is of no known kind")),
        }
    }

    /// The owner names the nodes that have the parts of a range.
    ///
    /// # Errors
    /// The message is malformed.
    fn hear_where(&mut self, key: Key, range: Extent, body: &[u8]) -> io::Result<()> {
        let found = Where::decode(body, range)?;
        if self.peers.as_ref().is_none_or(|peers| peers.copies.get(key).is_none()) {
            return Ok(());
        }
        match self.take(key, range, &found) {
            Ok(true) => self.filled(key, range.offset, range.len),
            Ok(false) => Ok(()),
            Err(error) => {
                self.fail_range(key, range, &error);
                Ok(())
            }
        }
    }

    /// The owner has sent a range of a file that programs of this node write, without the bytes
    /// that this node keeps itself.
    fn hear_rest(&mut self, key: Key, range: Extent, body: &[u8]) -> io::Result<()> {
        let sent = differences::parts(body)?;
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let mut bytes = vec![0; usize::try_from(range.len.min(PIECE)).unwrap_or(0)];
        let mut put = |offset: u64, part: &[u8]| {
            let at = offset.checked_sub(range.offset).and_then(|at| usize::try_from(at).ok());
            let place = at.and_then(|at| bytes.get_mut(at..at.checked_add(part.len())?));
            place.map(|place| place.copy_from_slice(part)).ok_or_else(|| bad("it is elsewhere"))
        };
        for (offset, part) in &sent {
            put(*offset, part)?;
        }
        let there: Vec<Extent> =
            sent.iter().map(|(at, part)| Extent::new(*at, part.len() as u64)).collect();
        for gap in gaps(range, &there) {
            let kept = peers.keeps.bytes(key, gap, true)?;
            for (offset, part) in kept.ok_or_else(|| bad("a part is nowhere"))? {
                if let Body::Bytes(part) = part {
                    put(offset, &part)?;
                }
            }
        }
        peers.copies.renewed(key, (range.offset, Some(&bytes)))?;
        self.work(key);
        Ok(())
    }

    /// Asks the nodes that have the parts of a range; whether all of it was on this node.
    fn take(&mut self, key: Key, range: Extent, found: &Where) -> io::Result<bool> {
        let lost = || io::Error::other("the connection with the owner has ended");
        let peers = self.peers.as_mut().ok_or_else(lost)?;
        let (own, owner) = (peers.directory.own().words(), peers.words(key.0).ok_or_else(lost)?);
        let mut nodes = Vec::new();
        for (words, _) in &found.nodes {
            nodes.push(match *words == own {
                true => None,
                false => match peers.reach_words(words)? {
                    Some(peer) => Some(peer),
                    None => {
                        let host = words.split(' ').next().unwrap_or_default();
                        return Err(io::Error::other(gone(host)));
                    }
                },
            });
        }
        let mut asked = Vec::new();
        for (part, node) in &found.parts {
            match node.map(|node| (nodes[node], found.nodes[node].1)) {
                None => asked.push((*part, key.0, key.1)),
                Some((Some(peer), area)) => asked.push((*part, peer, area)),
                Some((None, area)) => self.take_here(key, area, *part)?,
            }
        }
        let Some(peers) = &mut self.peers else { return Ok(false) };
        if asked.is_empty() {
            return Ok(true);
        }
        let Some(local) = peers.copies.get(key).map(Copy::local) else { return Ok(false) };
        let parts = asked.iter().map(|(part, peer, _)| (*part, *peer));
        let tag = peers.takes.begin(Target::Copy(key, local), range, parts);
        for (part, peer, area) in asked {
            let (owner, offset, len) = (owner.clone(), part.offset, part.len);
            let take = Message::Take { tag, owner, area, offset, len };
            if let Err(error) = peers.say(peer, &take, Body::None) {
                // The parts that still arrive belong to no request.
                peers.takes.fail(tag);
                return Err(error);
            }
        }
        Ok(false)
    }

    /// Takes bytes that this node keeps itself into a copy.
    fn take_here(&mut self, key: Key, area: u64, part: Extent) -> io::Result<()> {
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let of = (key.0, area);
        let found = peers.keeps.bytes(of, part, true)?;
        let missing = || io::Error::other("this node has lost what its programs wrote");
        for (offset, body) in found.ok_or_else(missing)? {
            if let Body::Bytes(bytes) = body {
                peers.copies.fill(key, &bytes, offset)?;
            }
        }
        Ok(())
    }

    /// Bytes have come that this node has asked for by a tag.
    ///
    /// # Errors
    /// It has not.
    fn hear_kept(
        &mut self,
        peer: Peer,
        (tag, offset): (u64, u64),
        body: Received,
    ) -> io::Result<()> {
        let len = match &body {
            Received::None => 0,
            Received::Bytes(bytes) => bytes.len() as u64,
            Received::Placed(extent) => extent.len,
        };
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let Some((target, whole)) = peers.takes.come(tag, peer, Extent::new(offset, len))? else {
            return Ok(());
        };
        if let Target::Copy(key, local) = target
            && peers.copies.made(key, local).is_none()
        {
            return Ok(());
        }
        if let Received::Bytes(bytes) = &body {
            let stored = match target {
                Target::Copy(key, _) => peers.copies.fill(key, bytes, offset),
                Target::Own(area) => {
                    let file = self.areas.open(area, true, true, false);
                    file.and_then(|file| {
                        crate::peers::twin::write_all(file.as_raw_fd(), bytes, offset)
                    })
                }
            };
            if let Err(error) = stored {
                self.fail_take(target, Extent::new(offset, len), &error);
                return Ok(());
            }
        }
        match (target, whole) {
            (_, None) => Ok(()),
            (Target::Copy(key, _), Some(range)) => self.filled(key, range.offset, range.len),
            (Target::Own(area), Some(_)) => {
                self.has_pulled(area, tag);
                Ok(())
            }
        }
    }

    /// A node does not have what it was asked for.
    fn hear_not_kept(&mut self, peer: Peer, tag: u64) {
        let Some(peers) = &mut self.peers else { return };
        let host = peers.caller(peer).map(|node| node.host.clone());
        let host = host.unwrap_or_else(|| peers.host(peer));
        if let Some((target, range)) = peers.takes.fail(tag) {
            self.fail_take(target, range, &io::Error::other(gone(&host)));
        }
    }

    /// The connection with a node has ended that was asked for bytes.
    pub(super) fn lose_takes(&mut self, peer: Peer) {
        let Some(peers) = &mut self.peers else { return };
        let host = peers.caller(peer).map(|node| node.host.clone());
        let host = host.unwrap_or_else(|| peers.host(peer));
        for tag in peers.takes.of(peer) {
            let failed = self.peers.as_mut().and_then(|peers| peers.takes.fail(tag));
            if let Some((target, range)) = failed {
                self.fail_take(target, range, &io::Error::other(gone(&host)));
            }
        }
    }

    fn fail_take(&mut self, target: Target, range: Extent, error: &io::Error) {
        match target {
            Target::Copy(key, _) => self.fail_range(key, range, error),
            Target::Own(area) => self.fail_pull(area, error.to_string()),
        }
    }

    /// Tells the programs that wait for bytes of a copy that these do not come.
    fn fail_range(&mut self, key: Key, range: Extent, error: &io::Error) {
        let copies = self.peers.as_mut().map(|peers| &mut peers.copies);
        let Some(copy) = copies.and_then(|copies| copies.get_mut(key)) else { return };
        let (links, tickets) = (copy.fail(range), std::mem::take(&mut copy.waiting));
        let failed = Reply::Failed(libc::EIO, error.to_string());
        links.into_iter().for_each(|link| _ = self.reply(link, &failed, None));
        for ticket in tickets {
            let kept = self.peers.as_mut().and_then(|peers| peers.tickets.remove(&ticket));
            let Some(kept) = kept else { continue };
            self.reply(kept.link, &failed, None);
            if let Some(away) = kept.opened {
                // The owner counts it as open.
                self.ask(key.0, 0, kept.process, Request::Withdraw(away.handle));
            }
        }
    }
}
