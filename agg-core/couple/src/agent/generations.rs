//! The generations of this node: their registry, their memory, and all that other nodes do with
//! them.

use super::deferred::After;
use super::memory::Memory;
use crate::areas::read_all;
use crate::hosted::Hosting;
use crate::peers::differences::{self, Differences};
use crate::peers::{Away, Instance, Message, gaps, twin};
use crate::protocol::{Reply, bad};
use crate::registry::{Area, Name, Process, Registry, State, series};
use aggio_base::log;
use aggio_base::log::Level;
use aggio_base::{Extent, os};
use aggio_config::settings::couple::Persist;
use aggio_link::{Body, Peer};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// Parts that one message names, at most.
const PARTS: usize = 200_000;

/// Parts that are named before anybody asks, at most.
const FEW_PARTS: usize = 1000;

/// All generations of this node.
#[derive(Debug)]
pub(super) struct Generations {
    pub(super) registry: Registry,
    pub(super) memory: Memory,
    /// Generations that other nodes write, read, or have bytes of.
    pub(super) hosted: Hosting<After>,
}

impl Generations {
    /// None; numbers are counted from `number` on.
    ///
    /// # Errors
    /// The system has no memory files.
    pub(super) fn new(number: u64) -> io::Result<Self> {
        let (registry, memory) = (Registry::behind(number), Memory::new()?);
        Ok(Self { registry, memory, hosted: Hosting::default() })
    }

    /// Lets generations move that will have to when the next ones begin; false if none was looked
    /// for.
    pub(super) fn move_ahead(&mut self) -> bool {
        let Some(path) = self.registry.files.room.grown.take() else { return false };
        self.memory.measure_for(&path, &mut self.registry);
        self.registry.files.move_ahead(&path);
        true
    }

    /// Whether all bytes of a generation must be on this node: programs of several nodes write it,
    /// and some do not say which bytes, or it is to survive.
    pub(super) fn must_be_here(&self, area: Area) -> bool {
        let Some(generation) = self.registry.files.generations.get(&area) else { return false };
        let name = self.registry.files.names.get(&generation.path);
        let is_stored = |name: &Name| name.options.survives || name.options.persist != Persist::No;
        generation.writers.untold && self.registry.files.generations.is_shared(area)
            || name.is_some_and(is_stored)
    }

    /// Bytes that another node has sent of a generation cannot be stored.
    /// Returns whether the generation is lost by that.
    pub(super) fn spoil(&mut self, area: Area, error: &io::Error) -> bool {
        let generation = self.registry.files.generations.get(&area);
        let written = generation.filter(|one| one.state == State::Writing);
        let Some(generation) = written else { return false };
        let path = String::from_utf8_lossy(&generation.path);
        log!(Level::Error, "agent: {path}: what another node wrote cannot be stored: {error}");
        let number = error.raw_os_error().unwrap_or(libc::EIO);
        self.registry.fail(area, Some((number, &error.to_string())));
        true
    }

    /// The answer to a node that looks at the size of a generation.
    pub(super) fn size_message(&self, area: Area) -> Message {
        match self.memory.areas.stat(area, 0) {
            Ok(stat) => Message::Looked(area, stat.size),
            Err(_) => Message::Free(area),
        }
    }

    /// The answer to a node that wants bytes of a generation that it writes, unless they have the
    /// digest `mark`. It has the extents `own` itself.
    ///
    /// # Errors
    /// `InvalidData` if it wants too much; the system's.
    pub(super) fn bytes_message(
        &self,
        area: Area,
        (offset, len): (u64, u64),
        (mark, own): ([u64; 2], &[Extent]),
    ) -> io::Result<(Message, Body)> {
        if len > twin::PIECE || offset.checked_add(len).is_none_or(|end| end > i64::MAX as u64) {
            return Err(bad("it wants too much at a time"));
        }
        let Ok(file) = self.memory.areas.open(area, true, false, false) else {
            return Ok((Message::Free(area), Body::None));
        };
        let mut bytes = vec![0; len as usize];
        read_all(file.as_raw_fd(), &mut bytes, offset)?;
        if own.is_empty() && twin::mark(&bytes) == mark {
            return Ok((Message::Same(area, offset), Body::None));
        }
        let mut rest = Differences::default();
        for gap in gaps(Extent::new(offset, len), own) {
            let part = (gap.offset - offset) as usize..(gap.end() - offset) as usize;
            rest.add(gap.offset, &bytes[part]);
        }
        Ok((Message::Data(area, offset, len), Body::Bytes(rest.into_body())))
    }

    /// The answer to a node that asks for the nodes that have parts of a generation.
    ///
    /// # Errors
    /// `InvalidData` if the body is malformed.
    pub(super) fn where_message(&self, area: Area, body: &[u8]) -> io::Result<(Message, Body)> {
        let places = differences::extents(body)?;
        if self.memory.areas.open(area, true, false, false).is_err() {
            return Ok((Message::Free(area), Body::None));
        }
        let generation = self.registry.files.generations.get(&area);
        let series = generation.map(|one| series(&one.path)).unwrap_or_default();
        let (found, _) = self.hosted.find((area, &series), &places, PARTS);
        Ok((Message::Where(area), Body::Bytes(found.encode())))
    }

    /// Whether this node, and no other one, has all bytes of places of a generation.
    pub(super) fn has_places(&self, area: Area, places: &[Extent]) -> bool {
        let size = self.memory.areas.stat(area, 0).map_or(0, |stat| stat.size);
        let hosted = self.hosted.get(area);
        let of_others =
            |place: &Extent| hosted.is_some_and(|one| !one.located.within(*place).is_empty());
        places.iter().all(|place| place.end() <= size && !of_others(place))
    }

