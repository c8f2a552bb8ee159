//! Bytes of replicas that are fetched from the nodes that have them.

use super::{
    Action, Agents, Area, Body, Extent, Key, Message, Peer, Received, Replication, Target, Where,
    bad, differences, gaps, gone, len, parts,
};
use crate::peers::{PIECE, Part, Replica, Source, Wanting};
use crate::protocol::Reply;
use crate::registry::series;
use std::collections::BTreeMap;
use std::io;

/// Places in one message, at most.
const PLACES: usize = 200_000;

impl Replication {
    /// The owner names nodes that have parts of a generation.
    pub(super) fn hear_where(&mut self, key: Key, body: &[u8]) -> io::Result<Vec<Action>> {
        let found = Where::decode(body)?;
        let Some(replica) = self.replicas.get_mut(key) else { return Ok(Vec::new()) };
        let is_new = replica.sources.note(found);
        let lost = if is_new { Vec::new() } else { replica.sources.give_up() };
        let error = io::Error::other("the owner does not know where its bytes are");
        let mut actions = replica.lose(&lost, &error);
        actions.push(Action::Request(key));
        Ok(actions)
    }

    /// Requests the next bytes of a replica, or hands it over if all are there.
    pub(crate) fn fetch(&mut self, key: Key, agents: &mut dyn Agents) -> Vec<Action> {
        let Some(replica) = self.replicas.get_mut(key) else { return Vec::new() };
        if replica.is_whole() {
            let mut actions = match self.replicas.is_there(key) {
                Ok(waiting) => waiting.into_iter().map(Action::HandOver).collect(),
                Err(error) => vec![Action::Broken(key, error)],
            };
            actions.push(Action::Share(key));
            return actions;
        }
        let wanted = replica.next();
        replica.sources.want(wanted);
        self.request(key, agents)
    }

    /// Requests the ranges of a replica that are to come: from the nodes that have them, or from
    /// the owner the names of these nodes.
    pub(crate) fn request(&mut self, key: Key, agents: &mut dyn Agents) -> Vec<Action> {
        let Some(replica) = self.replicas.get_mut(key) else { return Vec::new() };
        let (known, unknown) = (replica.sources.known(), replica.sources.ask());
        let mut actions = Vec::new();
        if !unknown.is_empty() {
            let places = Body::Bytes(differences::places(&unknown));
            actions.push(Action::Say(key.0, Message::Locate(key.1), places));
        }
        if !known.is_empty() {
            actions.extend(self.take(key, known, agents));
        }
        actions
    }

