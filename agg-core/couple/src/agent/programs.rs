//! Hears programs: parses what they ask, and sends it where it is served.

use super::Agent;
use super::clients::{ClientProcess, Hello};
use super::lifecycle::Lifecycle;
use super::listing::list;
use super::names::Names;
use super::status::status;
use crate::peers::{Asked, Message};
use crate::protocol::{Reply, Request};
use crate::registry::Process;
use aggio_base::log;
use aggio_base::log::Level;
use aggio_link::Body;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

impl Agent {
    /// Reads the messages of a connection.
    pub(super) fn hear(&mut self, link: u64) {
        while let Some(received) = self.links.receive(link) {
            match received {
                Ok(Some((message, _))) => match Request::decode(&message) {
                    Ok(request) => self.receive(link, request),
                    Err(error) => self.refuse(link, &error),
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    self.refuse(link, &error);
                }
                Ok(None) | Err(_) => self.hang_up(link),
            }
        }
    }

    /// Ends a connection that does not speak the protocol.
    fn refuse(&mut self, link: u64, error: &io::Error) {
        let process = self.links.peer(link).unwrap_or_default();
        log!(Level::Warn, "agent: a connection of process {process} ends: {error}");
        self.reply(link, &Reply::Failed(libc::EPROTO, error.to_string()), None);
        self.hang_up(link);
    }

    /// Sends an answer, and says whether it is on its way. A program that does not take it loses
    /// its connection.
    ///
    /// What it tells survives this agent from then on. A program that was not told of its open asks
    /// the next agent for it again, by the same key.
    pub(super) fn reply(&mut self, link: u64, reply: &Reply, file: Option<&OwnedFd>) -> bool {
        self.owner.life.save();
        if let Some(told) = self.reply_away(link, reply, file) {
            return told;
        }
        let sent = self.links.send(link, reply, file.map(AsRawFd::as_raw_fd));
        if sent.is_err() {
            self.hang_up(link);
        }
        sent.unwrap_or(false)
    }

    /// Sends an answer to another node, if that has asked, and says whether it is on its way;
    /// `None` if it was a program of this node.
    fn reply_away(&mut self, link: u64, reply: &Reply, file: Option<&OwnedFd>) -> Option<bool> {
        let peers = self.peers.as_mut()?;
        let (peer, ticket) = peers.guests.request(link)?;
        if !matches!(reply, Reply::Waits(_)) {
            peers.guests.end(link);
        }
        let own = &mut self.owner.life.own;
        let lent = match (reply, file) {
            (Reply::Opened(handle, generation), Some(file)) => {
                own.lend(peer, *handle, *generation, file.as_raw_fd())
            }
            (reply, _) => return Some(self.tell(peer, &Message::Answer(ticket, reply.encode()))),
        };
        Some(match lent {
            Ok(away) => {
                let map = match away.is_renewed() {
                    true => Body::None,
                    false => own.map_of(away.area, away.size),
                };
                peers.nodes.say(peer, &Message::Opened(ticket, away), map).is_ok()
            }
            Err(error) => {
                self.tell(peer, &Message::Answer(ticket, Reply::from(&error).encode()));
                false
            }
        })
    }

    /// Handles a message of a program.
    pub(super) fn receive(&mut self, link: u64, request: Request) {
        match request {
            Request::Hello { job, ranks, rank, command, spools } => {
                // A program that opens a file there gets the error if that cannot be.
                let found = |spool| _ = self.owner.life.find_in(&spool);
                spools.into_iter().for_each(found);
                self.settle();
                let greeted = self.greet(link, &Hello { job, ranks, rank, command });
                let reply = greeted.map_or_else(|error| invisible(&error), |()| Reply::Done);
                self.reply(link, &reply, None);
            }
            Request::Status(from) => {
                self.owner.life.own.memory.note_peak();
                let all = || status(&self.owner, self.peers.as_ref(), &self.lifetime);
                let fresh = (from == 0).then(|| all().to_string().into_bytes());
                let reply = self.links.part(link, from, fresh);
                self.reply(link, &reply.unwrap_or_else(Reply::unknown), None);
            }
            Request::Cancel => self.cancel(link),
            Request::Drop(path) => {
                let count = self.owner.life.own.registry.files.drop_all(&path);
                self.settle();
                self.reply(link, &Reply::Text(count.to_string().into_bytes(), 0), None);
            }
            Request::Quit => {
                let reply = self.end_if_idle();
                self.reply(link, &reply, None);
            }
            request => match self.links.caller(link) {
                Some(process) => self.route(Asked { link, process, request }),
                None => {
                    let error = io::Error::other("it comes out of turn");
                    self.refuse(link, &error);
                }
            },
        }
    }

