//! One replica: its memory, the bytes that have come, and its opens.

use crate::areas::Areas;
use crate::peers::mapped::Mapped;
use crate::peers::pieces::Pieces;
use crate::peers::shared::Shared;
use crate::peers::{
    Action, Agents, Away, Kept, Key, Part, Pushed, Sources, Subscriptions, Then, Wants, Where,
};
use crate::protocol::{Reply, Request};
use crate::registry::{Area, Path, Process, Series, series};
use aggio_base::overlay::Overlay;
use aggio_base::{Extent, os};
use aggio_link::{Peer, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// A program that waits for bytes of a copy.
#[derive(Debug)]
pub(crate) struct Wanting {
    link: u64,
    extents: Vec<Extent>,
    /// So many of the extents have come, from the first one on.
    there: usize,
}

impl Wanting {
    /// The program of a connection waits for these bytes.
    pub(crate) fn new(link: u64, extents: Vec<Extent>) -> Self {
        Self { link, extents, there: 0 }
    }

    /// Whether all bytes are there.
    fn is_over(&mut self, pieces: &Pieces) -> bool {
        let left = self.extents[self.there..].iter();
        self.there += left.take_while(|extent| pieces.have(**extent)).count();
        self.there == self.extents.len()
    }
}

/// The bytes of a replica that are to come.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) pieces: Pieces,
    /// The nodes that have its bytes.
    pub(crate) sources: Sources,
    /// Bytes that other nodes send without a request.
    pub(crate) pushed: Pushed,
}

/// Programs that wait for bytes of a replica.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// Programs that wait for a part.
    pub(crate) wanting: Vec<Wanting>,
    /// Opens that wait for all bytes.
    pub(crate) waiting: Vec<u64>,
}

/// Bytes of a replica that programs of this node write.
#[derive(Debug)]
pub(crate) struct Writing {
    /// It was opened for writing since it was last sent.
    pub(crate) dirty: bool,
    /// Processes that had it open for writing since then.
    pub(crate) writers: BTreeSet<Process>,
    /// How often it was opened for writing.
    pub(crate) granted: u64,
    /// So many of these opens the owner counts no more.
    told: u64,
    /// Written bytes stay on this node: all programs say which bytes that is.
    pub(crate) keeps: bool,
    /// Extents that they have written and the owner does not know.
    pub(crate) written: Overlay<()>,
}

impl Default for Writing {
    fn default() -> Self {
        let (writers, written) = (BTreeSet::new(), Overlay::default());
        Self { dirty: false, writers, granted: 0, told: 0, keeps: true, written }
    }
}

impl Writing {
    /// Whether the owner has all that was written, if anything was, and nobody writes.
    pub(crate) fn is_over(&self) -> bool {
        self.told == self.granted
    }
}

/// One replica.
pub(crate) struct Replica {
    /// The number of its memory.
    pub(crate) local: Area,
    pub(crate) path: Path,
    pub(super) size: u64,
    /// The memory that is filled, while it is.
    pub(super) target: Option<Mapped>,
    pub(crate) incoming: Incoming,
    pub(crate) waits: Waits,
    pub(crate) writing: Writing,
    /// Opens of this node.
    pub(crate) opens: u32,
    /// It is to be cut to so many bytes when all have come.
    pub(super) cut: Option<u64>,
    /// It lacks bytes of other nodes, or its owner has given it up: it is of no use when nobody has
    /// it open any more.
    pub(crate) gone: bool,
    /// It is to be written by programs of other nodes as well, when its bytes have come.
    pub(crate) shares: bool,
    /// Programs of other nodes write it as well.
    pub(crate) shared: Option<Shared>,
    /// Other nodes send its bytes, and its owner has not told yet that it is complete.
    pub(crate) early: bool,
    /// When the file was modified last, if a program has asked.
    pub(super) modified: Option<(i64, i64)>,
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Copy({} bytes, {:?})", self.size, self.incoming.pieces)
    }
}

impl Replica {
    /// One of a file with the attributes of `away`, in the memory `local`.
    pub(super) fn new(local: Area, path: &Path, away: &Away, target: Mapped) -> Self {
        let size = if away.is_renewed() { 0 } else { away.size };
        let (sources, pushed) = (Sources::default(), Pushed::default());
        let shared = || if away.early { Shared::early() } else { Shared::default() };
        Self {
            local,
            path: path.clone(),
            size,
            target: Some(target),
            incoming: Incoming { pieces: Pieces::new(size), sources, pushed },
            waits: Waits::default(),
            writing: Writing::default(),
            opens: 0,
            cut: None,
            gone: false,
            shares: false,
            shared: away.is_renewed().then(shared),
            early: false,
            modified: None,
        }
    }

    /// Whether it is of no use for an open that its owner has answered.
    pub(crate) fn is_outdated(&self, away: &Away) -> bool {
        let is_old = self.gone || !away.is_renewed();
        self.shared.is_some() && is_old && !self.can_be_renewed()
    }

