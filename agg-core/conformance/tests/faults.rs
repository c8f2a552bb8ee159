//! The suite finds planted faults: a correct driver with one thing wrong.

use agg_core::driver::{Closing, Driver, Facts, Identity, OpenHow, Outcome, delete, open};
use agg_core::report::Counters;
use agg_core::transport::LockGuard;
use agg_core::{Error, ErrorClass, Extent, Result};
use aggio_driver_conformance::{Subject, check};
use std::io::{self, IoSlice};
use std::sync::OnceLock;

macro_rules! faults {
    ($($fault:ident),*) => {
        /// The planted fault.
        #[derive(Clone, Copy, Debug, PartialEq)]
        enum Fault { $($fault),* }

        const ALL: &[Fault] = &[$(Fault::$fault),*];
    };
}

faults! {
    ShortCount, LongCount, WrongErrno, SwallowedError, LostHole, StaleSize, LostTail,
    ShrinkingReserve, EndIsAnError, DroppedBuffer, ChangedNeighbour, TornWrites, LocksForAll,
    DeletesNothing, OneIdentity, ReadsWhenClosed
}

use Fault::*;

/// An ordinary file with the fault.
#[derive(Debug)]
struct Faulty {
    file: Box<dyn Driver>,
    fault: Fault,
    size: OnceLock<u64>,
}

impl Faulty {
    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }
}

#[derive(Debug)]
struct Nobody;
impl LockGuard for Nobody {}

impl Driver for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn pread(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let moved = match self.file.pread(buffer, offset) {
            Err(_) if self.has(ReadsWhenClosed) => Ok(buffer.len()),
            other => other,
        }?;
        if self.has(LostHole) {
            buffer[..moved].iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = 0xFF);
        }
        if self.has(EndIsAnError) && moved == 0 && !buffer.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Ok(moved)
    }

    fn pwrite(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        if self.has(ChangedNeighbour) {
            let mut whole = buffer.to_vec();
            whole.push(0);
            let moved = self.file.pwrite(&whole, offset)?;
            return Ok(moved.min(buffer.len()));
        }
        if self.has(TornWrites) {
            // Reads the block around it, waits, and writes all of it.
            let start = offset.saturating_sub(500);
            let mut block = vec![0; buffer.len() + 1000];
            let there = self.file.pread(&mut block, start).unwrap_or(0);
            std::thread::yield_now();
            let at = (offset - start) as usize;
            block[at..at + buffer.len()].copy_from_slice(buffer);
            block.truncate(there.max(at + buffer.len()));
            self.file.pwrite(&block, start)?;
            return Ok(buffer.len());
        }
        match self.file.pwrite(buffer, offset) {
            Err(_) if self.has(SwallowedError) => Ok(buffer.len()),
            other => other,
        }
    }

    fn pwritev(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        if !self.has(DroppedBuffer) {
            return self.file.pwritev(buffers, offset);
        }
        let (last, head) = buffers.split_last().expect("buffers");
        Ok(self.file.pwritev(head, offset)? + last.len())
    }

    fn write_contig(&self, buffer: &[u8], offset: u64, counters: &Counters) -> Outcome {
        let outcome = agg_core::driver::generic::write_contig(self, buffer, offset, counters);
        match self.fault {
            ShortCount => Outcome { bytes: outcome.bytes.saturating_sub(1), ..outcome },
            LongCount if outcome.result.is_err() => {
                Outcome { bytes: buffer.len() as u64, ..outcome }
            }
            _ => outcome,
        }
    }

    fn size(&self) -> Result<u64> {
        let size = self.file.size()?;
        Ok(if self.has(StaleSize) { *self.size.get_or_init(|| size) } else { size })
    }

    fn set_size(&self, size: u64) -> Result<()> {
        // A file that shrinks and grows again has its old tail.
        if self.has(LostTail) && size < self.file.size()? {
            return Ok(());
        }
        self.file.set_size(size)
    }

    fn preallocate(&self, size: u64) -> Result<()> {
        match self.has(ShrinkingReserve) {
            true => self.file.set_size(size),
            false => self.file.preallocate(size),
        }
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    fn close(&self, how: Closing) -> Result<()> {
        self.file.close(how)
    }

    fn facts(&self) -> Facts {
        self.file.facts()
    }

    fn identity(&self) -> Option<Identity> {
        match self.has(OneIdentity) {
            true => Some(Identity { device: 1, inode: 1 }),
            false => self.file.identity(),
        }
    }

    fn try_lock(&self, extent: Extent, exclusive: bool) -> Result<Option<Box<dyn LockGuard>>> {
        match self.has(LocksForAll) {
            true => Ok(Some(Box::new(Nobody))),
            false => self.file.try_lock(extent, exclusive),
        }
    }
}

struct Planted(tempfile::TempDir, Option<Fault>);

impl Planted {
    fn new(fault: Option<Fault>) -> Self {
        Self(tempfile::tempdir().expect("a directory"), fault)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8").to_owned()
    }
}

impl Subject for Planted {
    fn open(&self, how: &OpenHow) -> Result<Box<dyn Driver>> {
        let how = OpenHow { path: self.path(&how.path), ..how.clone() };
        let opened = open(&how).map_err(|error| match self.1 {
            Some(WrongErrno) => Error::new(ErrorClass::Io, error.to_string()).with_errno(libc::EIO),
            _ => error,
        });
        let file = opened?;
        Ok(match self.1 {
            Some(fault) => Box::new(Faulty { file, fault, size: OnceLock::new() }),
            None => file,
        })
    }

    fn delete(&self, name: &str) -> Result<()> {
        if self.1 == Some(DeletesNothing) { Ok(()) } else { delete(&self.path(name), 0) }
    }
}

#[test]
fn each_planted_fault_is_found_and_named() {
    for &fault in ALL {
        let report = check(&Planted::new(Some(fault)));
        assert!(!report.broken.is_empty(), "{fault:?} was not found: {report}");
        println!("{fault:?}: {}", report.broken[0].clause);
    }
}

#[test]
fn the_same_driver_without_a_fault_holds() {
    check(&Planted::new(None)).assert_holds();
}
