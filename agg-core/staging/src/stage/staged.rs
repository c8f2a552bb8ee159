//! Files whose small writes are staged, as a kind of storage.

use super::control::Learn;
use super::cost::is_worth_it;
use super::idle::Idle;
use super::target::target_of;
use super::{Home, Losing, Stage, show};
use aggio_base::log::Level;
use aggio_base::report::{Counters, Totals};
use aggio_base::{Error, ErrorClass, Extent, Result, log};
use aggio_comm::transport::{Identity, LockGuard, Offer};
use aggio_comm::workers::Workers;
use aggio_config::hints::Drain;
use aggio_plan::plan::cost::Costs;
use aggio_store::driver::portions::write_in_portions;
use aggio_store::driver::table::{AfterDelete, Drivers, Kind};
use aggio_store::driver::{Driver, Facts, OpenHow, Outcome, Staging, Striped, generic, latency};
use aggio_store::independent::Strategy;
use aggio_types::memory::Memory;
use aggio_types::view::View;
use std::fs::File;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The kind of storage: ordinary files, opened with terms of staging.
#[derive(Debug)]
pub struct Staged {
    home: Home,
    workers: Workers,
}

impl Staged {
    /// Files that are staged in `home`.
    pub fn new(home: Home) -> Self {
        Self { home, workers: Workers::default() }
    }

    /// With threads that drain while the program computes.
    pub fn with_workers(self, workers: Workers) -> Self {
        Self { workers, ..self }
    }

    /// The file `base`, which `how` opened, with its stage.
    fn with_stage(&self, base: Box<dyn Driver>, how: &OpenHow) -> Result<Box<dyn Driver>> {
        let Some(terms) = how.staging else { return Ok(base) };
        let Some(target) = target_of(&*base, &how.path)? else { return Ok(base) };
        if !terms.shared {
            return show(&self.home, target, true).map(|()| base);
        }
        let path = std::path::absolute(&how.path).unwrap_or_else(|_| PathBuf::from(&how.path));
        let drains = terms.drain == Drain::Idle && terms.first && how.write;
        let counters = Arc::<Counters>::default();
        let file = StagedFile {
            base: Arc::new(base),
            idle: drains.then(|| Idle::new(self.workers.clone(), counters.clone())),
            home: self.home.clone(),
            target,
            path,
            terms,
            writes: how.write,
            makes: AtomicBool::new(false),
            stage: Mutex::new(None),
            closed: AtomicBool::new(false),
            counters,
        };
        // Where nothing is staged and nothing would be, the file is an ordinary one.
        let is_of_use = file.begin()?;
        if is_of_use {
            return Ok(Box::new(file));
        }
        let unused = || Error::new(ErrorClass::Intern, "a file that nothing drains is in use");
        Arc::into_inner(file.base).ok_or_else(unused)
    }
}

impl Kind for Staged {
    fn name(&self) -> &'static str {
        "stage"
    }

    fn claims(&self, _: &Drivers, how: &OpenHow) -> Result<bool> {
        Ok(how.staging.is_some())
    }

    fn adopts(&self, how: &OpenHow) -> bool {
        how.staging.is_some()
    }

    fn sees(&self, _: &OpenHow) -> bool {
        false
    }

    fn open(&self, drivers: &Drivers, how: &OpenHow) -> Result<Box<dyn Driver>> {
        match drivers.ordinary().open(drivers, how) {
            Ok(file) => self.with_stage(file, how),
            // What others have there is not staged.
            Err(error) => drivers.open_instead(how, error),
        }
    }

    fn adopt(&self, drivers: &Drivers, how: &OpenHow, offer: Offer) -> Result<Box<dyn Driver>> {
        self.with_stage(drivers.ordinary().adopt(drivers, how, offer)?, how)
    }

    fn delete(&self, drivers: &Drivers, path: &str, rank: usize) -> Result<()> {
        drivers.ordinary().delete(drivers, path, rank)
    }

    fn before_delete(&self, path: &str) -> Option<AfterDelete> {
        let losing = Losing::named(&self.home, Path::new(path))?;
        Some(Box::new(|| losing.lost()))
    }
}