    /// The process at the other end of a connection names itself.
    ///
    /// # Errors
    /// The process cannot be seen from here, as from another container.
    fn greet(&mut self, link: u64, hello: &Hello) -> io::Result<()> {
        let Lifecycle { clients, own, .. } = &mut self.owner.life;
        let process = clients.greet(self.links.peer(link)?, hello, &mut own.registry)?;
        if let Some(peers) = &mut self.peers {
            let host = peers.nodes.directory.host();
            let remote = clients.remote(process, host, &own.registry);
            remote.into_iter().for_each(|remote| peers.requests.know(process, remote));
        }
        self.lifetime.stays = false;
        self.links.belongs_to(link, process);
        Ok(())
    }

    /// Serves a request here, or sends it to the node that owns the name.
    pub(super) fn route(&mut self, asked: Asked) {
        self.catch_up(&asked.request);
        // It may have ended by now.
        if self.links.has(asked.link)
            && let Some(Asked { link, process, request }) = self.forward(asked)
        {
            self.owner.serve(link, process, request);
            self.settle();
        }
    }

    /// Sends a request to the node that owns its name, if that is another one; gives it back if
    /// this node does.
    fn forward(&mut self, asked: Asked) -> Option<Asked> {
        let Some(peers) = &mut self.peers else { return Some(asked) };
        let forwarded = match &asked.request {
            Request::List(dir, after, view) => {
                let own = list(&self.owner.life.own.registry, asked.process, dir, after, *view);
                peers.list(asked, own)
            }
            Request::Rename(..) => {
                let forwarded = Names { owner: &mut self.owner, peers }.forward_rename(asked);
                self.carry_out();
                forwarded
            }
            _ => peers.forward(asked),
        };
        forwarded.map_err(|actions| self.act(actions)).ok()
    }

    /// What a program waits for is not wanted any more.
    pub(super) fn cancel(&mut self, link: u64) {
        match self.owner.cancel(link) {
            true => self.settle(),
            false => self.act_on(|peers| peers.cancel(link)),
        }
    }

    /// A connection has ended.
    pub(super) fn hang_up(&mut self, link: u64) {
        let Some(left) = self.links.end(link) else { return };
        self.owner.hang_up(link);
        self.act_on(|peers| peers.cancel(link));
        self.peers.iter_mut().for_each(|peers| peers.requests.hang_up(link));
        let Some(process) = left else { return };
        let Lifecycle { clients, own, .. } = &mut self.owner.life;
        if clients.get(process).is_some_and(ClientProcess::goes_on) {
            clients.end_in_order(process, true, &mut own.registry);
            // One that has only looked is as good as gone; it may come again.
            let replicas = self.peers.as_ref().map(|peers| &peers.replication.replicas);
            let uses = replicas.is_some_and(|all| !all.used_by(process).is_empty());
            if own.registry.has_no_part(process) && !uses {
                self.lose(process);
            }
        }
    }

    /// A process has ended.
    pub(super) fn lose(&mut self, process: Process) {
        // Earlier messages come first.
        for link in self.links.of(process) {
            self.hear(link);
            self.hang_up(link);
        }
        let Some(orderly) = self.owner.lose(process) else { return };
        // Nobody needs the answers to its requests any more.
        if let Some(peers) = &mut self.peers {
            let (used, actions) = peers.leave(process, orderly);
            self.act(actions);
            used.into_iter().for_each(|key| self.look_away(key));
        }
        self.settle();
    }

    /// Hears which processes have ended by now.
    pub(super) fn lose_the_dead(&mut self) {
        self.owner.life.clients.ended().into_iter().for_each(|process| self.lose(process));
    }
}

fn invisible(error: &io::Error) -> Reply {
    let text = format!("the agent does not see this process, as from another container: {error}");
    Reply::Failed(error.raw_os_error().unwrap_or(libc::ESRCH), text)
}
