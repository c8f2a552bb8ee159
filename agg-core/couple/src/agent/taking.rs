//! Fetches bytes for the programs of this node from the nodes that keep them.

use super::Agent;
use super::pulls::gone;
use crate::peers::{
    Copy, Holder, Key, Message, PIECE, Part, Source, Target, Where, differences, gaps,
};
use crate::protocol::{Reply, Request, bad};
use aggio_base::Extent;
use aggio_link::{Body, Peer, Received};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd;

/// Places in one message, at most.
const PLACES: usize = 200_000;

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
            (Message::Where(area), Received::Bytes(body)) => self.hear_where((peer, area), &body),
            (Message::Take { tag, owner, area }, Received::Bytes(body)) => {
                self.hear_take(peer, tag, (&owner, area), &body)
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
            (message, body) => self.hear_of_pushes(peer, message, body),
        }
    }

    /// The owner names nodes that have parts of a generation.
    ///
    /// # Errors
    /// The message is malformed.
    fn hear_where(&mut self, key: Key, body: &[u8]) -> io::Result<()> {
        let found = Where::decode(body)?;
        let copies = self.peers.as_mut().map(|peers| &mut peers.copies);
        let Some(copy) = copies.and_then(|copies| copies.get_mut(key)) else { return Ok(()) };
        let lost = if copy.sources.note(found) { Vec::new() } else { copy.sources.give_up() };
        let error = io::Error::other("the owner does not know where its bytes are");
        self.fail_ranges(key, &lost, &error);
        self.take_known(key);
        Ok(())
    }

    /// The owner has given a generation up: ranges whose nodes are not known do not come.
    pub(super) fn forget_sources(&mut self, key: Key) {
        let copies = self.peers.as_mut().map(|peers| &mut peers.copies);
        let Some(copy) = copies.and_then(|copies| copies.get_mut(key)) else { return };
        let lost = copy.sources.give_up();
        self.fail_ranges(key, &lost, &io::Error::other("its owner has given the generation up"));
    }

    /// Asks for the ranges of a copy that are to come: the nodes that have them, or the owner for
    /// these nodes.
    pub(super) fn take_known(&mut self, key: Key) {
        let Some(peers) = &mut self.peers else { return };
        let Some(copy) = peers.copies.get_mut(key) else { return };
        let (known, unknown) = (copy.sources.known(), copy.sources.ask());
        if !unknown.is_empty() {
            let places = Body::Bytes(differences::places(&unknown));
            // A connection that has ended is told soon.
            let _ = peers.nodes.say(key.0, &Message::Locate(key.1), places);
        }
        if !known.is_empty() {
            self.take(key, known);
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

    /// Asks the nodes that have the parts of these ranges, and takes those that this node has.
    fn take(&mut self, key: Key, ranges: Vec<Extent>) {
        let (mut asked, mut here, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for range in ranges {
            match self.sources_of(key, range) {
                Ok(parts) if parts.is_empty() => here.push(range),
                Ok(parts) => {
                    asked.push(range);
                    rest.extend(parts);
                }
                Err(error) => self.fail_ranges(key, &[range], &error),
            }
        }
        for (lost, error) in self.ask_for_parts(key, asked, rest) {
            self.fail_ranges(key, &lost, &error);
        }
        if !here.is_empty()
            && let Err(error) = self.filled(key, &here)
        {
            self.fail_ranges(key, &here, &error);
        }
    }

    /// The parts of a range that are to come. Bytes of this node go into the copy.
    ///
    /// # Errors
    /// A node is gone, or cannot be reached; the system's.
    fn sources_of(&mut self, key: Key, range: Extent) -> io::Result<Vec<Part>> {
        let ended = || io::Error::other("the connection with the owner has ended");
        let peers = self.peers.as_mut().ok_or_else(ended)?;
        let (own, mut found, mut here) =
            (peers.nodes.directory.own().words(), Vec::new(), Vec::new());
        let copy = peers.copies.get(key).ok_or_else(ended)?;
        let announced = copy.sources.are_announced();
        let parts = copy.sources.of(range).into_iter().map(|(part, node)| {
            let node = node.and_then(|node| copy.sources.node(node));
            (part, node.cloned())
        });
        for (part, node) in parts.collect::<Vec<_>>() {
            match node {
                None => found.extend(peers.parts_from(key, part, (key.0, key.1, announced))),
                Some(Source { words, area, .. }) if words == own => here.push((part, area)),
                Some(Source { words, area, announced, .. }) => {
                    let host = words.split(' ').next().unwrap_or_default();
                    let peer = peers.nodes.reach_words(&words)?;
                    let peer = peer.ok_or_else(|| io::Error::other(gone(host)))?;
                    found.extend(peers.parts_from(key, part, (peer, area, announced)));
                }
            }
        }
        here.into_iter().try_for_each(|(part, area)| self.take_here(key, area, part))?;
        Ok(found)
    }

    /// Asks for parts of these ranges, each node once for all of its own. The ranges that do not
    /// come because a connection has ended, and its error.
    fn ask_for_parts(
        &mut self,
        key: Key,
        ranges: Vec<Extent>,
        parts: Vec<Part>,
    ) -> Vec<(Vec<Extent>, io::Error)> {
        let mut failed = Vec::new();
        let Some(peers) = self.peers.as_mut().filter(|_| !parts.is_empty()) else { return failed };
        let (Some(owner), Some(local)) =
            (peers.nodes.words(key.0), peers.copies.get(key).map(Copy::local))
        else {
            return failed;
        };
        let mut of_nodes = BTreeMap::<(Peer, u64), Vec<Extent>>::new();
        for part in parts.iter().filter(|part| !part.pushed) {
            of_nodes.entry((part.peer, part.area)).or_default().push(part.extent);
        }
        let tag = peers.takes.begin(Target::Copy(key, local), ranges, &parts);
        for ((peer, area), mut places) in of_nodes {
            places.sort_unstable_by_key(|place| place.offset);
            for places in places.chunks(PLACES) {
                let take = Message::Take { tag, owner: owner.clone(), area };
                if let Err(error) = peers.say_take(peer, &take, places) {
                    let lost = peers.takes.fail_of(tag, peer).map(|(_, lost)| lost);
                    failed.push((lost.unwrap_or_default(), error));
                    break;
                }
            }
        }
        failed
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
        let Some((target, there)) = peers.takes.come(tag, peer, Extent::new(offset, len))? else {
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
                let left = peers.takes.fail(tag).map(|(_, left)| left).unwrap_or_default();
                if let Target::Own(area) = target {
                    self.cannot_keep(area, &error);
                }
                self.fail_take(target, &[&there[..], &left].concat(), &error);
                return Ok(());
            }
        }
        match target {
            _ if there.is_empty() => Ok(()),
            Target::Copy(key, _) => self.filled(key, &there),
            Target::Own(area) => {
                self.has_pulled(area, tag);
                Ok(())
            }
        }
    }

    /// A node does not have what it was asked for.
    fn hear_not_kept(&mut self, peer: Peer, tag: u64) {
        let Some(peers) = &mut self.peers else { return };
        let host = peers.nodes.caller(peer).map(|node| node.host.clone());
        let host = host.unwrap_or_else(|| peers.nodes.host(peer));
        if let Some((target, lost)) = peers.takes.fail_of(tag, peer) {
            self.fail_take(target, &lost, &io::Error::other(gone(&host)));
        }
    }

    /// The connection with a node has ended that was asked for bytes.
    pub(super) fn lose_takes(&mut self, peer: Peer) {
        let Some(peers) = &mut self.peers else { return };
        let host = peers.nodes.caller(peer).map(|node| node.host.clone());
        let host = host.unwrap_or_else(|| peers.nodes.host(peer));
        for tag in peers.takes.of(peer) {
            let failed = self.peers.as_mut().and_then(|peers| peers.takes.fail_of(tag, peer));
            if let Some((target, lost)) = failed {
                self.fail_take(target, &lost, &io::Error::other(gone(&host)));
            }
        }
    }

    fn fail_take(&mut self, target: Target, ranges: &[Extent], error: &io::Error) {
        match target {
            _ if ranges.is_empty() => {}
            Target::Copy(key, _) => self.fail_ranges(key, ranges, error),
            Target::Own(area) => self.fail_pull(area, error.to_string()),
        }
    }

    /// Tells the programs that wait for bytes of a copy that these do not come.
    fn fail_ranges(&mut self, key: Key, ranges: &[Extent], error: &io::Error) {
        let copies = self.peers.as_mut().map(|peers| &mut peers.copies);
        let Some(copy) = copies.and_then(|copies| copies.get_mut(key)) else { return };
        if ranges.is_empty() {
            return;
        }
        let links: Vec<u64> = ranges.iter().flat_map(|range| copy.fail(*range)).collect();
        let tickets = std::mem::take(&mut copy.waiting);
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
