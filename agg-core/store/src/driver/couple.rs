//! The driver of an open coupled file: accesses a memory file, and reports writes to the agent.

mod kind;
mod records;
mod waits;

pub(super) use kind::Coupled;

use super::latency::Meter;
use super::{Closing, Driver, Facts, InPlace, Outcome};
use crate::independent::{self, Strategy};
use aggio_base::Extent;
use aggio_base::error::{Error, Result};
use aggio_base::overlay::Overlay;
use aggio_base::report::{Counters, Totals};
use aggio_couple::{Before, Client, Parts, covers_number};
use aggio_types::memory::Memory;
use aggio_types::view::View;
use records::{Step, show};
use std::io::{self, IoSlice, IoSliceMut};
use std::iter::once;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use waits::Waits;

/// How many written ranges are recorded before they are reported to the agent.
const LONG: usize = 64 << 10;

/// An open generation of a coupled file.
#[derive(Debug)]
struct CoupledFile {
    inner: Box<dyn Driver>,
    client: Client,
    handle: u64,
    writes: bool,
    /// The file had bytes when it was opened for writing. The agent must then be notified of
    /// writes, because they may leave the bytes unchanged.
    had_bytes: bool,
    wrote: AtomicBool,
    /// Written ranges not yet reported to the agent; `None` if the agent does not need them.
    written: Option<Mutex<Overlay<()>>>,
    /// Present if records of the file are read while it is written.
    step: Option<Step>,
    /// The bytes of the file that have arrived from other nodes.
    parts: Parts,
    /// Bytes read by this process.
    moved: AtomicU64,
    waits: Waits,
    /// Constant costs. Measured times vary with the page faults of new memory, and would change
    /// the file domains from one generation to the next. Agents push the bytes of the places that
    /// a node read in the last generation, so a node must read the same places again.
    costs: Meter,
    closed: AtomicBool,
    /// The `errno` of the last [`renew`](Driver::renew); 0 if it succeeded.
    stale: AtomicI32,
}

impl CoupledFile {
    fn count(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Called before the program changes these bytes: fetches the bytes of other nodes first.
    fn before_write(&self, extents: impl Iterator<Item = Extent> + Clone) -> io::Result<()> {
        self.wrote.store(true, Ordering::Relaxed);
        self.wait_for(extents.clone())?;
        let Some(written) = &self.written else { return Ok(()) };
        let is_long = {
            let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
            extents.for_each(|extent| written.join(extent, ()));
            written.len() > LONG
        };
        if is_long { self.tell_writes() } else { Ok(()) }
    }

    /// Reports the written ranges to the agent. Must run before the descriptor is closed, because
    /// the agent then completes the generation.
    fn tell_writes(&self) -> io::Result<()> {
        let Some(written) = &self.written else {
            let tells = self.had_bytes && self.wrote.load(Ordering::Relaxed);
            return if tells { self.client.wrote(self.handle, &[]) } else { Ok(()) };
        };
        let written = {
            let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *written)
        };
        if written.is_empty() && !self.wrote.load(Ordering::Relaxed) {
            return Ok(());
        }
        let extents: Vec<Extent> = written.into_ranges().map(|(extent, ())| extent).collect();
        self.client.wrote(self.handle, &extents)
    }

    /// Forgets writes behind `size`, the new size of the file.
    fn forget_behind(&self, size: u64) {
        if let Some(written) = &self.written {
            let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
            written.take(Extent::between(size, u64::MAX));
        }
    }

    /// Returns an error if writes of other nodes may be missing since the last `renew`.
    fn check_fresh(&self) -> io::Result<()> {
        match self.stale.load(Ordering::Relaxed) {
            0 => Ok(()),
            number => Err(io::Error::from_raw_os_error(number)),
        }
    }

    fn counted(&self, result: io::Result<usize>) -> io::Result<usize> {
        result.inspect(|bytes| self.count(*bytes as u64))
    }

    /// Returns the number of records that a reader may see, and the width of that number in bytes,
    /// if a read of `len` bytes from `offset` on covers the number.
    fn records(&self, offset: u64, len: u64) -> io::Result<Option<(u64, usize)>> {
        self.check_fresh()?;
        if !covers_number(offset, len) {
            self.before_read(once(Extent::new(offset, len)))?;
            return Ok(None);
        }
        self.wait_for([Extent::new(offset, len)])?;
        let Some(step) = self.step.as_ref().filter(|_| !self.writes) else { return Ok(None) };
        let records = self.client.records(self.handle, step.told.load(Ordering::Relaxed))?;
        match records {
            Some((count, _)) => step.told.store(count + 1, Ordering::Relaxed),
            None => step.there.store(u64::MAX, Ordering::Relaxed),
        }
        Ok(records)
    }

