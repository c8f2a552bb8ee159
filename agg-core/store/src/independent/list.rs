//! List I/O: every contiguous piece of file is moved by a request of its own, and nothing else is
//! touched.

use super::crew;
use super::staging::Staging;
use crate::driver::{Driver, InPlace, Outcome, generic};
use aggio_base::report::Counters;
use aggio_base::{Error, ErrorClass, Extent, Result};
use aggio_types::memory::{Memory, MemoryCursor};
use std::io::{IoSlice, IoSliceMut};

/// Most pieces of memory in one vectored call.
const MOST_VECTORS: usize = 1024;
/// Pieces of memory at least so long are handed to the kernel one by one; shorter ones are copied
/// together first.
pub(super) const VECTOR_BYTES: usize = 1024;
/// Bytes that pass through the staging buffer at a time where requests are calls into this
/// computer's kernel: so few that they stay in the processor's cache.
const CACHED: usize = 256 << 10;

/// One call under way: where it stands in memory, and how much it has moved.
pub(super) struct Transfer<'a, D: ?Sized> {
    pub(super) driver: &'a D,
    pub(super) counters: &'a Counters,
    pub(super) staging: Staging,
    pub(super) cursor: MemoryCursor,
    vectors: bool,
    /// Most bytes of memory in pieces that one request moves.
    staged: usize,
    /// File byte that the first byte of memory belongs to, if memory mirrors the file with its
    /// gaps; otherwise the pieces of file follow each other in memory.
    mirror: Option<u64>,
    moved: u64,
    /// Some request took a gap along.
    sieved: bool,
}

/// How the next bytes of memory reach the file.
enum Route {
    /// From or to their place in memory.
    Straight(*mut u8, usize),
    /// As a list of places.
    Vector(Vec<(*mut u8, usize)>),
    /// Through the staging buffer, this number of bytes.
    Staged(usize),
}

impl<'a, D: Driver + ?Sized> Transfer<'a, D> {
    /// A transfer between all of `memory` and a file, with a buffer of at most `limit` bytes.
    pub(super) fn new(driver: &'a D, memory: &Memory, limit: u64, counters: &'a Counters) -> Self {
        let (direct_read, direct_write) = driver.direct();
        let direct = direct_read || direct_write;
        let staging = Staging::new(limit);
        let local = driver.meter().is_some_and(|meter| meter.is_local());
        let staged = if local && !direct { CACHED } else { usize::MAX };
        Self {
            driver,
            counters,
            staged: staged.min(staging.limit()),
            staging,
            cursor: memory.cursor(0),
            // Transfers past the page cache need few, long, aligned requests.
            vectors: !direct,
            mirror: None,
            moved: 0,
            sieved: false,
        }
    }

    /// Declares that memory mirrors the file from byte `start` on, gaps included.
    pub(super) fn mirroring(mut self, start: u64) -> Self {
        self.mirror = Some(start);
        self
    }

    /// Moves to the place of `piece` in memory.
    fn turn_to(&mut self, piece: Extent) {
        if let Some(start) = self.mirror {
            self.cursor.seek(piece.offset.saturating_sub(start));
        }
    }

