//! The generic functions: complete transfers made of single attempts.
//!
//! An attempt may be short, or interrupted by a signal; both are continued here and nowhere else.
//! An [`Outcome`] has the number of bytes really moved, also when a later attempt failed.

use super::latency::Gauge;
use super::{Driver, Outcome};
use aggio_base::log::Level;
pub use aggio_base::os::MAX_TRANSFER;
use aggio_base::report::Counters;
use aggio_base::{Error, ErrorClass, Extent, Result};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::atomic::AtomicU64;

/// Refuses ranges that do not fit into the signed offsets of the system (`ErrorClass::Arg`).
pub fn check_range(offset: u64, len: u64) -> Result<()> {
    match offset.checked_add(len) {
        Some(end) if i64::try_from(end).is_ok() => Ok(()),
        _ => Err(Error::new(
            ErrorClass::Arg,
            format!("{len} bytes from offset {offset} on end behind the largest file offset"),
        )
        .with_extent(Extent::new(offset, len))),
    }
}

/// One direction of transfer: its system call, its counters, and the result of moving 0 bytes.
struct Way<'a> {
    call: &'static str,
    counters: &'a Counters,
    requests: &'a AtomicU64,
    bytes: &'a AtomicU64,
    at_zero: fn() -> Result<()>,
    gauge: Option<&'a Gauge>,
}

impl<'a> Way<'a> {
    fn reading<D: Driver + ?Sized>(
        call: &'static str,
        driver: &'a D,
        counters: &'a Counters,
    ) -> Self {
        Self {
            call,
            counters,
            requests: &counters.reads_out,
            bytes: &counters.bytes_read_out,
            at_zero: || Ok(()),
            gauge: driver.meter().map(|meter| &meter.reads),
        }
    }

    fn writing<D: Driver + ?Sized>(
        call: &'static str,
        driver: &'a D,
        counters: &'a Counters,
    ) -> Self {
        Self {
            call,
            counters,
            requests: &counters.writes_out,
            bytes: &counters.bytes_written_out,
            at_zero: || {
                let why = "the file system stored nothing and gave no reason";
                Err(Error::new(ErrorClass::Io, why))
            },
            gauge: driver.meter().map(|meter| &meter.writes),
        }
    }

    /// Moves `len` bytes from `offset` on by repeating `attempt(done, offset + done)`.
    fn transfer(
        self,
        offset: u64,
        len: usize,
        mut attempt: impl FnMut(usize, u64) -> io::Result<usize>,
    ) -> Outcome {
        if let Err(error) = check_range(offset, len as u64) {
            return Outcome { bytes: 0, result: Err(error) };
        }
        let sample = self.gauge.and_then(Gauge::begin);
        let (start, mut attempts) = (sample.or_else(|| self.counters.now()), 0);
        let mut done = 0usize;
        let mut result = Ok(());
        while done < len && result.is_ok() {
            attempts += 1;
            match attempt(done, offset + done as u64) {
                Ok(0) => {
                    result = (self.at_zero)();
                    break;
                }
                Ok(n) => done += n.min(len - done),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => result = Err(Error::os(self.call, &error)),
            }
        }
        Counters::add(self.requests, attempts);
        Counters::add(self.bytes, done as u64);
        if self.counters.is_timed() {
            Counters::add_since(&self.counters.nanoseconds_out, start);
        }
        if let (Some(gauge), Some(start), true) = (self.gauge, sample, attempts == 1 && done == len)
        {
            gauge.learn(len as u64, start.elapsed());
        }
        aggio_base::log!(
            Level::Trace,
            "{}: {done} of {len} bytes at {offset}, {attempts} requests",
            self.call
        );
        let rest = Extent::new(offset + done as u64, (len - done) as u64);
        Outcome { bytes: done as u64, result: result.map_err(|error| error.with_extent(rest)) }
    }
}

/// Reads until `buffer` is full, the file ends (then `Ok` with fewer bytes), or an error.
pub fn read_contig<D: Driver + ?Sized>(
    driver: &D,
    buffer: &mut [u8],
    offset: u64,
    counters: &Counters,
) -> Outcome {
    let len = buffer.len();
    Way::reading("pread", driver, counters).transfer(offset, len, |done, at| {
        let end = len.min(done.saturating_add(MAX_TRANSFER));
        driver.pread(&mut buffer[done..end], at)
    })
}

/// Writes all of `buffer`, or stops at an error.
pub fn write_contig<D: Driver + ?Sized>(
    driver: &D,
    buffer: &[u8],
    offset: u64,
    counters: &Counters,
) -> Outcome {
    let len = buffer.len();
    Way::writing("pwrite", driver, counters).transfer(offset, len, |done, at| {
        let end = len.min(done.saturating_add(MAX_TRANSFER));
        driver.pwrite(&buffer[done..end], at)
    })
}

/// Reads one range of the file into several buffers; ends like [`read_contig`].
pub fn read_vectors<D: Driver + ?Sized>(
    driver: &D,
    mut buffers: &mut [IoSliceMut<'_>],
    offset: u64,
    counters: &Counters,
) -> Outcome {
    let len = buffers.iter().fold(0usize, |sum, buffer| sum.saturating_add(buffer.len()));
    let mut taken = 0;
    Way::reading("preadv", driver, counters).transfer(offset, len, |done, at| {
        IoSliceMut::advance_slices(&mut buffers, done - taken);
        taken = done;
        driver.preadv(buffers, at)
    })
}

/// Writes several buffers to one range of the file; ends like [`write_contig`].
pub fn write_vectors<D: Driver + ?Sized>(
    driver: &D,
    mut buffers: &mut [IoSlice<'_>],
    offset: u64,
    counters: &Counters,
) -> Outcome {
    let len = buffers.iter().fold(0usize, |sum, buffer| sum.saturating_add(buffer.len()));
    let mut taken = 0;
    Way::writing("pwritev", driver, counters).transfer(offset, len, |done, at| {
        IoSlice::advance_slices(&mut buffers, done - taken);
        taken = done;
        driver.pwritev(buffers, at)
    })
}
