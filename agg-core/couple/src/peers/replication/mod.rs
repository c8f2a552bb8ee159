//! Replicas of files that other nodes own, with all bytes on their way to and from them.

mod exchange;
mod fetches;
mod subscribing;

use super::differences;
use super::{
    Action, Agents, Area, Held, Keeps, Kept, Key, Message, Replicas, Requests, Subscriptions,
    Takes, Target, Where, gone, shown,
};
use crate::areas::data;
use crate::huge_pages::Pages;
use crate::protocol::{Reply, bad};
use crate::registry::series;
use aggio_base::overlay::Overlay;
use aggio_base::{Extent, log, log::Level, os};
use aggio_link::{Body, Peer, Places, Received, Span};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// Bytes of a body.
fn bytes(body: &Received) -> &[u8] {
    match body {
        Received::Bytes(bytes) => bytes,
        _ => &[],
    }
}

/// The length of a body, which may be in its place already.
fn len(body: &Received) -> u64 {
    match body {
        Received::None => 0,
        Received::Bytes(bytes) => bytes.len() as u64,
        Received::Placed(extent) => extent.len,
    }
}

/// The node of the replicas.
pub(crate) struct Host<'a> {
    pub(crate) agents: &'a dyn Agents,
    pub(crate) pages: &'a mut Pages,
    pub(crate) requests: &'a Requests,
}

/// The extents of a file that have bytes.
fn data_extents(fd: RawFd) -> io::Result<Vec<Extent>> {
    let mut found = Overlay::default();
    data(fd, |offset, len| {
        found.join(Extent::new(offset, len as u64), ());
        Ok(())
    })?;
    Ok(found.into_ranges().map(|(extent, ())| extent).collect())
}

/// All replicas of an agent.
#[derive(Debug)]
pub(crate) struct Replication {
    pub(crate) replicas: Replicas,
    /// Bytes that programs of this node wrote to generations of other nodes, and that stay here.
    pub(crate) keeps: Keeps,
    /// Bytes on their way here from nodes that keep them.
    pub(crate) takes: Takes,
    /// Bytes that other nodes send here without a request.
    pub(crate) subscriptions: Subscriptions,
}

impl Places for &Replication {
    fn place(&mut self, peer: Peer, head: &[u8], len: u64) -> Option<Span> {
        match Message::decode(head).ok()? {
            Message::Part { tag, pushed: false, offset } => {
                match self.takes.target(tag, peer, Extent::new(offset, len))? {
                    Target::Replica(key, local) => {
                        self.replicas.made(key, local)?.room(offset, len)
                    }
                    Target::Own(_) => None,
                }
            }
            Message::Part { tag, pushed: true, offset } => {
                let announced = self.subscriptions.target(peer, tag)?;
                let replica = self.replicas.made(announced.key, announced.local)?;
                let is_coming = replica.incoming.pushed.is_coming(Extent::new(offset, len), peer);
                replica.room(offset, len).filter(|_| is_coming && replica.is_only_read())
            }
            _ => None,
        }
    }
}

