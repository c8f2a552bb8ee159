//! Replicas of files that programs of several nodes write at the same time: written bytes go to the
//! owner when a program closes or synchronises the file, and those of others come from there when
//! one opens it or looks again.

use super::{
    Action, Body, Extent, Kept, Key, Message, Peer, Replication, data_extents, differences,
};
use crate::peers::{Asked, Step, Then, Wants};
use crate::protocol::{Before, Reply, Request};
use crate::records::News;
use crate::registry::Process;
use aggio_base::os;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsRawFd;

/// The outcome of a request.
pub(crate) enum Answered {
    /// It is answered later, or by these actions.
    Yes(Vec<Action>),
    /// It is about no file that several nodes write.
    No(Request),
}

impl Replication {
    /// Serves a request about a file that several nodes write; gives it back if they do not.
    pub(crate) fn serve(&mut self, link: u64, process: Process, request: Request) -> Answered {
        let (handle, make): (u64, fn(u64, u64) -> Request) = match request {
            Request::Announce(handle, before) => {
                return self.announce(link, process, handle, before);
            }
            Request::Sync(handle) => (handle, |theirs, _| Request::Sync(theirs)),
            Request::Renew(handle) => (handle, |theirs, _| Request::Check(theirs, 0)),
            Request::Check(handle, _) => (handle, Request::Check),
            Request::Resize(handle, _) => (handle, Request::Resize),
            _ => return Answered::No(request),
        };
        let held = match self.replicas.opens.get(handle) {
            Ok(held) => held,
            Err(reply) => return Answered::Yes(vec![Action::Reply(link, reply)]),
        };
        let number = match request {
            Request::Check(_, number) | Request::Resize(_, number) => number,
            _ => 0,
        };
        let asked = Asked { link, process, request: make(held.theirs, number) };
        let mut replica = self.replicas.get_mut(held.key);
        if let (Some(replica), Request::Resize(_, size)) = (&mut replica, &request) {
            replica.written.take(Extent::between(*size, u64::MAX));
        }
        let keeps = replica.as_ref().is_some_and(|replica| replica.keeps);
        let Some(shared) = replica.and_then(|replica| replica.shared.as_mut()) else {
            if matches!(request, Request::Renew(_) | Request::Resize(..)) {
                // The bytes are on this node only, or change no more.
                return Answered::Yes(vec![Action::Reply(link, Reply::Done)]);
            }
            return Answered::No(request);
        };
        let mut actions = Vec::new();
        match request {
            Request::Renew(_) if keeps => shared.refresh(asked),
            Request::Renew(_) => shared.renew(Wants::Again(asked)),
            Request::Resize(_, size) => shared.resize(size, asked),
            _ => actions = self.push(held.key, Then::Ask(asked)),
        }
        actions.extend([Action::Wait(link), Action::Work(held.key)]);
        Answered::Yes(actions)
    }

    /// A program of this node has written the number of records: the owner learns it when it has
    /// these records.
    fn announce(&mut self, link: u64, process: Process, handle: u64, before: Before) -> Answered {
        let request = Request::Announce(handle, before);
        let Ok(held) = self.replicas.opens.get(handle) else { return Answered::No(request) };
        let replica = self.replicas.get_mut(held.key);
        let Some(shared) = replica.and_then(|replica| replica.shared.as_mut()) else {
            return Answered::No(request);
        };
        let request = Request::Announce(held.theirs, before);
        shared.push_records(before, Then::Ask(Asked { link, process, request }));
        Answered::Yes(vec![Action::Wait(link), Action::Work(held.key)])
    }

    /// Sends the owner a request about a file that a program of this node has open, where several
    /// nodes do not write it: the owner alone learns of the death of a writer.
    pub(crate) fn check(
        &mut self,
        link: u64,
        process: Process,
        handle: u64,
        request: Request,
    ) -> Action {
        let held = match self.replicas.opens.get(handle) {
            Ok(held) => held,
            Err(reply) => return Action::Reply(link, reply),
        };
        let request = match request {
            Request::ChildLost(_) => Request::ChildLost(held.theirs),
            Request::Wrote(_, extents) => {
                if let Some(replica) = self.replicas.get_mut(held.key) {
                    extents.iter().for_each(|extent| replica.written.join(*extent, ()));
                }
                Request::Wrote(held.theirs, Vec::new())
            }
            Request::Check(_, moved) => Request::Check(held.theirs, moved),
            _ => Request::Check(held.theirs, 0),
        };
        Action::ask(held.key.0, link, process, request)
    }

