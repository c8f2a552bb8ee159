//! A file that this rank has not opened: most ranks never need it, because others access it for
//! them.
//!
//! At the first need the rank takes the descriptor of the rank of its node that opened the file,
//! else opens it by name. A name that leads to another file by now is refused. After a failure the
//! next operation tries again.

use super::latency::Meter;
use super::{Driver, Drivers, Facts, InPlace, OpenHow, Outcome, Stamp};
use crate::independent::Strategy;
use aggio_base::error::{Error, Result};
use aggio_base::report::{Counters, Totals};
use aggio_base::{ErrorClass, Extent};
use aggio_comm::transport::{Identity, LockGuard, Offer};
use aggio_container::blob::Sealing;
use aggio_types::memory::Memory;
use aggio_types::view::View;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A file that is opened when it is needed.
pub struct LazyDriver {
    drivers: Arc<Drivers>,
    how: OpenHow,
    facts: Facts,
    /// Where the opener of this node left its descriptor, if there is one.
    offer: Box<dyn Fn() -> Option<Offer> + Send + Sync>,
    /// The identity of the file if nothing is offered, if it is known.
    expected: Option<Identity>,
    opened: OnceLock<Box<dyn Driver>>,
    /// One attempt at a time.
    opening: Mutex<()>,
    closed: AtomicBool,
}

impl LazyDriver {
    /// The file that `how` describes for `drivers`, with the `facts` that another rank found out;
    /// `offer` is asked at the first need.
    pub fn new(
        drivers: Arc<Drivers>,
        how: OpenHow,
        facts: Facts,
        offer: impl Fn() -> Option<Offer> + Send + Sync + 'static,
    ) -> Self {
        Self {
            drivers,
            how,
            facts,
            offer: Box::new(offer),
            expected: None,
            opened: OnceLock::new(),
            opening: Mutex::new(()),
            closed: AtomicBool::new(false),
        }
    }

    /// The same, where another rank of this node has opened the file `expected`.
    #[must_use]
    pub fn expecting(self, expected: Option<Identity>) -> Self {
        Self { expected, ..self }
    }

    /// Whether the file has been needed.
    pub fn is_open(&self) -> bool {
        self.opened.get().is_some()
    }

    fn get(&self) -> Result<&dyn Driver> {
        if let Some(driver) = self.opened.get() {
            return Ok(&**driver);
        }
        let _guard = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorClass::File, "the file has been closed"));
        }
        if self.opened.get().is_none() {
            let driver = self.open().map_err(|error| error.with_path(&self.how.path))?;
            // No other thread has put one there: the guard is ours.
            let _ = self.opened.set(driver);
        }
        let lost = || Error::new(ErrorClass::Intern, "an opened file is lost");
        self.opened.get().map(|driver| &**driver).ok_or_else(lost)
    }

    /// By the opener's descriptor, else by name.
    fn open(&self) -> Result<Box<dyn Driver>> {
        let Some(offer) = (self.offer)() else { return self.by_name(self.expected) };
        let why = match self.drivers.adopt(&self.how, offer) {
            Ok(driver) => return Ok(driver),
            Err(why) => why,
        };
        let named = self.by_name(Some(offer.identity));
        // An I/O error while taking the descriptor is the reason for opening by name, so report
        // that one.
        named.map_err(|error| if why.class() == ErrorClass::Io { why } else { error })
    }

    fn by_name(&self, expected: Option<Identity>) -> Result<Box<dyn Driver>> {
        let driver = self.drivers.open_or_less(&self.how)?;
        if let Some((expected, found)) = expected.zip(driver.identity()) {
            expected.check(Ok(found))?;
        }
        Ok(driver)
    }
}

impl std::fmt::Debug for LazyDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LazyDriver").field("how", &self.how).field("opened", &self.opened).finish()
    }
}

impl LazyDriver {
    /// Prevents later opens; `close` ends the file if it is open.
    fn end(&self, close: impl FnOnce(&dyn Driver) -> Result<()>) -> Result<()> {
        let _guard = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        self.closed.store(true, Ordering::Release);
        self.opened.get().map_or(Ok(()), |driver| close(&**driver))
    }

    /// One attempt on the file.
    fn attempt<T>(&self, act: impl FnOnce(&dyn Driver) -> io::Result<T>) -> io::Result<T> {
        act(self.get().map_err(|error| error.to_io())?)
    }

    /// A whole transfer.
    fn transfer(&self, act: impl FnOnce(&dyn Driver) -> Outcome) -> Outcome {
        match self.get() {
            Ok(driver) => act(driver),
            Err(error) => Outcome { bytes: 0, result: Err(error) },
        }
    }
}

