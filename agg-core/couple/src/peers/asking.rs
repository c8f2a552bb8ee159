//! Requests of programs that other nodes serve: those about names that they own, and about open
//! files of theirs.

use super::{
    AWAY, Action, Asked, Away, Held, Key, Listing, Message, Opened, Part, Peers, Target, Ticket,
    differences, gone, shown,
};
use crate::hosted::Hosting;
use crate::protocol::{Reply, Request};
use crate::registry::Area;
use aggio_link::{Body, Peer};
use std::io;

impl Peers {
    /// Sends a request to the node that owns its name or open file; gives it back if that is this
    /// one.
    ///
    /// # Errors
    /// What follows instead of serving it here.
    pub(crate) fn forward(&mut self, asked: Asked) -> Result<Asked, Vec<Action>> {
        let Asked { link, process, request } = &asked;
        if let Request::Open { ask, .. } = request
            && !ask.write
            && let Some(text) = self.losses.take(*process, &ask.path)
        {
            return Err(vec![Action::Reply(*link, Reply::Failed(libc::EIO, text))]);
        }
        let Some((path, claim)) = request.name() else { return self.forward_open(asked) };
        match self.nodes.owner(path, claim) {
            Ok(None) => Ok(asked),
            Ok(Some(peer)) => Err(self.ask(peer, asked)),
            Err(error) => {
                let text = format!("{}: its owner cannot be found: {error}", shown(path));
                let error = io::Error::new(error.kind(), text);
                Err(vec![Action::Reply(*link, Reply::from(&error))])
            }
        }
    }

    /// The same for open files.
    fn forward_open(&mut self, asked: Asked) -> Result<Asked, Vec<Action>> {
        let all = &mut self.replication;
        let Asked { link, process, request } = asked;
        Err(match request {
            Request::Adopt(device, inode, how, key) => match all.replicas.find(device, inode) {
                Some(key) => self.adopt(Asked { link, process, request }, key, how),
                None => {
                    let request = Request::Adopt(device, inode, how, key);
                    return Ok(Asked { link, process, request });
                }
            },
            request if request.handle().is_none_or(|handle| handle < AWAY) => {
                return Ok(Asked { link, process, request });
            }
            Request::Close(handle, moved) => {
                self.close(Asked { link, process, request }, handle, moved)
            }
            Request::Withdraw(_) | Request::Spoil(_) => self.end(Asked { link, process, request }),
            request @ (Request::Records(..) | Request::Reach(..)) => {
                vec![all.ask_for_records(Asked { link, process, request })]
            }
            Request::Fetch(handle, extents, ahead) => all.fetch_for(link, handle, extents, ahead),
            request => all.ask_owner(Asked { link, process, request }),
        })
    }

