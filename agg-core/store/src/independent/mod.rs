//! Independent access: one rank, one view, one buffer, without other ranks' help.
//!
//! Writes touch the bytes that were asked for and no other: pieces of file are written one by one
//! (list I/O; several at a time where requests take long), or many small ones at once to the file's
//! own pages ([`Driver::in_place`]). Reading, modifying and writing back whole windows (data
//! sieving) happens only where the hint `romio_ds_write=enable` asks for it, and then under a lock.
//! Reads take small pieces from the file's pages, too, or take gaps along where that is cheaper
//! than a request each ([`decision`]).

mod crew;
pub mod decision;
mod in_place;
mod list;
mod sieve;
mod staging;
mod straight;

#[cfg(test)]
mod tests;

use crate::driver::{Driver, Outcome};
use aggio_base::report::Counters;
use aggio_base::{Error, ErrorClass, Extent, Result};
use aggio_config::hints::{Hints, Switch};
use aggio_types::copy::Data;
use aggio_types::datatype::Datatype;
use aggio_types::memory::Memory;
use aggio_types::view::View;
use list::{Merged, Transfer};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Size of the buffer for the runs of a window, in bytes.
const RUNS_BUFFER: u64 = 1 << 20;

/// How independent accesses shall be carried out: the hints that concern them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// Data sieving for reads: by cost, always, or never.
    pub read: Switch,
    /// Data sieving for writes: only with `Enable`.
    pub write: Switch,
    /// Largest buffer for reads, in bytes.
    pub read_buffer: u64,
    /// Largest buffer for writes, in bytes.
    pub write_buffer: u64,
}

impl Strategy {
    /// The strategy that the hints of an open file ask for.
    pub fn from_hints(hints: &Hints) -> Self {
        Self {
            read: hints.romio_ds_read,
            write: hints.romio_ds_write,
            read_buffer: hints.ind_rd_buffer_size,
            write_buffer: hints.ind_wr_buffer_size,
        }
    }
}

impl Default for Strategy {
    fn default() -> Self {
        Self {
            read: Switch::Automatic,
            write: Switch::Automatic,
            read_buffer: 4 << 20,
            write_buffer: 512 << 10,
        }
    }
}

/// Writes all of `memory` to the bytes of `view` from data byte `pos` on.
pub fn write_strided<D: Driver + ?Sized>(
    driver: &D,
    view: &View,
    pos: u64,
    memory: &Memory,
    strategy: &Strategy,
    counters: &Counters,
) -> Outcome {
    if strategy.write != Switch::Enable
        && let Some(outcome) = straight::write(driver, view, pos, memory, counters)
    {
        return outcome;
    }
    let len = memory.len();
    let mut transfer = Transfer::new(driver, memory, strategy.write_buffer, counters);
    if strategy.write == Switch::Automatic && crew::size(driver) == 1 {
        transfer.skip(in_place::write(driver, Data { view, position: pos, memory }, counters));
    }
    let done = transfer.moved();
    let extents = Merged(view.extents(pos.saturating_add(done), len - done).peekable());
    let result = match strategy.write {
        Switch::Enable => sieve::write(&mut transfer, extents),
        Switch::Automatic => sieve::write_exactly(&mut transfer, extents),
        Switch::Disable => list::write(&mut transfer, extents),
    };
    let bytes = transfer.moved();
    transfer.count(!view.is_contiguous_at(pos, len));
    let result = result.and_then(|()| {
        let missing = Extent::new(pos.saturating_add(bytes), len - bytes);
        let why = "the file view ends before the data does";
        if missing.is_empty() { Ok(()) } else { Err(Error::new(ErrorClass::Arg, why)) }
    });
    Outcome { bytes, result }
}

