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

/// How many requests to write may be under way at a time.
pub(super) fn size<D: Driver + ?Sized>(driver: &D) -> usize {
    let time = driver.meter().and_then(|meter| meter.writes.measured());
    if time.is_none_or(|time| time < SLOW) {
        return 1;
    }
    let (_, past_the_cache) = driver.direct();
    if driver.facts().has_one_writer() && !past_the_cache { 1 } else { MOST }
}

/// Writes `data`, which is as long as the disjoint `pieces` of file are together, by a request for
/// each piece and `size` requests at a time.
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
    let places: Vec<(Extent, usize)> = pieces.iter().copied().zip(starts).collect();
    let list = List { places: &places, data, next: AtomicUsize::new(0), failure: Mutex::new(None) };
    let work = || list.work(|piece, bytes| driver.write_contig(bytes, piece.offset, counters));
    together(size.min(pieces.len()), "aggio-list", Some(STACK), work);
    list.outcome()
}

/// What is to be written, and how far that is.
struct List<'a> {
    /// Each piece, and where its bytes start in `data`.
    places: &'a [(Extent, usize)],
    data: &'a [u8],
    /// The first piece that nobody has taken.
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
    /// Writes pieces that nobody has taken, in order, until there is none or one has failed.
    fn work(&self, write: impl Fn(Extent, &[u8]) -> Outcome) {
        while !self.has_failed() {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some((piece, start)) = self.places.get(index).copied() else { return };
            let Outcome { bytes, result } =
                write(piece, &self.data[start..start + piece.len as usize]);
            if let Err(error) = result {
                self.note(Failure { index, bytes, error });
            }
        }
    }

    fn has_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Keeps the failure of the first piece. Whatever lies before it was taken before it, and is
    /// carried to its end.
    fn note(&self, failure: Failure) {
        let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|first| failure.index < first.index) {
            *first = Some(failure);
        }
    }

    fn outcome(self) -> Outcome {
        match self.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            None => Outcome { bytes: self.data.len() as u64, result: Ok(()) },
            Some(Failure { index, bytes, error }) => {
                Outcome { bytes: self.places[index].1 as u64 + bytes, result: Err(error) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::write_runs;
    use super::*;
    use crate::driver::Facts;
    use crate::driver::latency::Meter;
    use aggio_base::ErrorClass;
    use aggio_base::error::Result;
    use std::io;
    use std::time::Duration;

    /// A file in memory that refuses some offsets, and counts the requests that are in it at a
    /// time.
    #[derive(Debug)]
    struct Slow {
        file_system: &'static str,
        meter: Meter,
        bytes: Mutex<Vec<u8>>,
        refused: Vec<u64>,
        inside: AtomicUsize,
        most: AtomicUsize,
    }

    impl Slow {
        fn on(file_system: &'static str, nanoseconds: u64) -> Self {
            let meter = Meter::new(file_system);
            (0..20).for_each(|_| meter.writes.learn(100, Duration::from_nanos(nanoseconds)));
            Slow {
                file_system,
                meter,
                bytes: Mutex::new(vec![0xC5; 10_000]),
                refused: Vec::new(),
                inside: AtomicUsize::new(0),
                most: AtomicUsize::new(0),
            }
        }
    }

    impl Driver for Slow {
        fn name(&self) -> &'static str {
            "slow"
        }
        fn pread(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            Ok(0)
        }
        fn pwrite(&self, data: &[u8], offset: u64) -> io::Result<usize> {
            let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(inside, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
            self.inside.fetch_sub(1, Ordering::SeqCst);
            if self.refused.contains(&offset) {
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
            let start = offset as usize;
            self.bytes.lock().unwrap()[start..start + data.len()].copy_from_slice(data);
            Ok(data.len())
        }
        fn size(&self) -> Result<u64> {
            Ok(0)
        }
        fn set_size(&self, _: u64) -> Result<()> {
            Ok(())
        }
        fn sync(&self) -> Result<()> {
            Ok(())
        }
        fn close(&self) -> Result<()> {
            Ok(())
        }
        fn facts(&self) -> Facts {
            Facts::of_bytes(self.file_system)
        }
        fn meter(&self) -> Option<&Meter> {
            Some(&self.meter)
        }
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
        let (file, pieces, counters) =
            (Slow::on("nfs", 1_000_000), pieces(100), Counters::default());
        let window: Vec<u8> = (0..2000u32).map(|offset| offset as u8).collect();
        let runs = pieces.iter().map(|piece| piece.offset as usize..piece.end() as usize);
        let outcome = write_runs(&file, 0, &window, runs, &counters);
        outcome.result.unwrap();
        assert_eq!(outcome.bytes, data_of(&pieces).len() as u64);
        assert!(*file.bytes.lock().unwrap() == expected(&pieces), "bytes between them stay");
        assert_eq!(counters.totals().writes_out, 100);
        let most = file.most.load(Ordering::SeqCst);
        assert!((2..=MOST).contains(&most), "{most} requests at a time");
    }

    #[test]
    fn an_error_names_the_first_piece_that_is_not_stored_and_all_before_it_are() {
        let mut file = Slow::on("nfs", 1_000_000);
        file.refused = vec![20 * 41, 20 * 40, 20 * 43];
        let (pieces, counters) = (pieces(100), Counters::default());
        for size in [16, 1] {
            let outcome = write(&file, &pieces, &data_of(&pieces), size, &counters);
            let error = outcome.result.unwrap_err();
            assert_eq!((error.class(), error.extent()), (ErrorClass::NoSpace, Some(pieces[40])));
            assert_eq!(outcome.bytes, data_of(&pieces[..40]).len() as u64);
            let mut bytes = file.bytes.lock().unwrap();
            assert!(bytes[..800] == expected(&pieces)[..800]);
            bytes.fill(0xC5);
        }
        write(&file, &pieces, &data_of(&pieces), 1, &counters).result.unwrap_err();
        let begun = file.bytes.lock().unwrap()[800..].iter().any(|byte| *byte != 0xC5);
        assert!(!begun, "a request behind the one that failed");
    }

    #[test]
    fn requests_wait_side_by_side_only_where_they_were_found_to_take_long() {
        assert_eq!(size(&Slow::on("nfs", 1_000_000)), MOST);
        assert_eq!(size(&Slow::on("nfs", 2_000)), 1, "a cache answers");
        assert_eq!(size(&Slow::on("ext4", 1_000_000)), 1, "one would wait for the other");
        let unknown = Slow { meter: Meter::new("nfs"), ..Slow::on("nfs", 1) };
        assert_eq!(size(&unknown), 1);
    }
}
