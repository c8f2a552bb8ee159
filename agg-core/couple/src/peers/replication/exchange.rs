//! Replicas of files that programs of several nodes write at the same time: written bytes go to the
//! owner when a program closes or synchronises the file, and those of others come from there when
//! one opens it or looks again.

use super::{Action, Body, Kept, Key, Message, Peer, Replication, data_extents, differences};
use crate::peers::shared::Shared;
use crate::peers::{Asked, Replica, Step, Then, Wants};
use crate::protocol::{Reply, Request};
use crate::records::News;
use aggio_base::os;
use std::io;
use std::os::fd::AsRawFd;

/// What a program is told that needs more of a file whose owner has ended.
const ENDED: &str = "the node that has the rest of an open file has ended (ready=step)";

impl Replication {
    /// Serves a request about an open file. If several nodes write it, the owner gets the written
    /// bytes before it is asked. In any case it is asked: it alone learns of the death of a writer.
    pub(crate) fn ask_owner(&mut self, asked: Asked) -> Vec<Action> {
        let Asked { link, process, request } = asked;
        let held = match self.replicas.opens.get(request.handle().unwrap_or_default()) {
            Ok(held) => held,
            Err(reply) => return vec![Action::Reply(link, reply)],
        };
        let (key, theirs) = (held.key, held.theirs);
        let mut replica = self.replicas.get_mut(key);
        if let Some(replica) = &mut replica {
            replica.note(&request);
        }
        let keeps = replica.as_ref().is_some_and(|replica| replica.writing.keeps);
        let is_told = matches!(request, Request::ChildLost(_) | Request::Wrote(..));
        let shared = replica.and_then(|replica| replica.shared.as_mut()).filter(|_| !is_told);
        let question = match &request {
            Request::ChildLost(_) => Request::ChildLost(theirs),
            Request::Wrote(..) => Request::Wrote(theirs, Vec::new()),
            Request::Check(_, moved) => Request::Check(theirs, *moved),
            Request::Resize(_, size) => Request::Resize(theirs, *size),
            Request::Sync(_) if shared.is_some() => Request::Sync(theirs),
            Request::Announce(_, before) if shared.is_some() => Request::Announce(theirs, *before),
            _ => Request::Check(theirs, 0),
        };
        let asked = Asked { link, process, request: question };
        let Some(shared) = shared else {
            return vec![match request {
                // The bytes are on this node only, or change no more.
                Request::Renew(_) | Request::Resize(..) => Action::Reply(link, Reply::Done),
                _ => Action::Ask(key.0, asked),
            }];
        };
        let mut actions = Vec::new();
        match request {
            Request::Renew(_) if keeps => shared.refresh(asked),
            Request::Renew(_) => shared.renew(Wants::Again(asked)),
            Request::Resize(_, size) => shared.resize(size, asked),
            Request::Announce(_, before) => shared.push_records(before, Then::Ask(asked)),
            _ => actions = self.push(key, Then::Ask(asked)),
        }
        actions.extend([Action::Wait(link), Action::Work(key)]);
        actions
    }

    /// A program of this node asks for the number of records, or for the bytes of those of which
    /// other programs were told.
    pub(crate) fn ask_for_records(&mut self, asked: Asked) -> Action {
        let Asked { link, process, request } = asked;
        let held = match self.replicas.opens.get_more(request.handle().unwrap_or_default(), ENDED) {
            Ok(held) => held,
            Err(reply) => return Action::Reply(link, reply),
        };
        let shared = self.replicas.get(held.key).and_then(|replica| replica.shared.as_ref());
        let ask = |request| Action::ask(held.key.0, link, process, request);
        match (request, shared.map(Shared::end)) {
            (Request::Reach(_, end), Some(there)) if end <= there => {
                Action::Reply(link, Reply::Until(there))
            }
            (Request::Reach(_, end), Some(_)) => ask(Request::Reach(held.theirs, end)),
            (Request::Records(_, told), Some(_)) => ask(Request::Records(held.theirs, told)),
            // It is a copy of a complete file.
            (Request::Reach(..), None) => Action::Reply(link, Reply::Whole),
            _ => Action::Reply(link, Reply::Records(None)),
        }
    }

    /// The owner has answered that: the replica is renewed before the program gets the answer.
    pub(crate) fn hear_records(&mut self, peer: Peer, asked: Asked, reply: &Reply) -> Action {
        if let Request::Records(theirs, _) | Request::Reach(theirs, _) = asked.request
            && let Some(key) = self.replicas.opens.key_of(peer, theirs)
            && let Some(shared) =
                self.replicas.get_mut(key).and_then(|replica| replica.shared.as_mut())
        {
            shared.renew(Wants::Answer(asked, reply.clone()));
            return Action::Work(key);
        }
        Action::Reply(asked.link, reply.clone())
    }