/// Reads the bytes of `view` from data byte `pos` on into `memory`, until it is full or the file
/// ends.
///
/// `bytes` is the number of view bytes that lie before the end of the file (up to the first one
/// behind it); the rest of `memory` stays as it was.
pub fn read_strided<D: Driver + ?Sized>(
    driver: &D,
    view: &View,
    pos: u64,
    memory: &Memory,
    strategy: &Strategy,
    counters: &Counters,
) -> Outcome {
    if let Some(outcome) = straight::read(driver, view, pos, memory, counters) {
        return outcome;
    }
    let len = memory.len();
    let mut transfer = Transfer::new(driver, memory, strategy.read_buffer, counters);
    if strategy.read == Switch::Automatic {
        transfer.skip(in_place::read(driver, Data { view, position: pos, memory }, counters));
    }
    let done = transfer.moved();
    let extents = Merged(view.extents(pos.saturating_add(done), len - done).peekable());
    let result = match decision::call_cost(strategy.read, driver) {
        0 => list::read(&mut transfer, extents),
        cost => sieve::read(&mut transfer, extents, cost),
    };
    transfer.count(!view.is_contiguous_at(pos, len));
    Outcome { bytes: transfer.moved(), result }
}

/// Whether [`read_strided`] is to read gaps along, as the strategy or the mean of the pieces and
/// gaps determines.
pub fn joins_gaps<D: Driver + ?Sized>(
    driver: &D,
    view: &View,
    pos: u64,
    memory: &Memory,
    strategy: &Strategy,
) -> bool {
    let (len, cost) = (memory.len(), decision::call_cost(strategy.read, driver));
    let pieces = view.pieces(pos, len).max(1);
    let gaps = view.span(pos, len).len.saturating_sub(len);
    cost > 0 && len > 0 && decision::joins(gaps / pieces, len / pieces, cost)
}

/// Writes the `runs` of `window`, which mirrors the file from byte `start` on; bytes between them
/// stay as they are in the file.
///
/// Runs ascend and do not touch. They are stored in order: the extent of an error begins with the
/// first byte that is not stored.
pub fn write_runs<D: Driver + ?Sized>(
    driver: &D,
    start: u64,
    window: &[u8],
    runs: impl Iterator<Item = Range<usize>>,
    counters: &Counters,
) -> Outcome {
    let base = window.as_ptr().cast_mut();
    // SAFETY: `window` is borrowed during the call, and a write only reads from memory.
    let memory = unsafe { Memory::new(base, Datatype::bytes(1), window.len() as u64) };
    let mut transfer = Transfer::new(driver, &memory, RUNS_BUFFER, counters).mirroring(start);
    let extents =
        runs.map(|run| Extent::new(start.saturating_add(run.start as u64), run.len() as u64));
    let result = sieve::write_exactly(&mut transfer, extents.filter(|run| !run.is_empty()));
    Outcome { bytes: transfer.moved(), result }
}

/// Writes the disjoint, ascending `pieces` of a file by a request each, several at a time where
/// requests take long. `supply` puts the bytes of a piece into a buffer as long as the piece.
///
/// After an error the pieces before the one it names are stored, and perhaps some behind it.
pub fn write_supplied<D: Driver + ?Sized>(
    driver: &D,
    pieces: &[Extent],
    supply: impl Fn(Extent, &mut [u8]) -> Result<()> + Sync,
    counters: &Counters,
) -> Outcome {
    let buffers: Mutex<Vec<Vec<u8>>> = Mutex::default();
    let buffers = || buffers.lock().unwrap_or_else(PoisonError::into_inner);
    let write = |_, piece: Extent| {
        let (len, mut buffer) = (piece.len as usize, buffers().pop().unwrap_or_default());
        if buffer.len() < len {
            buffer = vec![0; len];
        }
        let outcome = match supply(piece, &mut buffer[..len]) {
            Ok(()) => driver.write_contig(&buffer[..len], piece.offset, counters),
            Err(error) => Outcome { bytes: 0, result: Err(error) },
        };
        buffers().push(buffer);
        outcome
    };
    let (mut rest, mut bytes) = (pieces, 0);
    while !rest.is_empty() {
        let size = crew::size(driver);
        let (batch, later) = rest.split_at(crew::batch(size).min(rest.len()));
        let outcome = crew::side_by_side(batch, size, write);
        (rest, bytes) = (later, bytes + outcome.bytes);
        if outcome.result.is_err() {
            return Outcome { bytes, ..outcome };
        }
    }
    Outcome { bytes, result: Ok(()) }
}