    /// Stores small pieces, ascending, at once where the driver can; whether it could. If not,
    /// memory stands where it did.
    pub(super) fn store(&mut self, pieces: &[Extent]) -> bool {
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return true };
        let (span, place) = (Extent::between(first.offset, last.end()), self.cursor.position());
        let (cursor, mirror, mut bytes) = (&mut self.cursor, self.mirror, 0);
        let stored = self.driver.in_place(span, InPlace::Store(pieces), &mut |start| {
            for piece in pieces {
                if let Some(start) = mirror {
                    cursor.seek(piece.offset.saturating_sub(start));
                }
                let to = start.wrapping_add((piece.offset - span.offset) as usize);
                // SAFETY: the driver has the whole span as memory from `start` on, and the piece
                // is for this call alone to store.
                let to = unsafe { std::slice::from_raw_parts_mut(to, piece.len as usize) };
                bytes += cursor.gather(to) as u64;
            }
        });
        if !stored {
            self.cursor.seek(place);
            return false;
        }
        Counters::add(&self.counters.writes_out, 1);
        Counters::add(&self.counters.bytes_written_out, bytes);
        self.moved += bytes;
        true
    }

    /// Notes that the first `bytes` of memory are moved already.
    pub(super) fn skip(&mut self, bytes: u64) {
        self.cursor.seek(bytes);
        self.moved += bytes;
    }

    /// Writes pieces, together not longer than the staging buffer, by one request each; `size` of
    /// them are under way at a time.
    fn write_side_by_side(&mut self, pieces: &[Extent], size: usize) -> Result<()> {
        let (driver, counters) = (self.driver, self.counters);
        let data = self.gather(pieces)?;
        if (data.len() as u64) < pieces.iter().map(|piece| piece.len).sum() {
            return Err(memory_exhausted());
        }
        let outcome = crew::write(driver, pieces, data, size, counters);
        self.moved += outcome.bytes;
        outcome.result
    }

    /// The data of `pieces`, as far as there is memory.
    fn gather(&mut self, pieces: &[Extent]) -> Result<&[u8]> {
        let len = pieces.iter().map(|piece| piece.len).sum::<u64>() as usize;
        let data = self.staging.get(len)?;
        let mut filled = 0;
        for piece in pieces {
            if let Some(start) = self.mirror {
                self.cursor.seek(piece.offset.saturating_sub(start));
            }
            filled += self.cursor.gather(&mut data[filled..filled + piece.len as usize]);
        }
        Ok(&data[..filled])
    }

    /// Bytes moved so far.
    pub(super) fn moved(&self) -> u64 {
        self.moved
    }

    /// Largest range of file that one request may span, in bytes.
    pub(super) fn window(&self) -> u64 {
        self.staging.limit() as u64
    }

    /// Adds the result of one request to the account; returns whether it moved all `len` bytes.
    fn account(&mut self, outcome: Outcome, len: usize) -> Result<bool> {
        self.moved += outcome.bytes;
        outcome.result.map(|()| outcome.bytes == len as u64)
    }

    /// Adds bytes to the account that were moved as part of a larger request, gaps included.
    pub(super) fn add_moved(&mut self, bytes: u64) {
        self.moved += bytes;
        self.sieved = true;
    }

    /// Counts how an access was served; `gaps` says whether there were any in the file.
    pub(super) fn count(&self, gaps: bool) {
        if self.sieved {
            Counters::add(&self.counters.sieved, 1);
        } else if gaps {
            Counters::add(&self.counters.listed, 1);
        }
    }

    /// Chooses the way of the next at most `left` bytes and moves the cursor behind them (except
    /// where they are staged: then the copy moves it).
    fn route(&mut self, left: u64) -> Result<Route> {
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let (address, len) = self.cursor.run().ok_or_else(memory_exhausted)?;
        if len >= left || len >= self.staging.limit() {
            let len = len.min(left);
            self.cursor.advance(len as u64);
            return Ok(Route::Straight(address, len));
        }
        if len < VECTOR_BYTES || !self.vectors {
            return Ok(Route::Staged(left.min(self.staged)));
        }
        let (mut places, mut rest) = (Vec::new(), left);
        while rest > 0 && places.len() < MOST_VECTORS {
            let (address, len) = self.cursor.run().ok_or_else(memory_exhausted)?;
            let len = len.min(rest);
            places.push((address, len));
            self.cursor.advance(len as u64);
            rest -= len;
        }
        Ok(Route::Vector(places))
    }

    /// Writes the next `extent.len` bytes of memory to `extent`.
    pub(super) fn write_run(&mut self, extent: Extent) -> Result<()> {
        self.turn_to(extent);
        let mut at = extent.offset;
        while at < extent.end() {
            let (outcome, len) = match self.route(extent.end() - at)? {
                Route::Straight(address, len) => {
                    // SAFETY: the caller that made the `Memory` guarantees its pieces during the
                    // call.
                    let bytes = unsafe { std::slice::from_raw_parts(address, len) };
                    (self.driver.write_contig(bytes, at, self.counters), len)
                }
                Route::Vector(places) => {
                    let len = places.iter().map(|(_, len)| len).sum();
                    // SAFETY: as above.
                    let slice = |(p, n)| unsafe { std::slice::from_raw_parts(p as *const u8, n) };
                    let mut vectors: Vec<IoSlice<'_>> =
                        places.into_iter().map(|place| IoSlice::new(slice(place))).collect();
                    (generic::write_vectors(self.driver, &mut vectors, at, self.counters), len)
                }
                Route::Staged(len) => {
                    let bytes = self.staging.get(len)?;
                    self.cursor.gather(bytes);
                    (self.driver.write_contig(bytes, at, self.counters), len)
                }
            };
            self.account(outcome, len)?;
            at += len as u64;
        }
        Ok(())
    }

    /// Reads `extent` into the next `extent.len` bytes of memory; `false` if the file ended first.
    pub(super) fn read_run(&mut self, extent: Extent) -> Result<bool> {
        let mut at = extent.offset;
        while at < extent.end() {
            let (outcome, len) = match self.route(extent.end() - at)? {
                Route::Straight(address, len) => {
                    // SAFETY: the caller that made the `Memory` guarantees its pieces during the
                    // call.
                    let bytes = unsafe { std::slice::from_raw_parts_mut(address, len) };
                    (self.driver.read_contig(bytes, at, self.counters), len)
                }
                Route::Vector(places) => {
                    let len = places.iter().map(|(_, len)| len).sum();
                    // SAFETY: as above; pieces that are read into do not overlap.
                    let slice = |(p, n)| unsafe { std::slice::from_raw_parts_mut(p, n) };
                    let mut vectors: Vec<IoSliceMut<'_>> =
                        places.into_iter().map(|place| IoSliceMut::new(slice(place))).collect();
                    (generic::read_vectors(self.driver, &mut vectors, at, self.counters), len)
                }
                Route::Staged(len) => {
                    let bytes = self.staging.get(len)?;
                    let outcome = self.driver.read_contig(bytes, at, self.counters);
                    self.cursor.scatter(&bytes[..outcome.bytes as usize]);
                    (outcome, len)
                }
            };
            if !self.account(outcome, len)? {
                return Ok(false);
            }
            at += len as u64;
        }
        Ok(true)
    }
}

