//! Copies of which only what programs read is fetched from the owner (`Open::parts`).

use super::Agent;
use super::away::{after, failed};
use crate::peers::{Held, Key, Message, Ticket, Wanting, differences};
use crate::protocol::Reply;
use crate::registry::{Area, Handle, series};
use aggio_base::Extent;
use aggio_link::{Body, Peer};
use std::io;

/// Parts that one message names, at most.
const PARTS: usize = 200_000;

/// Parts that are named before anybody asks, at most.
const FEW_PARTS: usize = 1000;

/// Smaller files are copied as a whole.
const LARGE: u64 = 256 << 10;

impl Agent {
    /// A program waits for bytes of an open file, and will read so many behind them.
    pub(super) fn fetch_for(
        &mut self,
        link: u64,
        handle: Handle,
        extents: Vec<Extent>,
        ahead: u64,
    ) {
        let Some(peers) = &mut self.peers else { return };
        let Some(Held { key, .. }) = peers.copies.handles.get(&handle).copied() else {
            let reply = match after(self.lost.get(&handle).map(|(_, text)| text.clone())) {
                Reply::Done => Reply::Failed(
                    libc::EIO,
                    "the node that has the rest of an open file ended".into(),
                ),
                failed => failed,
            };
            self.reply(link, &reply, None);
            return;
        };
        let Some(copy) = peers.copies.get_mut(key) else {
            self.reply(link, &Reply::Failed(libc::ESTALE, String::new()), None);
            return;
        };
        if let Some(shared) = copy.shared.as_mut().filter(|shared| shared.is_in_part()) {
            let missing = shared.missing(&extents);
            if missing.is_empty() {
                self.reply(link, &Reply::Done, None);
                return;
            }
            shared.fetch(missing, link);
            self.let_wait(link);
            return self.work(key);
        }
        copy.note_wanted(&extents);
        if copy.is_whole() {
            self.reply(link, &Reply::Whole, None);
            return;
        }
        copy.expect(Extent::new(extents.last().map_or(0, |last| last.end()), ahead));
        if copy.has(&extents) {
            self.reply(link, &Reply::Done, None);
        } else {
            copy.want(Wanting { link, extents });
            self.let_wait(link);
        }
        self.fetch(key);
    }

    /// Whether an open of so many bytes can be answered before these are there.
    pub(super) fn takes_parts(ticket: &Ticket, size: u64) -> bool {
        ticket.parts && !ticket.access.1 && size >= LARGE
    }

    /// Ranges of a copy have come.
    ///
    /// # Errors
    /// Nobody has asked for them.
    pub(super) fn filled(&mut self, key: Key, ranges: &[Extent]) -> io::Result<()> {
        for range in ranges {
            let copies = self.peers.as_mut().map(|peers| &mut peers.copies);
            let Some(copy) = copies.and_then(|all| all.get_mut(key)) else { return Ok(()) };
            let links = copy.come(range.offset, range.len)?;
            let reply = if copy.is_whole() { Reply::Whole } else { Reply::Done };
            links.into_iter().for_each(|link| _ = self.reply(link, &reply, None));
        }
        self.peers.iter().for_each(|peers| peers.copies.keep_time(key));
        self.fetch(key);
        Ok(())
    }

    /// The owner of a copy has ended: no more bytes will come.
    pub(super) fn fail_wanting(&mut self, key: Key, error: &io::Error) {
        let copies = self.peers.as_mut().map(|peers| &mut peers.copies);
        let copy = copies.and_then(|copies| copies.get_mut(key));
        let wanting = copy.map(|copy| std::mem::take(&mut copy.wanting)).unwrap_or_default();
        wanting.into_iter().for_each(|one| _ = self.reply(one.link, &failed(error), None));
    }

    /// Another node asks for the nodes that have parts of a generation.
    ///
    /// # Errors
    /// The message is malformed.
    pub(super) fn hear_locate(&mut self, peer: Peer, area: Area, body: &[u8]) -> io::Result<()> {
        let places = differences::extents(body)?;
        let Some(peers) = &mut self.peers else { return Ok(()) };
        if self.areas.open(area, true, false, false).is_err() {
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