/// An open file, and its stage as soon as there is one.
#[derive(Debug)]
pub(super) struct StagedFile {
    base: Arc<Box<dyn Driver>>,
    /// Drains in the background.
    idle: Option<Idle>,
    home: Home,
    target: File,
    path: PathBuf,
    terms: Staging,
    writes: bool,
    /// Whether this opener makes the stage if there is none.
    makes: AtomicBool,
    stage: Mutex<Option<Arc<Stage>>>,
    closed: AtomicBool,
    /// Of requests that are nobody's call.
    counters: Arc<Counters>,
}

impl StagedFile {
    /// Joins the stage, which whoever opens the file first makes, if requests are slow. Whether
    /// there is a stage, or may be one.
    fn begin(&self) -> Result<bool> {
        let may_be = self.terms.always || self.costs().is_slow();
        let makes = self.writes && self.terms.first && may_be;
        self.makes.store(makes, Ordering::Release);
        match self.stage() {
            Err(error) if makes => {
                let path = self.path.display();
                log!(Level::Warn, "{path}: writes are not staged: {error}");
                self.makes.store(false, Ordering::Release);
                Ok(may_be)
            }
            stage => Ok(stage?.is_some() || may_be),
        }
    }

    /// What requests to the file cost.
    fn costs(&self) -> Costs {
        match self.base.meter() {
            Some(meter) => meter.writes.figures(),
            None => Costs::assumed(&self.base.facts().file_system),
        }
    }

    /// The stage, if there is one.
    fn stage(&self) -> Result<Option<Arc<Stage>>> {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        // A closed file is refused by the driver below.
        if stage.is_none() && !self.closed.load(Ordering::Acquire) {
            let made = self.makes.load(Ordering::Acquire);
            let target = self.target.try_clone().map_err(|error| Error::os("fcntl", &error))?;
            *stage = Stage::join(&self.home, target, &self.path, made)?.map(Arc::new);
        }
        Ok(stage.clone())
    }

    /// Writes to the file itself, past the stage.
    pub(super) fn straight(&self, data: &[u8], offset: u64, counters: &Counters) -> Outcome {
        let write = || self.base.write_contig(data, offset, counters);
        match self.stage() {
            Ok(Some(stage)) => stage.changing(Learn::AtOnce, write),
            Ok(None) => write(),
            Err(error) => Outcome { bytes: 0, result: Err(error) },
        }
    }

    /// Stages pieces; what finds no room in the stage goes to the file, and everything else that
    /// waits before it.
    pub(super) fn put(
        &self,
        stage: &Stage,
        pieces: &[(u64, &[u8])],
        counters: &Counters,
    ) -> Outcome {
        let len: u64 = pieces.iter().map(|(_, data)| data.len() as u64).sum();
        let full = |error: &Error| matches!(error.class(), ErrorClass::NoSpace | ErrorClass::Quota);
        let over = stage.held().saturating_add(len) > self.terms.limit;
        let staged = match over {
            true => Err(Error::new(ErrorClass::NoSpace, "the stage is full")),
            false => stage.write(pieces),
        };
        match staged {
            Ok(()) => {
                self.wake(pieces);
                staged_all(len, counters)
            }
            Err(error) if full(&error) => self.make_room(stage, pieces, counters),
            Err(error) => Outcome { bytes: 0, result: Err(error) },
        }
    }

    /// Somebody is to drain these pieces.
    fn wake(&self, pieces: &[(u64, &[u8])]) {
        let Some(idle) = &self.idle else { return };
        let end = pieces.iter().map(|(at, data)| at + data.len() as u64).max();
        if let Ok(Some(stage)) = self.stage() {
            idle.wake(end.unwrap_or(0), &stage, &self.base);
        }
    }

    fn make_room(&self, stage: &Stage, pieces: &[(u64, &[u8])], counters: &Counters) -> Outcome {
        if let Err(error) = stage.drain(&**self.base, counters) {
            return Outcome { bytes: 0, result: Err(error) };
        }
        if stage.write(pieces).is_ok() {
            let bytes = pieces.iter().map(|(_, data)| data.len() as u64).sum();
            return staged_all(bytes, counters);
        }
        self.each_straight(pieces, counters)
    }

    fn each_straight(&self, pieces: &[(u64, &[u8])], counters: &Counters) -> Outcome {
        let mut bytes = 0;
        for (at, data) in pieces {
            let outcome = self.straight(data, *at, counters);
            bytes += outcome.bytes;
            if outcome.result.is_err() {
                return Outcome { bytes, result: outcome.result };
            }
        }
        Outcome { bytes, result: Ok(()) }
    }

