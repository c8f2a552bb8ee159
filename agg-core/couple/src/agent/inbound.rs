//! Processes of other nodes, which ask about names that this node owns.

use super::Agent;
use super::deferred::After;
use crate::hosted::ALL;
use crate::peers::{Agents, Holder, Message, RemoteProcess, gone};
use crate::protocol::{Reply, Request};
use crate::registry::{Area, Process, Who};
use aggio_base::log;
use aggio_base::log::Level;
use aggio_link::{Body, Event, Peer, Received};
use std::io;
use std::os::fd::RawFd;

/// Characters of a text of another node about a process, at most.
const WORDS: usize = 600;

/// The bytes of a body that was not placed anywhere.
fn bytes(body: &Received) -> &[u8] {
    match body {
        Received::Bytes(bytes) => bytes,
        _ => &[],
    }
}

impl Agent {
    /// Serves messages of other agents, and sends those that wait.
    ///
    /// # Errors
    /// The link does not work any more.
    pub(super) fn hear_peers(&mut self) -> io::Result<()> {
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let replicas = &mut peers.replication.replicas;
        let again = std::mem::take(&mut replicas.closing);
        let closed = replicas.closed();
        again.into_iter().for_each(|(key, looks)| self.look_away_again(key, looks));
        closed.into_iter().for_each(|key| self.look_away_again(key, 0));
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
        match message {
            Message::Caller(caller) => {
                let nodes = self.peers.as_mut().map(|peers| &mut peers.nodes);
                nodes.map_or(Ok(()), |nodes| nodes.called(peer, &caller))
            }
            Message::Join(..) | Message::Ask { .. } | Message::Adopt { .. } | Message::Left(..) => {
                self.hear_guest(peer, message)
            }
            Message::Moved(ticket) => {
                self.hear_moved(peer, ticket);
                Ok(())
            }
            Message::Locate(area) => {
                let answer = self.own.where_message(area, bytes(&body))?;
                self.tell_all(peer, answer)
            }
            Message::Stored(area, opens, series) => {
                // A generation that died meanwhile needs no bytes.
                let hosted = self.own.hosted.get_mut(area);
                hosted.map_or(Ok(()), |hosted| hosted.end(peer, opens, series))?;
                self.release(area);
                Ok(())
            }
            Message::Size(..)
            | Message::Differ(_)
            | Message::Memory(..)
            | Message::Look(_)
            | Message::Renew(..)
            | Message::Shared(_)
            | Message::Keeps(..)
            | Message::IsCut(_) => self.hear_writer(peer, message, bytes(&body)),
            Message::Take { tag, owner, area } => {
                self.hear_take(peer, tag, (&owner, area), bytes(&body))
            }
            Message::Spill(area, directory) => {
                self.spill_kept((peer, area), &directory);
                Ok(())
            }
            Message::Spilled(area, error) => {
                self.own.hosted.moved(Holder { peer, area }, error);
                self.end_moves();
                Ok(())
            }
            message => {
                let Some(peers) = &mut self.peers else { return Ok(()) };
                let actions = peers.hear(peer, message, &body, &mut self.own.memory.pages)?;
                self.act(actions);
                Ok(())
            }
        }
    }

    /// Handles a message of another node about its processes.
    fn hear_guest(&mut self, peer: Peer, message: Message) -> io::Result<()> {
        match message {
            Message::Join(number, who) => self.greet_remote(peer, number, &who),
            Message::Ask { process, ticket, request } => {
                let request = Request::decode(&request)?;
                return self.ask_for(peer, process, ticket, request);
            }
            Message::Adopt { process, ticket, area, write, tells } => {
                let remote = self.remote_process(peer, process)?;
                let reply = self.own.adopt((peer, remote), area, [write, tells]);
                self.tell(peer, &Message::Answer(ticket, reply.encode()));
            }
            Message::Left(number, orderly) => {
                let Some(peers) = &mut self.peers else { return Ok(()) };
                let remote = peers.guests.leave(peer, number)?;
                self.lose_remote(remote, orderly);
            }
            _ => return Err(io::Error::other("it is of no known kind")),
        }
        Ok(())
    }

    /// The process of another node with a number.
    ///
    /// # Errors
    /// No such process has joined, or it has left.
    pub(super) fn remote_process(&self, peer: Peer, number: u64) -> io::Result<Process> {
        let peers = self.peers.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        peers.guests.get(peer, number)
    }

    fn greet_remote(&mut self, peer: Peer, number: u64, who: &RemoteProcess) {
        let process = self.own.registry.numbers.next();
        let label = who.label.chars().filter(|c| !c.is_control()).take(WORDS).collect();
        let who = Who {
            job: self.clients.jobs.of(&who.job),
            ranks: who.ranks.max(1),
            family: self.clients.jobs.of(&who.family),
            label,
        };
        self.own.registry.join(process, who);
        self.own.registry.processes.lives_on(process, peer.0);
        self.lifetime.stays = false;
        if let Some(peers) = &mut self.peers {
            peers.guests.join(peer, number, process);
        }
    }

