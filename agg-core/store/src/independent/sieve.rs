//! Data sieving: several pieces of file are moved by one request that spans their gaps.

use super::list::{self, Transfer};
use super::{crew, decision};
use crate::driver::{Driver, Outcome};
use aggio_base::{Extent, Result};
use aggio_plan::plan::Note;
use std::iter::Peekable;

/// Most pieces of one request: bounds the memory for them.
const MOST_PIECES: usize = 4096;

/// Pieces of file, taken in groups.
struct Groups<I: Iterator<Item = Extent>> {
    extents: Peekable<I>,
    /// The cost of a call in bytes: gaps that cost less are taken along.
    call_cost: u64,
    /// Largest range of file that one request may span, in bytes.
    window: u64,
    pieces: Vec<Extent>,
}

impl<I: Iterator<Item = Extent>> Groups<I> {
    fn of<D: Driver + ?Sized>(extents: I, call_cost: u64, transfer: &Transfer<'_, D>) -> Self {
        let window = transfer.window();
        Self { extents: extents.peekable(), call_cost, window, pieces: Vec::new() }
    }

    /// Takes the next piece, and those behind it that belong to the same request.
    fn next(&mut self) -> Option<Group<'_>> {
        let Self { extents, call_cost, window, pieces } = self;
        pieces.clear();
        let first = extents.next()?;
        pieces.push(first);
        let mut end = first.end();
        if !decision::is_small(first.len, *call_cost) {
            return Some(Group { pieces });
        }
        while pieces.len() < MOST_PIECES {
            let joins = |next: &Extent| {
                next.offset >= end
                    && decision::joins(next.offset - end, next.len, *call_cost)
                    && next.end() - first.offset <= *window
            };
            let Some(next) = extents.next_if(joins) else { break };
            end = next.end();
            pieces.push(next);
        }
        Some(Group { pieces })
    }
}

/// Pieces in ascending order that one request moves.
struct Group<'a> {
    pieces: &'a [Extent],
}

impl Group<'_> {
    /// From the first byte of the first piece to the last byte of the last one.
    fn span(&self) -> Extent {
        match (self.pieces.first(), self.pieces.last()) {
            (Some(first), Some(last)) => Extent::between(first.offset, last.end()),
            _ => Extent::default(),
        }
    }

    /// The pieces as ranges of a buffer that holds `available` bytes of the span.
    fn ranges(&self, available: u64) -> impl Iterator<Item = std::ops::Range<usize>> {
        let have = Extent::new(self.span().offset, available);
        self.pieces.iter().map(move |piece| {
            let part = piece.intersect(have);
            let start = (part.offset.max(have.offset) - have.offset) as usize;
            start..start + part.len as usize
        })
    }
}

/// Reads the extents in groups, up to the end of the file. `call_cost` is that of [`decision`].
pub(super) fn read<D: Driver + ?Sized>(
    transfer: &mut Transfer<'_, D>,
    extents: impl Iterator<Item = Extent>,
    call_cost: u64,
) -> Result<()> {
    let mut groups = Groups::of(extents, call_cost, transfer);
    while let Some(group) = groups.next() {
        let complete = match *group.pieces {
            [piece] => transfer.read_run(piece)?,
            _ => read_group(transfer, &group)?,
        };
        if !complete {
            break;
        }
    }
    Ok(())
}

/// Reads the span of a group and keeps its pieces; `false` if the file ended before its last byte.
fn read_group<D: Driver + ?Sized>(transfer: &mut Transfer<'_, D>, group: &Group) -> Result<bool> {
    let span = group.span();
    let buffer = transfer.staging.get(span.len as usize)?;
    let outcome = transfer.driver.read_contig(buffer, span.offset, transfer.counters);
    let mut useful = 0;
    for range in group.ranges(outcome.bytes) {
        useful += range.len() as u64;
        transfer.cursor.scatter(&buffer[range]);
    }
    transfer.add_moved(useful);
    outcome.result.map(|()| outcome.bytes == span.len)
}

/// Writes the extents in windows that are read, modified and written back under a lock.
///
/// Where the file cannot be read or locked, its pieces are written one by one instead. A piece
/// that needs no reading takes the lock as well: it may lie in a gap of another rank's window.
pub(super) fn write<D: Driver + ?Sized>(
    transfer: &mut Transfer<'_, D>,
    extents: impl Iterator<Item = Extent>,
) -> Result<()> {
    let mut groups = Groups::of(extents, u64::MAX, transfer);
    let mut possible = true;
    while let Some(group) = groups.next() {
        let lock = if possible { transfer.driver.lock(group.span(), true).ok() } else { None };
        let is_single = group.pieces.len() == 1;
        possible = lock.is_some() && (is_single || write_group(transfer, &group)?);
        if is_single || !possible {
            list::write(transfer, group.pieces.iter().copied())?;
        }
    }
    Ok(())
}

/// Writes one window, which the caller has locked; `false`, with nothing done, if the file was
/// not opened for reading.
///
/// The window ends with the last requested byte, so the file grows no further than that; bytes of
/// the window behind the old end of the file become zero.
fn write_group<D: Driver + ?Sized>(transfer: &mut Transfer<'_, D>, group: &Group) -> Result<bool> {
    let span = group.span();
    let buffer = transfer.staging.get(span.len as usize)?;
    let Outcome { bytes, result } =
        transfer.driver.read_contig(buffer, span.offset, transfer.counters);
    match result {
        Err(error) if error.errno() == libc::EBADF => return Ok(false),
        result => result?,
    }
    buffer[bytes as usize..].fill(0);
    for range in group.ranges(span.len) {
        transfer.cursor.gather(&mut buffer[range]);
    }
    let outcome = transfer.driver.write_contig(buffer, span.offset, transfer.counters);
    let stored = group.ranges(outcome.bytes).map(|range| range.len() as u64).sum();
    transfer.add_moved(stored);
    outcome.result.map(|()| true)
}

/// Writes small pieces close together by [`Driver::in_place`] and all others one by one.
pub(super) fn write_exactly<D: Driver + ?Sized>(
    transfer: &mut Transfer<'_, D>,
    extents: impl Iterator<Item = Extent>,
) -> Result<()> {
    let cost = decision::piece_cost(transfer.driver);
    let mut groups = Groups::of(extents, cost, transfer);
    // Pieces with requests that wait side by side need not be close together.
    let mut possible = crew::size(transfer.driver) == 1;
    while possible {
        let Some(group) = groups.next() else { return Ok(()) };
        if group.pieces.len() >= decision::FEWEST_PIECES {
            possible = transfer.store(group.pieces);
            if possible {
                continue;
            }
            transfer.counters.decided.note(Note::Unmapped);
        }
        list::write(transfer, group.pieces.iter().copied())?;
        possible = possible && crew::size(transfer.driver) == 1;
    }
    list::write(transfer, groups.extents)
}