    /// A program of this node asks for the number of records.
    pub(crate) fn ask_for_records(
        &mut self,
        link: u64,
        process: Process,
        handle: u64,
        told: u64,
    ) -> Action {
        let text = "the node that has the rest of an open file has ended (ready=step)";
        let held = match self.replicas.opens.get_more(handle, text) {
            Ok(held) => held,
            Err(reply) => return Action::Reply(link, reply),
        };
        match self.replicas.is_shared(held.key) {
            true => Action::ask(held.key.0, link, process, Request::Records(held.theirs, told)),
            // It is a copy of a complete file.
            false => Action::Reply(link, Reply::Records(None)),
        }
    }

    /// The owner has answered that: the replica is renewed before the program gets the answer.
    pub(crate) fn hear_records(&mut self, peer: Peer, asked: Asked, reply: &Reply) -> Action {
        if let Request::Records(theirs, _) = asked.request
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
        if !self.replicas.is_shared(key) {
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
        let kept = match self.keep(key) {
            Ok(kept) => kept,
            Err(error) => return vec![Action::Broken(key, error)],
        };
        let shared = self.replicas.get_mut(key).and_then(|replica| replica.shared.as_mut());
        let Some(shared) = shared else { return Vec::new() };
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
        if replica.shared.is_none() {
            return self.keep_all(key).unwrap_or_else(|error| vec![Action::Broken(key, error)]);
        }
        let granted = replica.granted;
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
        let Some((granted, series)) = self.replicas.is_sent(key) else { return Ok(Vec::new()) };
        // The owner has no other bytes: all between the extents are holes.
        let mut messages: Vec<(Message, Body)> =
            [0, size].map(|size| (Message::Size(key.1, size, true), Body::None)).into();
        let places = Body::Bytes(differences::places(&extents));
        messages.push((Message::Keeps(key.1, self.keeps.report(key)), places));
        messages.push((Message::Stored(key.1, granted, series.clone()), Body::None));
        Ok(vec![Action::Send(key, messages), Action::Push(key, series)])
    }

    /// The next step of the messages to the owner of a replica; `None` if there is nothing to do.
    /// `has_room` tells whether the link takes more. Returns the actions of the step, too.
    pub(crate) fn step(&mut self, key: Key, has_room: bool) -> Option<Vec<Action>> {
        Some(match self.replicas.step(key, has_room) {
            Ok(Step::Nothing) => {
                self.replicas.give_up_if_over(key);
                return None;
            }
            Ok(Step::Say(all)) => vec![Action::Send(key, all)],
            Ok(Step::Sent(then)) => then.into_iter().map(|then| self.sent(key, then)).collect(),
            Ok(Step::Renewed(wants)) => {
                wants.into_iter().filter_map(|wants| self.renewed(key, wants)).collect()
            }
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
            Then::Shared => Action::Say(key.0, Message::Shared(key.1), Body::None),
            Then::Stored(granted) => Action::Stored(key, granted),
        }
    }

    /// The processes that have written all that the owner has of a replica since so many opens;
    /// `None` if they may write more.
    pub(crate) fn writers(&self, key: Key, granted: u64) -> Option<BTreeSet<Process>> {
        let is_all = |granted_now| granted_now == granted;
        let replica = self.replicas.get(key).filter(|one| one.dirty && is_all(one.granted))?;
        self.replicas.is_quiet(key).then(|| replica.writers.clone())
    }

    /// The owner has all of a replica.
    pub(crate) fn stored(&mut self, key: Key) -> Vec<Action> {
        let Some((granted, series)) = self.replicas.is_sent(key) else { return Vec::new() };
        self.replicas.retire(key);
        let stored = Message::Stored(key.1, granted, series.clone());
        vec![Action::Say(key.0, stored, Body::None), Action::Push(key, series)]
    }

    /// A replica has the bytes that the owner had.
    fn renewed(&mut self, key: Key, wants: Wants) -> Option<Action> {
        Some(match wants {
            Wants::Open(ticket) => Action::HandOver(ticket),
            Wants::Again(asked) => Action::Ask(key.0, asked),
            Wants::Answer(asked, reply) => {
                let shared = self.replicas.get_mut(key).and_then(|one| one.shared.as_mut());
                if let (Some(shared), Reply::Records(Some((records, _)))) = (shared, &reply) {
                    shared.has_records(*records);
                }
                Action::Reply(asked.link, reply)
            }
            Wants::Pieces(link) => Action::Reply(link, Reply::Done),
            Wants::All => return None,
        })
    }

    /// Another node writes a file that was written here alone.
    pub(super) fn share(&mut self, key: Key) -> Vec<Action> {
        match self.replicas.get_mut(key) {
            // Its bytes are on their way.
            Some(replica) if !replica.is_whole() => {
                replica.shares = true;
                Vec::new()
            }
            _ => self.begin_sharing(key),
        }
    }

    /// The same when its bytes are there.
    pub(crate) fn share_now(&mut self, key: Key) -> Vec<Action> {
        match self.replicas.get(key).is_some_and(|replica| replica.shares) {
            true => self.share(key),
            false => Vec::new(),
        }
    }

    fn begin_sharing(&mut self, key: Key) -> Vec<Action> {
        if !self.replicas.share(key) {
            return vec![Action::Say(key.0, Message::Shared(key.1), Body::None)];
        }
        let replica = self.replicas.get_mut(key);
        let mut actions = Vec::new();
        if let Some(shared) = replica.and_then(|replica| replica.shared.as_mut()) {
            shared.push(Then::Shared);
            // The differences that are sent are those from nothing.
            actions.push(Action::Say(key.0, Message::Size(key.1, 0, true), Body::None));
        }
        actions.push(Action::Work(key));
        actions
    }

    /// The owner has opened a file for a program of this node that programs of others write, too.
    /// If the program fetches its bytes, `size` is that of the file.
    pub(crate) fn open_shared(&mut self, key: Key, ticket: u64, size: Option<u64>) -> Vec<Action> {
        match size.map(|size| self.replicas.begin_empty(key, size)) {
            Some(Ok(true)) => return vec![Action::HandOver(ticket)],
            Some(Err(error)) => return vec![Action::Broken(key, error)],
            _ => {}
        }
        if let Some(shared) = self.replicas.get_mut(key).and_then(|one| one.shared.as_mut()) {
            shared.renew(Wants::Open(ticket));
        }
        vec![Action::Work(key)]
    }

    /// The owner wants the bytes that were written here, before it tells readers of more.
    pub(super) fn send_news(&mut self, key: Key, news: News) -> Vec<Action> {
        match self.replicas.get_mut(key).and_then(|replica| replica.shared.as_mut()) {
            Some(shared) => {
                shared.push_news(news, Then::Shared);
                vec![Action::Work(key)]
            }
            // All was sent.
            None => vec![Action::Say(key.0, Message::Shared(key.1), Body::None)],
        }
    }

    /// The owner has other bytes than before: programs with an open file do not ask for them.
    pub(super) fn has_news(&mut self, key: Key) -> Vec<Action> {
        let replica = self.replicas.get_mut(key).filter(|replica| !replica.is_gone());
        let Some(shared) = replica.and_then(|replica| replica.shared.as_mut()) else {
            return Vec::new();
        };
        shared.renew(Wants::All);
        vec![Action::Work(key)]
    }

    /// A replica is of no use any more: the owner has given its generation up, or is asked anew.
    pub(crate) fn abandon(&mut self, key: Key) -> Vec<Action> {
        let (then, wants) = self.replicas.abandon(key);
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

    /// The owner of a replica has ended: programs that wait for it get an error.
    pub(super) fn fail_exchange(&mut self, key: Key, error: &io::Error) -> Vec<Action> {
        let (then, wants) = self.replicas.abandon(key);
        let asked = then.into_iter().filter_map(|then| match then {
            Then::Ask(asked) => Some(asked.link),
            _ => None,
        });
        // Opens have tickets, and all of these fail.
        let again = wants.into_iter().filter_map(|wants| match wants {
            Wants::Again(asked) | Wants::Answer(asked, _) => Some(asked.link),
            Wants::Pieces(link) => Some(link),
            Wants::Open(_) | Wants::All => None,
        });
        asked.chain(again).map(|link| Action::Reply(link, Reply::from(error))).collect()
    }
}