impl Replication {
    /// No replicas; handles are counted from `handles` on.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn new(handles: u64) -> io::Result<Self> {
        let (keeps, takes) = (Keeps::default(), Takes::default());
        let (replicas, subscriptions) = (Replicas::new(handles)?, Subscriptions::default());
        Ok(Self { replicas, keeps, takes, subscriptions })
    }

    /// Handles a message of another node.
    ///
    /// # Errors
    /// `InvalidData` if the message is malformed; it is not about replicas; the system's.
    pub(crate) fn hear(
        &mut self,
        peer: Peer,
        message: Message,
        body: &Received,
        host: &mut Host<'_>,
    ) -> io::Result<Vec<Action>> {
        let agents = host.agents;
        match message {
            Message::Where(area) => {
                let found = Where::decode(bytes(body))?;
                let replica = self.replicas.get_mut((peer, area));
                let Some(mut actions) = replica.map(|one| one.hear_where(found)) else {
                    return Ok(Vec::new());
                };
                actions.push(Action::Request((peer, area)));
                Ok(actions)
            }
            Message::Part { tag, pushed, offset } => {
                self.hear_part(peer, (tag, pushed), offset, body)
            }
            Message::NotKept(tag) => Ok(vec![Action::Lost(tag, peer, gone(&agents.host(peer)))]),
            Message::Data(area, offset, len) => {
                let (key, range) = ((peer, area), Extent::new(offset, len));
                let (bytes, own) = self.keeps.complete(key, range, bytes(body))?;
                let found = self.replicas.with_memory(key);
                found
                    .map_or(Ok(()), |(one, areas)| one.put((offset, Some(&bytes)), &own, areas))?;
                Ok(vec![Action::Work(key)])
            }
            Message::Released(area) => {
                self.keeps.free((peer, area));
                Ok(Vec::new())
            }
            Message::Free(area) => Ok(self.hear_free((peer, area), agents)),
            Message::Subscribed { owner, series, number, credit, after } => {
                let Some(owner) = agents.known(&owner) else { return Ok(Vec::new()) };
                let route = (peer, owner, series);
                self.subscriptions.noted(&route, number, credit, after);
                Ok(self.ask_unpromised(&route, None, agents))
            }
            Message::Push { owner, series, number, area, report, tag } => {
                let Some(owner) = agents.known(&owner) else { return Ok(Vec::new()) };
                let (route, by) = ((peer, owner, series), (report, tag));
                let accepted = self.hear_push(&route, (number, area), by, host);
                Ok(self.ask_unpromised(&route, (!accepted).then_some(area), agents))
            }
            Message::Parts { tag, pushed } => self.hear_parts(peer, (tag, pushed), body),
            message => self.hear_exchange(peer, &message),
        }
    }

    /// The owner gives a generation up.
    fn hear_free(&mut self, key: Key, agents: &dyn Agents) -> Vec<Action> {
        let mut actions = self.abandon(key);
        if let Some(replica) = self.replicas.get_mut(key) {
            let lost = replica.incoming.sources.give_up();
            let error = io::Error::other("its owner has given the generation up");
            actions.extend(replica.lose(&lost, &error));
        }
        let unread = self.replicas.get(key).filter(|replica| replica.early);
        if let Some(series) = unread.map(|replica| series(&replica.path)) {
            // If no program has opened it, none will open the next ones.
            actions.extend(self.end_subscriptions(key.0, Some(&series), agents));
        }
        self.replicas.is_gone(key);
        actions
    }

    /// The bytes of places that this node keeps of a generation; `None` if it lacks some. If they
    /// are `for_owner`, these bytes are in common with it from now on.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn kept_parts(
        &mut self,
        key: Key,
        places: &[Extent],
        for_owner: bool,
    ) -> io::Result<Option<Vec<(u64, Body)>>> {
        let changes = self.replicas.get(key).is_some_and(|one| !one.is_left());
        let parts = places.iter().map(|place| self.keeps.bytes(key, *place, changes));
        let parts: io::Result<Option<Vec<_>>> = parts.collect();
        let parts: Option<Vec<(u64, Body)>> =
            parts?.map(|parts| parts.into_iter().flatten().collect());
        if let (true, Some(parts)) = (for_owner && changes, &parts) {
            self.are_in_common(key, parts)?;
        }
        Ok(parts)
    }

    /// The owner gets kept bytes of a replica that programs may write to.
    fn are_in_common(&mut self, key: Key, parts: &[(u64, Body)]) -> io::Result<()> {
        let memory = self.replicas.open(key, (true, false, false))?;
        let inode = os::fstat(memory.as_raw_fd())?.st_ino;
        let shared = self.replicas.get_mut(key).and_then(|replica| replica.shared.as_mut());
        let Some(shared) = shared else { return Ok(()) };
        for (offset, body) in parts {
            let (offset, bytes) = (*offset, body.bytes());
            // Others are in the memory of an earlier replica.
            let sent = Extent::new(offset, bytes.len() as u64);
            for part in self.keeps.within_file(key, inode, sent) {
                let place = (part.offset - offset) as usize..(part.end() - offset) as usize;
                shared.has_sent(part.offset, &bytes[place])?;
            }
        }
        Ok(())
    }

    /// The owner of replicas has ended; `text` says so. Returns whether written bytes are lost.
    pub(crate) fn lose_owner(&mut self, peer: Peer, text: &str) -> (bool, Vec<Action>) {
        let (mut unsaved, mut actions) = (false, Vec::new());
        for key in self.replicas.of(peer) {
            let Some(replica) = self.replicas.get_mut(key) else { continue };
            let is_lost = replica.writing.dirty;
            if is_lost {
                let path = shown(&replica.path);
                log!(Level::Error, "agent: {path}: what was written is lost: {text}");
            }
            unsaved |= is_lost;
            actions.extend(replica.fail_all(&io::Error::other(text.to_owned())));
            self.replicas.opens.lose(key, if is_lost { text } else { "" });
            self.replicas.give_up(key);
        }
        (unsaved, actions)
    }

    /// Closes an open. Returns it, and the actions that follow.
    ///
    /// # Errors
    /// The answer for the program, if the owner has ended.
    pub(crate) fn close(
        &mut self,
        handle: u64,
        agents: &dyn Agents,
    ) -> Result<(Held, Vec<Action>), Reply> {
        let held = self.replicas.opens.end(handle)?;
        let actions = self.subscribe(held.key, agents);
        self.replicas.close(held.key);
        Ok((held, actions))
    }
}

#[cfg(test)]
mod tests;
