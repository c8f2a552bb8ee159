//! Hears other nodes: parses what they say, and calls the part that it is for.

use super::deferred::After;
use super::kept_bytes::Supply;
use super::lifecycle::Lifecycle;
use super::names::Names;
use super::{Agent, LOOKS};
use crate::hosted::ALL;
use crate::peers::{Agents, Message, gone};
use crate::protocol::Request;
use crate::registry::Process;
use aggio_base::log;
use aggio_base::log::Level;
use aggio_link::{Body, Event, Peer, Received};
use std::io;

impl Agent {
    /// Serves messages of other agents, and sends those that wait.
    ///
    /// # Errors
    /// The link does not work any more.
    pub(super) fn hear_peers(&mut self) -> io::Result<()> {
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let replicas = &mut peers.replication.replicas;
        let again = std::mem::take(&mut replicas.closing);
        let closed = replicas.closed().into_iter().map(|key| (key, 0));
        // The kernel tells of a close before it counts one description fewer.
        for (key, looks) in again.into_iter().chain(closed) {
            self.look_away(key);
            let Some(peers) = &mut self.peers else { return Ok(()) };
            peers.replication.replicas.look_again(key, looks, LOOKS);
        }
        let Some(peers) = &mut self.peers else { return Ok(()) };
        for event in peers.progress()? {
            match event {
                Event::Message { peer, head, body } => {
                    let heard =
                        Message::decode(&head).and_then(|one| self.hear_peer(peer, one, body));
                    if let Err(error) = heard {
                        self.refuse_peer(peer, &error);
                    }
                }
                Event::Refused { from, why } => {
                    log!(Level::Warn, "agent: a connection from {from} was refused: {why}");
                }
                Event::Closed { peer, why } => self.lose_peer(peer, &why),
                Event::Opened { .. } | Event::Drained(_) => {}
            }
        }
        let keys = self.peers.as_ref().map(|peers| peers.replication.replicas.shared());
        keys.into_iter().flatten().for_each(|key| self.work(key));
        Ok(())
    }

    /// Ends the connection with a node after a message that cannot be handled.
    pub(super) fn refuse_peer(&mut self, peer: Peer, error: &io::Error) {
        log!(Level::Warn, "agent: a connection with another node ends: {error}");
        if let Some(peers) = &mut self.peers {
            peers.nodes.close(peer);
        }
        self.lose_peer(peer, error);
    }

    pub(super) fn hear_peer(
        &mut self,
        peer: Peer,
        message: Message,
        body: Received,
    ) -> io::Result<()> {
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let bytes = if let Received::Bytes(bytes) = &body { &bytes[..] } else { &[] };
        let (owner, replication) = (&mut self.owner, &mut peers.replication);
        match message {
            Message::Caller(caller) => return peers.nodes.called(peer, &caller),
            Message::Join(number, who) => {
                let Lifecycle { clients, own, .. } = &mut owner.life;
                let process = clients.greet_remote(peer, &who, &mut own.registry);
                peers.guests.join(peer, number, process);
                self.lifetime.stays = false;
            }
            Message::Ask { process, ticket, request } => {
                return self.ask_for(peer, process, ticket, Request::decode(&request)?);
            }
            Message::Adopt { process, ticket, area, write, tells } => {
                let remote = peers.guests.get(peer, process)?;
                let reply = owner.life.own.adopt((peer, remote), area, [write, tells]);
                self.tell(peer, &Message::Answer(ticket, reply.encode()));
            }
            Message::Left(number, orderly) => {
                let remote = peers.guests.leave(peer, number)?;
                self.lose_remote(remote, orderly);
            }
            Message::Take { tag, owner: of, area } => {
                let mut supply = Supply { own: &mut owner.life.own, peers };
                return supply.hear_take(peer, tag, (&of, area), bytes);
            }
            Message::Spill(area, directory) => {
                let key = (peer, area);
                owner.life.move_kept(key, replication.keeps.in_memory(key), &directory);
                self.settle();
            }
            message => {
                let caller = peers.nodes.caller(peer);
                let Some(message) = owner.hear(peer, caller, message, bytes)? else {
                    self.carry_out();
                    return Ok(());
                };
                let actions = peers.hear(peer, message, &body, &mut owner.life.own.memory.pages)?;
                self.act(actions);
            }
        }
        Ok(())
    }