    /// Requests the parts of these ranges, and takes those that this node has.
    fn take(&mut self, key: Key, ranges: Vec<Extent>, agents: &mut dyn Agents) -> Vec<Action> {
        let (mut asked, mut here, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        let mut actions = Vec::new();
        for range in ranges {
            match self.sources_of(key, range, agents) {
                Ok(parts) if parts.is_empty() => here.push(range),
                Ok(parts) => {
                    asked.push(range);
                    rest.extend(parts);
                }
                Err(error) => actions.extend(self.fail(key, &[range], &error)),
            }
        }
        actions.extend(self.ask_for_parts(key, asked, &rest, agents));
        if !here.is_empty() {
            let filled = self.filled(key, &here);
            actions.extend(filled.unwrap_or_else(|error| self.fail(key, &here, &error)));
        }
        actions
    }

    fn fail(&mut self, key: Key, ranges: &[Extent], error: &io::Error) -> Vec<Action> {
        let replica = self.replicas.get_mut(key);
        replica.map(|replica| replica.lose(ranges, error)).unwrap_or_default()
    }

    /// The parts of a range that are to come. Bytes of this node go into the replica.
    ///
    /// # Errors
    /// A node is gone, or cannot be reached; the system's.
    fn sources_of(
        &mut self,
        key: Key,
        range: Extent,
        agents: &mut dyn Agents,
    ) -> io::Result<Vec<Part>> {
        let ended = || io::Error::other("the connection with the owner has ended");
        let (own, mut found, mut here) = (agents.own(), Vec::new(), Vec::new());
        let replica = self.replicas.get(key).ok_or_else(ended)?;
        let announced = replica.sources.are_announced();
        for (part, node) in replica.sources.of(range) {
            match node.and_then(|node| replica.sources.node(node)) {
                None => found.extend(self.parts_from(key, part, (key.0, key.1, announced))),
                Some(Source { words, area, .. }) if *words == own => here.push((part, *area)),
                Some(Source { words, area, announced, .. }) => {
                    let host = words.split(' ').next().unwrap_or_default();
                    let peer = agents.reach(words)?;
                    let peer = peer.ok_or_else(|| io::Error::other(gone(host)))?;
                    found.extend(self.parts_from(key, part, (peer, *area, *announced)));
                }
            }
        }
        here.into_iter().try_for_each(|(part, area)| self.take_here(key, area, part))?;
        Ok(found)
    }

    /// The parts of `extent` that are to come from a node, which has them under a number, into a
    /// replica: none that it has pushed already. `announced` says whether the node has announced
    /// them to its subscribers.
    fn parts_from(
        &self,
        key: Key,
        extent: Extent,
        (peer, area, announced): (Peer, Area, bool),
    ) -> Vec<Part> {
        let asked = Part { extent, peer, area, pushed: false };
        let is_usual = |replica: &&Replica| area == key.1 && replica.shared.is_none();
        let Some(replica) = self.replicas.get(key).filter(is_usual) else { return vec![asked] };
        if let Some(missing) = replica.pushed.missing(extent, peer) {
            let coming = missing.into_iter();
            return coming.map(|extent| Part { extent, pushed: true, ..asked }).collect();
        }
        let route = (peer, key.0, series(&replica.path));
        let pushed = announced && self.subscriptions.promises(&route, area, extent);
        vec![Part { pushed, ..asked }]
    }

    /// Requests parts of these ranges, from each node once for all of its own.
    fn ask_for_parts(
        &mut self,
        key: Key,
        ranges: Vec<Extent>,
        parts: &[Part],
        agents: &dyn Agents,
    ) -> Vec<Action> {
        let (Some(owner), Some(local)) =
            (agents.words(key.0), self.replicas.get(key).map(Replica::local))
        else {
            return Vec::new();
        };
        if parts.is_empty() {
            return Vec::new();
        }
        let mut of_nodes = BTreeMap::<(Peer, u64), Vec<Extent>>::new();
        for part in parts.iter().filter(|part| !part.pushed) {
            of_nodes.entry((part.peer, part.area)).or_default().push(part.extent);
        }
        let tag = self.takes.begin(Target::Replica(key, local), ranges, parts);
        let mut actions = Vec::new();
        for ((peer, area), mut places) in of_nodes {
            places.sort_unstable_by_key(|place| place.offset);
            let take = |places| {
                let take = Message::Take { tag, owner: owner.clone(), area };
                (take, Body::Bytes(differences::places(places)))
            };
            let all: Vec<(Message, Body)> = places.chunks(PLACES).map(take).collect();
            self.takes.sent += all.len() as u64;
            actions.push(Action::Take(tag, peer, all));
        }
        actions
    }

    /// Takes bytes that this node keeps itself into a replica.
    fn take_here(&mut self, key: Key, area: u64, part: Extent) -> io::Result<()> {
        let found = self.keeps.bytes((key.0, area), part, true)?;
        let missing = || io::Error::other("this node has lost what its programs wrote");
        for (offset, body) in found.ok_or_else(missing)? {
            if let Body::Bytes(bytes) = body {
                self.replicas.fill(key, &bytes, offset)?;
            }
        }
        Ok(())
    }

    /// The owner has sent a range of a file that programs of this node write, without the bytes
    /// that this node keeps itself.
    pub(super) fn hear_rest(
        &mut self,
        key: Key,
        range: Extent,
        body: &[u8],
    ) -> io::Result<Vec<Action>> {
        let sent = parts(body)?;
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
            let kept = self.keeps.bytes(key, gap, true)?;
            for (offset, part) in kept.ok_or_else(|| bad("a part is nowhere"))? {
                if let Body::Bytes(part) = part {
                    put(offset, &part)?;
                }
            }
        }
        self.replicas.renewed(key, (range.offset, Some(&bytes)))?;
        Ok(vec![Action::Work(key)])
    }