    /// The body of a message about a complete generation of so many bytes: the nodes that have its
    /// parts, if these are few.
    pub(super) fn map_of(&self, area: Area, size: u64) -> Body {
        let generation = self.registry.files.generations.get(&area);
        let series = generation.map(|one| series(&one.path)).unwrap_or_default();
        match self.hosted.find((area, &series), &[Extent::new(0, size)], FEW_PARTS) {
            (found, true) => Body::Bytes(found.encode()),
            _ => Body::None,
        }
    }

    /// A node keeps the bytes that its programs have written. Returns false if the generation died
    /// meanwhile.
    ///
    /// # Errors
    /// `InvalidData` if the body is malformed, or it does not write the generation.
    pub(super) fn note_kept(
        &mut self,
        (peer, node): (Peer, Option<&Instance>),
        (area, report): (Area, u64),
        body: &[u8],
    ) -> io::Result<bool> {
        let extents = differences::extents(body)?;
        let Some(hosted) = self.hosted.get(area) else { return Ok(false) };
        let limit =
            hosted.writers.limit(peer).ok_or_else(|| bad("it keeps what it does not write"))?;
        let counts = Extent::new(0, limit);
        let extents: Vec<Extent> = extents.iter().map(|one| one.intersect(counts)).collect();
        let node = node.ok_or_else(|| bad("it has not said who it is"))?;
        self.hosted.note((area, report), peer, node, &extents);
        Ok(true)
    }

    /// The facts of an open of another node, which may write.
    ///
    /// # Errors
    /// The open is gone; the system's.
    pub(super) fn lend(
        &mut self,
        peer: Peer,
        handle: u64,
        generation: u64,
        fd: RawFd,
    ) -> io::Result<Away> {
        let gone = || io::Error::from_raw_os_error(libc::ESTALE);
        let open = self.registry.opens.get(&handle).copied().ok_or_else(gone)?;
        let facts = os::fstat(fd)?;
        let (is_written, sends_all) = self.is_written(open.area, peer);
        if open.write {
            self.grant(peer, open.area)?;
        }
        let (size, mode) = (facts.st_size.unsigned_abs(), facts.st_mode & 0o7777);
        let (shared, early) = (
            self.registry.files.generations.is_shared(open.area),
            self.registry.files.is_early(open.area),
        );
        let names = open.write && open.tells && !sends_all;
        let keeps = names && !early && !self.must_be_here(open.area);
        if keeps || early && open.write {
            // It sends differences from the beginning, or names the extents that it keeps.
            self.hosted.host(open.area).shared = true;
        }
        // A node keeps the kind of its copy until it has sent all bytes that it wrote.
        let is_shared = || self.hosted.get(open.area).is_some_and(|one| one.shared);
        let shared = shared || keeps || is_written && is_shared();
        Ok(Away { handle, generation, area: open.area, size, mode, shared, early, keeps })
    }

    /// Whether a generation is being written, and whether the node of `peer` alone does that and
    /// will send all of it.
    fn is_written(&self, area: Area, peer: Peer) -> (bool, bool) {
        let generation = self.registry.files.generations.get(&area);
        let is_written = generation.is_some_and(|one| one.state == State::Writing);
        let hosted = self.hosted.get(area);
        let sends_all = hosted.is_some_and(|one| one.writers.has(peer) && !one.shared);
        (is_written, is_written && sends_all)
    }

    /// The bytes of places, which this node has.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn parts(&mut self, area: Area, places: &[Extent]) -> io::Result<Vec<(u64, Body)>> {
        let file = self.memory.areas.open(area, true, false, false)?;
        let hosted = self.hosted.host(area);
        let body = |place: &Extent| Ok((place.offset, Body::Mapped(hosted.bytes(&file, *place)?)));
        places.iter().map(body).collect()
    }

    /// A process of another node may write.
    fn grant(&mut self, peer: Peer, area: Area) -> io::Result<()> {
        let own = self.memory.areas.open(area, true, true, false)?;
        self.hosted.host(area).writers.lend(peer, own);
        Ok(())
    }

    pub(super) fn adopt(
        &mut self,
        (peer, remote): (Peer, Process),
        area: Area,
        how: [bool; 2],
    ) -> Reply {
        let [write, _] = how;
        let Some(opening) = self.registry.adopt(remote, area, how, 0) else {
            return Reply::Failed(libc::ENOENT, String::new());
        };
        let granted = if write { self.grant(peer, area) } else { Ok(()) };
        match granted {
            Ok(()) => Reply::Opened(opening.handle, opening.generation),
            Err(error) => {
                self.registry.withdraw(remote, opening.handle);
                Reply::Failed(error.raw_os_error().unwrap_or(libc::EIO), error.to_string())
            }
        }
    }

    /// A generation that is being written lacks bytes that will never come.
    pub(super) fn fail_writing(&mut self, area: Area) {
        let generation = self.registry.files.generations.get(&area);
        if generation.is_some_and(|one| one.state == State::Writing) {
            self.registry.fail(area, None);
        }
    }

    /// Lets nodes go that have sent all bytes of a generation and do not have it open for writing.
    /// Returns whether that was the last one.
    pub(super) fn release(&mut self, area: Area) -> bool {
        let Some(hosted) = self.hosted.get_mut(area) else { return false };
        let registry = &self.registry;
        let is_last = hosted.release(|peer| registry.opens.is_open_on(area, peer.0));
        if is_last {
            self.memory.areas.stored(area);
        }
        is_last
    }

    /// Whether bytes of a generation that must be here are being fetched.
    pub(super) fn awaits_bytes(&self, area: Area) -> bool {
        self.hosted.get(area).is_some_and(|one| one.pull.is_some()) && self.must_be_here(area)
    }
}