    /// The stage, if bytes of `extent` in so many pieces had better be staged, or have to be since
    /// others there are.
    fn takes(&self, extent: Extent, bytes: u64, pieces: u64) -> Result<Option<Arc<Stage>>> {
        // Whoever may not write learns it from the driver below.
        let Some(stage) = self.stage()?.filter(|_| self.writes) else { return Ok(None) };
        let fits = extent.end() <= super::places::MAX;
        let is_worth = self.terms.always || is_worth_it(self.costs(), bytes, pieces);
        let is_worth = is_worth && !stage.is_shown();
        Ok((fits && (is_worth || stage.may_have(extent))).then_some(stage))
    }

    fn drain(&self) -> Result<()> {
        match self.stage()? {
            Some(stage) if self.writes => stage.drain(&**self.base, &self.counters),
            _ => Ok(()),
        }
    }
}

/// The outcome of a request to the stage for so many `bytes`.
fn staged_all(bytes: u64, counters: &Counters) -> Outcome {
    Counters::add(&counters.writes_out, 1);
    Counters::add(&counters.bytes_written_out, bytes);
    Outcome { bytes, result: Ok(()) }
}

/// As an attempt at a transfer, of which nobody counts the requests.
fn as_attempt(outcome: Outcome) -> io::Result<usize> {
    outcome.result.map_err(|error| error.to_io())?;
    Ok(outcome.bytes as usize)
}

impl Driver for StagedFile {
    fn name(&self) -> &'static str {
        "stage"
    }

    fn striped(&self) -> Striped {
        self.base.striped()
    }

    fn pread(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        as_attempt(self.read_contig(buffer, offset, &self.counters))
    }

    fn pwrite(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        as_attempt(self.write_contig(buffer, offset, &self.counters))
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
        _: &Strategy,
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
            Ok(stage) => {
                let stage = stage.as_deref();
                Counters::add(&counters.deferred, u64::from(stage.is_some()));
                write_in_portions(view, pos, memory, &mut |pieces| match stage {
                    Some(stage) => self.put(stage, pieces, counters),
                    None => self.each_straight(pieces, counters),
                })
            }
            Err(error) => Outcome { bytes: 0, result: Err(error) },
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

    fn renew(&self) {
        self.base.renew();
    }

    /// Drains the stage, unless what waits shall wait for another program.
    fn close(&self) -> Result<()> {
        let drained = if self.terms.drain == Drain::Later { Ok(()) } else { self.drain() };
        self.closed.store(true, Ordering::Release);
        self.idle.iter().for_each(Idle::stop);
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner).take();
        let closed = match &stage {
            // The client of a server may have bytes to send still.
            Some(stage) if self.writes && !stage.is_empty() => {
                stage.changing(Learn::Surely, || self.base.close())
            }
            _ => self.base.close(),
        };
        if let Some(stage) = stage.and_then(Arc::into_inner) {
            stage.leave();
        }
        drained.and(closed)
    }

    fn completes_at_close(&self) -> bool {
        self.base.completes_at_close()
    }

    fn close_but_offer(&self) -> Result<()> {
        let drained = if self.terms.drain == Drain::Later { Ok(()) } else { self.drain() };
        drained.and(self.base.close_but_offer())
    }

    fn facts(&self) -> Facts {
        let is_staged = self.stage.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        let facts = self.base.facts();
        Facts { has_logs: is_staged || facts.has_logs, is_staged, ..facts }
    }

    fn meter(&self) -> Option<&latency::Meter> {
        self.base.meter()
    }

    fn background(&self) -> Option<Totals> {
        Some(self.counters.totals())
    }

    fn direct(&self) -> (bool, bool) {
        self.base.direct()
    }

    fn identity(&self) -> Option<Identity> {
        self.base.identity()
    }

    fn offer(&self) -> Option<Offer> {
        self.base.offer()
    }

    fn lock(&self, extent: Extent, exclusive: bool) -> Result<Box<dyn LockGuard>> {
        self.base.lock(extent, exclusive)
    }

    fn try_lock(&self, extent: Extent, exclusive: bool) -> Result<Option<Box<dyn LockGuard>>> {
        self.base.try_lock(extent, exclusive)
    }
}

/// The directory of stages that `AGGIO_STAGE` names, if it is one.
pub fn home_of(directory: &str) -> Option<Home> {
    (!directory.is_empty()).then(|| Home::new(Path::new(directory)))
}