    /// Waits until the bytes that other nodes send have arrived, and those of records of which
    /// another rank may have told the program.
    fn before_read(&self, extents: impl Iterator<Item = Extent> + Clone) -> io::Result<()> {
        self.wait_for(extents.clone())?;
        let Some(step) = self.step.as_ref().filter(|_| !self.writes) else { return Ok(()) };
        let end = extents.filter(|one| !one.is_empty()).map(|one| one.end()).max().unwrap_or(0);
        if end > step.there.load(Ordering::Relaxed) {
            let there = self.client.reach(self.handle, end)?;
            step.there.store(there, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Waits until the bytes that other nodes send have arrived.
    fn wait_for(&self, extents: impl IntoIterator<Item = Extent>) -> io::Result<()> {
        let began = Instant::now();
        let bytes = self.parts.wait(&self.client, self.handle, extents)?;
        if bytes > 0 {
            self.waits.add(began, bytes);
        }
        Ok(())
    }

    /// Notifies the agent of a write, if it covers the number of records.
    fn announce(&self, offset: u64, len: u64) -> io::Result<()> {
        match self.step.is_some() && self.writes && covers_number(offset, len) {
            true => self.client.announce(self.handle, Before::Variable),
            false => Ok(()),
        }
    }

    fn announced(&self, offset: u64, outcome: Outcome) -> Outcome {
        let told = self.announce(offset, outcome.bytes);
        let told = told.map_err(|error| Error::os("write", &error));
        Outcome { result: outcome.result.and(told), ..outcome }
    }

    fn tallied(&self, outcome: Outcome) -> Outcome {
        self.count(outcome.bytes);
        outcome
    }
}

/// Closing a file.
impl CoupledFile {
    /// Closes the file, whose bytes are all there.
    fn complete(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return self.inner.close(Closing::Complete);
        }
        let written = self.tell_writes();
        let closed = self.inner.close(Closing::Complete);
        let moved = self.moved.load(Ordering::Relaxed);
        if !self.writes {
            self.client.close_read(self.handle, moved);
            return closed;
        }
        // If the agent lost the generation, no reader gets it: return the error.
        let told = written.and(self.client.close(self.handle, moved));
        closed.and(told.map_err(|error| Error::os("close", &error)))
    }

    /// Closes the file of this rank, which others still take.
    fn offer_on(&self) -> Result<()> {
        let written = self.tell_writes();
        let closed = self.inner.close(Closing::Offering);
        // The rank that opens the file next may not have read any of it: report the bytes read now.
        let known = self.client.check(self.handle, self.moved.load(Ordering::Relaxed));
        match self.writes {
            true => closed.and(written.and(known).map_err(|error| Error::os("close", &error))),
            false => closed,
        }
    }

    /// Closes the file, in which bytes may be missing: no reader gets it.
    fn spoil(&self) -> Result<()> {
        if !self.writes || self.closed.swap(true, Ordering::AcqRel) {
            return self.complete();
        }
        // Notify the agent first: once no process has the file open, it completes the generation.
        let told = self.client.spoil(self.handle);
        let closed = self.inner.close(Closing::Incomplete);
        closed.and(told.map_err(|error| Error::os("close", &error)))
    }

    fn inner<'a, T>(&'a self, act: impl FnOnce(&'a dyn Driver) -> T) -> T {
        act(&*self.inner)
    }
}

impl Driver for CoupledFile {
    forward_driver! {
        through: inner,
        here: [
            name pread pwrite preadv pwritev in_place read_contig write_contig write_strided
            read_strided background size set_size was_resized sync renew close completes_at_close
            facts meter
        ],
        default: [
            [stamp] "the number of records that a reader sees changes while the file does not",
            [preallocate] "memory is taken when bytes are written; the size grows on all nodes",
            [knows_bytes_behind] "the size that counts is refused while writes may be missing",
            [ends_by reserve_zeros reserve claim_room extend_with_zeros]
                "the agent learns of written bytes only: zeros are written",
        ],
    }

    fn name(&self) -> &'static str {
        "couple"
    }

    fn pread(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let records = self.records(offset, buffer.len() as u64)?;
        let read = self.counted(self.inner.pread(buffer, offset))?;
        show(records, &mut buffer[..read], offset);
        Ok(read)
    }

    fn pwrite(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        self.before_write(once(Extent::new(offset, buffer.len() as u64)))?;
        let written = self.inner.pwrite(buffer, offset)?;
        self.announce(offset, written as u64)?;
        Ok(written)
    }

    fn preadv(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        let len = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let records = self.records(offset, len)?;
        let read = self.counted(self.inner.preadv(buffers, offset))?;
        let (mut at, mut left) = (offset, read);
        for buffer in buffers {
            let len = buffer.len().min(left);
            show(records, &mut buffer[..len], at);
            (at, left) = (at + len as u64, left - len);
        }
        Ok(read)
    }

    fn pwritev(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let len = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        self.before_write(once(Extent::new(offset, len)))?;
        let written = self.inner.pwritev(buffers, offset)?;
        self.announce(offset, written as u64)?;
        Ok(written)
    }

    fn in_place(&self, extent: Extent, access: InPlace<'_>, copy: &mut dyn FnMut(*mut u8)) -> bool {
        let is_number = self.step.is_some() && covers_number(extent.offset, extent.len);
        if is_number || self.check_fresh().is_err() {
            return false;
        }
        let is_there = match access {
            InPlace::Load => self.before_read(once(extent)),
            InPlace::Store(pieces) => self.before_write(pieces.iter().copied()),
        };
        let copied = is_there.is_ok() && self.inner.in_place(extent, access, copy);
        if copied && access == InPlace::Load {
            self.count(extent.len);
        }
        copied
    }

    fn read_contig(&self, buffer: &mut [u8], offset: u64, counters: &Counters) -> Outcome {
        let records = match self.records(offset, buffer.len() as u64) {
            Ok(records) => records,
            Err(error) => return Outcome { bytes: 0, result: Err(Error::os("read", &error)) },
        };
        let outcome = self.tallied(self.inner.read_contig(buffer, offset, counters));
        let read = usize::try_from(outcome.bytes).unwrap_or(usize::MAX).min(buffer.len());
        show(records, &mut buffer[..read], offset);
        outcome
    }

    fn write_contig(&self, buffer: &[u8], offset: u64, counters: &Counters) -> Outcome {
        if let Err(error) = self.before_write(once(Extent::new(offset, buffer.len() as u64))) {
            return Outcome { bytes: 0, result: Err(Error::os("write", &error)) };
        }
        self.announced(offset, self.inner.write_contig(buffer, offset, counters))
    }

    fn write_strided(
        &self,
        view: &View,
        pos: u64,
        memory: &Memory,
        strategy: &Strategy,
        counters: &Counters,
    ) -> Outcome {
        if let Err(error) = self.before_write(view.extents(pos, memory.len())) {
            return Outcome { bytes: 0, result: Err(Error::os("write", &error)) };
        }
        match self.step {
            Some(_) if self.writes => {
                let outcome = self.inner.write_strided(view, pos, memory, strategy, counters);
                // The number may be anywhere in the span.
                let span = view.span(pos, outcome.bytes);
                let told = self.announce(span.offset, span.len);
                let told = told.map_err(|error| Error::os("write", &error));
                Outcome { result: outcome.result.and(told), ..outcome }
            }
            _ => self.inner.write_strided(view, pos, memory, strategy, counters),
        }
    }

    fn read_strided(
        &self,
        view: &View,
        pos: u64,
        memory: &Memory,
        strategy: &Strategy,
        counters: &Counters,
    ) -> Outcome {
        let extents = || view.extents(pos, memory.len());
        if let Err(error) = self.check_fresh().and_then(|()| self.before_read(extents())) {
            return Outcome { bytes: 0, result: Err(Error::os("read", &error)) };
        }
        match self.step {
            Some(_) => independent::read_strided(self, view, pos, memory, strategy, counters),
            None => self.tallied(self.inner.read_strided(view, pos, memory, strategy, counters)),
        }
    }

    fn background(&self) -> Option<Totals> {
        let mut totals = self.inner.background().unwrap_or_default();
        self.waits.count_in(&mut totals);
        Some(totals)
    }

    fn size(&self) -> Result<u64> {
        self.check_fresh().map_err(|error| Error::os("fstat", &error))?;
        self.inner.size()
    }

    /// Sets the size on all nodes that write the file.
    fn set_size(&self, size: u64) -> Result<()> {
        self.wrote.store(true, Ordering::Relaxed);
        self.inner.set_size(size)?;
        self.forget_behind(size);
        let told = self.client.resize(self.handle, size);
        told.map_err(|error| Error::os("ftruncate", &error))
    }

    fn was_resized(&self, size: u64) {
        self.inner.was_resized(size);
        self.forget_behind(size);
    }

    /// Also reports the bytes written so far to the agent, for writers on other nodes and, if the
    /// rule says so, for readers.
    fn sync(&self) -> Result<()> {
        self.inner.sync()?;
        if !self.writes {
            return Ok(());
        }
        let told = self.tell_writes().and_then(|()| self.client.sync(self.handle));
        told.map_err(|error| Error::os("sync", &error))
    }

    fn renew(&self) {
        self.inner.renew();
        self.parts.forget(&self.client, self.handle);
        let renewed = match &self.step {
            _ if self.writes => self.client.renew(self.handle),
            Some(step) => self.client.reach(self.handle, u64::MAX).map(|there| {
                step.there.store(there, Ordering::Relaxed);
            }),
            None => Ok(()),
        };
        let number = renewed.err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
        self.stale.store(number, Ordering::Relaxed);
    }

    fn close(&self, how: Closing) -> Result<()> {
        match how {
            Closing::Complete => self.complete(),
            Closing::Offering => self.offer_on(),
            Closing::Incomplete => self.spoil(),
        }
    }

    fn completes_at_close(&self) -> bool {
        self.writes
    }

    fn meter(&self) -> Option<&Meter> {
        Some(&self.costs)
    }

    fn facts(&self) -> Facts {
        Facts { is_by_node: self.writes, ..self.inner.facts() }
    }
}
