//! Requests that other nodes serve: those about names that they own, and about open files of
//! theirs.

use super::Agent;
use crate::peers::{
    AWAY, Action, Answered, Asked, Away, Handed, Key, Message, RemoteProcess, Ticket, shown,
};
use crate::protocol::{Reply, Request};
use crate::registry::Process;
use aggio_link::{Body, Peer};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The outcome of a request.
pub(super) enum Way {
    /// This node owns the name.
    Here(Request),
    /// It is answered later, or was.
    There,
}

impl Agent {
    /// Sends a request to the node that owns its name, if that is another one.
    pub(super) fn forward(&mut self, link: u64, process: Process, request: Request) -> Way {
        if matches!(request, Request::List(..)) {
            return self.list_on_all(link, process, request);
        }
        if let Request::Rename(..) = request {
            let here = self.forward_rename(link, process, request);
            return here.map_or(Way::There, Way::Here);
        }
        let Some(peers) = &mut self.peers else { return Way::Here(request) };
        if let Request::Open { ask, .. } = &request
            && !ask.write
            && let Some(text) = peers.losses.take(process, &ask.path)
        {
            self.reply(link, &Reply::Failed(libc::EIO, text), None);
            return Way::There;
        }
        if let Some((path, claim)) = request.name() {
            let owner = match peers.nodes.owner(path, claim) {
                Ok(owner) => owner,
                Err(error) => {
                    let text = format!("{}: its owner cannot be found: {error}", shown(path));
                    let error = io::Error::new(error.kind(), text);
                    self.reply(link, &Reply::from(&error), None);
                    return Way::There;
                }
            };
            let Some(peer) = owner else { return Way::Here(request) };
            self.ask(peer, link, process, request);
            return Way::There;
        }
        self.forward_open(link, process, request)
    }

    /// The same for open files.
    fn forward_open(&mut self, link: u64, process: Process, request: Request) -> Way {
        let Some(peers) = &mut self.peers else { return Way::Here(request) };
        let all = &mut peers.replication;
        let actions = match request {
            Request::Close(handle, moved) if handle >= AWAY => {
                self.close_away(link, process, handle, moved);
                return Way::There;
            }
            Request::Withdraw(handle) | Request::Spoil(handle) if handle >= AWAY => {
                let spoils = matches!(request, Request::Spoil(_));
                let make = if spoils { Request::Spoil } else { Request::Withdraw };
                self.end_away(link, process, handle, make);
                return Way::There;
            }
            Request::Check(handle, _)
            | Request::Sync(handle)
            | Request::Renew(handle)
            | Request::Resize(handle, _)
            | Request::Announce(handle, _)
            | Request::ChildLost(handle)
            | Request::Wrote(handle, _)
                if handle >= AWAY =>
            {
                match all.serve(link, process, request) {
                    Answered::Yes(actions) => actions,
                    Answered::No(request) => vec![all.check(link, process, handle, request)],
                }
            }
            Request::Records(handle, told) if handle >= AWAY => {
                vec![all.ask_for_records(link, process, handle, told)]
            }
            Request::Fetch(handle, extents, ahead) if handle >= AWAY => {
                all.fetch_for(link, handle, extents, ahead)
            }
            Request::Adopt(device, inode, how, _) => match all.replicas.find(device, inode) {
                Some(key) => {
                    self.adopt_away(link, process, key, how);
                    return Way::There;
                }
                None => return Way::Here(request),
            },
            request => return Way::Here(request),
        };
        self.act(actions);
        Way::There
    }

    /// A ticket for a request of a program to `peer`, which learns of the process.
    fn ticket(&mut self, peer: Peer, link: u64, process: Process) -> u64 {
        let ticket = self.own.registry.numbers.next();
        self.links.let_wait(link);
        let Some(peers) = &mut self.peers else { return ticket };
        if peers.requests.join(peer, process)
            && let Some(who) = self.own.registry.processes.get(&process)
        {
            let host = peers.nodes.directory.host();
            let (job, family) =
                (self.clients.jobs.text(who.job), self.clients.jobs.text(who.family));
            let global = |text: &str| match is_global(text) {
                true => text.to_owned(),
                false => format!("{host}: {text}"),
            };
            let remote = RemoteProcess {
                job: global(job),
                family: global(family),
                ranks: who.ranks,
                label: format!("{} on {host}", who.label),
            };
            // A connection that has ended is told soon, with all its tickets.
            let _ = peers.nodes.say(peer, &Message::Join(process, remote), Body::None);
        }
        ticket
    }

