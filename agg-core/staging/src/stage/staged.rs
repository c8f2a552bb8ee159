//! An open file with staged small writes.

use super::control::{Identity, Learn};
use super::drain::costs_of;
use super::home::Place;
use super::idle::Idle;
use super::{Home, Stage};
use aggio_base::log::Level;
use aggio_base::report::Counters;
use aggio_base::{Error, ErrorClass, Extent, Result, log};
use aggio_comm::workers::Workers;
use aggio_config::hints::Drain;
use aggio_plan::plan::cost::{Costs, is_worth_staging};
use aggio_store::driver::{Driver, OpenHow, Outcome, Staging};
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// An open file, and its stage as soon as there is one.
#[derive(Debug)]
pub(super) struct StagedFile {
    pub(super) base: Arc<Box<dyn Driver>>,
    /// Drains in the background.
    pub(super) idle: Option<Idle>,
    pub(super) home: Home,
    /// Where the stage is, if there is one.
    place: Place,
    target: File,
    path: PathBuf,
    pub(super) terms: Staging,
    pub(super) writes: bool,
    /// Whether this opener makes the stage if there is none.
    makes: AtomicBool,
    pub(super) stage: Mutex<Option<Arc<Stage>>>,
    pub(super) closed: AtomicBool,
    /// Counts requests that belong to no call.
    pub(super) counters: Arc<Counters>,
}

impl StagedFile {
    /// The file `base`, which `how` opened and `target` is, staged on `terms`.
    ///
    /// # Errors
    /// The error of a system call on the file.
    pub(super) fn new(
        base: Box<dyn Driver>,
        target: File,
        how: &OpenHow,
        terms: Staging,
        home: &Home,
        workers: &Workers,
    ) -> Result<Self> {
        let drains = terms.drain == Drain::Idle && terms.first && how.write;
        let counters = Arc::<Counters>::default();
        let limit = home.most().map_or(terms.limit, |most| most.min(terms.in_memory));
        Ok(Self {
            base: Arc::new(base),
            idle: drains.then(|| Idle::new(workers.clone(), counters.clone())),
            home: home.clone(),
            place: home.place(&Identity::of(&target)?),
            target,
            path: std::path::absolute(&how.path).unwrap_or_else(|_| PathBuf::from(&how.path)),
            terms: Staging { limit, ..terms },
            writes: how.write,
            makes: AtomicBool::new(false),
            stage: Mutex::new(None),
            closed: AtomicBool::new(false),
            counters,
        })
    }

    /// Returns the file itself, if it has no stage.
    ///
    /// # Errors
    /// A thread drains it.
    pub(super) fn into_base(self) -> Result<Box<dyn Driver>> {
        let used = || Error::new(ErrorClass::Intern, "a file that nothing drains is in use");
        Arc::into_inner(self.base).ok_or_else(used)
    }

    /// Joins the stage. The process that opens the file first makes it, if requests are slow.
    /// Returns whether there is a stage, or may be one.
    pub(super) fn begin(&self) -> Result<bool> {
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

    /// The costs of requests to the file.
    fn costs(&self) -> Costs {
        costs_of(&**self.base)
    }

    /// The stage, if there is one.
    pub(super) fn stage(&self) -> Result<Option<Arc<Stage>>> {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        // A closed file is refused by the driver below.
        if stage.is_none() && !self.closed.load(Ordering::Acquire) {
            let made = self.makes.load(Ordering::Acquire);
            if !made && !self.home.has(&self.place) {
                return Ok(None);
            }
            let target = self.target.try_clone().map_err(|error| Error::os("fcntl", &error))?;
            *stage = Stage::join(&self.home, target, &self.path, made)?.map(Arc::new);
        }
        Ok(stage.clone())
    }

    /// Writes to the file itself, past the stage.
    pub(super) fn straight(&self, data: &[u8], offset: u64, counters: &Counters) -> Outcome {
        self.past_the_stage(|| self.base.write_contig(data, offset, counters))
    }

    /// Runs `write` on the file itself; the stage records the change.
    pub(super) fn past_the_stage(&self, write: impl FnOnce() -> Outcome) -> Outcome {
        match self.stage() {
            Ok(Some(stage)) => stage.changing(Learn::AtOnce, write),
            Ok(None) => write(),
            Err(error) => Outcome { bytes: 0, result: Err(error) },
        }
    }

    /// Stages pieces. If they find no room in the stage, they go to the file, after everything else
    /// that waits.
    pub(super) fn put(
        &self,
        stage: &Stage,
        pieces: &[(u64, &[u8])],
        counters: &Counters,
    ) -> Outcome {
        let len: u64 = pieces.iter().map(|(_, data)| data.len() as u64).sum();
        let full = |error: &Error| matches!(error.class(), ErrorClass::NoSpace | ErrorClass::Quota);
        let fits = stage.held().saturating_add(len) <= self.terms.limit;
        let staged = self.try_put(stage, pieces, fits);
        match staged {
            Ok(()) => {
                self.wake(pieces);
                staged_all(len, counters)
            }
            Err(error) if full(&error) => self.make_room(stage, pieces, counters),
            Err(error) => Outcome { bytes: 0, result: Err(error) },
        }
    }

    /// Stages pieces if they fit and there is memory for them.
    fn try_put(&self, stage: &Stage, pieces: &[(u64, &[u8])], fits: bool) -> Result<()> {
        match fits && self.home.has_room_for(pieces) {
            true => stage.write(pieces),
            false => Err(Error::new(ErrorClass::NoSpace, "the stage is full")),
        }
    }

    /// Wakes the thread that drains these pieces.
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
        if self.try_put(stage, pieces, true).is_ok() {
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
    pub(super) fn takes(
        &self,
        extent: Extent,
        bytes: u64,
        pieces: u64,
    ) -> Result<Option<Arc<Stage>>> {
        // Without permission to write, the driver below returns the error.
        let Some(stage) = self.stage()?.filter(|_| self.writes) else { return Ok(None) };
        let fits = extent.end() <= super::places::MAX;
        let is_worth = self.terms.always || is_worth_staging(self.costs(), bytes, pieces);
        let is_worth = is_worth && !stage.is_shown();
        Ok((fits && (is_worth || stage.has_any_of(extent))).then_some(stage))
    }

    /// Drains, unless the bytes are to wait for another program, and can.
    pub(super) fn drain_at_close(&self) -> Result<()> {
        let waits = self.terms.drain == Drain::Later && self.home.survives();
        if waits { Ok(()) } else { self.drain() }
    }

    pub(super) fn drain(&self) -> Result<()> {
        match self.stage()? {
            Some(stage) if self.writes => stage.drain(&**self.base, &self.counters),
            _ => Ok(()),
        }
    }
}

/// The outcome of a request to the stage for so many `bytes`.
pub(super) fn staged_all(bytes: u64, counters: &Counters) -> Outcome {
    Counters::add(&counters.writes_out, 1);
    Counters::add(&counters.bytes_written_out, bytes);
    Outcome { bytes, result: Ok(()) }
}
