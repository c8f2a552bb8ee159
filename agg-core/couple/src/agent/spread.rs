//! Copies of what programs of several nodes write at the same time: what was written here goes to
//! the owner when a program closes or synchronises the file, and what others have sent there comes
//! when one opens it or looks again.

use super::Agent;
use super::away::{after, failed};
use crate::peers::{Asked, ENOUGH, Held, Key, Message, Step, Then, Ticket, Wants, differences};
use crate::protocol::{Reply, Request};
use crate::records::News;
use crate::registry::{Process, series};
use aggio_base::Extent;
use aggio_link::{Body, Peer};
use std::io;

/// Pieces without differences that are looked at before programs are served again.
const LOOKS: u32 = 32;

impl Agent {
    /// Serves a request about a file that several nodes write; gives it back if they do not.
    pub(super) fn serve_shared(
        &mut self,
        link: u64,
        process: Process,
        request: Request,
    ) -> Answered {
        let (handle, make): (u64, fn(u64, u64) -> Request) = match request {
            Request::Announce(handle, before) => {
                return self.announce_away(link, process, handle, before);
            }
            Request::Sync(handle) => (handle, |theirs, _| Request::Sync(theirs)),
            Request::Renew(handle) => (handle, |theirs, _| Request::Check(theirs, 0)),
            Request::Check(handle, _) => (handle, Request::Check),
            Request::Resize(handle, _) => (handle, Request::Resize),
            _ => return Answered::No(request),
        };
        let Some(peers) = &mut self.peers else { return Answered::No(request) };
        let Some(Held { theirs, key, .. }) = peers.copies.handles.get(&handle).copied() else {
            let reply = after(self.lost.get(&handle).map(|(_, text)| text.clone()));
            self.reply(link, &reply, None);
            return Answered::Yes;
        };
        let number = match request {
            Request::Check(_, number) | Request::Resize(_, number) => number,
            _ => 0,
        };
        let asked = Asked { link, process, request: make(theirs, number) };
        let mut copy = peers.copies.get_mut(key);
        if let (Some(copy), Request::Resize(_, size)) = (&mut copy, &request) {
            copy.written.take(Extent::between(*size, u64::MAX));
        }
        let keeps = copy.as_ref().is_some_and(|copy| copy.keeps);
        let Some(shared) = copy.and_then(|copy| copy.shared.as_mut()) else {
            if matches!(request, Request::Renew(_) | Request::Resize(..)) {
                // The bytes are on this node only, or change no more.
                self.reply(link, &Reply::Done, None);
                return Answered::Yes;
            }
            return Answered::No(request);
        };
        match request {
            Request::Renew(_) if keeps => shared.refresh(asked),
            Request::Renew(_) => shared.renew(Wants::Again(asked)),
            Request::Resize(_, size) => shared.resize(size, asked),
            _ => self.push(key, Then::Ask(asked)),
        }
        self.let_wait(link);
        self.work(key);
        Answered::Yes
    }

    /// The program of this connection is answered later.
    pub(super) fn let_wait(&mut self, link: u64) {
        self.links.let_wait(link);
    }

    /// Asks the owner, after it was sent what was written here.
    pub(super) fn push_and_ask(&mut self, key: Key, asked: Asked) {
        let copies = self.peers.as_mut().map(|peers| &mut peers.copies);
        let is_shared = copies.is_some_and(|all| all.get(key).is_some_and(|c| c.shared.is_some()));
        let Asked { link, process, request } = asked;
        match is_shared {
            true => {
                self.push(key, Then::Ask(Asked { link, process, request }));
                self.let_wait(link);
                self.work(key);
            }
            false => self.ask(key.0, link, process, request),
        }
    }

    /// Lets the owner have all if nobody on this node can write to a copy any more; false if it is
    /// no copy that several nodes write.
    pub(super) fn look_at_shared(&mut self, key: Key) -> bool {
        let copy = |agent: &Self| {
            let copies = agent.peers.as_ref().map(|peers| &peers.copies)?;
            let copy = copies.get(key).filter(|copy| copy.shared.is_some())?;
            Some((copy.dirty && copies.is_quiet(key), copy.writers.clone(), copy.granted))
        };
        let Some((is_quiet, ..)) = copy(self) else { return false };
        if !is_quiet {
            return true;
        }
        // How a writer ended must be known before what it wrote counts.
        self.lose_the_dead();
        let Some((true, writers, granted)) = copy(self) else { return true };
        if self.clients.any_dies(&writers) {
            return true;
        }
        self.push(key, Then::Stored(granted));
        self.work(key);
        true
    }

    /// Goes on with all copies that have something to say.
    pub(super) fn work_on_shared(&mut self) {
        let keys = self.peers.as_ref().map(|peers| peers.copies.shared());
        keys.into_iter().flatten().for_each(|key| self.work(key));
    }

