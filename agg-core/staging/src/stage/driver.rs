//! Requests to a file with staged small writes.

use super::Stage;
use super::control::Learn;
use super::idle::Idle;
use super::staged::StagedFile;
use aggio_base::report::{Counters, Totals};
use aggio_base::{Extent, Result};
use aggio_store::driver::portions::write_in_portions;
use aggio_store::driver::{Closing, Driver, Facts, Outcome, generic};
use aggio_store::forward_driver;
use aggio_store::independent::{self, Strategy};
use aggio_types::memory::Memory;
use aggio_types::view::View;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// The outcome as that of an attempt at a transfer, without a count of requests.
fn as_attempt(outcome: Outcome) -> io::Result<usize> {
    outcome.result.map_err(|error| error.to_io())?;
    Ok(outcome.bytes as usize)
}

impl StagedFile {
    fn base<'a, T>(&'a self, act: impl FnOnce(&'a dyn Driver) -> T) -> T {
        act(&**self.base)
    }
}

impl Driver for StagedFile {
    forward_driver! {
        through: base,
        here: [
            name pread pwrite preadv pwritev read_contig write_contig write_strided read_strided
            ends_by knows_bytes_behind reserve extend_with_zeros reserve_zeros size set_size
            preallocate sync close facts background
        ],
        default: [
            [in_place] "bytes that are staged are not in the memory of the file",
            [stamp] "staging bytes changes what the file shows, and not the file",
        ],
    }