    /// The owner gets all of it. Returns the number of opens for writing since it did so before,
    /// and the series.
    pub(crate) fn is_sent(&mut self) -> (u64, Series) {
        self.writing.dirty = false;
        self.writing.writers.clear();
        let told = std::mem::replace(&mut self.writing.told, self.writing.granted);
        (self.writing.granted - told, series(&self.path))
    }

    /// Takes all that waits for the owner.
    pub(crate) fn abandon(&mut self) -> (Vec<Then>, Vec<Wants>) {
        self.shared.as_mut().map(Shared::abandon).unwrap_or_default()
    }

    /// The owner has ended: programs that wait for it get an error.
    pub(crate) fn fail_all(&mut self, error: &io::Error) -> Vec<Action> {
        let (then, wants) = self.abandon();
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
        let wanting = std::mem::take(&mut self.waits.wanting).into_iter().map(|one| one.link);
        let links = asked.chain(again).chain(wanting);
        links.map(|link| Action::Reply(link, Reply::from(error))).collect()
    }

    /// A program of this replica with the number `key` gets bytes of the owner.
    pub(crate) fn renewed(&mut self, key: Key, wants: Wants) -> Option<Action> {
        Some(match wants {
            Wants::Open(ticket) => Action::HandOver(ticket),
            Wants::Again(asked) => Action::Ask(key.0, asked),
            Wants::Answer(asked, reply) => {
                self.shared.iter_mut().for_each(|shared| shared.has_records(&reply));
                let end = self.shared.as_ref().map_or(u64::MAX, Shared::end);
                match (asked.request, reply) {
                    (Request::Reach(..), Reply::Records(Some(_)) | Reply::Whole) => {
                        Action::Reply(asked.link, Reply::Until(end))
                    }
                    (_, reply) => Action::Reply(asked.link, reply),
                }
            }
            Wants::Pieces(link) => Action::Reply(link, Reply::Done),
            Wants::All => return None,
        })
    }

    /// The owner names nodes that have parts. Returns actions for programs that get no bytes.
    pub(crate) fn hear_where(&mut self, found: Where) -> Vec<Action> {
        let is_new = self.incoming.sources.note(found);
        let lost = if is_new { Vec::new() } else { self.incoming.sources.give_up() };
        let error = io::Error::other("the owner does not know where its bytes are");
        self.lose(&lost, &error)
    }

    /// The parts of `extent` that are to come from a node, which has them under a number: none that
    /// it has pushed already. `announced` says whether the node has announced them to its
    /// subscribers. The replica has the number `key`.
    pub(crate) fn parts_from(
        &self,
        key: Key,
        extent: Extent,
        (peer, area, announced): (Peer, Area, bool),
        subscriptions: &Subscriptions,
    ) -> Vec<Part> {
        let asked = Part { extent, peer, area, pushed: false };
        if area != key.1 || self.shared.is_some() {
            return vec![asked];
        }
        if let Some(missing) = self.incoming.pushed.missing(extent, peer) {
            let coming = missing.into_iter();
            return coming.map(|extent| Part { extent, pushed: true, ..asked }).collect();
        }
        let route = (peer, key.0, series(&self.path));
        let pushed = announced && subscriptions.promises(&route, area, extent);
        vec![Part { pushed, ..asked }]
    }

    /// The parts of `wanted` that other nodes wrote to this generation, by the nodes.
    pub(crate) fn places_of(
        &self,
        key: Key,
        wanted: &[Extent],
        agents: &dyn Agents,
    ) -> BTreeMap<Peer, Vec<Extent>> {
        let mut places = BTreeMap::<Peer, Vec<Extent>>::new();
        let (own, sources) = (agents.own(), &self.incoming.sources);
        for (part, node) in wanted.iter().flat_map(|range| sources.of(*range)) {
            let peer = match node.map(|node| sources.node(node)) {
                None => Some(key.0),
                Some(Some(node)) if node.words != own && node.area == key.1 => {
                    agents.known(&node.words)
                }
                _ => None,
            };
            let Some(peer) = peer else { continue };
            let places = places.entry(peer).or_default();
            match places.last_mut().filter(|last| last.end() == part.offset) {
                Some(last) => last.len += part.len,
                None => places.push(part),
            }
        }
        places
    }

