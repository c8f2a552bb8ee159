//! Bytes of generations of this node that are fetched from the nodes that keep them, because a
//! program of this node needs them, or one that writes them too.

use super::Agent;
use super::waits::Waiting;
use crate::peers::{Holder, Message, PIECE, Part, Target, differences, gaps};
use crate::protocol::{Reply, Request};
use crate::registry::{Area, Opening, State};
use aggio_base::Extent;
use aggio_base::overlay::Overlay;
use aggio_link::{Body, Peer};
use std::collections::{BTreeMap, VecDeque};
use std::io;

/// Requests under way of one generation.
const WINDOW: usize = 16;

/// An action that waits for bytes.
#[derive(Debug)]
pub(super) enum After {
    /// An open is answered.
    Open(Waiting, Opening),
    /// The program of a connection gets this answer.
    Reply(u64, Reply),
    /// A node that writes is heard.
    Hear(Peer, Message),
    /// A process of another node, by its number there, is served.
    Ask { peer: Peer, process: u64, ticket: u64, request: Request },
    /// The generation may be complete.
    Look(Area),
    /// It is stored on disk.
    Store(Area, Vec<u8>),
}

/// The fetching of one generation.
#[derive(Debug, Default)]
struct Pull {
    rest: VecDeque<(Extent, Holder)>,
    /// Requests under way, by their tags.
    open: BTreeMap<u64, (Extent, Holder)>,
    /// All bytes that have not arrived.
    missing: Overlay<Holder>,
    after: Vec<After>,
    failed: Option<String>,
}

/// The fetching of all generations.
#[derive(Debug, Default)]
pub(super) struct Pulls(BTreeMap<Area, Pull>);

impl Agent {
    /// Whether other nodes have bytes of `extent`, so that those are fetched first; then `after` is
    /// done. If not, it is given back.
    pub(super) fn pulls_first(
        &mut self,
        area: Area,
        extents: &[Extent],
        after: After,
    ) -> Result<(), After> {
        let Some(peers) = &self.peers else { return Err(after) };
        if !peers.locations.has(area) {
            return Err(after);
        }
        let found = extents.iter().flat_map(|extent| peers.locations.within(area, *extent));
        let found: Vec<(Extent, Holder)> = found.collect();
        if found.is_empty() {
            return Err(after);
        }
        let pull = self.pulls.0.entry(area).or_default();
        for (part, holder) in found {
            pull.want(part, holder);
        }
        pull.after.push(after);
        self.go_on_pulling(area);
        Ok(())
    }

    /// Whether bytes of a generation are being fetched.
    pub(super) fn is_pulling(&self, area: Area) -> bool {
        self.pulls.0.contains_key(&area)
    }

    fn go_on_pulling(&mut self, area: Area) {
        let (Some(peers), Some(pull)) = (&mut self.peers, self.pulls.0.get_mut(&area)) else {
            return;
        };
        let owner = peers.directory.own().words();
        while pull.failed.is_none() && pull.open.len() < WINDOW {
            let Some((part, holder)) = pull.rest.pop_front() else { break };
            let Holder { peer, area: of } = holder;
            let parts = [Part { extent: part, peer, area: of, pushed: false }];
            let tag = peers.takes.begin(Target::Own(area), vec![part], &parts);
            pull.open.insert(tag, (part, holder));
            let take = Message::Take { tag, owner: owner.clone(), area: holder.area };
            let places = Body::Bytes(differences::places(&[part]));
            let is_there = peers.caller(holder.peer).is_some();
            if !is_there || peers.say(holder.peer, &take, places).is_err() {
                let host = peers.locations.node(holder).map(|node| node.host.clone());
                pull.failed = Some(gone(&host.unwrap_or_default()));
            }
        }
        let is_over = pull.failed.is_some() || pull.rest.is_empty() && pull.open.is_empty();
        if is_over && let Some(pull) = self.pulls.0.remove(&area) {
            self.end_pull(area, pull);
        }
    }

    /// A generation that is being written lacks bytes that will never come.
    fn fail_writing(&mut self, area: Area) {
        let generation = self.registry.files.generations.get(&area);
        if generation.is_some_and(|one| one.state == State::Writing) {
            self.registry.fail(area, None);
        }
    }