    /// Asks the owner, after it has the bytes that were written here.
    pub(crate) fn push_and_ask(&mut self, key: Key, asked: Asked) -> Vec<Action> {
        let may_lack = |one: &Replica| one.shared.is_some() && !one.writing.is_over();
        if !self.replicas.get(key).is_some_and(may_lack) {
            return vec![Action::Ask(key.0, asked)];
        }
        let link = asked.link;
        let mut actions = self.push(key, Then::Ask(asked));
        actions.extend([Action::Wait(link), Action::Work(key)]);
        actions
    }

    /// Sends the owner the bytes that were written to a replica, or their extents if the bytes stay
    /// here. `then` follows.
    fn push(&mut self, key: Key, then: Then) -> Vec<Action> {
        let Some((replica, areas)) = self.replicas.with_memory(key) else { return Vec::new() };
        let kept = replica.take_written(areas).and_then(|(kept, file)| {
            if let (Kept::Here(extents), Some(file)) = (&kept, file) {
                self.keeps.keep(key, file, extents)?;
            }
            Ok(kept)
        });
        let kept = match kept {
            Ok(kept) => kept,
            Err(error) => return vec![Action::Broken(key, error)],
        };
        let Some(shared) = &mut replica.shared else { return Vec::new() };
        match kept {
            Kept::No(reported) => {
                shared.report(&reported);
                shared.push(then);
            }
            Kept::Here(extents) => {
                if !extents.is_empty() {
                    let goes_on =
                        matches!(&then, Then::Ask(Asked { request: Request::Sync(_), .. }));
                    shared.push_size(Then::Keep(extents, goes_on));
                }
                shared.push_size(then);
            }
        }
        Vec::new()
    }

    /// Nobody on this node can write to a replica any more: the owner gets all of it.
    pub(crate) fn store(&mut self, key: Key) -> Vec<Action> {
        let Some(replica) = self.replicas.get(key) else { return Vec::new() };
        let granted = replica.writing.granted;
        match &replica.shared {
            None => {
                return self.keep_all(key).unwrap_or_else(|error| vec![Action::Broken(key, error)]);
            }
            // Nothing was written since.
            Some(shared) if shared.stores(granted) => return Vec::new(),
            Some(_) => {}
        }
        let mut actions = self.push(key, Then::Stored(granted));
        actions.push(Action::Work(key));
        actions
    }

    /// Tells the owner that all bytes of a replica stay here, which programs of this node alone
    /// have written.
    fn keep_all(&mut self, key: Key) -> io::Result<Vec<Action>> {
        let file = self.replicas.open(key, (true, false, false))?;
        let size = os::fstat(file.as_raw_fd())?.st_size.unsigned_abs();
        let extents = data_extents(file.as_raw_fd())?;
        self.keeps.keep(key, file, &extents)?;
        let Some(replica) = self.replicas.get_mut(key) else { return Ok(Vec::new()) };
        let (opens, series) = replica.is_sent();
        // The owner has no other bytes: all between the extents are holes.
        let mut messages: Vec<(Message, Body)> =
            [0, size].map(|size| (Message::Size(key.1, size, true), Body::None)).into();
        let places = Body::Bytes(differences::places(&extents));
        messages.push((Message::Keeps(key.1, self.keeps.report(key)), places));
        messages.push((Message::Stored(key.1, opens, series.clone()), Body::None));
        Ok(vec![Action::Send(key, messages), Action::Push(key, series)])
    }

    /// The next step of the messages to the owner of a replica; `None` if there is nothing to do.
    /// `has_room` tells whether the link takes more. Returns the actions of the step, too.
    pub(crate) fn step(&mut self, key: Key, has_room: bool) -> Option<Vec<Action>> {
        let found = self.replicas.with_memory(key);
        let step = found.map(|(replica, areas)| replica.step(key, has_room, areas));
        Some(match step.unwrap_or(Ok(Step::Nothing)) {
            Ok(Step::Nothing) => {
                self.replicas.give_up_if_over(key);
                return None;
            }
            Ok(Step::Say(all)) => vec![Action::Send(key, all)],
            Ok(Step::Sent(then)) => then.into_iter().map(|then| self.sent(key, then)).collect(),
            Ok(Step::Renewed(wants)) => match self.replicas.get_mut(key) {
                Some(one) => wants.into_iter().filter_map(|all| one.renewed(key, all)).collect(),
                None => Vec::new(),
            },
            Ok(Step::Ask(asked)) => vec![Action::Ask(key.0, asked)],
            Err(error) => vec![Action::Broken(key, error)],
        })
    }

    /// The owner has the bytes that were written.
    fn sent(&mut self, key: Key, then: Then) -> Action {
        match then {
            Then::Ask(asked) => Action::Ask(key.0, asked),
            Then::Keep(extents, _) => {
                let report = Message::Keeps(key.1, self.keeps.report(key));
                Action::Say(key.0, report, Body::Bytes(differences::places(&extents)))
            }
            Then::Shared => Action::Say(key.0, Message::Acknowledged(key.1, false), Body::None),
            Then::Stored(granted) => Action::Stored(key, granted),
        }
    }

