//! One copy: its memory, which bytes of it have come, and who has it open.

use crate::peers::mapped::Mapped;
use crate::peers::pieces::Pieces;
use crate::peers::shared::Shared;
use crate::peers::{Pushed, Sources};

use crate::peers::Action;
use crate::protocol::Reply;
use crate::registry::{Area, Path, Process};
use aggio_base::Extent;
use aggio_base::overlay::Overlay;
use aggio_link::Span;
use std::collections::BTreeSet;
use std::io;

/// A program that waits for bytes of a copy.
#[derive(Debug)]
pub(crate) struct Wanting {
    pub(crate) link: u64,
    pub(crate) extents: Vec<Extent>,
}

/// One copy.
pub(crate) struct Replica {
    pub(super) local: Area,
    pub(crate) path: Path,
    pub(super) size: u64,
    /// What is filled, while it is.
    pub(super) target: Option<Mapped>,
    pub(super) pieces: Pieces,
    /// The nodes that have its bytes.
    pub(crate) sources: Sources,
    /// Programs that wait for a part of it.
    pub(crate) wanting: Vec<Wanting>,
    /// Opens of this node.
    pub(crate) opens: u32,
    /// It was opened for writing since it was last sent.
    pub(crate) dirty: bool,
    /// Processes that had it open for writing since then.
    pub(crate) writers: BTreeSet<Process>,
    /// It is to be cut to so many bytes when all have come.
    pub(super) cut: Option<u64>,
    /// Opens that wait for its bytes.
    pub(crate) waiting: Vec<u64>,
    /// It is of no use when nobody has it open any more.
    pub(super) gone: bool,
    /// It is to be written by programs of other nodes as well, when its bytes have come.
    pub(crate) shares: bool,
    /// How often it was opened for writing.
    pub(crate) granted: u64,
    /// Programs of other nodes write it as well.
    pub(crate) shared: Option<Shared>,
    /// Nobody has opened it; its owner expects that somebody will.
    pub(crate) offered: bool,
    /// Other nodes send its bytes, and its owner has not told yet that it is complete.
    pub(super) early: bool,
    /// Bytes that other nodes send without a request.
    pub(crate) pushed: Pushed,
    /// When the file was modified last, if a program has asked.
    pub(super) modified: Option<(i64, i64)>,
    /// What is written stays on this node: all programs say which bytes that is.
    pub(crate) keeps: bool,
    /// Extents that they have written and the owner does not know.
    pub(crate) written: Overlay<()>,
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Copy({} bytes, {:?})", self.size, self.pieces)
    }
}

impl Replica {
    /// The number of its memory.
    pub(crate) fn local(&self) -> Area {
        self.local
    }

    /// Where bytes go that were asked for.
    pub(crate) fn room(&self, offset: u64, len: u64) -> Option<Span> {
        self.target.as_ref()?.span(offset, len)
    }

    /// Whether the owner has not told yet that it is complete.
    pub(crate) fn is_early(&self) -> bool {
        self.early
    }

    /// Whether it lacks what other nodes have written, or its owner has given it up.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Whether its readers can get what its owner has now, and nothing was written here.
    pub(crate) fn can_be_renewed(&self) -> bool {
        self.shared.is_some() && !self.gone && self.granted == 0
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.pieces.are_all_there()
    }

    /// Whether nobody has it open or waits for it, and its owner has what was written.
    pub(super) fn is_unused(&self) -> bool {
        let is_idle = self.shared.as_ref().is_none_or(Shared::is_idle);
        let is_sent = !self.dirty && !self.shares && is_idle;
        self.opens == 0 && self.waiting.is_empty() && is_sent
    }

    /// A process has it open for writing; whether it says what it writes, and that stays here.
    pub(crate) fn is_written_by(&mut self, process: Process, keeps: bool) {
        if self.keeps
            && !keeps
            && let Some(shared) = &mut self.shared
        {
            shared.settle();
        }
        self.keeps &= keeps;
        self.dirty = true;
        self.granted += 1;
        self.writers.insert(process);
    }

    /// The ranges that are to be asked for now.
    pub(crate) fn next(&mut self) -> Vec<Extent> {
        self.pieces.ask_all()
    }

    /// All of it is to come.
    pub(crate) fn want_all(&mut self) {
        self.pieces.want_all();
    }

    /// A program wants these bytes, which are not all there.
    pub(crate) fn want(&mut self, wanting: Wanting) {
        wanting.extents.iter().for_each(|extent| self.pieces.want(*extent));
        self.wanting.push(wanting);
    }

    /// A program reads these bytes.
    pub(crate) fn note_wanted(&mut self, extents: &[Extent]) {
        extents.iter().for_each(|extent| self.pieces.note_wanted(*extent));
    }

    /// A program will want these bytes soon.
    pub(crate) fn expect(&mut self, extent: Extent) {
        self.pieces.want_later(extent);
    }

    /// Whether all these bytes are there.
    pub(crate) fn has(&self, extents: &[Extent]) -> bool {
        extents.iter().all(|extent| self.pieces.have(*extent))
    }

    /// These bytes do not come: the connections of programs that have waited for any of them.
    fn fail(&mut self, range: Extent) -> Vec<u64> {
        self.pieces.fail(range);
        let is_hit = |one: &mut Wanting| {
            one.extents.iter().any(|extent| !extent.intersect(range).is_empty())
        };
        self.wanting.extract_if(.., is_hit).map(|one| one.link).collect()
    }

    /// These ranges do not come: actions for the programs that have waited for them, and all opens.
    pub(crate) fn lose(&mut self, ranges: &[Extent], error: &io::Error) -> Vec<Action> {
        if ranges.is_empty() {
            return Vec::new();
        }
        let links: Vec<u64> = ranges.iter().flat_map(|range| self.fail(*range)).collect();
        let failed = Reply::Failed(libc::EIO, error.to_string());
        let links = links.into_iter().map(|link| Action::Reply(link, failed.clone()));
        let tickets = std::mem::take(&mut self.waiting).into_iter();
        links.chain(tickets.map(|ticket| Action::Withdraw(ticket, failed.clone()))).collect()
    }

    /// The owner has ended: actions for the programs that have waited for bytes.
    pub(crate) fn fail_wanting(&mut self, error: &io::Error) -> Vec<Action> {
        let wanting = std::mem::take(&mut self.wanting).into_iter();
        wanting.map(|one| Action::Reply(one.link, Reply::from(error))).collect()
    }

    /// So many bytes have come, from `offset` on: the connections of programs that have waited for
    /// them.
    ///
    /// # Errors
    /// Nobody has asked for them.
    pub(crate) fn come(&mut self, offset: u64, len: u64) -> io::Result<Vec<u64>> {
        self.pieces.come(offset, len)?;
        if self.is_whole() {
            self.target = None;
        }
        let pieces = &self.pieces;
        let has = |one: &mut Wanting| one.extents.iter().all(|extent| pieces.have(*extent));
        Ok(self.wanting.extract_if(.., has).map(|one| one.link).collect())
    }
}
