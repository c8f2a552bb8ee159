//! Bytes of this node that other nodes fetch, or get without a request: those of its own
//! generations, and those that its programs wrote to generations of other nodes.

use super::generations::Generations;
use crate::peers::{Agents, BODY, Key, Message, Peers, differences};
use crate::protocol::bad;
use crate::registry::{Area, Series, series};
use aggio_base::Extent;
use aggio_base::log;
use aggio_base::log::Level;
use aggio_link::{Body, Peer};
use std::io;

/// The part of a generation that a node has.
struct Part<'a> {
    /// The words of the owner.
    owner: String,
    series: &'a Series,
    area: Area,
    /// The number of the last report to the owner.
    report: u64,
    /// This node owns the generation.
    is_own: bool,
    /// Programs of this node may have it open, or open it: its bytes are copied before they are
    /// sent, and sent without a request only if they are few.
    is_open: bool,
}

/// Bytes of a node that are copied for a subscriber at most.
const COPIED: u64 = 16 << 20;

/// The bytes of this node, and the nodes that get them.
pub(super) struct Supply<'a> {
    pub(super) own: &'a mut Generations,
    pub(super) peers: &'a mut Peers,
}

impl Supply<'_> {
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
        let for_owner = self.peers.nodes.known(owner) == Some(peer);
        let found = self.kept_bytes((owner, area), &places, for_owner);
        let Some(parts) = found else {
            return self.peers.nodes.say(peer, &Message::NotKept(tag), Body::None);
        };
        self.peers.nodes.say_parts(peer, tag, false, parts);
        Ok(())
    }

    /// The bytes of places that this node keeps for an owner, or owns; `None` if it lacks some.
    /// They go to the owner, if they are `for_owner`, or to a reader.
    fn kept_bytes(
        &mut self,
        (owner, area): (&str, u64),
        places: &[Extent],
        for_owner: bool,
    ) -> Option<Vec<(u64, Body)>> {
        let Supply { own, peers } = self;
        let found = match peers.nodes.known(owner) {
            _ if owner == peers.nodes.own() => own.parts(area, places).map(Some),
            Some(of) => peers.replication.kept_parts((of, area), places, for_owner),
            None => Ok(None),
        };
        found.unwrap_or_else(|error| {
            log!(Level::Error, "agent: bytes for other nodes cannot be read: {error}");
            None
        })
    }

    /// The programs of this node have written their part of a generation of another one.
    pub(super) fn push_kept(&mut self, key: Key, series: &Series) {
        let peers = &*self.peers;
        let Some(owner) = peers.nodes.words(key.0) else { return };
        let report = peers.replication.keeps.last_report(key);
        let is_open = peers.replication.replicas.get(key).is_some_and(|one| !one.is_left());
        self.push_part(&Part { owner, series, area: key.1, report, is_own: false, is_open });
    }

    /// A generation of this node is complete: nodes get the bytes of their subscriptions.
    pub(super) fn announce(&mut self, area: Area) {
        let (owner, report) = (self.peers.nodes.own(), 0);
        let generation = self.own.registry.files.generations.get(&area);
        let Some(series) = &generation.map(|one| series(&one.path)) else { return };
        self.own.hosted.host(area).located.announced_here(series.clone());
        self.push_part(&Part { owner, series, area, report, is_own: true, is_open: false });
    }

    fn push_part(&mut self, part: &Part<'_>) {
        let complete = self.peers.subscribers.complete(&part.owner, part.series, part.area);
        for (peer, subscription) in complete {
            let pieces: Vec<Extent> = subscription.places.iter().flat_map(pieces).collect();
            let bytes: u64 = pieces.iter().map(|piece| piece.len).sum();
            let is_ready = match part.is_own {
                true => self.own.has_places(part.area, &subscription.places),
                false => !part.is_open || bytes <= COPIED,
            };
            let found = is_ready.then(|| self.kept_bytes((&part.owner, part.area), &pieces, false));
            let parts = found.flatten();
            let numbers = &mut self.own.registry.numbers;
            let tag = if parts.is_some() { numbers.next() } else { 0 };
            let (owner, series) = (part.owner.clone(), part.series.clone());
            let (number, area, report) = (subscription.number, part.area, part.report);
            let push = Message::Push { owner, series, number, area, report, tag };
            let parts = parts.unwrap_or_default();
            // A connection that has ended is told soon.
            if self.peers.nodes.say(peer, &push, Body::None).is_ok() && !parts.is_empty() {
                self.peers.nodes.say_parts(peer, tag, true, parts);
            }
        }
    }
}

/// A place in parts that a message takes.
fn pieces(place: &Extent) -> impl Iterator<Item = Extent> + use<> {
    let (start, end) = (place.offset, place.end());
    let starts = (start..end).step_by(BODY as usize);
    starts.map(move |at| Extent::between(at, end.min(at + BODY)))
}