    /// Does what is to be done with a copy, as far as that is possible now.
    pub(super) fn work(&mut self, key: Key) {
        let mut looks = 0;
        while let Some(peers) = &mut self.peers {
            let has_room = peers.nodes.queued(key.0) < ENOUGH;
            match peers.copies.step(key, has_room) {
                Ok(Step::Nothing) => return peers.copies.give_up_if_over(key),
                Ok(Step::Say(all)) => {
                    looks += u32::from(all.is_empty());
                    let mut all = all.into_iter();
                    let said =
                        all.try_for_each(|(message, body)| peers.nodes.say(key.0, &message, body));
                    if let Err(error) = said {
                        return self.cannot_send(key, &error);
                    }
                    if looks > LOOKS {
                        return peers.nodes.go_on();
                    }
                }
                Ok(Step::Sent(then)) => then.into_iter().for_each(|then| self.sent(key, then)),
                Ok(Step::Renewed(wants)) => {
                    wants.into_iter().for_each(|wants| self.renewed(key, wants));
                }
                Ok(Step::Ask(Asked { link, process, request })) => {
                    self.ask(key.0, link, process, request);
                }
                Err(error) => return self.cannot_send(key, &error),
            }
        }
    }

    /// The owner was sent what was written.
    fn sent(&mut self, key: Key, then: Then) {
        match then {
            Then::Ask(Asked { link, process, request }) => self.ask(key.0, link, process, request),
            Then::Keep(extents, _) => {
                let places = differences::places(&extents);
                if let Some(peers) = &mut self.peers {
                    let report = peers.keeps.report(key);
                    // A connection that has ended is told soon.
                    let _ =
                        peers.nodes.say(key.0, &Message::Keeps(key.1, report), Body::Bytes(places));
                }
            }
            Then::Shared => self.say(key.0, &Message::Shared(key.1)),
            Then::Stored(granted) => {
                self.lose_the_dead();
                let copies = self.peers.as_ref().map(|peers| &peers.copies);
                let copy = copies.and_then(|copies| copies.get(key));
                let is_all = copy.is_some_and(|copy| copy.dirty && copy.granted == granted);
                let is_quiet = copies.is_some_and(|copies| copies.is_quiet(key));
                let writers = copy.map(|copy| copy.writers.clone()).unwrap_or_default();
                if !is_all || !is_quiet || self.clients.any_dies(&writers) {
                    return;
                }
                let Some(peers) = &mut self.peers else { return };
                let Some(copy) = peers.copies.get_mut(key) else { return };
                copy.dirty = false;
                copy.writers.clear();
                let series = series(&copy.path);
                self.say(key.0, &Message::Stored(key.1, granted, series.clone()));
                let Some(peers) = &mut self.peers else { return };
                peers.copies.retire(key);
                self.push_kept(key, &series);
            }
        }
    }

    /// A copy has what the owner had.
    fn renewed(&mut self, key: Key, wants: Wants) {
        match wants {
            Wants::Open(ticket) => self.hand_copy_over(ticket),
            Wants::Again(Asked { link, process, request }) => {
                self.ask(key.0, link, process, request);
            }
            Wants::Answer(asked, reply) => self.has_records(key, &asked, &reply),
            Wants::Pieces(link) => _ = self.reply(link, &Reply::Done, None),
            Wants::All => {}
        }
    }

    /// Says it; a connection that has ended is told soon.
    fn say(&mut self, peer: Peer, message: &Message) {
        if let Some(peers) = &mut self.peers {
            let _ = peers.nodes.say(peer, message, Body::None);
        }
    }

    /// Another node writes what was written here alone.
    pub(super) fn share(&mut self, key: Key) {
        let Some(peers) = &mut self.peers else { return };
        match peers.copies.get_mut(key) {
            // Its bytes are on their way.
            Some(copy) if !copy.is_whole() => copy.shares = true,
            _ => self.begin_sharing(key),
        }
    }

    /// The same when its bytes are there.
    pub(super) fn share_now(&mut self, key: Key) {
        let peers = self.peers.as_ref();
        if peers.and_then(|peers| peers.copies.get(key)).is_some_and(|copy| copy.shares) {
            self.share(key);
        }
    }

    fn begin_sharing(&mut self, key: Key) {
        let Some(peers) = &mut self.peers else { return };
        if !peers.copies.share(key) {
            return self.say(key.0, &Message::Shared(key.1));
        }
        let copy = peers.copies.get_mut(key);
        if let Some(shared) = copy.and_then(|copy| copy.shared.as_mut()) {
            shared.push(Then::Shared);
            // What is sent as differences is what differs from nothing.
            self.say(key.0, &Message::Size(key.1, 0, true));
        }
        self.work(key);
    }

