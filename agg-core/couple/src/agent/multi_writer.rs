//! Generations that this node owns and programs of several nodes write at the same time.

use super::Agent;
use super::caller::lost;
use super::deferred::After;
use super::step::Gathering;
use super::waits::Waiting;
use crate::hosted::{ALL, Hosted};
use crate::peers::Message;
use crate::protocol::Reply;
use crate::records::News;
use crate::registry::{Area, Opening, Process};
use aggio_base::Extent;
use aggio_link::{Body, Peer};
use std::io;

impl Agent {
    /// Handles a message of an agent about memory that its programs write, and others as well.
    pub(super) fn hear_writer(
        &mut self,
        peer: Peer,
        message: Message,
        body: &[u8],
    ) -> io::Result<()> {
        match message {
            Message::Size(area, ..) | Message::Differ(area) | Message::Memory(area, ..) => {
                // A generation that died meanwhile needs no bytes.
                let Some(hosted) = self.own.hosted.get_mut(area) else { return Ok(()) };
                let Err(error) = hosted.store(peer, &message, body) else { return Ok(()) };
                if error.raw_os_error().is_none_or(|number| number == libc::EBADF) {
                    return Err(error);
                }
                self.cannot_keep(area, &error);
            }
            Message::Look(area) => {
                let size = self.own.size_message(area);
                self.tell(peer, &size);
            }
            Message::Renew(area, offset, len, mark) => {
                let hosted = self.own.hosted.get(area);
                let parts = hosted.map(|one| one.split(Extent::new(offset, len), peer));
                let [own, others] = parts.unwrap_or_default();
                return match self.pulls_first(area, &others, After::Hear(peer, message)) {
                    Ok(()) => Ok(()),
                    Err(_) => {
                        let answer = self.own.bytes_message(area, (offset, len), (mark, &own))?;
                        self.tell_all(peer, answer)
                    }
                };
            }
            Message::Keeps(area, report) => return self.hear_keeps(peer, (area, report), body),
            Message::IsCut(area) | Message::Shared(area) => {
                let is_cut = matches!(message, Message::IsCut(_));
                let hosted = self.own.hosted.get_mut(area).filter(|_| is_cut);
                hosted.into_iter().for_each(|hosted| hosted.is_cut(peer));
                if self.own.hosted.hear(area, peer) {
                    self.settle();
                }
            }
            _ => return Err(io::Error::other("it is of no known kind")),
        }
        Ok(())
    }

    /// A node keeps the bytes that its programs have written.
    fn hear_keeps(
        &mut self,
        peer: Peer,
        (area, report): (Area, u64),
        body: &[u8],
    ) -> io::Result<()> {
        let Some(peers) = &mut self.peers else { return Ok(()) };
        if !self.own.note_kept((peer, peers.nodes.caller(peer)), (area, report), body)? {
            return peers.nodes.say(peer, &Message::Released(area), Body::None);
        }
        if self.own.must_be_here(area) {
            _ = self.pulls_first(area, &[ALL], After::Look(area));
        }
        Ok(())
    }

    /// Bytes that another node has sent of a generation cannot be stored.
    pub(super) fn cannot_keep(&mut self, area: Area, error: &io::Error) {
        if self.own.spoil(area, error) {
            self.settle();
        }
    }

    /// Lets nodes that write a generation alone know that they do so no more.
    fn share_with_all(&mut self, area: Area) {
        if self.peers.is_none() || !self.own.registry.files.generations.is_shared(area) {
            return;
        }
        let hosted = self.own.hosted.host(area);
        if !hosted.share() {
            let writers = hosted.writers();
            self.tell_writers(area, &writers, &Message::Share(area));
        }
    }

    /// Tells nodes that write a generation something that they acknowledge.
    fn tell_writers(&mut self, area: Area, writers: &[Peer], message: &Message) {
        for peer in writers {
            if self.tell(*peer, message) {
                self.own.hosted.host(area).expect(*peer);
            }
        }
    }

    /// Lets the copies of these nodes have so many bytes.
    pub(super) fn cut_copies(&mut self, area: Area, size: u64, writers: &[Peer]) {
        if let Some(hosted) = self.own.hosted.get_mut(area) {
            writers.iter().for_each(|peer| hosted.cuts(*peer, size));
        }
        self.tell_writers(area, writers, &Message::Cut(area, size));
    }

    /// Lets an open wait until other nodes have acknowledged that they share its generation.
    pub(super) fn holds(&mut self, waiting: &Waiting, opening: Opening) -> bool {
        self.share_with_all(opening.area);
        self.hold(opening.area, waiting.link, After::Open(waiting.clone(), opening)).is_ok()
    }

    /// Lets all other nodes that write a generation send what they have written, before it is
    /// looked at, or shown to readers. False if there are none.
    pub(super) fn gathers(&mut self, area: Area, link: u64, what: Gathering) -> bool {
        let Some(hosted) = self.own.hosted.get(area) else { return false };
        let (process, news) = match what {
            Gathering::Sync(process, _) => (process, News::ALL),
            Gathering::Announce(process, ..) => (process, self.steps.news(area)),
        };
        let node = self.own.registry.processes.node(process);
        let others: Vec<Peer> =
            hosted.writers().into_iter().filter(|peer| peer.0 != node).collect();
        self.tell_writers(area, &others, &Message::Gather(area, news.head, news.from));
        let after = match what {
            Gathering::Sync(process, handle) => After::Synced(link, process, handle),
            Gathering::Announce(process, handle, before) => {
                After::Announced(link, process, handle, before)
            }
        };
        !others.is_empty() && self.hold(area, link, after).is_ok()
    }

    /// Lets an action wait for acknowledgements; gives it back if none are awaited.
    fn hold(&mut self, area: Area, link: u64, after: After) -> Result<(), After> {
        self.own.hosted.hold(area, after)?;
        self.links.let_wait(link);
        Ok(())
    }

    /// The same for the answer to a request about a file by name.
    pub(super) fn holds_reply(&mut self, path: &[u8], link: u64, reply: &Reply) -> bool {
        let is_it = |area: &Area| {
            self.own.registry.files.generations.get(area).is_some_and(|one| one.path == *path)
        };
        let Some(area) = self.own.hosted.awaiting().find(is_it) else { return false };
        self.hold(area, link, After::Reply(link, reply.clone())).is_ok()
    }

    /// A program has changed the size of an open file. `None` if the answer comes later.
    pub(super) fn resize(
        &mut self,
        link: u64,
        process: Process,
        handle: u64,
        size: u64,
    ) -> Option<Reply> {
        let open = self.own.registry.opens.get(&handle).copied();
        let Some(open) = open.filter(|open| open.write && open.process == process) else {
            return Some(lost(&mut self.own.registry, process, handle));
        };
        self.own.hosted.get_mut(open.area).into_iter().for_each(|hosted| hosted.cut(size));
        let hosted = self.own.hosted.get(open.area).filter(|hosted| hosted.is_shared());
        let Some(mut writers) = hosted.map(Hosted::writers) else { return Some(Reply::Done) };
        let node = self.own.registry.processes.node(process);
        writers.retain(|peer| peer.0 != node);
        if node != 0
            && let Err(error) = self.own.memory.areas.resize(open.area, size)
        {
            let number = error.raw_os_error().unwrap_or(libc::EIO);
            return Some(Reply::Failed(number, error.to_string()));
        }
        self.cut_copies(open.area, size, &writers);
        let after = After::Reply(link, Reply::Done);
        self.hold(open.area, link, after).is_err().then_some(Reply::Done)
    }
}