    fn end_pull(&mut self, area: Area, pull: Pull) {
        if let Some(peers) = &mut self.peers {
            pull.open.keys().for_each(|tag| _ = peers.takes.fail(*tag));
        }
        let failed = pull.failed.map(|text| Reply::Failed(libc::EIO, text));
        let mut all = pull.after;
        // Writers that wait get their descriptors before the agent looks whether anybody can write.
        all.sort_by_key(|after| matches!(after, After::Look(_)));
        for after in all {
            match (after, &failed) {
                (After::Open(waiting, opening), None) => self.hand_over_if(None, &waiting, opening),
                (After::Open(waiting, opening), Some(failed)) => {
                    self.promised.remove(&(opening.area, opening.handle));
                    self.registry.withdraw(waiting.process, opening.handle);
                    self.reply(waiting.link, failed, None);
                }
                (After::Reply(link, reply), failed) => {
                    self.reply(link, failed.as_ref().unwrap_or(&reply), None);
                }
                (After::Hear(peer, message), None) => {
                    if let Err(error) = self.hear_writer(peer, message, &[]) {
                        self.lose_peer(peer, &error);
                    }
                }
                (After::Hear(peer, _), Some(_)) => {
                    // The node must not wait for bytes that will never come.
                    self.fail_writing(area);
                    self.tell(peer, &Message::Free(area));
                }
                (After::Ask { peer, process, ticket, request }, None) => {
                    // The process may have ended meanwhile: then nobody waits for an answer.
                    if self.knows_remote(peer, process)
                        && let Err(error) = self.ask_for(peer, process, ticket, request)
                    {
                        self.lose_peer(peer, &error);
                    }
                }
                (After::Ask { peer, ticket, .. }, Some(failed)) => {
                    self.tell(peer, &Message::Answer(ticket, failed.encode()));
                }
                (After::Look(area), None) => self.look(area),
                (After::Look(area), Some(_)) => self.fail_writing(area),
                (After::Store(area, path), None) => self.store(area, path),
                (After::Store(area, _), Some(failed)) => {
                    let text = if let Reply::Failed(_, text) = failed { text } else { "" };
                    let error = io::Error::other(text.to_owned());
                    self.storage.stored(area, Err(error), &mut self.registry);
                }
            }
        }
        self.settle();
    }

    /// A requested part has arrived in the memory of the generation.
    pub(super) fn has_pulled(&mut self, area: Area, tag: u64) {
        let (Some(peers), Some(pull)) = (&mut self.peers, self.pulls.0.get_mut(&area)) else {
            return;
        };
        if let Some((part, holder)) = pull.open.remove(&tag) {
            pull.missing.take(part);
            peers.locations.came(area, part, holder);
        }
        self.go_on_pulling(area);
    }

    /// Bytes that were requested do not arrive.
    pub(super) fn fail_pull(&mut self, area: Area, text: String) {
        if let Some(pull) = self.pulls.0.get_mut(&area) {
            pull.failed = Some(text);
        }
        self.go_on_pulling(area);
    }

    /// A generation is given up: programs that wait for its bytes get an error.
    pub(super) fn end_pulls(&mut self, area: Area) {
        self.fail_pull(area, "the generation was given up".into());
    }
}

impl Pull {
    /// Requests bytes of a holder, unless they were requested before.
    fn want(&mut self, part: Extent, holder: Holder) {
        let coming = self.missing.within(part).filter(|(_, of)| *of == holder);
        let coming: Vec<Extent> = coming.map(|(known, _)| known).collect();
        for gap in gaps(part, &coming) {
            self.missing.put(gap, holder);
            let starts = (gap.offset..gap.end()).step_by(PIECE as usize);
            let pieces = starts.map(|at| Extent::between(at, gap.end().min(at + PIECE)));
            self.rest.extend(pieces.map(|piece| (piece, holder)));
        }
    }
}

/// The message of an error about lost bytes.
pub(super) fn gone(host: &str) -> String {
    format!("node {host} has lost what its programs wrote of the generation: its agent has ended")
}