    /// Serves a request of a process of another node, by its number there.
    ///
    /// # Errors
    /// No such process has joined.
    pub(super) fn ask_for(
        &mut self,
        peer: Peer,
        number: u64,
        ticket: u64,
        request: Request,
    ) -> io::Result<()> {
        let Some(peers) = &mut self.peers else { return Ok(()) };
        if request == Request::Cancel {
            let link = peers.guests.link(peer, ticket);
            link.into_iter().for_each(|link| self.cancel(link));
            return Ok(());
        }
        let remote = peers.guests.get(peer, number)?;
        let mut names = Names { owner: &mut self.owner, peers };
        if let Some(answer) = names.turn_away(peer, ticket, &request) {
            self.tell(peer, &answer);
            self.carry_out();
            return Ok(());
        }
        let registry = &self.owner.life.own.registry;
        let (waits_for_bytes, ends) = match &request {
            Request::Close(handle, _) => (Some(handle), Some(handle)),
            Request::Sync(handle) => (Some(handle), None),
            Request::Withdraw(handle) | Request::Spoil(handle) => (None, Some(handle)),
            _ => (None, None),
        };
        let area = |handle| registry.opens.get(handle).map(|open| open.area);
        let (awaited, closed) = (waits_for_bytes.and_then(area), ends.and_then(area));
        if let Some(area) = awaited.filter(|area| self.owner.life.own.awaits_bytes(*area)) {
            // The bytes that it has written must be here first.
            let after = After::Ask { peer, process: number, ticket, request: request.clone() };
            if self.owner.life.pulls_first(area, &[ALL], after).is_ok() {
                self.settle();
                return Ok(());
            }
        }
        self.catch_up(&request);
        let link = self.owner.life.own.registry.numbers.next();
        if let Some(peers) = &mut self.peers {
            peers.guests.asks(link, peer, ticket);
        }
        self.owner.serve(link, remote, request);
        closed.into_iter().for_each(|area| self.owner.life.release(area));
        self.settle();
        Ok(())
    }

    /// Tells another agent; false if that is gone.
    pub(super) fn tell(&mut self, peer: Peer, message: &Message) -> bool {
        let peers = self.peers.as_mut();
        peers.is_some_and(|peers| peers.nodes.say(peer, message, Body::None).is_ok())
    }

    fn lose_remote(&mut self, remote: Process, orderly: bool) {
        let ended = self.owner.lose_remote(remote, orderly);
        if let Some(peers) = &mut self.peers {
            ended.iter().for_each(|link| _ = peers.guests.end(*link));
        }
        self.settle();
    }

    /// A connection with another agent has ended, in either direction.
    pub(super) fn lose_peer(&mut self, peer: Peer, why: &io::Error) {
        let Some(peers) = &mut self.peers else { return };
        let remote = peers.guests.of(peer);
        if !remote.is_empty() {
            log!(Level::Warn, "agent: the agent of another node has ended: {why}");
        }
        for number in remote {
            let guests = self.peers.as_mut().map(|peers| &mut peers.guests);
            if let Some(Ok(remote)) = guests.map(|guests| guests.leave(peer, number)) {
                self.lose_remote(remote, false);
            }
        }
        self.owner.lose_node(peer);
        self.act_on(|peers| {
            peers.replication.takes.lose(peer, &gone(&Agents::host(&peers.nodes, peer)))
        });
        self.peers.iter_mut().for_each(|peers| peers.lose(peer));
        self.settle();
        self.act_on(|peers| peers.lose_owner(peer, why));
    }
}
