//! The `test` driver: a POSIX file that fails on demand.
//!
//! The plan ([`super::fault_plan`]) comes from [`arrange`] for the path, else from the environment
//! variable `AGGIO_TEST_FAULTS`. No other driver looks at either.

use super::fault_plan::{Kind as FaultKind, Plan, Verdict};
use super::posix::Posix;
use super::table::{Drivers, Kind};
use super::{Closing, Driver, Facts, Offer, OpenHow, Stamp, facts, striping};
use aggio_base::{Error, Extent, Result};
use aggio_comm::transport::LockGuard;
use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Plans of [`arrange`], by path.
static ARRANGED: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Plans that count the opens and deletes of (path, rank).
static BY_NAME: Mutex<Vec<(String, usize, Plan)>> = Mutex::new(Vec::new());

/// Keeps a plan in force for one path until it is dropped.
#[derive(Debug)]
pub struct Arrangement(String);

impl Drop for Arrangement {
    fn drop(&mut self) {
        let mut arranged = ARRANGED.lock().unwrap_or_else(PoisonError::into_inner);
        arranged.retain(|(path, _)| *path != self.0);
        forget(&self.0);
    }
}

fn forget(path: &str) {
    let mut by_name = BY_NAME.lock().unwrap_or_else(PoisonError::into_inner);
    by_name.retain(|(known, _, _)| known != path);
}

/// Puts the faults of `plan` into all later opens and deletes of `path` (without its prefix) by
/// this process, in place of those from the environment.
pub fn arrange(path: &str, plan: &str) -> Result<Arrangement> {
    Plan::parse(plan, path, 0)?;
    let mut arranged = ARRANGED.lock().unwrap_or_else(PoisonError::into_inner);
    arranged.retain(|(known, _)| known != path);
    arranged.push((path.to_owned(), plan.to_owned()));
    forget(path);
    Ok(Arrangement(path.to_owned()))
}

fn plan_for(path: &str, rank: usize) -> Result<Plan> {
    let arranged = ARRANGED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, plan)) = arranged.iter().find(|(known, _)| known == path) {
        return Plan::parse(plan, path, rank);
    }
    drop(arranged);
    match std::env::var_os("AGGIO_TEST_FAULTS") {
        Some(plan) => Plan::parse(&plan.to_string_lossy(), path, rank),
        None => Ok(Plan::default()),
    }
}

/// Counts one open or delete of `path` by `rank`, and makes it fail according to the plan.
fn step_by_name(kind: FaultKind, call: &str, path: &str, rank: usize) -> Result<()> {
    let plan = plan_for(path, rank)?;
    let mut by_name = BY_NAME.lock().unwrap_or_else(PoisonError::into_inner);
    let known = by_name.iter().position(|(name, of, _)| name == path && *of == rank);
    let at = known.unwrap_or_else(|| {
        by_name.push((path.to_owned(), rank, plan));
        by_name.len() - 1
    });
    let verdict = by_name[at].2.next(kind, 0);
    drop(by_name);
    fail(verdict, call).map_err(|error| error.with_path(path))
}

/// A driver that injects the faults of a plan.
#[derive(Debug)]
pub struct FaultDriver {
    inner: Box<dyn Driver>,
    plan: Mutex<Plan>,
    /// The stripes of a file that looks as if it were on Lustre.
    stripes: Option<(u64, u32)>,
}

/// The kind of storage.
#[derive(Debug)]
pub(super) struct Test {
    inner: Posix,
}

impl Test {
    pub(super) fn new(inner: Posix) -> Self {
        Self { inner }
    }
}