    pub(super) fn ask(&mut self, peer: Peer, link: u64, process: Process, request: Request) {
        if !self.own.registry.processes.contains_key(&process) {
            // It has ended, and its owner learns that; all that it had open there ends with it.
            return;
        }
        let (access, parts) = match &request {
            Request::Open { ask, read, append, parts, .. } => ((*read, ask.write, *append), *parts),
            _ => ((false, false, false), false),
        };
        let path = request.name().map_or_else(Vec::new, |(path, _)| path.to_vec());
        let ticket = self.ticket(peer, link, process);
        let request = request.encode();
        let (asked, opened) = (request.clone(), None);
        let kept = Ticket { peer, link, process, request: asked, path, access, parts, opened };
        self.send_ticket(ticket, kept, &Message::Ask { process, ticket, request });
    }

    fn adopt_away(&mut self, link: u64, process: Process, key: Key, how: [bool; 2]) {
        let [write, tells] = how;
        let ticket = self.ticket(key.0, link, process);
        let Some(peers) = &mut self.peers else { return };
        let replica = peers.replication.replicas.get(key);
        let path = replica.map(|replica| replica.path.clone()).unwrap_or_default();
        let opened = Some(Away { area: key.1, ..Away::default() });
        let (peer, access) = (key.0, (true, write, false));
        let (request, parts) = (Vec::new(), tells);
        let kept = Ticket { peer, link, process, request, path, access, parts, opened };
        let adopt = Message::Adopt { process, ticket, area: key.1, write, tells };
        self.send_ticket(ticket, kept, &adopt);
    }

    fn send_ticket(&mut self, number: u64, ticket: Ticket, message: &Message) {
        let Some(peers) = &mut self.peers else { return };
        let peer = ticket.peer;
        peers.requests.add(number, ticket);
        if let Err(error) = peers.nodes.say(peer, message, Body::None) {
            self.act(vec![Action::Fail(number, Reply::from(&error))]);
        }
    }

    fn close_away(&mut self, link: u64, process: Process, handle: u64, moved: u64) {
        let Some(peers) = &mut self.peers else { return };
        let (held, actions) = match peers.replication.close(handle, &peers.nodes) {
            Ok(closed) => closed,
            // Its owner ended.
            Err(reply) => return self.act(vec![Action::Reply(link, reply)]),
        };
        if held.writes {
            peers.requests.closes(held.key.0, held.theirs);
        }
        self.act(actions);
        self.look_away(held.key);
        let asked = Asked { link, process, request: Request::Close(held.theirs, moved) };
        self.replicate(|all, _| all.push_and_ask(held.key, asked));
    }

    /// Ends an open in the way that `request` says.
    fn end_away(&mut self, link: u64, process: Process, handle: u64, request: fn(u64) -> Request) {
        let Some(peers) = &mut self.peers else { return };
        let replicas = &mut peers.replication.replicas;
        let held = match replicas.opens.end(handle) {
            Ok(held) => held,
            Err(reply) => return self.act(vec![Action::Reply(link, reply)]),
        };
        replicas.close(held.key);
        // The owner learns of it before it learns that bytes are missing.
        self.ask(held.key.0, link, process, request(held.theirs));
        self.look_away(held.key);
    }

    /// The open with this ticket gets its replica.
    pub(super) fn hand_replica_over(&mut self, ticket: u64) {
        let handed = self.peers.as_mut().and_then(|peers| peers.hand_over(ticket));
        let Some(Handed { link, process, handle, generation, file }) = handed else { return };
        match file {
            Ok(file) => self.opened_away((link, process), handle, generation, Some(file)),
            Err(error) => {
                self.reply(link, &Reply::from(&error), None);
                self.end_away(0, process, handle, Request::Withdraw);
            }
        }
    }

    /// A program gets its handle, and the descriptor of a replica.
    pub(super) fn opened_away(
        &mut self,
        (link, process): (u64, Process),
        handle: u64,
        generation: u64,
        file: Option<OwnedFd>,
    ) {
        let fd = file.as_ref().map(AsRawFd::as_raw_fd);
        let sent = self.reply(link, &Reply::Opened(handle, generation), fd);
        drop(file);
        if !sent {
            // Nobody has it: the answer of its end is for nobody.
            self.end_away(0, process, handle, Request::Withdraw);
        }
    }
}

/// Whether a job has the same name on all nodes.
fn is_global(job: &str) -> bool {
    job.starts_with("job ") && !job.starts_with("job launcher")
}
