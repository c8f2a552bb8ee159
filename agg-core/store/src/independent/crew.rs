//! Requests of a list that wait for the file system side by side.
//!
//! Where a request takes long, it waits; then several threads, which live as long as the call,
//! make one request each. Whether that is so was measured, for a cache of this computer answers at
//! once on any file system.

use crate::driver::{Driver, Outcome};
use aggio_base::report::Counters;
use aggio_base::{Error, Extent};
use aggio_comm::workers::together;
use aggio_plan::plan::cost::SLOW;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Requests of a process under way at most.
const MOST: usize = 16;
/// Bytes of a thread's stack.
const STACK: usize = 256 << 10;
/// Pieces after which one asks again whether requests take long.
const FEW: usize = 16;
/// Most pieces that are under way or wait for it: bounds the memory for them.
const MANY: usize = 4096;

/// How many requests to write may be under way at a time.
pub(super) fn size<D: Driver + ?Sized>(driver: &D) -> usize {
    let time = driver.meter().and_then(|meter| meter.writes.measured());
    if time.is_none_or(|time| time < SLOW) {
        return 1;
    }
    let (_, past_the_cache) = driver.direct();
    if driver.facts().has_one_writer() && !past_the_cache { 1 } else { MOST }
}

/// How many pieces are written before one asks for [`size`] again, which is `size` now.
pub(super) fn batch(size: usize) -> usize {
    if size == 1 { FEW } else { MANY }
}

/// Writes `data`, which is as long as the disjoint, ascending `pieces` of file are together, by a
/// request for each piece and `size` requests at a time.
///
/// After an error the pieces before the one it names are stored, and perhaps some behind it;
/// `bytes` counts the former.
pub(super) fn write<D: Driver + ?Sized>(
    driver: &D,
    pieces: &[Extent],
    data: &[u8],
    size: usize,
    counters: &Counters,
) -> Outcome {
    let starts = pieces.iter().scan(0, |at, piece| {
        let start = *at;
        *at += piece.len as usize;
        Some(start)
    });
    let starts: Vec<usize> = starts.collect();
    side_by_side(pieces, size, |index, piece| {
        let (start, len) = (starts[index], piece.len as usize);
        driver.write_contig(&data[start..start + len], piece.offset, counters)
    })
}

/// Calls `write` with each of the ascending `pieces` and its number, `size` at a time; ends as
/// [`write()`] does.
///
/// The last piece comes first, by itself: where it makes the file longer, the others do not, and
/// file systems carry out requests that do one after the other.
pub(super) fn side_by_side(
    pieces: &[Extent],
    size: usize,
    write: impl Fn(usize, Extent) -> Outcome + Sync,
) -> Outcome {
    let list = List { pieces, next: AtomicUsize::new(0), failure: Mutex::new(None) };
    match pieces.split_last() {
        Some((last, before)) if size > 1 && before.len() > 1 => {
            list.write_one(before.len(), *last, &write);
            together(size.min(before.len()), "aggio-list", Some(STACK), || {
                list.write_upto(before.len(), &write);
            });
        }
        _ => list.write_upto(pieces.len(), &write),
    }
    list.outcome()
}

/// The pieces to write, and the progress.
struct List<'a> {
    pieces: &'a [Extent],
    /// The first piece that no thread has taken.
    next: AtomicUsize,
    failure: Mutex<Option<Failure>>,
}

/// A piece that was not stored in full, with how much of it was.
struct Failure {
    index: usize,
    bytes: u64,
    error: Error,
}

