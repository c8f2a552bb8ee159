//! Fill values: zeros that would be written where the file has no bytes yet get storage only.
//!
//! HDF5 writes the fill value of a new dataset before its data, so that twice as many bytes reach
//! the file. Zeros behind the end of the file, or in a hole of it, need not be written, as every
//! reader finds zeros there. No state is kept, so this is correct for other ranks and other
//! programs at any time; and storage is reserved, so that this write still reports a full file
//! system.
//!
//! Where a file system cannot reserve storage, zeros behind the end become a hole if it has
//! plenty of room for them. Holes inside the file are not looked for there.

use crate::Direction;
use crate::exchange;
use crate::file::convert::Stream;
use crate::file::request::Request;
use aggio_base::error::Result;
use aggio_base::extent::Extent;
use aggio_base::report::Counters;
use aggio_config::hints::{Hints, Switch};
use aggio_plan::plan::is_dense;
use aggio_store::driver::latency::Meter;
use aggio_store::driver::{Driver, STRIPED};
use aggio_types::memory::Memory;
use std::sync::Arc;

/// Bytes of a piece from which on reserving storage costs less than writing.
const LEAST: u64 = 64 << 10;

/// Pieces of a request that are looked at; more are no fill values.
const PIECES: usize = 1024;

/// Zeros for the ends of a piece, at most this many at each end.
static ZEROS: [u8; 4096] = [0; 4096];

/// File systems that reserve storage and reliably report the stored extents, on all nodes.
const RELIABLE: [&str; 8] =
    ["tmpfs", "ext4", "xfs", "btrfs", "f2fs", "overlay", "bcachefs", STRIPED];

/// Leaves out the zeros in the writes of one file.
pub(super) struct ZeroFill {
    driver: Arc<dyn Driver>,
    counters: Arc<Counters>,
    /// Equal on all ranks; empty if only one opened the file.
    file_system: String,
    /// Writes are buffered: one of them may be older bytes of the same place.
    is_buffered: bool,
}

impl ZeroFill {
    /// For a file on this file system.
    pub(super) fn new(
        driver: Arc<dyn Driver>,
        counters: Arc<Counters>,
        file_system: &str,
        is_buffered: bool,
    ) -> Self {
        Self { driver, counters, file_system: file_system.to_owned(), is_buffered }
    }

    /// As [`ZeroFill::reserves`], for a call of all ranks: the bytes of the request if it is done.
    pub(super) fn reserves_all(
        &self,
        request: &Result<Request>,
        stream: &Result<Stream>,
    ) -> Option<u64> {
        let (Ok(request), Ok(stream)) = (request, stream) else { return None };
        self.reserves(request, stream.memory()).then_some(request.len)
    }

    /// Whether a request to write `memory` is done, because all its bytes are zeros that the file
    /// shows now. If not, it has yet to be carried out.
    pub(super) fn reserves(&self, request: &Request, memory: &Memory) -> bool {
        let may_be = request.direction == Direction::Write && request.len >= LEAST;
        // Access in atomic mode has an order.
        if !may_be || request.atomic || !self.may_reserve(&request.hints) || !memory.is_zero() {
            return false;
        }
        let extents = request.view.extents(request.position, request.len);
        let pieces: Vec<Extent> = extents.take(PIECES + 1).collect();
        let is_worthwhile = pieces.len() <= PIECES && request.len / pieces.len() as u64 >= LEAST;
        let reserved = || pieces.iter().map(|piece| self.reserves_piece(*piece)).sum();
        is_worthwhile && self.counts_reserved(pieces.len(), reserved())
    }

    /// As [`ZeroFill::reserves`] for one run of bytes that is not written in atomic mode.
    pub(super) fn reserves_run(
        &self,
        memory: &Memory,
        offset: u64,
        hints: impl FnOnce() -> Arc<Hints>,
    ) -> bool {
        let len = memory.len();
        len >= LEAST
            && self.may_reserve(&hints())
            && memory.is_zero()
            && self.counts_reserved(1, self.reserves_piece(Extent::new(offset, len)))
    }

    /// Counts the bytes reserved for all `pieces` of a request. Counts nothing and returns `false`
    /// if one of them has to be written.
    fn counts_reserved(&self, pieces: usize, bytes: Option<u64>) -> bool {
        let Some(bytes) = bytes else { return false };
        Counters::add(&self.counters.reserved, pieces as u64);
        Counters::add(&self.counters.bytes_reserved, bytes);
        true
    }

    /// Reserves one piece, and writes its ends that share a block with stored bytes. Returns the
    /// number of reserved bytes, or `None` if that is not possible.
    fn reserves_piece(&self, piece: Extent) -> Option<u64> {
        let part = self.driver.reserve_zeros(piece);
        let before = Extent::between(piece.offset, part.offset);
        let behind = Extent::between(part.end(), piece.end());
        let is_short = |end: &Extent| end.len <= ZEROS.len() as u64;
        let write = |end: &Extent| {
            let zeros = &ZEROS[..end.len as usize];
            end.is_empty()
                || self.driver.write_contig(zeros, end.offset, &self.counters).result.is_ok()
        };
        let ends = [before, behind];
        // On failure the entire request is written, and that write reports the error.
        let is_done = !part.is_empty() && ends.iter().all(is_short) && ends.iter().all(write);
        is_done.then_some(part.len)
    }

    /// Whether a request of this rank alone is done because it consists of zeros behind the end of
    /// the file, which now show there.
    pub(super) fn extends(&self, request: &Request, memory: &Memory) -> bool {
        !request.atomic
            && request.len > 0
            && self.elides(&request.hints)
            && self.extends_to(request.span(), memory)
    }

    /// As [`ZeroFill::extends`] for one run of bytes that is not written in atomic mode.
    pub(super) fn extends_run(
        &self,
        memory: &Memory,
        offset: u64,
        hints: impl FnOnce() -> Arc<Hints>,
    ) -> bool {
        let run = Extent::new(offset, memory.len());
        run.len >= LEAST && self.elides(&hints()) && self.extends_to(run, memory)
    }

    fn extends_to(&self, span: Extent, memory: &Memory) -> bool {
        let len = memory.len();
        let least = |meter: &Meter| exchange::worth_asking_from(meter.writes.figures());
        len >= LEAST.max(self.driver.meter().map_or(0, least))
            && is_dense(len, span)
            && memory.is_zero()
            && self.driver.extend_with_zeros(span, &self.counters)
            && self.counts_reserved(1, Some(len))
    }

    fn may_reserve(&self, hints: &Hints) -> bool {
        let is_wanted = hints.aggio_fill_elision == Switch::Enable || self.tells_what_is_stored();
        is_wanted && self.elides(hints)
    }

    /// Whether zeros need not be written where the file shows them anyway.
    pub(super) fn elides(&self, hints: &Hints) -> bool {
        // Data sieving stores old bytes of the same place.
        hints.aggio_fill_elision != Switch::Disable
            && !self.is_buffered
            && hints.romio_ds_write != Switch::Enable
    }

    fn tells_what_is_stored(&self) -> bool {
        match &*self.file_system {
            // A rank alone has not asked for facts yet.
            "" => RELIABLE.contains(&&*self.driver.facts().file_system),
            known => RELIABLE.contains(&known),
        }
    }
}