    /// Takes the extents that programs have reported since the last call; with a file if the bytes
    /// stay here.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn take_written(&mut self, areas: &Areas) -> io::Result<(Kept, Option<OwnedFd>)> {
        let written = std::mem::take(&mut self.writing.written);
        let mut extents: Vec<Extent> = written.into_ranges().map(|(extent, ())| extent).collect();
        if !self.writing.keeps {
            return Ok((Kept::No(extents), None));
        }
        if extents.is_empty() {
            return Ok((Kept::Here(extents), None));
        }
        let file = areas.open(self.local, true, false, false)?;
        let whole = Extent::new(0, os::fstat(file.as_raw_fd())?.st_size.unsigned_abs());
        extents.iter_mut().for_each(|extent| *extent = extent.intersect(whole));
        extents.retain(|extent| !extent.is_empty());
        Ok((Kept::Here(extents), Some(file)))
    }

    /// All bytes have come: the opens that wait for them.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn is_there(&mut self, areas: &mut Areas) -> io::Result<Vec<u64>> {
        let waiting = std::mem::take(&mut self.waits.waiting);
        if let Some(size) = self.cut.take() {
            areas.resize(self.local, size)?;
        }
        Ok(waiting)
    }

    /// Where bytes go that were asked for.
    pub(crate) fn room(&self, offset: u64, len: u64) -> Option<Span> {
        self.target.as_ref()?.span(offset, len)
    }

    /// Whether no program of this node has opened it for writing.
    pub(crate) fn is_only_read(&self) -> bool {
        self.writing.granted == 0
    }

    /// Whether it is early, and no program has opened it.
    pub(super) fn is_unopened(&self) -> bool {
        self.early && self.waits.waiting.is_empty()
    }

    /// Whether it is gone and no program has it open: nobody can change its memory any more.
    pub(crate) fn is_left(&self) -> bool {
        self.gone && self.opens == 0
    }

    /// Whether its readers can get the bytes of its owner now, and the owner has all that was
    /// written here.
    pub(crate) fn can_be_renewed(&self) -> bool {
        self.shared.is_some() && !self.gone && self.writing.is_over()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.incoming.pieces.are_all_there()
    }

    /// Whether nobody has it open or waits for it, and its owner has all written bytes.
    pub(super) fn is_unused(&self) -> bool {
        let is_idle = self.shared.as_ref().is_none_or(Shared::is_idle);
        let is_sent = !self.writing.dirty && !self.shares && is_idle;
        self.opens == 0 && self.waits.waiting.is_empty() && is_sent
    }

    /// A process has it open for writing; whether it reports its writes, and the bytes stay here.
    pub(crate) fn is_written_by(&mut self, process: Process, keeps: bool) {
        if self.writing.keeps
            && !keeps
            && let Some(shared) = &mut self.shared
        {
            shared.settle();
        }
        self.writing.keeps &= keeps;
        self.writing.dirty = true;
        self.writing.granted += 1;
        self.writing.writers.insert(process);
    }

    /// A program has written to it, or cut it, as its request says.
    pub(crate) fn note(&mut self, request: &Request) {
        match request {
            Request::Wrote(_, extents) => {
                extents.iter().for_each(|extent| self.writing.written.join(*extent, ()));
            }
            Request::Resize(_, size) => {
                self.writing.written.take(Extent::between(*size, u64::MAX));
            }
            _ => {}
        }
    }

    /// A program wants these bytes, which are not all there.
    pub(crate) fn want(&mut self, wanting: Wanting) {
        wanting.extents.iter().for_each(|extent| self.incoming.pieces.want(*extent));
        self.waits.wanting.push(wanting);
    }

    /// These bytes do not come: the connections of programs that have waited for any of them.
    fn fail(&mut self, range: Extent) -> Vec<u64> {
        self.incoming.pieces.fail(range);
        let is_hit = |one: &mut Wanting| {
            one.extents.iter().any(|extent| !extent.intersect(range).is_empty())
        };
        self.waits.wanting.extract_if(.., is_hit).map(|one| one.link).collect()
    }

    /// These ranges do not come: actions for the programs that have waited for them, and all opens.
    pub(crate) fn lose(&mut self, ranges: &[Extent], error: &io::Error) -> Vec<Action> {
        if ranges.is_empty() {
            return Vec::new();
        }
        let links: Vec<u64> = ranges.iter().flat_map(|range| self.fail(*range)).collect();
        let failed = Reply::Failed(libc::EIO, error.to_string());
        let links = links.into_iter().map(|link| Action::Reply(link, failed.clone()));
        let tickets = std::mem::take(&mut self.waits.waiting).into_iter();
        links.chain(tickets.map(|ticket| Action::Withdraw(ticket, failed.clone()))).collect()
    }

    /// So many bytes have come, from `offset` on: the connections of programs that have waited for
    /// them.
    ///
    /// # Errors
    /// Nobody has asked for them.
    pub(crate) fn come(&mut self, offset: u64, len: u64) -> io::Result<Vec<u64>> {
        self.incoming.pieces.come(offset, len)?;
        if self.is_whole() {
            self.target = None;
        }
        let pieces = &self.incoming.pieces;
        let is_over = |one: &mut Wanting| one.is_over(pieces);
        Ok(self.waits.wanting.extract_if(.., is_over).map(|one| one.link).collect())
    }
}
