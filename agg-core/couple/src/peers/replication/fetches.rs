//! Bytes of replicas that are fetched from the nodes that have them.

use super::{
    Action, Agents, Body, Extent, Key, Message, Peer, Received, Replication, Target, differences,
    gone, len,
};
use crate::peers::{Part, Source, Wanting};
use crate::protocol::Reply;
use std::collections::BTreeSet;
use std::io;

impl Replication {
    /// Requests the next bytes of a replica, or hands it over if all are there.
    pub(crate) fn fetch(&mut self, key: Key, agents: &mut dyn Agents) -> Vec<Action> {
        let Some(replica) = self.replicas.get_mut(key) else { return Vec::new() };
        if replica.is_whole() {
            let shares = replica.shares;
            let there = self.replicas.with_memory(key).map(|(one, areas)| one.is_there(areas));
            let mut actions = match there.unwrap_or_else(|| Ok(Vec::new())) {
                Ok(waiting) => waiting.into_iter().map(Action::HandOver).collect(),
                Err(error) => vec![Action::Broken(key, error)],
            };
            actions.extend(shares.then_some(Action::Share(key)));
            return actions;
        }
        let wanted = replica.incoming.pieces.ask_all();
        replica.incoming.sources.want(wanted);
        self.request(key, agents)
    }

    /// Requests the ranges of a replica that are to come: from the nodes that have them, or from
    /// the owner the names of these nodes.
    pub(crate) fn request(&mut self, key: Key, agents: &mut dyn Agents) -> Vec<Action> {
        let Some(replica) = self.replicas.get_mut(key) else { return Vec::new() };
        let (known, unknown) = (replica.incoming.sources.known(), replica.incoming.sources.ask());
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
        if let (Some(owner), Some(replica)) = (agents.words(key.0), self.replicas.get(key)) {
            let target = Target::Replica(key, replica.local);
            actions.extend(self.takes.request(target, &owner, asked, &rest));
        }
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
        let (announced, pushes) = (replica.incoming.sources.are_announced(), &self.subscriptions);
        for (part, node) in replica.incoming.sources.of(range) {
            if replica.incoming.pushed.is_there(part) {
                // Its node is not needed any more.
                continue;
            }
            match node.and_then(|node| replica.incoming.sources.node(node)) {
                None => {
                    found.extend(replica.parts_from(key, part, (key.0, key.1, announced), pushes))
                }
                Some(Source { words, area, .. }) if *words == own => here.push((part, *area)),
                Some(Source { words, area, announced, .. }) => {
                    let host = words.split(' ').next().unwrap_or_default();
                    let peer = agents.reach(words)?;
                    let peer = peer.ok_or_else(|| io::Error::other(gone(host)))?;
                    found.extend(replica.parts_from(key, part, (peer, *area, *announced), pushes));
                }
            }
        }
        for (part, area) in here {
            let kept = self.keeps.bytes((key.0, area), part, true)?;
            let missing = || io::Error::other("this node has lost what its programs wrote");
            for (offset, body) in kept.ok_or_else(missing)? {
                if let Body::Bytes(bytes) = body {
                    self.replicas.fill(key, &bytes, offset)?;
                }
            }
        }
        Ok(found)
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

    /// A part has come that was requested by a tag, or announced by it if that is `pushed`.
    ///
    /// # Errors
    /// It was not.
    pub(super) fn hear_part(
        &mut self,
        peer: Peer,
        (tag, pushed): (u64, bool),
        offset: u64,
        body: &Received,
    ) -> io::Result<Vec<Action>> {
        match pushed {
            true => self.hear_pushed(peer, (tag, offset), body),
            false => self.hear_kept(peer, (tag, offset), body),
        }
    }

    /// Several parts have come that were requested by a tag, or announced by it.
    ///
    /// # Errors
    /// `InvalidData` if they were not, or the body is malformed.
    pub(super) fn hear_parts(
        &mut self,
        peer: Peer,
        tag: (u64, bool),
        body: &Received,
    ) -> io::Result<Vec<Action>> {
        let (mut actions, mut fetches) = (Vec::new(), BTreeSet::new());
        for (offset, bytes) in differences::parts(super::bytes(body))? {
            let part = Received::Bytes(bytes.to_vec());
            for action in self.hear_part(peer, tag, offset, &part)? {
                match action {
                    // Once for all parts.
                    Action::Fetch(key) => _ = fetches.insert(key),
                    action => actions.push(action),
                }
            }
        }
        actions.extend(fetches.into_iter().map(Action::Fetch));
        Ok(actions)
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
        let pieces = &mut replica.incoming.pieces;
        extents.iter().for_each(|extent| pieces.note_wanted(*extent));
        if pieces.are_all_there() {
            return vec![Action::Reply(link, Reply::Whole)];
        }
        pieces.want_later(Extent::new(extents.last().map_or(0, |last| last.end()), ahead));
        if extents.iter().all(|extent| pieces.have(*extent)) {
            return vec![Action::Reply(link, Reply::Done), Action::Fetch(key)];
        }
        replica.want(Wanting::new(link, extents));
        vec![Action::Wait(link), Action::Fetch(key)]
    }
}
