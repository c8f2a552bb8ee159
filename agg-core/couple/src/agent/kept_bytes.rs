//! Bytes of this node that other nodes fetch, get without a request, or let move: those of its own
//! generations, and those that its programs wrote to generations of other nodes.

use super::Agent;
use super::spill::number;
use crate::hosted::Hosted;
use crate::peers::{Agents, BODY, Key, Message, Replication, differences};
use crate::protocol::bad;
use crate::registry::{Area, Directory, Series, series};
use aggio_base::Extent;
use aggio_base::log;
use aggio_base::log::Level;
use aggio_link::{Body, Peer};
use std::io;
use std::os::fd::OwnedFd;

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
    /// Programs of this node may have it open: its bytes are sent by request only.
    is_open: bool,
}

impl Agent {
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
        let found = self.kept_bytes((owner, area), &places).unwrap_or_else(|error| {
            log!(Level::Error, "agent: bytes that other nodes want cannot be read: {error}");
            None
        });
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let Some(parts) = found else {
            return peers.nodes.say(peer, &Message::NotKept(tag), Body::None);
        };
        peers.nodes.say_parts(peer, tag, false, parts);
        Ok(())
    }

    /// The bytes of places that this node keeps for an owner, or owns; `None` if it lacks some.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn kept_bytes(
        &mut self,
        (owner, area): (&str, u64),
        places: &[Extent],
    ) -> io::Result<Option<Vec<(u64, Body)>>> {
        let Some(peers) = &mut self.peers else { return Ok(None) };
        match peers.nodes.known(owner) {
            _ if owner == peers.nodes.directory.own().words() => {
                let file = self.own.memory.areas.open(area, true, false, false);
                file.and_then(|file| {
                    let hosted = self.own.hosted.host(area);
                    let body = |place: &Extent| {
                        let span = hosted.bytes(&file, *place)?;
                        Ok((place.offset, Body::Mapped(span)))
                    };
                    places.iter().map(body).collect::<io::Result<_>>().map(Some)
                })
            }
            Some(of) => {
                let Replication { replicas, keeps, .. } = &mut peers.replication;
                let changes = replicas.get((of, area)).is_some_and(|one| !one.is_left());
                let parts = places.iter().map(|place| keeps.bytes((of, area), *place, changes));
                let parts: io::Result<Option<Vec<_>>> = parts.collect();
                parts.map(|parts| parts.map(|parts| parts.into_iter().flatten().collect()))
            }
            None => Ok(None),
        }
    }

    /// Lets the nodes that keep bytes of a generation move these to a directory.
    pub(super) fn move_kept_out(&mut self, area: Area, directory: &Directory) {
        let Some(peers) = &mut self.peers else { return };
        let hosted = self.own.hosted.host(area);
        let mut left = hosted.holders();
        left.retain(|holder| {
            let message = Message::Spill(holder.area, directory.to_string());
            // The bytes of a node that is gone are lost.
            peers.nodes.say(holder.peer, &message, Body::None).is_ok()
        });
        hosted.begin_move(left);
    }

    /// The bytes that this node has of a generation are in its directory, or could not be written
    /// there.
    pub(super) fn has_moved_own(&mut self, area: Area, result: io::Result<OwnedFd>) {
        if self.peers.is_none() {
            return self.has_moved(area, result);
        }
        self.own.hosted.moved_here(area, result);
        self.end_moves();
    }

    /// Goes on with generations that all nodes have moved.
    pub(super) fn end_moves(&mut self) {
        while let Some((area, result)) = self.own.hosted.next_moved() {
            self.has_moved(area, result);
        }
    }

    /// The owner wants bytes that stay here to move to a directory.
    pub(super) fn spill_kept(&mut self, key: Key, directory: &str) {
        let Some(peers) = &mut self.peers else { return };
        let files = match peers.replication.keeps.in_memory(key) {
            Ok(files) if files.is_empty() => return self.have_moved_kept(key, Ok(files)),
            files => files,
        };
        let ordered = files.and_then(|files| {
            let folder = self.folders.open(&directory.into())?.try_clone()?;
            self.background.take_kept(key, files, folder)
        });
        if let Err(error) = ordered {
            self.have_moved_kept(key, Err(error));
        }
    }

    /// They have moved, or could not.
    pub(super) fn have_moved_kept(&mut self, key: Key, result: io::Result<Vec<(u64, OwnedFd)>>) {
        let result = result.map_err(|error| {
            log!(Level::Warn, "agent: bytes that stay on this node cannot move: {error}");
            number(&error)
        });
        self.replicate(|all, _| vec![all.keeps.have_moved(key, result)]);
    }

    /// A generation is complete: the most bytes of it that any other node keeps.
    pub(super) fn note_shares(&mut self, area: Area) -> u64 {
        let holders = self.own.hosted.complete(area);
        self.peers.iter_mut().for_each(|peers| peers.nodes.release(&holders));
        self.own.hosted.get(area).map_or(0, Hosted::largest_share)
    }

    /// A generation is given up.
    pub(super) fn free_hosted(&mut self, area: Area) {
        let (holders, pull) = self.own.hosted.free(area);
        if let Some(peers) = &mut self.peers {
            peers.nodes.release(&holders);
            let offered = peers.offers.free(area);
            peers.tell_nodes(offered, &Message::Free(area));
        }
        if let Some(mut pull) = pull {
            pull.fail("the generation was given up".into());
            self.finish_pull(area, pull.end());
        }
    }

    /// The programs of this node have written their part of a generation of another one.
    pub(super) fn push_kept(&mut self, key: Key, series: &Series) {
        let Some(peers) = &self.peers else { return };
        let Some(owner) = peers.nodes.words(key.0) else { return };
        let report = peers.replication.keeps.last_report(key);
        let is_open = peers.replication.replicas.get(key).is_some_and(|one| !one.is_left());
        self.push_part(&Part { owner, series, area: key.1, report, is_own: false, is_open });
    }

    /// A generation of this node is complete, and is about to be offered.
    pub(super) fn push_own(&mut self, area: Area) {
        let Some(peers) = &mut self.peers else { return };
        let owner = peers.nodes.directory.own().words();
        let Some(generation) = self.own.registry.files.generations.get(&area) else { return };
        let series = series(&generation.path);
        self.own.hosted.host(area).announced(series.clone());
        self.push_part(&Part {
            owner,
            series: &series,
            area,
            report: 0,
            is_own: true,
            is_open: false,
        });
    }

    fn push_part(&mut self, part: &Part<'_>) {
        let Some(peers) = &mut self.peers else { return };
        let complete = peers.subscribers.complete(&part.owner, part.series, part.area);
        for (peer, subscription) in complete {
            let pieces: Vec<Extent> = subscription.places.iter().flat_map(pieces).collect();
            let is_ready = match part.is_own {
                true => self.own.has_places(part.area, &subscription.places),
                false => !part.is_open,
            };
            let bytes = match is_ready {
                true => self.kept_bytes((&part.owner, part.area), &pieces),
                false => Ok(None),
            };
            let bytes = bytes.unwrap_or_else(|error| {
                log!(Level::Error, "agent: bytes for other nodes cannot be read: {error}");
                None
            });
            let tag = if bytes.is_some() { self.own.registry.numbers.next() } else { 0 };
            let (owner, series) = (part.owner.clone(), part.series.clone());
            let number = subscription.number;
            let (area, report) = (part.area, part.report);
            let push = Message::Push { owner, series, number, area, report, tag };
            let Some(peers) = &mut self.peers else { return };
            let parts = bytes.unwrap_or_default();
            // A connection that has ended is told soon.
            if peers.nodes.say(peer, &push, Body::None).is_ok() && !parts.is_empty() {
                peers.nodes.say_parts(peer, tag, true, parts);
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