impl List<'_> {
    /// Writes the first `end` pieces that no thread has taken, in order, until there is none or one
    /// before it has failed.
    fn write_upto(&self, end: usize, write: &impl Fn(usize, Extent) -> Outcome) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= end || self.has_failed_before(index) {
                return;
            }
            self.write_one(index, self.pieces[index], write);
        }
    }

    fn write_one(&self, index: usize, piece: Extent, write: &impl Fn(usize, Extent) -> Outcome) {
        let Outcome { bytes, result } = write(index, piece);
        if let Err(error) = result {
            self.note(Failure { index, bytes, error });
        }
    }

    fn has_failed_before(&self, index: usize) -> bool {
        let first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        first.as_ref().is_some_and(|first| first.index < index)
    }

    /// Keeps the failure of the first piece. All pieces before it were taken earlier and are
    /// completed.
    fn note(&self, failure: Failure) {
        let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|first| failure.index < first.index) {
            *first = Some(failure);
        }
    }

    fn outcome(self) -> Outcome {
        let bytes_of = |pieces: &[Extent]| pieces.iter().map(|piece| piece.len).sum();
        match self.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            None => Outcome { bytes: bytes_of(self.pieces), result: Ok(()) },
            Some(Failure { index, bytes, error }) => {
                let before: u64 = bytes_of(&self.pieces[..index]);
                Outcome { bytes: before + bytes, result: Err(error) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{write_runs, write_supplied};
    use super::*;
    use crate::driver::Facts;
    use crate::driver::fake::{FakeDriver, FakeFile};
    use crate::driver::latency::Meter;
    use aggio_base::ErrorClass;
    use std::time::Duration;

    /// A file whose writes were found to take this long, and take a millisecond.
    fn slow(file_system: &str, nanoseconds: u64) -> FakeDriver {
        let meter = Meter::new(file_system);
        (0..20).for_each(|_| meter.writes.learn(100, Duration::from_nanos(nanoseconds)));
        let pause = Duration::from_millis(1);
        let file = FakeFile::new(vec![0xC5; 10_000]);
        let facts = Facts::of_bytes(file_system);
        FakeDriver { facts, meter: Some(meter), pause, ..FakeDriver::new(&file) }
    }

    fn unknown() -> FakeDriver {
        FakeDriver { meter: Some(Meter::new("nfs")), ..slow("nfs", 1) }
    }

    fn pieces(count: u64) -> Vec<Extent> {
        (0..count).map(|number| Extent::new(20 * number, 5 + number % 7)).collect()
    }

    fn data_of(pieces: &[Extent]) -> Vec<u8> {
        let bytes = |piece: &Extent| (piece.offset..piece.end()).map(|offset| offset as u8);
        pieces.iter().flat_map(bytes).collect()
    }

    fn expected(pieces: &[Extent]) -> Vec<u8> {
        let mut content = vec![0xC5; 10_000];
        for offset in pieces.iter().flat_map(|piece| piece.offset..piece.end()) {
            content[offset as usize] = offset as u8;
        }
        content
    }

    #[test]
    fn the_runs_of_a_window_are_a_request_each_and_wait_side_by_side() {
        let (file, pieces, counters) = (slow("nfs", 1_000_000), pieces(100), Counters::default());
        let window: Vec<u8> = (0..2000u32).map(|offset| offset as u8).collect();
        let runs = pieces.iter().map(|piece| piece.offset as usize..piece.end() as usize);
        let outcome = write_runs(&file, 0, &window, runs, &counters);
        outcome.result.unwrap();
        assert_eq!(outcome.bytes, data_of(&pieces).len() as u64);
        assert!(*file.file.bytes() == expected(&pieces), "bytes between them stay");
        assert_eq!(counters.totals().writes_out, 100);
        let most = file.file.most_writing();
        assert!((2..=MOST).contains(&most), "{most} requests at a time");
    }

    #[test]
    fn an_error_names_the_first_piece_that_is_not_stored_and_all_before_it_are() {
        let mut file = slow("nfs", 1_000_000);
        file.refused = vec![20 * 41, 20 * 40, 20 * 43];
        let (pieces, counters) = (pieces(100), Counters::default());
        for size in [16, 1] {
            let outcome = write(&file, &pieces, &data_of(&pieces), size, &counters);
            let error = outcome.result.unwrap_err();
            assert_eq!((error.class(), error.extent()), (ErrorClass::NoSpace, Some(pieces[40])));
            assert_eq!(outcome.bytes, data_of(&pieces[..40]).len() as u64);
            let mut bytes = file.file.bytes();
            assert!(bytes[..800] == expected(&pieces)[..800]);
            bytes.fill(0xC5);
        }
        write(&file, &pieces, &data_of(&pieces), 1, &counters).result.unwrap_err();
        let begun = file.file.bytes()[800..].iter().any(|byte| *byte != 0xC5);
        assert!(!begun, "a request behind the one that failed");
    }

    #[test]
    fn the_piece_that_may_make_the_file_longer_is_stored_before_the_others() {
        let (pieces, order) = (pieces(40), Mutex::new(Vec::new()));
        let outcome = side_by_side(&pieces, MOST, |index, piece| {
            order.lock().unwrap().push(index);
            Outcome { bytes: piece.len, result: Ok(()) }
        });
        assert_eq!(outcome.bytes, data_of(&pieces).len() as u64);
        let mut order = order.into_inner().unwrap();
        assert_eq!(order[0], 39);
        order.sort_unstable();
        assert!(order.into_iter().eq(0..40), "each one once");
    }

    #[test]
    fn pieces_that_are_supplied_wait_side_by_side_once_requests_were_found_to_take_long() {
        let (pieces, counters) = (pieces(100), Counters::default());
        let file = unknown();
        let supply = |piece: Extent, bytes: &mut [u8]| {
            (piece.offset..).zip(bytes).for_each(|(offset, byte)| *byte = offset as u8);
            file.meter().unwrap().writes.learn(piece.len, Duration::from_millis(1));
            Ok(())
        };
        let outcome = write_supplied(&file, &pieces, supply, &counters);
        outcome.result.unwrap();
        assert_eq!(outcome.bytes, data_of(&pieces).len() as u64);
        assert!(*file.file.bytes() == expected(&pieces), "bytes between them stay");
        assert!((2..=MOST).contains(&file.file.most_writing()));
    }

    #[test]
    fn a_piece_that_cannot_be_supplied_is_named_and_all_before_it_are_stored() {
        let (file, pieces) = (slow("nfs", 1_000_000), pieces(100));
        let supply = |piece: Extent, bytes: &mut [u8]| {
            if piece == pieces[50] {
                return Err(Error::new(ErrorClass::Io, "gone").with_extent(piece));
            }
            (piece.offset..).zip(bytes).for_each(|(offset, byte)| *byte = offset as u8);
            Ok(())
        };
        let outcome = write_supplied(&file, &pieces, supply, &Counters::default());
        assert_eq!(outcome.result.unwrap_err().extent(), Some(pieces[50]));
        assert_eq!(outcome.bytes, data_of(&pieces[..50]).len() as u64);
        assert!(file.file.bytes()[..1000] == expected(&pieces)[..1000]);
    }

    #[test]
    fn a_last_piece_that_fails_keeps_no_other_from_being_stored() {
        let (mut file, pieces) = (slow("nfs", 1_000_000), pieces(40));
        file.refused = vec![20 * 39];
        let outcome = write(&file, &pieces, &data_of(&pieces), MOST, &Counters::default());
        assert_eq!(outcome.result.unwrap_err().extent(), Some(pieces[39]));
        assert_eq!(outcome.bytes, data_of(&pieces[..39]).len() as u64);
        assert!(file.file.bytes()[..20 * 39] == expected(&pieces)[..20 * 39]);
    }

    #[test]
    fn requests_wait_side_by_side_only_where_they_were_found_to_take_long() {
        assert_eq!(size(&slow("nfs", 1_000_000)), MOST);
        assert_eq!(size(&slow("nfs", 2_000)), 1, "a cache answers");
        assert_eq!(size(&slow("ext4", 1_000_000)), 1, "one would wait for the other");
        assert_eq!(size(&unknown()), 1);
    }
}