    /// Requested bytes have come.
    pub(super) fn hear_kept(
        &mut self,
        peer: Peer,
        (tag, offset): (u64, u64),
        body: &Received,
    ) -> io::Result<Vec<Action>> {
        let come = self.takes.come(tag, peer, Extent::new(offset, len(body)))?;
        let Some((target, there)) = come else { return Ok(Vec::new()) };
        let (key, local) = match target {
            Target::Replica(key, local) => (key, local),
            Target::Own(area) => {
                let bytes = super::bytes(body).to_vec();
                return Ok(vec![Action::Own(area, tag, offset, bytes, !there.is_empty())]);
            }
        };
        if self.replicas.made(key, local).is_none() {
            return Ok(Vec::new());
        }
        if let Received::Bytes(bytes) = body
            && let Err(error) = self.replicas.fill(key, bytes, offset)
        {
            let left = self.takes.fail(tag).map(|(_, left)| left).unwrap_or_default();
            return Ok(self.fail(key, &[&there[..], &left].concat(), &error));
        }
        if there.is_empty() { Ok(Vec::new()) } else { self.filled(key, &there) }
    }

    /// Bytes that were to come from a node do not come.
    pub(crate) fn hear_lost(&mut self, tag: u64, peer: Peer, text: String) -> Vec<Action> {
        match self.takes.fail_of(tag, peer) {
            Some((Target::Replica(key, _), lost)) => self.fail(key, &lost, &io::Error::other(text)),
            Some((Target::Own(area), lost)) if !lost.is_empty() => {
                vec![Action::FailPull(area, text)]
            }
            _ => Vec::new(),
        }
    }

    /// Ranges of a replica have come.
    ///
    /// # Errors
    /// They were not requested.
    pub(super) fn filled(&mut self, key: Key, ranges: &[Extent]) -> io::Result<Vec<Action>> {
        let Some(replica) = self.replicas.get_mut(key) else { return Ok(Vec::new()) };
        let mut actions = Vec::new();
        for range in ranges {
            let links = replica.come(range.offset, range.len)?;
            let reply = if replica.is_whole() { Reply::Whole } else { Reply::Done };
            actions.extend(links.into_iter().map(|link| Action::Reply(link, reply.clone())));
        }
        self.replicas.keep_time(key);
        actions.push(Action::Fetch(key));
        Ok(actions)
    }

    /// A program waits for bytes of an open file, and will read so many behind them.
    pub(crate) fn fetch_for(
        &mut self,
        link: u64,
        handle: u64,
        extents: Vec<Extent>,
        ahead: u64,
    ) -> Vec<Action> {
        let text = "the node that has the rest of an open file ended";
        let key = match self.replicas.opens.get_more(handle, text) {
            Ok(held) => held.key,
            Err(reply) => return vec![Action::Reply(link, reply)],
        };
        let Some(replica) = self.replicas.get_mut(key) else {
            return vec![Action::Reply(link, Reply::Failed(libc::ESTALE, String::new()))];
        };
        if let Some(shared) = replica.shared.as_mut().filter(|shared| shared.is_in_part()) {
            let missing = shared.missing(&extents);
            if missing.is_empty() {
                return vec![Action::Reply(link, Reply::Done)];
            }
            shared.fetch(missing, link);
            return vec![Action::Wait(link), Action::Work(key)];
        }
        replica.note_wanted(&extents);
        if replica.is_whole() {
            return vec![Action::Reply(link, Reply::Whole)];
        }
        replica.expect(Extent::new(extents.last().map_or(0, |last| last.end()), ahead));
        if replica.has(&extents) {
            return vec![Action::Reply(link, Reply::Done), Action::Fetch(key)];
        }
        replica.want(Wanting { link, extents });
        vec![Action::Wait(link), Action::Fetch(key)]
    }
}
