//! Generations that this node owns and programs of several nodes write at the same time.

use super::Agent;
use super::caller::lost;
use super::deferred::After;
use super::step::Gathering;
use super::waits::Waiting;
use crate::hosted::{ALL, Hosted};
use crate::peers::differences::{self, Differences};
use crate::peers::{Message, gaps, twin};
use crate::protocol::{Reply, bad};
use crate::records::News;
use crate::registry::{Area, Name, Opening, Process, State};
use aggio_base::Extent;
use aggio_base::log;
use aggio_base::log::Level;
use aggio_config::settings::couple::Persist;
use aggio_link::{Body, Peer};
use std::io;
use std::os::fd::AsRawFd;

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
                let Some(hosted) = self.hosted.get_mut(area) else { return Ok(()) };
                let Err(error) = hosted.store(peer, &message, body) else { return Ok(()) };
                if error.raw_os_error().is_none_or(|number| number == libc::EBADF) {
                    return Err(error);
                }
                self.cannot_keep(area, &error);
            }
            Message::Look(area) => self.show_size(peer, area),
            Message::Renew(area, offset, len, mark) => {
                let hosted = self.hosted.get(area);
                let parts = hosted.map(|one| one.split(Extent::new(offset, len), peer));
                let [own, others] = parts.unwrap_or_default();
                return match self.pulls_first(area, &others, After::Hear(peer, message)) {
                    Ok(()) => Ok(()),
                    Err(_) => self.show_bytes(peer, area, (offset, len), (mark, &own)),
                };
            }
            Message::Keeps(area, report) => return self.hear_keeps(peer, (area, report), body),
            Message::IsCut(area) => {
                self.hosted.get_mut(area).into_iter().for_each(|hosted| hosted.is_cut(peer));
                self.hear_ack(area, peer);
            }
            Message::Shared(area) => self.hear_ack(area, peer),
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
        let extents = differences::extents(body)?;
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let Some(hosted) = self.hosted.get(area) else {
            // The generation died meanwhile.
            return peers.nodes.say(peer, &Message::Released(area), Body::None);
        };
        let limit = hosted.limit(peer).ok_or_else(|| bad("it keeps what it does not write"))?;
        let counts = Extent::new(0, limit);
        let extents: Vec<Extent> = extents.iter().map(|one| one.intersect(counts)).collect();
        let node = peers.nodes.caller(peer).ok_or_else(|| bad("it has not said who it is"))?;
        self.hosted.note((area, report), peer, node, &extents);
        if self.must_be_here(area) {
            _ = self.pulls_first(area, &[ALL], After::Look(area));
        }
        Ok(())
    }

    /// Whether all bytes of a generation must be on this node: programs of several nodes write it,
    /// and some do not say which bytes, or it is to survive.
    pub(super) fn must_be_here(&self, area: Area) -> bool {
        let Some(generation) = self.registry.generations.get(&area) else { return false };
        let name = self.registry.names.get(&generation.path);
        let is_stored = |name: &Name| name.options.survives || name.options.persist != Persist::No;
        generation.untold && self.registry.is_shared(area) || name.is_some_and(is_stored)
    }

    /// Bytes that another node has sent of a generation cannot be stored.
    pub(super) fn cannot_keep(&mut self, area: Area, error: &io::Error) {
        let Some(generation) = self.registry.generations.get(&area) else { return };
        if generation.state != State::Writing {
            return;
        }
        let path = String::from_utf8_lossy(&generation.path);
        log!(Level::Error, "agent: {path}: what another node wrote cannot be stored: {error}");
        let number = error.raw_os_error().unwrap_or(libc::EIO);
        self.registry.spoil_area(area, number, &error.to_string());
        self.settle();
    }

    fn show_size(&mut self, peer: Peer, area: Area) {
        let message = match self.memory.areas.stat(area, 0) {
            Ok(stat) => Message::Looked(area, stat.size),
            Err(_) => Message::Free(area),
        };
        self.tell(peer, &message);
    }

    fn show_bytes(
        &mut self,
        peer: Peer,
        area: Area,
        (offset, len): (u64, u64),
        (mark, own): ([u64; 2], &[Extent]),
    ) -> io::Result<()> {
        if len > twin::PIECE || offset.checked_add(len).is_none_or(|end| end > i64::MAX as u64) {
            return Err(bad("it wants too much at a time"));
        }
        let Ok(file) = self.memory.areas.open(area, true, false, false) else {
            self.tell(peer, &Message::Free(area));
            return Ok(());
        };
        let mut bytes = vec![0; len as usize];
        crate::areas::read_all(file.as_raw_fd(), &mut bytes, offset)?;
        let Some(peers) = &mut self.peers else { return Ok(()) };
        if !own.is_empty() {
            let mut rest = Differences::default();
            for gap in gaps(Extent::new(offset, len), own) {
                let part = (gap.offset - offset) as usize..(gap.end() - offset) as usize;
                rest.add(gap.offset, &bytes[part]);
            }
            let message = Message::Rest(area, offset, len);
            return peers.nodes.say(peer, &message, Body::Bytes(rest.into_body()));
        }
        match twin::mark(&bytes) == mark {
            true => peers.nodes.say(peer, &Message::Same(area, offset), Body::None),
            false => peers.nodes.say(peer, &Message::Data(area, offset), Body::Bytes(bytes)),
        }
    }

    /// Lets nodes that write a generation alone know that they do so no more.
    fn share_with_all(&mut self, area: Area) {
        if self.peers.is_none() || !self.registry.is_shared(area) {
            return;
        }
        let hosted = self.hosted.host(area);
        if !hosted.share() {
            let writers = hosted.writers();
            self.tell_writers(area, &writers, &Message::Share(area));
        }
    }

    /// Tells nodes that write a generation something that they acknowledge.
    fn tell_writers(&mut self, area: Area, writers: &[Peer], message: &Message) {
        for peer in writers {
            if self.tell(*peer, message) {
                self.hosted.host(area).expect(*peer);
            }
        }
    }

    /// Lets the copies of these nodes have so many bytes.
    pub(super) fn cut_copies(&mut self, area: Area, size: u64, writers: &[Peer]) {
        if let Some(hosted) = self.hosted.get_mut(area) {
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
        let Some(hosted) = self.hosted.get(area) else { return false };
        let (process, news) = match what {
            Gathering::Sync(process, _) => (process, News::ALL),
            Gathering::Announce(process, ..) => (process, self.steps.news(area)),
        };
        let node = self.registry.node(process);
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
        self.hosted.hold(area, after)?;
        self.links.let_wait(link);
        Ok(())
    }

    /// The same for the answer to a request about a file by name.
    pub(super) fn holds_reply(&mut self, path: &[u8], link: u64, reply: &Reply) -> bool {
        let is_it =
            |area: &Area| self.registry.generations.get(area).is_some_and(|one| one.path == *path);
        let Some(area) = self.hosted.awaiting().find(is_it) else { return false };
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
        let open = self.registry.opens.get(&handle).copied();
        let Some(open) = open.filter(|open| open.write && open.process == process) else {
            return Some(lost(&mut self.registry, process, handle));
        };
        self.hosted.get_mut(open.area).into_iter().for_each(|hosted| hosted.cut(size));
        let hosted = self.hosted.get(open.area).filter(|hosted| hosted.is_shared());
        let Some(mut writers) = hosted.map(Hosted::writers) else { return Some(Reply::Done) };
        let node = self.registry.node(process);
        writers.retain(|peer| peer.0 != node);
        if node != 0
            && let Err(error) = self.memory.areas.resize(open.area, size)
        {
            let number = error.raw_os_error().unwrap_or(libc::EIO);
            return Some(Reply::Failed(number, error.to_string()));
        }
        self.cut_copies(open.area, size, &writers);
        let after = After::Reply(link, Reply::Done);
        self.hold(open.area, link, after).is_err().then_some(Reply::Done)
    }

    fn hear_ack(&mut self, area: Area, peer: Peer) {
        if self.hosted.hear(area, peer) {
            self.settle();
        }
    }
}
