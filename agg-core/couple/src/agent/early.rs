//! Generations that programs of other nodes read before they are complete (`ready=sync`,
//! `ready=step`). What a node has synchronised or announced goes to the owner first, and from there
//! to the nodes of readers before these are told of it. If several nodes write, the owner lets all
//! of them send what they have written, as soon as one of them says something.

use super::Agent;
use super::away::after;
use super::spread::Answered;
use crate::peers::{Asked, Held, Key, Message, Then, Ticket, Wants};
use crate::protocol::{Before, Reply, Request};
use crate::records::News;
use crate::registry::{Area, Handle, Process};
use aggio_link::Peer;

impl Agent {
    /// A program of this node has written the number of records of what another node owns: the
    /// owner is told when it has these records.
    pub(super) fn announce_away(
        &mut self,
        link: u64,
        process: Process,
        handle: Handle,
        before: Before,
    ) -> Answered {
        let request = Request::Announce(handle, before);
        let Some(peers) = &mut self.peers else { return Answered::No(request) };
        let Some(Held { theirs, key, .. }) = peers.copies.handles.get(&handle).copied() else {
            return Answered::No(request);
        };
        let copy = peers.copies.get_mut(key);
        let Some(shared) = copy.and_then(|copy| copy.shared.as_mut()) else {
            return Answered::No(request);
        };
        let request = Request::Announce(theirs, before);
        shared.push_records(before, Then::Ask(Asked { link, process, request }));
        self.let_wait(link);
        self.work(key);
        Answered::Yes
    }

    /// A program of this node asks how many records there are of what another node owns.
    pub(super) fn ask_for_records(
        &mut self,
        link: u64,
        process: Process,
        handle: Handle,
        told: u64,
    ) {
        let Some(peers) = &mut self.peers else { return };
        let Some(Held { theirs, key, .. }) = peers.copies.handles.get(&handle).copied() else {
            let reply = match after(self.lost.get(&handle).map(|(_, text)| text.clone())) {
                Reply::Done => {
                    let text = "the node that has the rest of an open file has ended (ready=step)";
                    Reply::Failed(libc::EIO, text.into())
                }
                failed => failed,
            };
            self.reply(link, &reply, None);
            return;
        };
        let is_renewed = peers.copies.get(key).is_some_and(|copy| copy.shared.is_some());
        if is_renewed {
            self.ask(key.0, link, process, Request::Records(theirs, told));
        } else {
            // It is a copy of what is complete.
            self.reply(link, &Reply::Records(None), None);
        }
    }

    /// The owner has answered that, by which the copy is to be renewed before the program knows it.
    pub(super) fn hear_records(&mut self, peer: Peer, ticket: &Ticket, reply: &Reply) {
        let (link, process) = (ticket.link, ticket.process);
        let request = Request::decode(&ticket.request);
        let Some(peers) = &mut self.peers else { return };
        if let Ok(request @ Request::Records(theirs, _)) = request
            && let Some(key) = peers.copies.key_of(peer, theirs)
            && let Some(shared) = peers.copies.get_mut(key).and_then(|copy| copy.shared.as_mut())
        {
            shared.renew(Wants::Answer(Asked { link, process, request }, reply.clone()));
            return self.work(key);
        }
        self.reply(link, reply, None);
    }

    /// A copy has the records of an answer.
    pub(super) fn has_records(&mut self, key: Key, asked: &Asked, reply: &Reply) {
        let copies = self.peers.as_mut().map(|peers| &mut peers.copies);
        let shared = copies.and_then(|copies| copies.get_mut(key)?.shared.as_mut());
        if let (Some(shared), Reply::Records(Some((records, _)))) = (shared, reply) {
            shared.has_records(*records);
        }
        self.reply(asked.link, reply, None);
    }

    /// Lets other nodes know that a file which their programs read has other bytes.
    pub(super) fn tell_readers(&mut self, area: Area) {
        for node in self.registry.opens.readers_away(area) {
            self.tell(Peer(node), &Message::News(area));
        }
    }

    /// The owner wants what was written here, before it tells readers of more.
    pub(super) fn send_news(&mut self, key: Key, news: News) {
        let copies = self.peers.as_mut().map(|peers| &mut peers.copies);
        match copies.and_then(|copies| copies.get_mut(key)?.shared.as_mut()) {
            Some(shared) => {
                shared.push_news(news, Then::Shared);
                self.work(key);
            }
            // All was sent.
            None => _ = self.tell(key.0, &Message::Shared(key.1)),
        }
    }

    /// The owner of a copy has other bytes than before: who has it open does not ask for them.
    pub(super) fn has_news(&mut self, key: Key) {
        let copies = self.peers.as_mut().map(|peers| &mut peers.copies);
        let copy = copies.and_then(|copies| copies.get_mut(key)).filter(|copy| !copy.is_gone());
        if let Some(shared) = copy.and_then(|copy| copy.shared.as_mut()) {
            shared.renew(Wants::All);
            self.work(key);
        }
    }
}