impl Driver for LazyDriver {
    fn name(&self) -> &'static str {
        self.drivers.probe(&self.how.path).0.name()
    }

    fn pread(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.attempt(|driver| driver.pread(buffer, offset))
    }

    fn pwrite(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        self.attempt(|driver| driver.pwrite(buffer, offset))
    }

    fn preadv(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        self.attempt(|driver| driver.preadv(buffers, offset))
    }

    fn pwritev(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        self.attempt(|driver| driver.pwritev(buffers, offset))
    }

    fn in_place(&self, extent: Extent, access: InPlace<'_>, copy: &mut dyn FnMut(*mut u8)) -> bool {
        self.get().is_ok_and(|driver| driver.in_place(extent, access, copy))
    }

    fn read_contig(&self, buffer: &mut [u8], offset: u64, counters: &Counters) -> Outcome {
        self.transfer(|driver| driver.read_contig(buffer, offset, counters))
    }

    fn write_contig(&self, buffer: &[u8], offset: u64, counters: &Counters) -> Outcome {
        self.transfer(|driver| driver.write_contig(buffer, offset, counters))
    }

    fn write_strided(
        &self,
        view: &View,
        pos: u64,
        memory: &Memory,
        strategy: &Strategy,
        counters: &Counters,
    ) -> Outcome {
        self.transfer(|driver| driver.write_strided(view, pos, memory, strategy, counters))
    }

    fn read_strided(
        &self,
        view: &View,
        pos: u64,
        memory: &Memory,
        strategy: &Strategy,
        counters: &Counters,
    ) -> Outcome {
        self.transfer(|driver| driver.read_strided(view, pos, memory, strategy, counters))
    }

    fn size(&self) -> Result<u64> {
        self.get()?.size()
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.get()?.set_size(size)
    }

    fn was_resized(&self, size: u64) {
        if let Some(driver) = self.opened.get() {
            driver.was_resized(size);
        }
    }

    /// A rank that never opened the file has written nothing to synchronise.
    fn sync(&self) -> Result<()> {
        self.opened.get().map_or(Ok(()), |driver| driver.sync())
    }

    fn renew(&self) {
        if let Some(driver) = self.opened.get() {
            driver.renew();
        }
    }

    fn close(&self) -> Result<()> {
        self.end(|driver| driver.close())
    }

    fn close_incomplete(&self) -> Result<()> {
        self.end(|driver| driver.close_incomplete())
    }

    fn sealing(&self) -> Option<Sealing> {
        self.opened.get()?.sealing()
    }

    fn is_available(&self) -> bool {
        self.get().is_ok()
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    /// A rank that makes no requests learns nothing.
    fn meter(&self) -> Option<&Meter> {
        self.opened.get().and_then(|driver| driver.meter())
    }

    fn background(&self) -> Option<Totals> {
        self.opened.get().and_then(|driver| driver.background())
    }

    fn stamp(&self) -> Option<Stamp> {
        self.get().ok().and_then(|driver| driver.stamp())
    }

    /// Returns the identity offered by the opener, without opening the file.
    fn identity(&self) -> Option<Identity> {
        match self.opened.get() {
            Some(driver) => driver.identity(),
            None => (self.offer)().map(|offer| offer.identity).or(self.expected),
        }
    }

    fn direct(&self) -> (bool, bool) {
        self.get().map_or((false, false), |driver| driver.direct())
    }

    fn preallocate(&self, size: u64) -> Result<()> {
        self.get()?.preallocate(size)
    }

    fn reserve_zeros(&self, extent: Extent) -> Extent {
        let nothing = Extent::new(extent.offset, 0);
        self.get().map_or(nothing, |driver| driver.reserve_zeros(extent))
    }

    fn ends_by(&self, offset: u64) -> bool {
        self.get().is_ok_and(|driver| driver.ends_by(offset))
    }

    fn knows_bytes_behind(&self, offset: u64) -> bool {
        self.opened.get().is_some_and(|driver| driver.knows_bytes_behind(offset))
    }

    fn claim_room(&self, len: u64) -> bool {
        self.get().is_ok_and(|driver| driver.claim_room(len))
    }

    fn reserve(&self, extent: Extent) -> Result<()> {
        self.get()?.reserve(extent)
    }

    fn lock(&self, extent: Extent, exclusive: bool) -> Result<Box<dyn LockGuard>> {
        self.get()?.lock(extent, exclusive)
    }

    fn try_lock(&self, extent: Extent, exclusive: bool) -> Result<Option<Box<dyn LockGuard>>> {
        self.get()?.try_lock(extent, exclusive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes how it was closed.
    #[derive(Debug)]
    struct Noted(Arc<Mutex<Vec<&'static str>>>);

    impl Noted {
        fn note(&self, what: &'static str) -> Result<()> {
            self.0.lock().unwrap().push(what);
            Ok(())
        }
    }

    impl Driver for Noted {
        fn name(&self) -> &'static str {
            "noted"
        }

        fn pread(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            Ok(0)
        }

        fn pwrite(&self, bytes: &[u8], _: u64) -> io::Result<usize> {
            Ok(bytes.len())
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
            self.note("close")
        }

        fn close_incomplete(&self) -> Result<()> {
            self.note("close_incomplete")
        }

        fn facts(&self) -> Facts {
            Facts::of_bytes("")
        }
    }

    #[test]
    fn a_file_that_was_opened_is_closed_in_the_way_that_is_asked_for() {
        let notes = Arc::default();
        let lazy = || {
            let (how, facts) = (OpenHow::default(), Facts::of_bytes(""));
            let lazy = LazyDriver::new(Arc::default(), how, facts, || None);
            assert!(lazy.opened.set(Box::new(Noted(Arc::clone(&notes)))).is_ok());
            lazy
        };
        lazy().close().unwrap();
        lazy().close_incomplete().unwrap();
        assert_eq!(*notes.lock().unwrap(), ["close", "close_incomplete"]);
    }
}