/// The caller asked for more bytes than its memory description holds.
fn memory_exhausted() -> Error {
    Error::new(ErrorClass::Intern, "the memory description ended before the file's extents")
}

/// Joins extents that touch, so that they become one request.
pub(super) struct Merged<I: Iterator>(pub(super) std::iter::Peekable<I>);

impl<I: Iterator<Item = Extent>> Iterator for Merged<I> {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        let mut extent = self.0.next()?;
        while let Some(next) = self.0.next_if(|next| next.offset == extent.end()) {
            extent = Extent::new(extent.offset, extent.len.saturating_add(next.len));
        }
        Some(extent)
    }
}

/// Writes each extent by a request of its own, several at a time where requests take long.
pub(super) fn write<D: Driver + ?Sized>(
    transfer: &mut Transfer<'_, D>,
    extents: impl Iterator<Item = Extent>,
) -> Result<()> {
    let (mut extents, mut batch) = (extents.peekable(), Vec::new());
    loop {
        let size = crew::size(transfer.driver);
        take_batch(&mut extents, crew::batch(size), transfer.window(), &mut batch);
        match *batch {
            [] => return Ok(()),
            [_] => transfer.write_run(batch[0])?,
            _ if size == 1 => batch.iter().try_for_each(|piece| transfer.write_run(*piece))?,
            _ => transfer.write_side_by_side(&batch, size)?,
        }
    }
}

/// Takes the next at most `most` extents, of `bytes` bytes unless there is only one. Extents that
/// do not ascend are not taken together: the order of their requests may matter.
fn take_batch(
    extents: &mut std::iter::Peekable<impl Iterator<Item = Extent>>,
    most: usize,
    bytes: u64,
    batch: &mut Vec<Extent>,
) {
    batch.clear();
    batch.extend(extents.next());
    let Some(first) = batch.first() else { return };
    let (mut end, mut len) = (first.end(), first.len);
    while batch.len() < most {
        let joins = |next: &Extent| next.offset >= end && len.saturating_add(next.len) <= bytes;
        let Some(next) = extents.next_if(joins) else { return };
        (end, len) = (next.end(), len + next.len);
        batch.push(next);
    }
}

/// Reads each extent by a request of its own, up to the end of the file.
pub(super) fn read<D: Driver + ?Sized>(
    transfer: &mut Transfer<'_, D>,
    extents: impl Iterator<Item = Extent>,
) -> Result<()> {
    for extent in extents {
        if !transfer.read_run(extent)? {
            break;
        }
    }
    Ok(())
}