    /// The owner has opened a file for a program of this node that programs of others write, too.
    pub(super) fn open_shared(&mut self, key: Key, ticket: u64) {
        match self.peers.as_mut().map(|peers| peers.begin_empty(key, ticket)) {
            Some(Ok(true)) => return self.hand_copy_over(ticket),
            Some(Err(error)) => return self.cannot_send(key, &error),
            _ => {}
        }
        let copies = self.peers.as_mut().map(|peers| &mut peers.copies);
        if let Some(shared) = copies.and_then(|copies| copies.get_mut(key)?.shared.as_mut()) {
            shared.renew(Wants::Open(ticket));
        }
        self.work(key);
    }

    /// What the owner says of a file that several nodes write.
    pub(super) fn hear_shared(
        &mut self,
        peer: Peer,
        message: Message,
        body: Option<&[u8]>,
    ) -> io::Result<()> {
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let area = match message {
            Message::Share(area) => {
                self.share((peer, area));
                return Ok(());
            }
            Message::News(area) => {
                self.has_news((peer, area));
                return Ok(());
            }
            Message::Gather(area, head, from) => {
                self.send_news((peer, area), News { head, from });
                return Ok(());
            }
            Message::Cut(area, size) => {
                peers.copies.cut((peer, area), size)?;
                self.say(peer, &Message::IsCut(area));
                return Ok(());
            }
            Message::Looked(area, size) => {
                peers.copies.looked((peer, area), size)?;
                area
            }
            Message::Same(area, offset) => {
                peers.copies.renewed((peer, area), (offset, None))?;
                area
            }
            Message::Data(area, offset) => {
                peers.copies.renewed((peer, area), (offset, body))?;
                area
            }
            _ => return Err(io::Error::other("an owner says what only others say")),
        };
        self.work((peer, area));
        Ok(())
    }

    /// A copy is of no use any more: the owner has given its generation up, or is asked anew.
    pub(super) fn abandon(&mut self, key: Key) {
        let (then, wants) = self.take_tasks(key);
        then.into_iter().for_each(|then| match then {
            Then::Stored(_) => {}
            then => self.sent(key, then),
        });
        for wants in wants {
            match wants {
                Wants::All => {}
                // The generation was given up: who closes it learns why.
                Wants::Pieces(link) => _ = self.reply(link, &super::caller::unknown(), None),
                Wants::Again(Asked { link, process, request })
                | Wants::Answer(Asked { link, process, request }, _) => {
                    self.ask(key.0, link, process, request);
                }
                Wants::Open(ticket) => {
                    let kept = self.peers.as_mut().and_then(|peers| peers.tickets.remove(&ticket));
                    if let Some(kept) = kept
                        && let Some(away) = kept.opened
                    {
                        self.open_again(key.0, &kept, away.handle);
                    }
                }
            }
        }
    }

    /// The generation of an open was given up before its program had a descriptor. A reader opens
    /// the file anew, and a writer is told what the owner knows of its loss.
    fn open_again(&mut self, owner: Peer, kept: &Ticket, handle: u64) {
        let (link, process, writes) = (kept.link, kept.process, kept.access.1);
        match Request::decode(&kept.request) {
            Ok(request) if !writes => {
                self.ask(owner, 0, process, Request::Withdraw(handle));
                self.serve_again(link, process, request);
            }
            _ => self.ask(owner, link, process, Request::Check(handle, 0)),
        }
    }

    /// The owner of a copy has ended: who waits for it is told.
    pub(super) fn fail_shared(&mut self, key: Key, error: &io::Error) {
        let (then, wants) = self.take_tasks(key);
        let asked = then.into_iter().filter_map(|then| match then {
            Then::Ask(asked) => Some(asked),
            _ => None,
        });
        // Opens have tickets, of which all fail.
        let again = wants.into_iter().filter_map(|wants| match wants {
            Wants::Again(asked) | Wants::Answer(asked, _) => Some(asked.link),
            Wants::Pieces(link) => Some(link),
            Wants::Open(_) | Wants::All => None,
        });
        let links: Vec<u64> = asked.map(|asked| asked.link).chain(again).collect();
        links.into_iter().for_each(|link| _ = self.reply(link, &failed(error), None));
    }

    fn take_tasks(&mut self, key: Key) -> (Vec<Then>, Vec<Wants>) {
        let copies = self.peers.as_mut().map(|peers| &mut peers.copies);
        let shared = copies.and_then(|copies| copies.get_mut(key)?.shared.as_mut());
        shared.map(|shared| shared.abandon()).unwrap_or_default()
    }
}

/// What came of a request.
pub(super) enum Answered {
    /// It is answered later, or was.
    Yes,
    /// It is about no file that several nodes write.
    No(Request),
}
