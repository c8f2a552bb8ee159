//! Generations that this node owns and programs of several nodes write at the same time.

use super::Agent;
use super::caller::lost;
use super::pulls::After;
use super::step::Gathering;
use super::waits::Waiting;
use crate::peers::differences::{self, Differences};
use crate::peers::{ALL, Message, gaps, twin};
use crate::protocol::{Before, Reply, bad};
use crate::records::News;
use crate::registry::{Area, Handle, Name, Opening, Process, State};
use aggio_base::Extent;
use aggio_base::log;
use aggio_base::log::Level;
use aggio_config::settings::couple::Persist;
use aggio_link::{Body, Peer};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd;

/// What is answered when other nodes have done what they were told.
#[derive(Debug)]
enum Later {
    Open(Waiting, Opening),
    Reply(u64, Reply),
    /// A process has synchronised what it has open.
    Synced(u64, Process, Handle),
    /// A process has written the number of records.
    Announced(u64, Process, Handle, Before),
}

/// A generation of which other nodes have been told something.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// How often they are still to say that they have heard it.
    acks: BTreeMap<Peer, u32>,
    later: Vec<Later>,
}

impl Agent {
    /// What an agent says of memory that its programs write, and others as well.
    pub(super) fn hear_writer(
        &mut self,
        peer: Peer,
        message: Message,
        body: &[u8],
    ) -> io::Result<()> {
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let (area, stored) = match message {
            // A generation that died meanwhile needs no bytes.
            Message::Size(area, size, cut) => {
                if cut {
                    peers.locations.cut(area, size);
                }
                let hosted = peers.hosted.get_mut(&area);
                (area, hosted.map(|hosted| hosted.set_size(peer, size, cut)))
            }
            Message::Differ(area) => {
                if peers.locations.has(area) {
                    for (offset, bytes) in differences::parts(body)? {
                        peers.locations.is_here(area, Extent::new(offset, bytes.len() as u64));
                    }
                }
                let hosted = peers.hosted.get_mut(&area);
                (area, hosted.map(|hosted| hosted.differ(peer, body)))
            }
            Message::Memory(area, offset, len) => {
                let (hosted, extent) = (peers.hosted.get_mut(&area), Extent::new(offset, len));
                (area, hosted.map(|hosted| hosted.allocate(peer, extent)))
            }
            Message::Look(area) => {
                self.show_size(peer, area);
                return Ok(());
            }
            Message::Renew(area, offset, len, mark) => {
                let [own, others] = peers.locations.split(area, Extent::new(offset, len), peer);
                return match self.pulls_first(area, &others, After::Hear(peer, message)) {
                    Ok(()) => Ok(()),
                    Err(_) => self.show_bytes(peer, area, (offset, len), (mark, &own)),
                };
            }
            Message::Keeps(area, report) => {
                return self.hear_keeps(peer, (area, report), body);
            }
            Message::IsCut(area) => {
                if let Some(hosted) = peers.hosted.get_mut(&area) {
                    hosted.is_cut(peer);
                }
                self.hear_ack(area, peer);
                return Ok(());
            }
            Message::Shared(area) => {
                self.hear_ack(area, peer);
                return Ok(());
            }
            _ => return Err(io::Error::other("it is of no known kind")),
        };
        match stored {
            Some(Err(error)) if error.raw_os_error().is_none_or(|number| number == libc::EBADF) => {
                Err(error)
            }
            Some(Err(error)) => {
                self.cannot_keep(area, &error);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A node keeps what its programs have written.
    fn hear_keeps(
        &mut self,
        peer: Peer,
        (area, report): (Area, u64),
        body: &[u8],
    ) -> io::Result<()> {
        let extents = differences::extents(body)?;
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let Some(hosted) = peers.hosted.get(&area) else {
            // The generation died meanwhile.
            return peers.say(peer, &Message::Released(area), Body::None);
        };
        let limit = hosted.limit(peer).ok_or_else(|| bad("it keeps what it does not write"))?;
        let counts = Extent::new(0, limit);
        let extents: Vec<Extent> = extents.iter().map(|one| one.intersect(counts)).collect();
        let node = peers.caller(peer).cloned().ok_or_else(|| bad("it has not said who it is"))?;
        peers.locations.note((area, report), peer, &node, &extents);
        if self.must_be_here(area) {
            _ = self.pulls_first(area, &[ALL], After::Look(area));
        }
        Ok(())
    }

    /// Whether all bytes of a generation must be on this node: programs of several nodes write it,
    /// of which some do not say which bytes, or it is to survive.
    pub(super) fn must_be_here(&self, area: Area) -> bool {
        let Some(generation) = self.registry.files.generations.get(&area) else { return false };
        let name = self.registry.files.names.get(&generation.path);
        let is_stored = |name: &Name| name.options.survives || name.options.persist != Persist::No;
        generation.writers.untold && self.registry.files.generations.is_shared(area)
            || name.is_some_and(is_stored)
    }

    /// What another node has sent of a generation cannot be stored.
    pub(super) fn cannot_keep(&mut self, area: Area, error: &io::Error) {
        let Some(generation) = self.registry.files.generations.get(&area) else { return };
        if generation.state != State::Writing {
            return;
        }
        let path = String::from_utf8_lossy(&generation.path);
        log!(Level::Error, "agent: {path}: what another node wrote cannot be stored: {error}");
        let number = error.raw_os_error().unwrap_or(libc::EIO);
        self.registry.fail(area, Some((number, &error.to_string())));
        self.settle();
    }

    fn show_size(&mut self, peer: Peer, area: Area) {
        let message = match self.areas.stat(area, 0) {
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
        let Ok(file) = self.areas.open(area, true, false, false) else {
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
            return peers.say(peer, &message, Body::Bytes(rest.into_body()));
        }
        match twin::mark(&bytes) == mark {
            true => peers.say(peer, &Message::Same(area, offset), Body::None),
            false => peers.say(peer, &Message::Data(area, offset), Body::Bytes(bytes)),
        }
    }

    /// Whether bytes of a generation are yet to come from other nodes.
    pub(super) fn is_hosted(&self, area: Area) -> bool {
        let hosted = self.peers.as_ref().and_then(|peers| peers.hosted.get(&area));
        hosted.is_some_and(|hosted| !hosted.writers().is_empty())
    }

    /// Lets nodes that write a generation alone know that they do so no more.
    fn share_with_all(&mut self, area: Area) {
        if !self.registry.files.generations.is_shared(area) {
            return;
        }
        let Some(peers) = &mut self.peers else { return };
        let hosted = peers.hosted.entry(area).or_default();
        if std::mem::replace(&mut hosted.shared, true) {
            return;
        }
        let writers = hosted.writers();
        self.tell_writers(area, &writers, &Message::Share(area));
    }

    /// Tells nodes that write a generation something that they answer.
    fn tell_writers(&mut self, area: Area, writers: &[Peer], message: &Message) {
        for peer in writers {
            if self.tell(*peer, message) {
                *self.pending.entry(area).or_default().acks.entry(*peer).or_default() += 1;
            }
        }
    }

    /// Lets the copies of these nodes have so many bytes.
    pub(super) fn cut_copies(&mut self, area: Area, size: u64, writers: &[Peer]) {
        let peers = self.peers.as_mut();
        if let Some(hosted) = peers.and_then(|peers| peers.hosted.get_mut(&area)) {
            writers.iter().for_each(|peer| hosted.cut(*peer, size));
        }
        self.tell_writers(area, writers, &Message::Cut(area, size));
    }

    /// Lets an open wait until other nodes have done what they were told of its generation.
    pub(super) fn holds(&mut self, waiting: &Waiting, opening: Opening) -> bool {
        self.share_with_all(opening.area);
        self.hold(opening.area, waiting.link, |waits| {
            waits.later.push(Later::Open(waiting.clone(), opening));
        })
    }

    /// Lets all other nodes that write a generation send what they have written, before it is
    /// looked at, or shown to readers. False if there are none.
    pub(super) fn gathers(&mut self, area: Area, link: u64, what: Gathering) -> bool {
        let peers = self.peers.as_ref();
        let Some(hosted) = peers.and_then(|peers| peers.hosted.get(&area)) else { return false };
        let (process, news) = match what {
            Gathering::Sync(process, _) => (process, News::ALL),
            Gathering::Announce(process, ..) => (process, self.steps.news(area)),
        };
        let node = self.registry.processes.node(process);
        let others: Vec<Peer> =
            hosted.writers().into_iter().filter(|peer| peer.0 != node).collect();
        self.tell_writers(area, &others, &Message::Gather(area, news.head, news.from));
        let later = match what {
            Gathering::Sync(process, handle) => Later::Synced(link, process, handle),
            Gathering::Announce(process, handle, before) => {
                Later::Announced(link, process, handle, before)
            }
        };
        !others.is_empty() && self.hold(area, link, |waits| waits.later.push(later))
    }

    fn hold(&mut self, area: Area, link: u64, later: impl FnOnce(&mut Pending)) -> bool {
        let Some(pending) = self.pending.get_mut(&area) else { return false };
        later(pending);
        self.links.let_wait(link);
        true
    }

    /// The same for the answer to a request about a file by name.
    pub(super) fn holds_reply(&mut self, path: &[u8], link: u64, reply: &Reply) -> bool {
        let is_it = |area: &&Area| {
            self.registry.files.generations.get(area).is_some_and(|one| one.path == *path)
        };
        let Some(area) = self.pending.keys().find(is_it).copied() else { return false };
        self.hold(area, link, |waits| waits.later.push(Later::Reply(link, reply.clone())))
    }

    /// A program has changed the size of a file that it has open. `None` if the answer comes later.
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
        if let Some(peers) = &mut self.peers {
            peers.locations.cut(open.area, size);
        }
        let peers = self.peers.as_ref();
        let hosted = peers.and_then(|peers| peers.hosted.get(&open.area));
        let Some(hosted) = hosted.filter(|hosted| hosted.shared) else { return Some(Reply::Done) };
        let (node, mut writers) = (self.registry.processes.node(process), hosted.writers());
        writers.retain(|peer| peer.0 != node);
        if node != 0
            && let Err(error) = self.areas.resize(open.area, size)
        {
            let number = error.raw_os_error().unwrap_or(libc::EIO);
            return Some(Reply::Failed(number, error.to_string()));
        }
        self.cut_copies(open.area, size, &writers);
        let later = |waits: &mut Pending| waits.later.push(Later::Reply(link, Reply::Done));
        match self.hold(open.area, link, later) {
            true => None,
            false => Some(Reply::Done),
        }
    }

    fn hear_ack(&mut self, area: Area, peer: Peer) {
        let Some(pending) = self.pending.get_mut(&area) else { return };
        if let Some(count) = pending.acks.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                pending.acks.remove(&peer);
            }
        }
        self.settle();
    }

    /// Nothing is to be waited for any more that this node was to say.
    pub(super) fn forget_acks(&mut self, peer: Peer) {
        self.pending.values_mut().for_each(|pending| _ = pending.acks.remove(&peer));
    }

    /// The generation is no more.
    pub(super) fn end_pending(&mut self, area: Area) {
        if let Some(pending) = self.pending.get_mut(&area) {
            pending.acks.clear();
        }
    }

    /// Answers who has waited for other nodes that have answered by now.
    pub(super) fn answer_pending(&mut self) {
        let is_over = |(_, pending): &(&Area, &Pending)| pending.acks.is_empty();
        let mut may_be_ready = false;
        while let Some(area) = self.pending.iter().find(is_over).map(|(area, _)| *area) {
            let Some(pending) = self.pending.remove(&area) else { return };
            for later in pending.later {
                match later {
                    Later::Open(waiting, opening) => self.hand_over_if(None, &waiting, opening),
                    Later::Reply(link, reply) => drop(self.reply(link, &reply, None)),
                    Later::Synced(link, process, handle) => {
                        may_be_ready = true;
                        let reply = self.synced(process, handle);
                        self.reply(link, &reply, None);
                    }
                    Later::Announced(link, process, handle, before) => {
                        may_be_ready = true;
                        let reply = self.announced(process, handle, before);
                        self.reply(link, &reply, None);
                    }
                }
            }
        }
        if may_be_ready {
            self.settle();
        }
    }
}
