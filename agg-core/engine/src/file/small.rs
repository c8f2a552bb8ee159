//! Small reads of a file that is opened for reading only: the second one in a MiB fetches it.
//!
//! Libraries such as HDF5 read the structure of a file in pieces of a few bytes, one request each.
//! What was fetched is used as long as the file is as it was then: each read compares its size and
//! the times of its last changes, after a second it is fetched anew, and a synchronisation forgets
//! everything, as an open does.

use super::data::Request;
use super::{Amode, File};
use aggio_base::extent::Extent;
use aggio_base::report::Counters;
use aggio_config::hints::{Hints, Switch};
use aggio_plan::plan::cost::Costs;
use aggio_store::driver::{Driver, Outcome, Stamp};
use aggio_types::memory::Memory;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that are fetched at a time, from multiples of this on.
const PIECE: u64 = 1 << 20;

/// Reads of more bytes are made as they are.
const SMALL: u64 = 64 << 10;

/// Pieces that are kept, the latest ones.
const PIECES: usize = 16;

/// Pieces with one small read so far that are kept in mind, the latest ones.
const TOUCHED: usize = 256;

/// For so long pieces are used: stores through mappings of other programs change no time.
pub(super) const FRESH: Duration = Duration::from_secs(1);

/// What is kept of a file's bytes on this rank.
#[derive(Debug, Default)]
pub(super) struct SmallReads(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The state of the file that all of this belongs to.
    stamp: Option<Stamp>,
    /// When the first of it was fetched or asked for.
    since: Option<Instant>,
    touched: VecDeque<u64>,
    pieces: VecDeque<(u64, Arc<Vec<u8>>)>,
}

impl SmallReads {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file may have changed.
    pub(super) fn forget(&self) {
        *self.kept() = Kept::default();
    }

    /// Piece `number`, fetched if this is not its first read; up to the end of the file.
    fn piece(&self, number: u64, driver: &dyn Driver, counters: &Counters) -> Option<Arc<Vec<u8>>> {
        let stamp = driver.stamp()?;
        let mut kept = self.kept();
        if kept.stamp != Some(stamp) || kept.since.is_none_or(|since| since.elapsed() > FRESH) {
            let since = Some(Instant::now());
            *kept = Kept { stamp: Some(stamp), since, ..Kept::default() };
        }
        if let Some((_, piece)) = kept.pieces.iter().find(|(known, _)| *known == number) {
            return Some(piece.clone());
        }
        if !kept.touched.contains(&number) {
            kept.touched.push_front(number);
            kept.touched.truncate(TOUCHED);
            return None;
        }
        let mut bytes = aggio_base::allocate::zeros(PIECE as usize).ok()?;
        let read = driver.read_contig(&mut bytes, number * PIECE, counters);
        // What fails here is asked for again by the read itself, which tells why.
        read.result.ok()?;
        bytes.truncate(read.bytes as usize);
        let piece = Arc::new(bytes);
        // Somebody may have changed the file meanwhile.
        if driver.stamp() == Some(stamp) {
            kept.pieces.push_front((number, piece.clone()));
            kept.pieces.truncate(PIECES);
        }
        Some(piece)
    }
}

impl File {
    /// Carries out a small read from what was read before, or by reading more; `None` if it is to
    /// be made as it is.
    pub(super) fn read_small(&self, request: &Request, memory: &Memory) -> Option<Outcome> {
        let Request { view, position, len, .. } = request;
        let is_one_run = || view.is_contiguous_at(*position, *len);
        if *len > SMALL
            || request.atomic
            || !self.amode.has(Amode::RDONLY)
            || !self.may_remember(&request.hints)
            || !is_one_run()
        {
            return None;
        }
        let piece = self.remembered(Extent::new(view.offset_at(*position), *len))?;
        let bytes = piece.bytes();
        memory.scatter(0, bytes);
        Some(Outcome { bytes: bytes.len() as u64, result: Ok(()) })
    }

    /// As [`File::read_small`] for one run of bytes that is not read in atomic mode.
    pub(super) fn read_small_run(&self, buffer: &mut [u8], offset: u64) -> Option<Outcome> {
        let len = buffer.len() as u64;
        if len > SMALL || !self.amode.has(Amode::RDONLY) || !self.may_remember(&self.hints()) {
            return None;
        }
        let piece = self.remembered(Extent::new(offset, len))?;
        let bytes = piece.bytes();
        buffer[..bytes.len()].copy_from_slice(bytes);
        Some(Outcome { bytes: bytes.len() as u64, result: Ok(()) })
    }

    /// The bytes of a small `extent`, not empty, if they are kept by now.
    fn remembered(&self, extent: Extent) -> Option<Part> {
        let number = extent.offset / PIECE;
        if (extent.end() - 1) / PIECE != number {
            return None;
        }
        let piece = self.small.piece(number, &*self.driver, &self.counters)?;
        Counters::add(&self.counters.remembered, 1);
        let start = ((extent.offset % PIECE) as usize).min(piece.len());
        let end = (start + extent.len as usize).min(piece.len());
        Some(Part { piece, range: start..end })
    }

    fn may_remember(&self, hints: &Hints) -> bool {
        let is_slow = || {
            let assumed = || Costs::assumed(&self.facts.file_system);
            let meter = self.driver.meter();
            meter.map_or_else(assumed, |meter| meter.reads.figures()).is_slow()
        };
        let is_wanted = match hints.aggio_small_reads {
            Switch::Automatic => is_slow(),
            Switch::Enable => true,
            Switch::Disable => false,
        };
        is_wanted && self.waiting.is_none()
    }
}

/// Some bytes of a piece.
struct Part {
    piece: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl Part {
    fn bytes(&self) -> &[u8] {
        &self.piece[self.range.clone()]
    }
}
