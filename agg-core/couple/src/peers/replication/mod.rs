//! Replicas of files that other nodes own, with all bytes on their way to and from them.

mod exchange;
mod fetches;
mod subscribing;

pub(crate) use exchange::Answered;

use super::differences::{self, parts};
use super::{
    Action, Agents, Area, Held, Keeps, Kept, Key, Message, Replicas, Requests, Subscriptions,
    Takes, Target, Where, gaps, gone,
};
use crate::areas::data;
use crate::huge::Pages;
use crate::protocol::{Reply, bad};
use crate::records::News;
use crate::registry::Process;
use aggio_base::overlay::Overlay;
use aggio_base::{Extent, os};
use aggio_link::{Body, Peer, Places, Received, Span};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

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
            Message::Kept(tag, offset) => {
                match self.takes.target(tag, peer, Extent::new(offset, len))? {
                    Target::Replica(key, local) => {
                        self.replicas.made(key, local)?.room(offset, len)
                    }
                    Target::Own(_) => None,
                }
            }
            Message::Pushed(tag, offset) => {
                let announced = self.subscriptions.target(peer, tag)?;
                let replica = self.replicas.made(announced.key, announced.local)?;
                let is_coming = replica.pushed.is_coming(Extent::new(offset, len), peer);
                replica.room(offset, len).filter(|_| is_coming)
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
            Message::Where(area) => self.hear_where((peer, area), bytes(body)),
            Message::Kept(tag, offset) => self.hear_kept(peer, (tag, offset), body),
            Message::NotKept(tag) => Ok(vec![Action::Lost(tag, peer, gone(&agents.host(peer)))]),
            Message::Rest(area, offset, len) => {
                self.hear_rest((peer, area), Extent::new(offset, len), bytes(body))
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
            Message::Pushed(tag, offset) => self.hear_pushed(peer, tag, offset, body),
            Message::Share(area) => Ok(self.share((peer, area))),
            Message::News(area) => Ok(self.has_news((peer, area))),
            Message::Gather(area, head, from) => {
                Ok(self.send_news((peer, area), News { head, from }))
            }
            Message::Cut(area, size) => {
                self.replicas.cut((peer, area), size)?;
                Ok(vec![Action::Say(peer, Message::IsCut(area), Body::None)])
            }
            Message::Looked(area, size) => {
                self.replicas.looked((peer, area), size)?;
                Ok(vec![Action::Work((peer, area))])
            }
            Message::Same(area, offset) => {
                self.replicas.renewed((peer, area), (offset, None))?;
                Ok(vec![Action::Work((peer, area))])
            }
            // If the replica that it is for is gone, nothing follows.
            Message::Data(area, offset) => {
                self.replicas.renewed((peer, area), (offset, Some(bytes(body))))?;
                Ok(vec![Action::Work((peer, area))])
            }
            _ => Err(io::Error::other("it is of no known kind")),
        }
    }

    /// The owner gives a generation up.
    fn hear_free(&mut self, key: Key, agents: &dyn Agents) -> Vec<Action> {
        let mut actions = self.abandon(key);
        if let Some(replica) = self.replicas.get_mut(key) {
            let lost = replica.sources.give_up();
            let error = io::Error::other("its owner has given the generation up");
            actions.extend(replica.lose(&lost, &error));
        }
        actions.extend(self.end_unread(key, agents));
        self.replicas.is_gone(key);
        actions
    }

    /// The connection with a node has ended: the bytes that it was to send do not come.
    pub(crate) fn lose(&mut self, peer: Peer, agents: &dyn Agents) -> Vec<Action> {
        let text = gone(&agents.host(peer));
        let lost = self.takes.of(peer).into_iter();
        lost.map(|tag| Action::Lost(tag, peer, text.clone())).collect()
    }

    /// The owner of replicas has ended; `text` says so. Returns whether written bytes are lost.
    pub(crate) fn lose_owner(&mut self, peer: Peer, text: &str) -> (bool, Vec<Action>) {
        let (mut unsaved, mut actions) = (false, Vec::new());
        for key in self.replicas.of(peer) {
            let lost = self.replicas.lose(key, text);
            unsaved |= lost;
            let ended = io::Error::other(text.to_owned());
            actions.extend(self.fail_exchange(key, &ended));
            let replica = self.replicas.get_mut(key);
            actions.extend(replica.into_iter().flat_map(|replica| replica.fail_wanting(&ended)));
            self.replicas.give_up(key);
        }
        (unsaved, actions)
    }

    /// A process of this node has ended. Returns the replicas that it has used.
    pub(crate) fn leave(&mut self, process: Process) -> BTreeSet<Key> {
        let used = self.replicas.used_by(process);
        self.replicas.leave(process);
        used
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

    /// The bytes that programs have said that they wrote to a replica; they stay here, if all
    /// programs say so.
    ///
    /// # Errors
    /// The system's.
    fn keep(&mut self, key: Key) -> io::Result<Kept> {
        let Some(replica) = self.replicas.get_mut(key) else { return Ok(Kept::No(Vec::new())) };
        let written = std::mem::take(&mut replica.written);
        let mut extents: Vec<Extent> = written.into_ranges().map(|(extent, ())| extent).collect();
        if !replica.keeps {
            return Ok(Kept::No(extents));
        }
        if !extents.is_empty() {
            let file = self.replicas.open(key, (true, false, false))?;
            let whole = Extent::new(0, os::fstat(file.as_raw_fd())?.st_size.unsigned_abs());
            extents.iter_mut().for_each(|extent| *extent = extent.intersect(whole));
            extents.retain(|extent| !extent.is_empty());
            self.keeps.keep(key, file, &extents)?;
        }
        Ok(Kept::Here(extents))
    }

    /// Kept bytes have moved to files outside of memory, by their inodes, or could not. Returns the
    /// answer to the owner.
    pub(crate) fn have_moved(
        &mut self,
        key: Key,
        result: Result<Vec<(u64, OwnedFd)>, i32>,
    ) -> Vec<Action> {
        let error = result.map_or_else(
            |error| error,
            |files| {
                files.into_iter().for_each(|(inode, to)| self.keeps.has_moved(key, inode, to));
                0
            },
        );
        vec![Action::Say(key.0, Message::Spilled(key.1, error), Body::None)]
    }
}

#[cfg(test)]
mod tests;