    /// The owner has all of a replica.
    pub(crate) fn stored(&mut self, key: Key) -> Vec<Action> {
        let Some(replica) = self.replicas.get_mut(key) else { return Vec::new() };
        let (opens, series) = replica.is_sent();
        self.replicas.retire(key);
        let stored = Message::Stored(key.1, opens, series.clone());
        vec![Action::Say(key.0, stored, Body::None), Action::Push(key, series)]
    }

    /// Handles a message of the owner of a file that several nodes write, or that readers may have
    /// before it is complete.
    ///
    /// # Errors
    /// As [`hear`](Self::hear).
    pub(super) fn hear_exchange(
        &mut self,
        peer: Peer,
        message: &Message,
    ) -> io::Result<Vec<Action>> {
        let (Message::Share(area)
        | Message::News(area)
        | Message::Gather(area, ..)
        | Message::Cut(area, _)
        | Message::Looked(area, _)
        | Message::Same(area, _)) = *message
        else {
            return Err(io::Error::other("it is of no known kind"));
        };
        let key = (peer, area);
        let found = self.replicas.with_memory(key);
        match (message, found) {
            (Message::Share(_), _) => return Ok(self.share(key)),
            (Message::News(_), found) => {
                let replica = found.map(|(replica, _)| replica).filter(|one| !one.gone);
                let Some(shared) = replica.and_then(|one| one.shared.as_mut()) else {
                    return Ok(Vec::new());
                };
                // Programs with an open file do not ask for other bytes than before.
                shared.renew(Wants::All);
            }
            (Message::Gather(_, head, from), found) => {
                let writes = found.map(|(replica, _)| replica).filter(|one| !one.writing.is_over());
                let Some(shared) = writes.and_then(|replica| replica.shared.as_mut()) else {
                    // All was sent.
                    return Ok(vec![Action::Say(
                        peer,
                        Message::Acknowledged(area, false),
                        Body::None,
                    )]);
                };
                shared.push_news(News { head: *head, from: *from }, Then::Shared);
            }
            (Message::Cut(_, size), found) => {
                found.map_or(Ok(()), |(replica, areas)| replica.cut(*size, areas))?;
                return Ok(vec![Action::Say(peer, Message::Acknowledged(area, true), Body::None)]);
            }
            (Message::Looked(_, size), Some((replica, areas))) => replica.looked(*size, areas)?,
            (Message::Same(_, offset), Some((replica, areas))) => {
                replica.put((*offset, None), &[], areas)?;
            }
            _ => {}
        }
        Ok(vec![Action::Work(key)])
    }

    /// Another node writes a file that was written here alone.
    pub(crate) fn share(&mut self, key: Key) -> Vec<Action> {
        if let Some(replica) = self.replicas.get_mut(key).filter(|replica| !replica.is_whole()) {
            // Its bytes are on their way.
            replica.shares = true;
            return Vec::new();
        }
        if !self.replicas.share(key) {
            return vec![Action::Say(key.0, Message::Acknowledged(key.1, false), Body::None)];
        }
        let shared = self.replicas.get_mut(key).and_then(|replica| replica.shared.as_mut());
        let Some(shared) = shared else { return vec![Action::Work(key)] };
        shared.push(Then::Shared);
        // The differences that are sent are those from nothing.
        let size = Message::Size(key.1, 0, true);
        vec![Action::Say(key.0, size, Body::None), Action::Work(key)]
    }

    /// The owner has opened a file for a program of this node that programs of others write, too.
    /// If the program fetches its bytes, `size` is that of the file.
    pub(crate) fn open_shared(&mut self, key: Key, ticket: u64, size: Option<u64>) -> Vec<Action> {
        match self
            .replicas
            .with_memory(key)
            .zip(size)
            .map(|((one, areas), size)| one.begin_empty(size, areas))
        {
            Some(Ok(true)) => return vec![Action::HandOver(ticket)],
            Some(Err(error)) => return vec![Action::Broken(key, error)],
            _ => {}
        }
        if let Some(shared) = self.replicas.get_mut(key).and_then(|one| one.shared.as_mut()) {
            shared.renew(Wants::Open(ticket));
        }
        vec![Action::Work(key)]
    }

    /// A replica is of no use any more: the owner has given its generation up, or is asked anew.
    pub(crate) fn abandon(&mut self, key: Key) -> Vec<Action> {
        let replica = self.replicas.get_mut(key);
        let (then, wants) = replica.map(Replica::abandon).unwrap_or_default();
        let then = then.into_iter().filter(|then| !matches!(then, Then::Stored(_)));
        let mut actions: Vec<Action> = then.map(|then| self.sent(key, then)).collect();
        actions.extend(wants.into_iter().filter_map(|wants| match wants {
            Wants::All => None,
            // The generation was given up: a program that closes it learns why.
            Wants::Pieces(link) => Some(Action::Reply(link, Reply::unknown())),
            Wants::Again(asked) | Wants::Answer(asked, _) => Some(Action::Ask(key.0, asked)),
            Wants::Open(ticket) => Some(Action::OpenAgain(ticket)),
        }));
        actions
    }
}
