//! Requests about names that another node owns, and copies of their generations.

use super::Agent;
use super::spread::Answered;
use crate::client::Stat;
use crate::peers::{
    AWAY, Asked, Away, Copy, Held, Key, Message, Owner, RemoteProcess, Ticket, Where, shown,
};
use crate::protocol::{Reply, Request};
use crate::registry::{Path, Process};
use aggio_link::{Body, Peer};
use std::io;
use std::os::fd::AsRawFd;

/// What came of a request.
pub(super) enum Way {
    /// This node owns the name.
    Here(Request),
    /// It is answered later, or was.
    There,
}

/// The name that a request is about, and whether it makes its node the owner.
fn name(request: &Request) -> Option<(&[u8], bool)> {
    match request {
        Request::Open { ask, .. } => Some((&ask.path, !ask.view)),
        Request::Empty(path)
        | Request::Unlink(path, _)
        | Request::Rename(path, _, _)
        | Request::Stat(path, _) => Some((path, false)),
        _ => None,
    }
}

pub(super) fn failed(error: &io::Error) -> Reply {
    Reply::Failed(error.raw_os_error().unwrap_or(libc::EIO), error.to_string())
}

/// What a program is told of an open whose owner has ended: what was lost, an empty text for
/// nothing. An open that nobody knows is one of an earlier agent.
pub(super) fn after(ended: Option<String>) -> Reply {
    match ended {
        Some(text) if text.is_empty() => Reply::Done,
        Some(text) => Reply::Failed(libc::EIO, text),
        None => super::caller::unknown(),
    }
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
        if let Some((path, claim)) = name(&request) {
            let owner = match peers.nodes.owner(path, claim) {
                Ok(owner) => owner,
                Err(error) => {
                    let text = format!("{}: its owner cannot be found: {error}", shown(path));
                    let error = io::Error::new(error.kind(), text);
                    self.reply(link, &failed(&error), None);
                    return Way::There;
                }
            };
            let Some(peer) = owner else { return Way::Here(request) };
            self.ask(peer, link, process, request);
            return Way::There;
        }
        self.forward_open(link, process, request)
    }

    /// The same for what is open already.
    fn forward_open(&mut self, link: u64, process: Process, request: Request) -> Way {
        match request {
            Request::Close(handle, moved) if handle >= AWAY => {
                self.close_away(link, process, handle, moved);
                Way::There
            }
            Request::Withdraw(handle) | Request::Spoil(handle) if handle >= AWAY => {
                let spoils = matches!(request, Request::Spoil(_));
                let make = if spoils { Request::Spoil } else { Request::Withdraw };
                self.end_away(link, process, handle, make);
                Way::There
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
                if let Answered::No(request) = self.serve_shared(link, process, request) {
                    self.check_away(link, process, handle, &request);
                }
                Way::There
            }
            Request::Records(handle, told) if handle >= AWAY => {
                self.ask_for_records(link, process, handle, told);
                Way::There
            }
            Request::Fetch(handle, extents, ahead) if handle >= AWAY => {
                self.fetch_for(link, handle, extents, ahead);
                Way::There
            }
            Request::Adopt(device, inode, how, _) => {
                let copies = self.peers.as_ref().map(|peers| &peers.copies);
                match copies.and_then(|copies| copies.find(device, inode)) {
                    Some(key) => {
                        self.adopt_away(link, process, key, how);
                        Way::There
                    }
                    None => Way::Here(request),
                }
            }
            request => Way::Here(request),
        }
    }

    /// A ticket for what a program wants of `peer`, who knows the process from now on.
    fn ticket(&mut self, peer: Peer, link: u64, process: Process) -> u64 {
        let ticket = self.registry.number();
        self.links.let_wait(link);
        let Some(peers) = &mut self.peers else { return ticket };
        if peers.joined.insert((peer, process))
            && let Some(who) = self.registry.processes.get(&process)
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
        if !self.registry.processes.contains_key(&process) {
            // It has ended, which its owner is told, and all that it had open there with it.
            return;
        }
        let (access, parts) = match &request {
            Request::Open { ask, read, append, parts, .. } => ((*read, ask.write, *append), *parts),
            _ => ((false, false, false), false),
        };
        let path = name(&request).map_or_else(Vec::new, |(path, _)| path.to_vec());
        let ticket = self.ticket(peer, link, process);
        let request = request.encode();
        let Some(peers) = &mut self.peers else { return };
        let (asked, opened) = (request.clone(), None);
        let kept = Ticket { peer, link, process, request: asked, path, access, parts, opened };
        peers.tickets.insert(ticket, kept);
        let message = Message::Ask { process, ticket, request };
        if let Err(error) = peers.nodes.say(peer, &message, Body::None) {
            self.fail_ticket(ticket, &error);
        }
    }

    fn adopt_away(&mut self, link: u64, process: Process, key: Key, how: [bool; 2]) {
        let [write, tells] = how;
        let ticket = self.ticket(key.0, link, process);
        let Some(peers) = &mut self.peers else { return };
        let path = peers.copies.get(key).map(|copy| copy.path.clone()).unwrap_or_default();
        let opened = Some(Away { area: key.1, ..Away::default() });
        let (peer, access) = (key.0, (true, write, false));
        let (request, parts) = (Vec::new(), tells);
        let kept = Ticket { peer, link, process, request, path, access, parts, opened };
        peers.tickets.insert(ticket, kept);
        let message = Message::Adopt { process, ticket, area: key.1, write, tells };
        if let Err(error) = peers.nodes.say(peer, &message, Body::None) {
            self.fail_ticket(ticket, &error);
        }
    }

    /// Only the owner knows whether another writer has died. Bytes that are not complete are for
    /// no other node, so that there is nothing to synchronise.
    fn check_away(&mut self, link: u64, process: Process, handle: u64, request: &Request) {
        let known = self.peers.as_ref().and_then(|peers| peers.copies.handles.get(&handle));
        match known.copied() {
            Some(Held { theirs, key, .. }) => {
                let request = match request {
                    Request::ChildLost(_) => Request::ChildLost(theirs),
                    Request::Wrote(_, extents) => {
                        self.note_extents(key, extents);
                        Request::Wrote(theirs, Vec::new())
                    }
                    Request::Check(_, moved) => Request::Check(theirs, *moved),
                    _ => Request::Check(theirs, 0),
                };
                self.ask(key.0, link, process, request);
            }
            None => {
                let reply = after(self.lost.get(&handle).map(|(_, text)| text.clone()));
                self.reply(link, &reply, None);
            }
        }
    }

    fn close_away(&mut self, link: u64, process: Process, handle: u64, moved: u64) {
        let Some(peers) = &mut self.peers else { return };
        let Some(Held { theirs, key, writes, .. }) = peers.copies.handles.remove(&handle) else {
            // Its owner ended; what that means was told then, or is now.
            let reply = after(self.lost.remove(&handle).map(|(_, text)| text));
            self.reply(link, &reply, None);
            return;
        };
        self.subscribe(key);
        let Some(peers) = &mut self.peers else { return };
        peers.copies.close(key);
        if writes {
            peers.unanswered.insert((key.0, theirs));
        }
        self.look_away(key);
        self.push_and_ask(key, Asked { link, process, request: Request::Close(theirs, moved) });
    }

    fn withdraw_away(&mut self, process: Process, handle: u64) {
        self.end_away(0, process, handle, Request::Withdraw);
    }

    /// Ends an open in the way that `request` says.
    fn end_away(&mut self, link: u64, process: Process, handle: u64, request: fn(u64) -> Request) {
        let Some(peers) = &mut self.peers else { return };
        let Some(Held { theirs, key, .. }) = peers.copies.handles.remove(&handle) else {
            let reply = after(self.lost.remove(&handle).map(|(_, text)| text));
            self.reply(link, &reply, None);
            return;
        };
        peers.copies.close(key);
        // The owner hears of it before what was not written comes.
        self.ask(key.0, link, process, request(theirs));
        self.look_away(key);
    }

    /// Handles a message of the owner of a name.
    pub(super) fn hear_owner(&mut self, peer: Peer, message: Message) -> io::Result<()> {
        match message {
            Message::Moved(ticket) => self.hear_moved(peer, ticket),
            Message::Answer(ticket, reply) => self.answered(peer, ticket, &Reply::decode(&reply)?),
            Message::Released(area) => {
                if let Some(peers) = &mut self.peers {
                    peers.keeps.free((peer, area));
                }
            }
            // The copy that it is for is gone.
            Message::Data(..) => {}
            Message::Free(area) => {
                self.abandon((peer, area));
                self.forget_sources((peer, area));
                self.end_unread((peer, area));
                if let Some(peers) = &mut self.peers {
                    peers.copies.is_gone((peer, area));
                }
            }
            _ => return Err(io::Error::other("an owner says what only others say")),
        }
        Ok(())
    }

    fn answered(&mut self, peer: Peer, ticket: u64, reply: &Reply) {
        let Some(peers) = &mut self.peers else { return };
        let Some(kept) = peers.tickets.get(&ticket).filter(|kept| kept.peer == peer) else {
            return;
        };
        let kept = kept.clone();
        let (link, process, adopted) = (kept.link, kept.process, kept.opened);
        let (writes, tells) = (kept.access.1, kept.parts);
        if !matches!(reply, Reply::Waits(_)) {
            peers.tickets.remove(&ticket);
            if let Ok(Request::Close(theirs, _)) = Request::decode(&kept.request) {
                peers.unanswered.remove(&(peer, theirs));
            }
        }
        match (reply, adopted) {
            (Reply::Opened(theirs, generation), Some(away)) => {
                let key = (peer, away.area);
                let handle = peers.copies.keep(Held { theirs: *theirs, key, process, writes });
                if let Some(copy) = peers.copies.get_mut(key).filter(|_| writes) {
                    // Those that opened it know whether what is written stays here.
                    copy.is_written_by(process, tells);
                }
                if !self.reply(link, &Reply::Opened(handle, *generation), None) {
                    self.withdraw_away(process, handle);
                }
            }
            (Reply::Records(_), None) => self.hear_records(peer, &kept, reply),
            (Reply::Stat(Some(stat)), None) => {
                let stat = self.described((peer, stat.area), &kept.path, *stat);
                self.reply(link, &Reply::Stat(Some(stat)), None);
            }
            (reply, _) => {
                if let Some(reply) = self.hear_names(link, reply.clone()) {
                    self.reply(link, &reply, None);
                }
            }
        }
    }

    /// The attributes of a file of another node as the descriptors of this node will show them:
    /// those of its copy, which is made before it is opened. Programs compare them.
    fn described(&mut self, key: Key, path: &Path, stat: Stat) -> Stat {
        let Some(peers) = self.peers.as_mut().filter(|_| stat.area != 0) else { return stat };
        let (generation, area, size) = (stat.generation, stat.area, stat.size);
        let mode = stat.mode & 0o7777;
        let away = Away { generation, area, size, mode, ..Away::default() };
        let spare = self.pages.file(peers.copies.expected(path, &away));
        // Without memory a program finds that the file was replaced.
        peers.copies.describe(key, path, &away, stat.modified, spare).unwrap_or(stat)
    }

    /// The owner has opened a file; `map` names the nodes that have its parts, or is empty.
    ///
    /// # Errors
    /// The map is malformed.
    pub(super) fn opened_away(
        &mut self,
        peer: Peer,
        (ticket, away): (u64, Away),
        map: &[u8],
    ) -> io::Result<()> {
        let map = if map.is_empty() { None } else { Some(Where::decode(map)?) };
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let Some(kept) = peers.tickets.get_mut(&ticket).filter(|kept| kept.peer == peer) else {
            return Ok(());
        };
        kept.opened = Some(away);
        let (path, process) = (kept.path.clone(), kept.process);
        let takes_parts = Self::takes_parts(kept, away.size);
        let (writes, tells, key) = (kept.access.1, kept.parts, (peer, away.area));
        let old = peers.copies.get(key).filter(|copy| copy.shared.is_some());
        let is_old = |copy: &Copy| copy.is_gone() || !away.is_renewed();
        if old.is_some_and(|copy| is_old(copy) && !copy.can_be_renewed()) {
            self.abandon(key);
        }
        let Some(peers) = &mut self.peers else { return Ok(()) };
        peers.confirm(key, away.size, map.as_ref().filter(|_| !away.is_renewed()))?;
        let spare = self.pages.file(peers.copies.expected(&path, &away));
        let made = peers.copies.make(key, &path, &away, spare);
        if let Err(error) = made {
            self.fail_ticket(ticket, &error);
            return Ok(());
        }
        if let Some(copy) = peers.copies.get_mut(key) {
            map.into_iter().for_each(|map| _ = copy.sources.note(map));
            copy.offered = false;
            if writes {
                copy.is_written_by(process, away.keeps && tells);
            }
            if copy.shared.is_some() {
                self.open_shared(key, ticket);
                return Ok(());
            }
            if takes_parts {
                self.hand_copy_over(ticket);
            } else {
                copy.waiting.push(ticket);
                copy.want_all();
            }
        }
        if let Some(peers) = &mut self.peers {
            peers.copies.note_habit(key);
        }
        self.fetch(key);
        Ok(())
    }

    /// Asks for more bytes of a copy, or hands it over if all are there.
    pub(super) fn fetch(&mut self, key: Key) {
        let Some(peers) = &mut self.peers else { return };
        let Some(copy) = peers.copies.get_mut(key) else { return };
        if copy.is_whole() {
            let there = peers.copies.is_there(key);
            match there {
                Ok(waiting) => waiting.into_iter().for_each(|one| self.hand_copy_over(one)),
                Err(error) => self.cannot_send(key, &error),
            }
            self.share_now(key);
            return;
        }
        let wanted = copy.next();
        copy.sources.want(wanted);
        self.take_known(key);
    }

    pub(super) fn hand_copy_over(&mut self, ticket: u64) {
        let Some(peers) = &mut self.peers else { return };
        let Some(kept) = peers.tickets.remove(&ticket) else { return };
        let Some(away) = kept.opened else { return };
        let key = (kept.peer, away.area);
        let made = peers.copies.open(key, kept.access);
        let (process, writes) = (kept.process, kept.access.1);
        let handle = peers.copies.keep(Held { theirs: away.handle, key, process, writes });
        match made {
            Ok(fd) => {
                let reply = Reply::Opened(handle, away.generation);
                let sent = self.reply(kept.link, &reply, Some(fd.as_raw_fd()));
                drop(fd);
                if sent {
                    return;
                }
            }
            Err(error) => drop(self.reply(kept.link, &failed(&error), None)),
        }
        // Nobody has it: the answer of its end is for nobody.
        self.withdraw_away(kept.process, handle);
    }

    fn fail_ticket(&mut self, ticket: u64, error: &io::Error) {
        let kept = self.peers.as_mut().and_then(|peers| peers.tickets.remove(&ticket));
        if let Some(kept) = kept
            && let Some(reply) = self.hear_names(kept.link, failed(error))
        {
            self.reply(kept.link, &reply, None);
        }
    }

    /// Whether another node owns the name that a request is about: it was the first to write it.
    pub(super) fn is_of_another(&self, request: &Request) -> bool {
        let Some((path, _)) = name(request) else { return false };
        let Some(peers) = &self.peers else { return false };
        let owner =
            if peers.nodes.owns(path) { Ok(None) } else { peers.nodes.directory.owner(path) };
        matches!(owner, Ok(Some(Owner::There(_))))
    }

    /// Whether this node owns a name, for a request of another node.
    pub(super) fn owns(&self, request: &Request) -> bool {
        let Some(peers) = &self.peers else { return false };
        name(request).is_none_or(|(path, _)| {
            peers.nodes.owns(path)
                || peers.nodes.directory.owner(path).is_ok_and(|o| o == Some(Owner::Here))
        })
    }
}

/// Whether a job has the same name on all nodes.
fn is_global(job: &str) -> bool {
    job.starts_with("job ") && !job.starts_with("job launcher")
}
