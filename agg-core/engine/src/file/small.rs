//! Small reads of a file that is opened for reading only: the second one in a MiB fetches it.
//!
//! Libraries such as HDF5 read the structure of a file in pieces of a few bytes, one request each.
//! What was fetched is used as long as the file is as it was then: each read compares its size and
//! the time of its last change, and a synchronisation forgets everything, as an open does.

use super::data::Request;
use super::{Amode, File};
use aggio_base::report::Counters;
use aggio_config::hints::Switch;
use aggio_plan::plan::cost::Costs;
use aggio_store::driver::{Driver, Outcome, Stamp};
use aggio_types::memory::Memory;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are fetched at a time, from multiples of this on.
const PIECE: u64 = 1 << 20;

/// Reads of more bytes are made as they are.
const SMALL: u64 = 64 << 10;

/// Pieces that are kept, the latest ones.
const PIECES: usize = 16;

/// Pieces with one small read so far that are kept in mind, the latest ones.
const TOUCHED: usize = 256;

/// What is kept of a file's bytes on this rank.
#[derive(Debug, Default)]
pub(super) struct SmallReads(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The state of the file that all of this belongs to.
    stamp: Option<Stamp>,
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
        if kept.stamp != Some(stamp) {
            *kept = Kept { stamp: Some(stamp), ..Kept::default() };
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
        if *len > SMALL || !self.may_remember(request) || !view.is_contiguous_at(*position, *len) {
            return None;
        }
        let offset = view.offset_at(*position);
        let number = offset / PIECE;
        if (offset + len - 1) / PIECE != number {
            return None;
        }
        let piece = self.small.piece(number, &*self.driver, &self.counters)?;
        let rest = piece.get((offset % PIECE) as usize..).unwrap_or_default();
        let bytes = &rest[..rest.len().min(*len as usize)];
        memory.scatter(0, bytes);
        Counters::add(&self.counters.remembered, 1);
        Some(Outcome { bytes: bytes.len() as u64, result: Ok(()) })
    }

    fn may_remember(&self, request: &Request) -> bool {
        let is_wanted = match request.hints.aggio_small_reads {
            Switch::Automatic => {
                let assumed = || Costs::assumed(&self.facts.file_system);
                let meter = self.driver.meter();
                meter.map_or_else(assumed, |meter| meter.reads.figures()).is_slow()
            }
            Switch::Enable => true,
            Switch::Disable => false,
        };
        is_wanted && self.amode.has(Amode::RDONLY) && !request.atomic && self.waiting.is_none()
    }
}