    pub(super) fn ask_for(
        &mut self,
        peer: Peer,
        number: u64,
        ticket: u64,
        request: Request,
    ) -> io::Result<()> {
        if request == Request::Cancel {
            let link = self.peers.as_ref().and_then(|peers| peers.guests.link(peer, ticket));
            link.into_iter().for_each(|link| self.cancel(link));
            return Ok(());
        }
        let remote = self.remote_process(peer, number)?;
        if self.turns_away(peer, ticket, &request) {
            return Ok(());
        }
        let nodes = self.peers.as_ref().map(|peers| &peers.nodes);
        if !nodes.is_some_and(|nodes| nodes.owns_name_of(&request)) {
            let text = String::from("the node that was asked does not own the file any more");
            let reply = Reply::Failed(libc::ESTALE, text).encode();
            self.tell(peer, &Message::Answer(ticket, reply));
            return Ok(());
        }
        if self.hands_over(peer, ticket, &request) {
            return Ok(());
        }
        let asked_of = match &request {
            Request::Close(handle, _) | Request::Sync(handle) => {
                self.own.registry.opens.get(handle).map(|open| open.area)
            }
            _ => None,
        };
        if let Some(area) = asked_of.filter(|area| self.own.awaits_bytes(*area)) {
            // The bytes that it has written must be here first.
            let after = After::Ask { peer, process: number, ticket, request: request.clone() };
            if self.pulls_first(area, &[ALL], after).is_ok() {
                return Ok(());
            }
        }
        let closed = match &request {
            Request::Close(handle, _) | Request::Withdraw(handle) | Request::Spoil(handle) => {
                self.own.registry.opens.get(handle).map(|open| open.area)
            }
            _ => None,
        };
        self.catch_up(&request);
        let link = self.own.registry.numbers.next();
        if let Some(peers) = &mut self.peers {
            peers.guests.asks(link, peer, ticket);
        }
        self.serve_here(link, remote, request);
        if let Some(area) = closed {
            self.release(area);
        }
        Ok(())
    }

    /// Tells another agent; false if that is gone.
    pub(super) fn tell(&mut self, peer: Peer, message: &Message) -> bool {
        let peers = self.peers.as_mut();
        peers.is_some_and(|peers| peers.nodes.say(peer, message, Body::None).is_ok())
    }

    /// Sends a message with a body to another agent.
    ///
    /// # Errors
    /// That is gone.
    pub(super) fn tell_all(
        &mut self,
        peer: Peer,
        (message, body): (Message, Body),
    ) -> io::Result<()> {
        let peers = self.peers.as_mut();
        peers.map_or(Ok(()), |peers| peers.nodes.say(peer, &message, body))
    }

    /// Sends an answer to another node, if that has asked, and says whether it is on its way;
    /// `None` if it was a program of this node.
    pub(super) fn reply_away(
        &mut self,
        link: u64,
        reply: &Reply,
        fd: Option<RawFd>,
    ) -> Option<bool> {
        let peers = self.peers.as_mut()?;
        let (peer, ticket) = peers.guests.request(link)?;
        if !matches!(reply, Reply::Waits(_)) {
            peers.guests.end(link);
        }
        let message = match (reply, fd) {
            (Reply::Opened(handle, generation), Some(fd)) => {
                match self.own.lend(peer, *handle, *generation, fd) {
                    Ok(away) => {
                        self.note_reader(peer, *handle);
                        let map = match away.is_renewed() {
                            true => Body::None,
                            false => self.own.map_of(away.area, away.size, false),
                        };
                        let peers = self.peers.as_mut()?;
                        return Some(
                            peers.nodes.say(peer, &Message::Opened(ticket, away), map).is_ok(),
                        );
                    }
                    Err(error) => {
                        let number = error.raw_os_error().unwrap_or(libc::EIO);
                        let reply = Reply::Failed(number, error.to_string());
                        self.tell(peer, &Message::Answer(ticket, reply.encode()));
                        return Some(false);
                    }
                }
            }
            (reply, _) => Message::Answer(ticket, reply.encode()),
        };
        Some(self.tell(peer, &message))
    }

    /// Cuts the memory of a generation to no bytes, on the node where it is written.
    pub(super) fn empty(&mut self, area: Area) -> io::Result<()> {
        self.own.hosted.get_mut(area).into_iter().for_each(|hosted| hosted.cut(0));
        if self.background.cut(area) {
            return Ok(());
        }
        self.steps.spoil(area, &mut self.own.registry);
        let hosted = self.own.hosted.get(area);
        let (writers, shared) =
            hosted.map_or_else(Default::default, |one| (one.writers(), one.is_shared()));
        self.cut_copies(area, 0, &writers);
        // A node that writes it alone sends all of it.
        if writers.is_empty() || shared { self.own.memory.areas.empty(area) } else { Ok(()) }
    }

    /// Lets a generation be complete if its bytes have come and no process of another node has it
    /// open for writing.
    fn release(&mut self, area: Area) {
        if self.own.release(area) {
            self.look(area);
            self.settle();
        }
    }

    fn lose_remote(&mut self, remote: Process, orderly: bool) {
        let opens =
            self.own.registry.opens.values().filter(|open| open.process == remote && open.write);
        let areas: Vec<Area> = opens.map(|open| open.area).collect();
        let waits = self.waits.take(&mut self.own.registry, |one| one.process == remote);
        let mut ended = self.steps.forget(remote);
        ended.extend(waits.iter().map(|(waiting, _)| waiting.link));
        if let Some(peers) = &mut self.peers {
            ended.iter().for_each(|link| _ = peers.guests.end(*link));
        }
        let job = self.own.registry.processes.get(&remote).map(|who| who.job);
        self.own.registry.end(remote, orderly);
        job.into_iter().for_each(|job| self.clients.jobs.forget_process(job));
        self.settle();
        areas.into_iter().for_each(|area| self.release(area));
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
        // A generation is not complete if a node does not send its bytes.
        self.own.hosted.of(peer).into_iter().for_each(|area| self.own.fail_writing(area));
        self.own.hosted.lose(peer);
        self.replicate(|all, nodes| all.takes.lose(peer, &gone(&Agents::host(nodes, peer))));
        self.peers.iter_mut().for_each(|peers| peers.lose(peer));
        self.end_moves();
        self.settle();
        self.act_on(|peers| peers.lose_owner(peer, why));
    }
}
