//! Small reads: the second one of a node in a MiB fetches it, for all ranks of the node.
//!
//! Libraries such as HDF5 read the structure of a file in pieces of a few bytes, one request each,
//! and each rank reads the same ones. Fetched bytes are used as long as the file is unchanged: each
//! read compares its size and the times of its last changes, after a second the bytes are fetched
//! anew, and a synchronisation, an open and a write through the same handle drop them.

use super::alike;
use crate::file::request::Request;
use aggio_base::extent::Extent;
use aggio_base::report::Counters;
use aggio_comm::pieces::{Fetch, Look, NodePieces, PIECE, State};
use aggio_config::hints::{Hints, Switch};
use aggio_plan::plan::cost::Costs;
use aggio_store::driver::{Driver, Outcome, Stamp};
use aggio_types::memory::Memory;
use std::ops::Range;
use std::sync::Arc;

/// Larger reads fetch nothing around them.
const SMALL: u64 = 64 << 10;

/// The pieces of one file that the ranks of a node keep, and the driver that fetches them.
pub(in crate::file) struct SmallReads {
    pub(super) pieces: NodePieces,
    pub(super) driver: Arc<dyn Driver>,
    pub(super) counters: Arc<Counters>,
    /// The costs of requests until some are measured.
    assumed: Costs,
    /// Writes are buffered, so that the file does not show all of them.
    is_buffered: bool,
}

impl SmallReads {
    /// Those of a file on a lane of its transport.
    pub(super) fn new(
        driver: Arc<dyn Driver>,
        counters: Arc<Counters>,
        pieces: NodePieces,
        assumed: Costs,
        is_buffered: bool,
    ) -> Self {
        Self { pieces, driver, counters, assumed, is_buffered }
    }

    /// A write changed the file.
    pub(in crate::file) fn changed(&self) {
        self.pieces.changed();
    }

    /// The ranks have synchronised.
    pub(in crate::file) fn renewed(&self) {
        self.pieces.renewed();
    }

    /// This rank uses no pieces any more.
    pub(in crate::file) fn leave(&self) {
        self.pieces.leave();
    }

    /// Serves a read from fetched bytes, fetching them for all ranks of the node if necessary;
    /// `None` if the read is to be carried out as it is.
    pub(super) fn read(&self, request: &Request, memory: &Memory) -> Option<Outcome> {
        let Request { view, position, len, hints, .. } = request;
        let is_one_run = || view.is_contiguous_at(*position, *len);
        let is_in_question = *len <= alike::MOST && !request.atomic;
        if !is_in_question || !self.may_remember(hints) || !is_one_run() {
            return None;
        }
        let bytes = self.kept(Extent::new(view.offset_at(*position), *len), hints)?;
        memory.scatter(0, &bytes);
        Some(Outcome { bytes: *len, result: Ok(()) })
    }

    /// As [`SmallReads::read`] for one run of bytes that is not read in atomic mode.
    pub(super) fn read_run(
        &self,
        buffer: &mut [u8],
        offset: u64,
        hints: impl FnOnce() -> Arc<Hints>,
    ) -> Option<Outcome> {
        let len = buffer.len() as u64;
        if len > alike::MOST {
            return None;
        }
        let hints = hints();
        if !self.may_remember(&hints) {
            return None;
        }
        buffer.copy_from_slice(&self.kept(Extent::new(offset, len), &hints)?);
        Some(Outcome { bytes: len, result: Ok(()) })
    }

    /// The bytes of an `extent`, not empty, if they are kept by now.
    fn kept(&self, extent: Extent, hints: &Hints) -> Option<Vec<u8>> {
        match extent.len > SMALL {
            true => self.read_alike(extent, hints),
            false => self.remembered(extent),
        }
    }

    /// The bytes of a small `extent`, not empty, if they are kept by now.
    fn remembered(&self, extent: Extent) -> Option<Vec<u8>> {
        let (piece, start) = (extent.offset / PIECE as u64, extent.offset % PIECE as u64);
        let range = start as usize..(start + extent.len) as usize;
        let stamp = self.driver.stamp()?;
        let size = u64::try_from(stamp.size).ok()?;
        // The file may be longer by now than the size cached by this client.
        if range.end > PIECE || extent.end() > size {
            return None;
        }
        let bytes = match self.pieces.look(piece, state(stamp), range.clone()) {
            Look::Bytes(bytes) => bytes,
            Look::Fetch(fetch) => self.fetch(fetch, piece, stamp, range)?,
            Look::AsItIs => return None,
        };
        // Less if the file ended early when it was fetched.
        if bytes.len() as u64 != extent.len {
            return None;
        }
        Counters::add(&self.counters.remembered, 1);
        Some(bytes)
    }

    /// Fetches piece `number` of a file in state `stamp`; returns bytes `range` of it.
    fn fetch(
        &self,
        fetch: Fetch<'_>,
        number: u64,
        stamp: Stamp,
        range: Range<usize>,
    ) -> Option<Vec<u8>> {
        let offset = number * PIECE as u64;
        let rest = u64::try_from(stamp.size).unwrap_or(0).saturating_sub(offset);
        let mut bytes = aggio_base::allocate::zeros(rest.min(PIECE as u64) as usize).ok()?;
        let read = self.driver.read_contig(&mut bytes, offset, &self.counters);
        // On failure, the read itself requests the bytes again and reports the error.
        if read.result.is_err() {
            fetch.failed();
            return None;
        }
        let is_whole = read.bytes == bytes.len() as u64;
        // Another process may have changed the file meanwhile.
        if is_whole && self.driver.stamp() == Some(stamp) {
            fetch.done(&bytes);
        }
        is_whole.then(|| bytes[range].to_vec())
    }

    /// The cost of reads: measured, or assumed for this file system.
    pub(super) fn cost_of_reads(&self) -> Costs {
        self.driver.meter().map_or(self.assumed, |meter| meter.reads.figures())
    }

    fn may_remember(&self, hints: &Hints) -> bool {
        let is_slow = || self.cost_of_reads().is_slow();
        let is_wanted = match hints.aggio_small_reads {
            // A result of another rank of the node holds here as well.
            Switch::Automatic => is_slow() || self.pieces.are_kept(),
            Switch::Enable => true,
            Switch::Disable => false,
        };
        is_wanted && !self.is_buffered
    }
}

/// A stamp as words.
pub(super) fn state(stamp: Stamp) -> State {
    let Stamp { size, modified, changed } = stamp;
    let [modified, changed] = [modified, changed].map(i128::cast_unsigned);
    let half = |time: u128, shift: u32| (time >> shift) as u64;
    [
        size.cast_unsigned(),
        half(modified, 0),
        half(modified, 64),
        half(changed, 0),
        half(changed, 64),
    ]
}