impl Kind for Test {
    fn name(&self) -> &'static str {
        "test"
    }

    fn prefixes(&self) -> &'static [&'static str] {
        &["testfs:"]
    }

    fn defers(&self) -> bool {
        false
    }

    fn open(&self, drivers: &Drivers, how: &OpenHow) -> Result<Box<dyn Driver>> {
        step_by_name(FaultKind::Open, "open", &how.path, how.rank)?;
        let plan = plan_for(&how.path, how.rank)?;
        if !plan.is_lustre() {
            return Ok(Box::new(FaultDriver::new(self.inner.open(drivers, how)?, plan)));
        }
        let pretended = Pretended { plan: RefCell::new(plan), layout: RefCell::default() };
        let inner = self.inner.open_by(how, &pretended)?;
        let Pretended { plan, layout } = pretended;
        let mut driver = FaultDriver::new(inner, plan.into_inner());
        driver.stripes = Some(facts::stripes(&layout.into_inner()).unwrap_or((0, 0)));
        Ok(Box::new(driver))
    }

    fn adopt(&self, drivers: &Drivers, how: &OpenHow, offer: Offer) -> Result<Box<dyn Driver>> {
        step_by_name(FaultKind::Fetch, "pidfd_getfd", &how.path, how.rank)?;
        let inner = self.inner.adopt(drivers, how, offer)?;
        Ok(Box::new(FaultDriver::new(inner, plan_for(&how.path, how.rank)?)))
    }

    /// A rank with failing opens sees no file either.
    fn sees(&self, how: &OpenHow) -> bool {
        let opened = step_by_name(FaultKind::Open, "open", &how.path, how.rank);
        opened.is_ok() && self.inner.sees(how)
    }

    fn delete(&self, drivers: &Drivers, path: &str, rank: usize) -> Result<()> {
        step_by_name(FaultKind::Delete, "unlink", path, rank)?;
        self.inner.delete(drivers, path, rank)
    }
}

/// A system that looks like Lustre to the rank that creates a file.
struct Pretended {
    plan: RefCell<Plan>,
    /// The requested layout, which Lustre returns for the file.
    layout: RefCell<Vec<u8>>,
}

impl striping::System for Pretended {
    fn file_system(&self, directory: &Path) -> io::Result<u32> {
        striping::System::file_system(&striping::Real, directory).map(|_| facts::LUSTRE)
    }

    fn lay_out(&self, _: RawFd, request: &[u8; striping::REQUEST]) -> io::Result<()> {
        match self.plan.borrow_mut().next(FaultKind::Stripe, 0).errno {
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => {
                self.layout.replace(request.to_vec());
                Ok(())
            }
        }
    }
}

/// Waits and fails according to the verdict. An interrupted system call other than a transfer is
/// repeated by every driver, so that `EINTR` is no failure here.
fn fail(verdict: Verdict, call: &str) -> Result<()> {
    match pause(verdict).errno {
        Some(errno) if errno != libc::EINTR => {
            Err(Error::os(call, &io::Error::from_raw_os_error(errno)))
        }
        _ => Ok(()),
    }
}

fn pause(verdict: Verdict) -> Verdict {
    if verdict.delay > 0 {
        std::thread::sleep(Duration::from_millis(verdict.delay));
    }
    verdict
}

impl FaultDriver {
    /// Lets `inner` fail by `plan`.
    pub fn new(inner: Box<dyn Driver>, plan: Plan) -> Self {
        Self { inner, plan: Mutex::new(plan), stripes: None }
    }

    fn judge(&self, kind: FaultKind, len: u64) -> Verdict {
        let verdict = self.plan.lock().unwrap_or_else(PoisonError::into_inner).next(kind, len);
        pause(verdict)
    }

    /// One operation that moves no data.
    fn step(&self, kind: FaultKind, call: &str) -> Result<()> {
        fail(self.judge(kind, 0), call)
    }

    /// One transfer of `len` bytes; `attempt` gets the number of bytes to try.
    fn transfer(
        &self,
        kind: FaultKind,
        len: usize,
        attempt: impl FnOnce(usize) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let verdict = self.judge(kind, len as u64);
        if let Some(errno) = verdict.errno {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let moved = attempt(usize::try_from(verdict.limit).unwrap_or(usize::MAX).min(len))?;
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).moved(kind, moved as u64);
        Ok(moved)
    }

    fn inner<'a, T>(&'a self, act: impl FnOnce(&'a dyn Driver) -> T) -> T {
        act(&*self.inner)
    }
}

