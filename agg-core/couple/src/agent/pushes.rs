//! Sends bytes of complete generations to the nodes that have subscribed to them.

use super::Agent;
use crate::peers::{BODY, Key, Message, Subscription, differences};
use crate::protocol::bad;
use crate::registry::{Area, Series, series};
use aggio_base::{Extent, log, log::Level};
use aggio_link::{Body, Peer};
use std::io;

/// Places of a subscription, at most: an owner names no more of them with a generation.
pub(super) const PLACES: usize = 1000;

/// The part of a generation that a node has.
struct Part<'a> {
    /// The words of the owner.
    owner: String,
    series: &'a Series,
    area: Area,
    /// The number of the last report to the owner.
    report: u64,
}

impl Agent {
    /// A node subscribes.
    ///
    /// # Errors
    /// The message is malformed.
    pub(super) fn hear_subscribe(
        &mut self,
        peer: Peer,
        (owner, series): (String, Vec<u8>),
        (number, credit): (u64, u32),
        body: &[u8],
    ) -> io::Result<()> {
        let places = differences::extents(body)?;
        if places.len() > PLACES {
            return Err(bad("it subscribes to too much"));
        }
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let subscription = Subscription { number, places, credit };
        let (credit, after) = peers.subscribers.subscribe((&owner, &series), peer, subscription);
        let noted = Message::Subscribed { owner, series, number, credit, after };
        peers.nodes.say(peer, &noted, Body::None)
    }

    /// The programs of this node have written their part of a generation of another one.
    pub(super) fn push_kept(&mut self, key: Key, series: &Series) {
        let Some(peers) = &self.peers else { return };
        let Some(owner) = peers.nodes.words(key.0) else { return };
        let report = peers.keeps.last_report(key);
        self.push_part(&Part { owner, series, area: key.1, report });
    }

    /// A generation of this node is complete, and is about to be offered.
    pub(super) fn push_own(&mut self, area: Area) {
        let Some(peers) = &mut self.peers else { return };
        let owner = peers.nodes.directory.own().words();
        let Some(generation) = self.registry.generations.get(&area) else { return };
        let series = series(&generation.path);
        self.hosted.host(area).announced(series.clone());
        self.push_part(&Part { owner, series: &series, area, report: 0 });
    }

    fn push_part(&mut self, part: &Part<'_>) {
        let Some(peers) = &mut self.peers else { return };
        let complete = peers.subscribers.complete(&part.owner, part.series, part.area);
        for (peer, subscription) in complete {
            let pieces: Vec<Extent> = subscription.places.iter().flat_map(pieces).collect();
            let bytes = self.kept_bytes((&part.owner, part.area), &pieces);
            let bytes = bytes.unwrap_or_else(|error| {
                log!(Level::Error, "agent: bytes for other nodes cannot be read: {error}");
                None
            });
            let tag = if bytes.is_some() { self.registry.number() } else { 0 };
            let (owner, series) = (part.owner.clone(), part.series.clone());
            let number = subscription.number;
            let (area, report) = (part.area, part.report);
            let push = Message::Push { owner, series, number, area, report, tag };
            let Some(peers) = &mut self.peers else { return };
            let mut all = bytes.unwrap_or_default().into_iter();
            // A connection that has ended is told soon.
            let _ = peers.nodes.say(peer, &push, Body::None).and_then(|()| {
                all.try_for_each(|(offset, body)| {
                    peers.nodes.say(peer, &Message::Pushed(tag, offset), body)
                })
            });
        }
    }
}

/// A place in parts that a message takes.
fn pieces(place: &Extent) -> impl Iterator<Item = Extent> + use<> {
    let (start, end) = (place.offset, place.end());
    let starts = (start..end).step_by(BODY as usize);
    starts.map(move |at| Extent::between(at, end.min(at + BODY)))
}