    fn name(&self) -> &'static str {
        "stage"
    }

    fn pread(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        as_attempt(self.read_contig(buffer, offset, &self.counters))
    }

    fn pwrite(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        as_attempt(self.write_contig(buffer, offset, &self.counters))
    }

    fn preadv(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        let len = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let stage = self.stage().map_err(|error| error.to_io())?;
        if stage.is_none_or(|stage| stage.is_clear_of(Extent::new(offset, len))) {
            return self.base.preadv(buffers, offset);
        }
        let mut whole = vec![0; len as usize];
        let read = self.pread(&mut whole, offset)?;
        let mut rest = &whole[..read];
        for buffer in buffers {
            let (part, behind) = rest.split_at(buffer.len().min(rest.len()));
            buffer[..part.len()].copy_from_slice(part);
            rest = behind;
        }
        Ok(read)
    }

    fn pwritev(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let whole: Vec<u8> = buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect();
        self.pwrite(&whole, offset)
    }

    fn read_contig(&self, buffer: &mut [u8], offset: u64, counters: &Counters) -> Outcome {
        let read = |part: &mut [u8]| self.base.read_contig(part, offset, counters);
        match self.stage() {
            Ok(Some(stage)) => stage.read(buffer, offset, read),
            Ok(None) => read(buffer),
            Err(error) => Outcome { bytes: 0, result: Err(error) },
        }
    }

    fn write_contig(&self, buffer: &[u8], offset: u64, counters: &Counters) -> Outcome {
        if buffer.is_empty() {
            return self.base.write_contig(buffer, offset, counters);
        }
        let extent = Extent::new(offset, buffer.len() as u64);
        match self.takes(extent, extent.len, 1) {
            Ok(Some(stage)) => {
                Counters::add(&counters.deferred, 1);
                self.put(&stage, &[(offset, buffer)], counters)
            }
            Ok(None) => self.straight(buffer, offset, counters),
            Err(error) => Outcome { bytes: 0, result: Err(error) },
        }
    }

    fn write_strided(
        &self,
        view: &View,
        pos: u64,
        memory: &Memory,
        strategy: &Strategy,
        counters: &Counters,
    ) -> Outcome {
        let (len, span) = (memory.len(), view.span(pos, memory.len()));
        let taken = match len {
            0 => Ok(None),
            _ => self.takes(span, len, view.pieces(pos, len).max(1)),
        };
        let taken =
            taken.and_then(|taken| generic::check_range(span.offset, span.len).map(|()| taken));
        match taken {
            Ok(Some(stage)) => {
                Counters::add(&counters.deferred, 1);
                write_in_portions(view, pos, memory, &mut |pieces| {
                    self.put(&stage, pieces, counters)
                })
            }
            Ok(None) => self
                .past_the_stage(|| self.base.write_strided(view, pos, memory, strategy, counters)),
            Err(error) => Outcome { bytes: 0, result: Err(error) },
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
        let len = memory.len();
        let is_clear = |stage: Arc<Stage>| len == 0 || stage.is_clear_of(view.span(pos, len));
        match self.stage().map(|stage| stage.is_none_or(is_clear)) {
            Ok(true) => self.base.read_strided(view, pos, memory, strategy, counters),
            _ => independent::read_strided(self, view, pos, memory, strategy, counters),
        }
    }

    fn ends_by(&self, offset: u64) -> bool {
        let stage = self.stage();
        stage.is_ok_and(|stage| stage.is_none_or(|stage| stage.is_clear_from(offset)))
            && self.base.ends_by(offset)
    }

    fn knows_bytes_behind(&self, offset: u64) -> bool {
        let stage = self.stage();
        stage.is_ok_and(|stage| stage.is_some_and(|stage| !stage.is_clear_from(offset)))
            || self.base.knows_bytes_behind(offset)
    }

    fn reserve(&self, extent: Extent) -> Result<()> {
        match self.stage()? {
            None => self.base.reserve(extent),
            Some(stage) => stage.changing(Learn::AtOnce, || self.base.reserve(extent)),
        }
    }

    fn extend_with_zeros(&self, extent: Extent, counters: &Counters) -> bool {
        // The byte that makes the file longer does not wait: writes before the end of a file may
        // proceed at the same time.
        let extend = || self.base.extend_with_zeros(extent, counters);
        match self.stage() {
            Ok(None) => extend(),
            Ok(Some(stage)) if stage.is_clear_from(extent.offset) => {
                stage.changing(Learn::AtOnce, extend)
            }
            _ => false,
        }
    }

    fn reserve_zeros(&self, extent: Extent) -> Extent {
        match self.stage() {
            Ok(None) => self.base.reserve_zeros(extent),
            Ok(Some(stage)) if !stage.may_have(extent) => {
                stage.changing(Learn::AtOnce, || self.base.reserve_zeros(extent))
            }
            _ => Extent::new(extent.offset, 0),
        }
    }

    fn size(&self) -> Result<u64> {
        let staged = self.stage()?.map_or(Ok(0), |stage| stage.end())?;
        Ok(self.base.size()?.max(staged))
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.drain()?;
        match self.stage()? {
            None => self.base.set_size(size),
            Some(stage) => {
                stage.changing(Learn::Surely, || self.base.set_size(size))?;
                stage.resized(size);
                Ok(())
            }
        }
    }

    fn preallocate(&self, size: u64) -> Result<()> {
        match self.stage()? {
            None => self.base.preallocate(size),
            Some(stage) => stage.changing(Learn::Surely, || self.base.preallocate(size)),
        }
    }

    fn sync(&self) -> Result<()> {
        self.drain()?;
        self.base.sync()
    }

    /// Drains the stage, unless its bytes are to wait for another program.
    fn close(&self, how: Closing) -> Result<()> {
        let drained = self.drain_at_close();
        if how == Closing::Offering {
            return drained.and(self.base.close(how));
        }
        self.closed.store(true, Ordering::Release);
        self.idle.iter().for_each(Idle::stop);
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner).take();
        let closed = match &stage {
            // The client of a server may have bytes to send still.
            Some(stage) if self.writes && !stage.is_empty() => {
                stage.changing(Learn::Surely, || self.base.close(how))
            }
            _ => self.base.close(how),
        };
        if let Some(stage) = stage.and_then(Arc::into_inner) {
            stage.leave();
        }
        drained.and(closed)
    }

    fn facts(&self) -> Facts {
        let is_staged = self.stage.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        let facts = self.base.facts();
        Facts { is_staged, ..facts }
    }

    fn background(&self) -> Option<Totals> {
        let mut totals = self.base.background().unwrap_or_default();
        totals.add(&self.counters.totals());
        Some(totals)
    }
}