    /// Asks the nodes that own files in a directory, if there are any; `own` names those of this
    /// one.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub(crate) fn list(&mut self, asked: Asked, own: Reply) -> Result<Asked, Vec<Action>> {
        let Request::List(dir, ..) = &asked.request else { return Ok(asked) };
        let owners = match self.nodes.owners_in(dir) {
            Ok(owners) if owners.is_empty() => return Ok(asked),
            Ok(owners) => owners,
            Err(error) => return Err(vec![Action::Reply(asked.link, Reply::from(&error))]),
        };
        self.requests.list(asked.link, Listing::new(owners.len(), own));
        Err(owners.into_iter().flat_map(|peer| self.ask(peer, asked.clone())).collect())
    }

    /// The owner of a name or of an open file gets a request of a program.
    pub(crate) fn ask(&mut self, peer: Peer, asked: Asked) -> Vec<Action> {
        let (access, parts) = match &asked.request {
            Request::Open { ask, read, append, parts, .. } => ((*read, ask.write, *append), *parts),
            _ => ((false, false, false), false),
        };
        let path = asked.request.name().map_or_else(Vec::new, |(path, _)| path.to_vec());
        self.send(Ticket { peer, asked, path, access, parts, opened: None })
    }

    /// A program has a descriptor of a replica that another one opened.
    fn adopt(&mut self, asked: Asked, key: Key, [write, parts]: [bool; 2]) -> Vec<Action> {
        let replica = self.replication.replicas.get(key);
        let path = replica.map(|replica| replica.path.clone()).unwrap_or_default();
        let opened = Some(Away { area: key.1, ..Away::default() });
        self.send(Ticket { peer: key.0, asked, path, access: (true, write, false), parts, opened })
    }

    /// Sends a request; its node learns of the process first.
    fn send(&mut self, ticket: Ticket) -> Vec<Action> {
        let (peer, process, link) = (ticket.peer, ticket.asked.process, ticket.asked.link);
        // Of a process that has ended its owner learns that; all that it had open ends with it.
        let Some(joins) = self.requests.join(peer, process) else { return Vec::new() };
        if let Some(remote) = joins {
            // A connection that has ended is told soon, with all its tickets.
            let _ = self.nodes.say(peer, &Message::Join(process, remote), Body::None);
        }
        let (request, opened, tells) = (ticket.asked.request.encode(), ticket.opened, ticket.parts);
        let write = ticket.access.1;
        let number = self.requests.add(ticket);
        let message = match opened {
            Some(Away { area, .. }) => {
                Message::Adopt { process, ticket: number, area, write, tells }
            }
            None => Message::Ask { process, ticket: number, request },
        };
        let said = self.nodes.say(peer, &message, Body::None);
        let failed = said.err().map(|error| Action::Fail(number, Reply::from(&error)));
        std::iter::once(Action::Wait(link)).chain(failed).collect()
    }

    fn close(&mut self, asked: Asked, handle: u64, moved: u64) -> Vec<Action> {
        let (held, mut actions) = match self.replication.close(handle, &self.nodes) {
            Ok(closed) => closed,
            // Its owner ended.
            Err(reply) => return vec![Action::Reply(asked.link, reply)],
        };
        if held.writes {
            self.requests.closes(held.key.0, held.theirs);
        }
        let asked = Asked { request: Request::Close(held.theirs, moved), ..asked };
        actions.extend([Action::Look(held.key), Action::PushAndAsk(held.key, asked)]);
        actions
    }

    /// Ends an open in the way that the request says.
    pub(crate) fn end(&mut self, asked: Asked) -> Vec<Action> {
        let (handle, make): (u64, fn(u64) -> Request) = match asked.request {
            Request::Spoil(handle) => (handle, Request::Spoil),
            Request::Withdraw(handle) => (handle, Request::Withdraw),
            _ => return Vec::new(),
        };
        let replicas = &mut self.replication.replicas;
        let held = match replicas.opens.end(handle) {
            Ok(held) => held,
            Err(reply) => return vec![Action::Reply(asked.link, reply)],
        };
        replicas.close(held.key);
        // The owner learns of it before it learns that bytes are missing.
        let mut actions = self.ask(held.key.0, Asked { request: make(held.theirs), ..asked });
        actions.push(Action::Look(held.key));
        actions
    }

    /// The open with this ticket gets its replica.
    fn hand_over(&mut self, ticket: u64) -> Vec<Action> {
        let Some(Ticket { peer, asked, access, opened: Some(away), .. }) =
            self.requests.take(ticket)
        else {
            return Vec::new();
        };
        let (Asked { link, process, .. }, key) = (asked, (peer, away.area));
        let replicas = &mut self.replication.replicas;
        let file = replicas.open(key, access);
        let handle = replicas.keep(Held { theirs: away.handle, key, process, writes: access.1 });
        match file {
            Ok(file) => {
                let (file, generation) = (Some(file), away.generation);
                vec![Action::Open(Opened { link, process, handle, generation, file })]
            }
            Err(error) => {
                let mut actions = vec![Action::Reply(link, Reply::from(&error))];
                let request = Request::Withdraw(handle);
                actions.extend(self.end(Asked { link: 0, process, request }));
                actions
            }
        }
    }

    /// The request with this ticket fails.
    fn fail(&mut self, ticket: u64, reply: Reply) -> Vec<Action> {
        let Some(kept) = self.requests.take(ticket) else { return Vec::new() };
        self.answer(kept.asked.link, reply)
    }

    /// The open with this ticket fails, which the owner counts.
    pub(crate) fn withdraw(&mut self, ticket: u64, reply: Reply) -> Vec<Action> {
        let Some(kept) = self.requests.take(ticket) else { return Vec::new() };
        let mut actions = vec![Action::Reply(kept.asked.link, reply)];
        if let Some(away) = kept.opened {
            let request = Request::Withdraw(away.handle);
            actions.push(Action::ask(kept.peer, 0, kept.asked.process, request));
        }
        actions
    }

    /// Carries out an action that is about other nodes alone. Returns those that follow.
    pub(crate) fn carry_out(&mut self, action: Action) -> Vec<Action> {
        let all = &mut self.replication;
        match action {
            // A connection that has ended is noticed soon.
            Action::Say(peer, message, body) => _ = self.nodes.say(peer, &message, body),
            Action::Take(tag, peer, messages) => {
                if let Err(error) = self.nodes.say_all(peer, messages) {
                    return all.hear_lost(tag, peer, error.to_string());
                }
            }
            Action::Ask(peer, asked) => return self.ask(peer, asked),
            Action::PushAndAsk(key, asked) => return all.push_and_ask(key, asked),
            Action::HandOver(ticket) => return self.hand_over(ticket),
            Action::Fail(ticket, reply) => return self.fail(ticket, reply),
            Action::Withdraw(ticket, reply) => return self.withdraw(ticket, reply),
            Action::OpenAgain(ticket) => return self.open_again(ticket),
            Action::Fetch(key) => return all.fetch(key, &mut self.nodes),
            Action::Request(key) => return all.request(key, &mut self.nodes),
            Action::Share(key) => return all.share(key),
            Action::Lost(tag, peer, text) => return all.hear_lost(tag, peer, text),
            Action::MovedKept(key, result) => return vec![all.keeps.have_moved(key, result)],
            Action::Forget(tags) => tags.into_iter().for_each(|tag| _ = all.takes.fail(tag)),
            Action::Freed(area) => self.nodes.tell_callers(&Message::Free(area)),
            _ => {}
        }
        Vec::new()
    }

    /// Requests the next bytes of a generation of this node from the nodes that have them.
    pub(crate) fn pull<T>(&mut self, area: Area, hosting: &mut Hosting<T>) {
        let owner = self.nodes.directory.own().words();
        while let Some(pull) = hosting.get_mut(area).and_then(|one| one.pull.as_mut()) {
            let Some((part, holder)) = pull.next() else { return };
            let of = Part { extent: part, peer: holder.peer, area: holder.area, pushed: false };
            let tag = self.replication.takes.begin(Target::Own(area), vec![part], &[of]);
            pull.sent(tag, part, holder);
            let take = Message::Take { tag, owner: owner.clone(), area: of.area };
            let places = Body::Bytes(differences::places(&[part]));
            if self.nodes.caller(of.peer).is_none()
                || self.nodes.say(of.peer, &take, places).is_err()
            {
                let host = hosting.node(holder).map(|node| node.host.clone());
                let pull = hosting.get_mut(area).and_then(|one| one.pull.as_mut());
                pull.into_iter().for_each(|pull| pull.fail(gone(host.as_deref().unwrap_or(""))));
            }
        }
    }
}