impl Driver for FaultDriver {
    forward_driver! {
        through: inner,
        here: [
            name pread pwrite preadv pwritev size set_size sync close facts stamp completes_at_close
            preallocate reserve_zeros reserve lock try_lock
        ],
        default: [
            [in_place] "bytes moved through memory meet no fault",
            [read_contig write_contig read_strided write_strided extend_with_zeros
                knows_bytes_behind] "each request of theirs meets the plan",
            [meter] "delays of a plan are no costs of the file system",
        ],
    }

    fn name(&self) -> &'static str {
        "test"
    }

    fn pread(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.transfer(FaultKind::Read, buffer.len(), |n| self.inner.pread(&mut buffer[..n], offset))
    }

    fn pwrite(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        self.transfer(FaultKind::Write, buffer.len(), |n| self.inner.pwrite(&buffer[..n], offset))
    }

    fn preadv(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        let len = buffers.iter().map(|buffer| buffer.len()).sum();
        self.transfer(FaultKind::Read, len, |n| {
            if n == len {
                return self.inner.preadv(buffers, offset);
            }
            let Some(first) = buffers.iter_mut().find(|buffer| !buffer.is_empty()) else {
                return Ok(0);
            };
            let n = n.min(first.len());
            self.inner.pread(&mut first[..n], offset)
        })
    }

    fn pwritev(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let len = buffers.iter().map(|buffer| buffer.len()).sum();
        self.transfer(FaultKind::Write, len, |n| {
            if n == len {
                return self.inner.pwritev(buffers, offset);
            }
            let Some(first) = buffers.iter().find(|buffer| !buffer.is_empty()) else {
                return Ok(0);
            };
            self.inner.pwrite(&first[..n.min(first.len())], offset)
        })
    }

    fn size(&self) -> Result<u64> {
        self.step(FaultKind::Size, "fstat")?;
        self.inner.size()
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.step(FaultKind::Resize, "ftruncate")?;
        self.inner.set_size(size)
    }

    fn sync(&self) -> Result<()> {
        self.step(FaultKind::Sync, "fsync")?;
        self.inner.sync()
    }

    fn close(&self, how: Closing) -> Result<()> {
        // As with the system's own close, the descriptor is gone also if an error is reported.
        let fault = self.step(FaultKind::Close, "close");
        self.inner.close(how).and(fault)
    }

    fn facts(&self) -> Facts {
        let facts = self.inner.facts();
        match self.stripes {
            None => facts,
            Some((striping_unit, striping_factor)) => {
                let file_system = facts::name_of(facts::LUSTRE);
                Facts { striping_unit, striping_factor, file_system, ..facts }
            }
        }
    }

    fn stamp(&self) -> Option<Stamp> {
        if !self.plan.lock().unwrap_or_else(PoisonError::into_inner).is_timeless() {
            return self.inner.stamp();
        }
        let size = i64::try_from(self.inner.size().ok()?).ok()?;
        Some(Stamp { size, modified: 0, changed: 0 })
    }

    fn completes_at_close(&self) -> bool {
        let plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        plan.is_completing() || self.inner.completes_at_close()
    }

    fn preallocate(&self, size: u64) -> Result<()> {
        self.step(FaultKind::Preallocate, "fallocate")?;
        self.inner.preallocate(size)
    }

    fn reserve_zeros(&self, extent: Extent) -> Extent {
        match self.step(FaultKind::Preallocate, "fallocate") {
            Ok(()) => self.inner.reserve_zeros(extent),
            Err(_) => Extent::new(extent.offset, 0),
        }
    }

    fn reserve(&self, extent: Extent) -> Result<()> {
        self.step(FaultKind::Preallocate, "fallocate")?;
        self.inner.reserve(extent)
    }

    fn lock(&self, extent: Extent, exclusive: bool) -> Result<Box<dyn LockGuard>> {
        self.step(FaultKind::Lock, "fcntl(F_OFD_SETLKW)")?;
        self.inner.lock(extent, exclusive)
    }

    fn try_lock(&self, extent: Extent, exclusive: bool) -> Result<Option<Box<dyn LockGuard>>> {
        self.step(FaultKind::Lock, "fcntl(F_OFD_SETLK)")?;
        self.inner.try_lock(extent, exclusive)
    }
}
