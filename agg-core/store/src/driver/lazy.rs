//! A file that this rank has not opened: most ranks never need it, because others access it for
//! them.
//!
//! At the first need the rank takes the descriptor of the rank of its node that opened the file,
//! else opens it by name. A name that leads to another file by now is refused. After a failure the
//! next operation tries again.

use super::latency::Meter;
use super::{Closing, Driver, Drivers, Facts, OpenHow, Outcome};
use aggio_base::error::{Error, Result};
use aggio_base::report::Totals;
use aggio_base::{ErrorClass, Extent};
use aggio_comm::transport::{Identity, Offer};
use aggio_container::blob::Sealing;
use std::io;
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

    /// Runs `act` on the file, opened if it is not.
    fn needed<'a, T: Unopened>(&'a self, act: impl FnOnce(&'a dyn Driver) -> T) -> T {
        self.get().map_or_else(T::because, act)
    }
}

/// An answer for a file that cannot be opened.
trait Unopened {
    fn because(error: Error) -> Self;
}

impl<T> Unopened for Result<T> {
    fn because(error: Error) -> Self {
        Err(error)
    }
}

impl<T> Unopened for io::Result<T> {
    fn because(error: Error) -> Self {
        Err(error.to_io())
    }
}

impl Unopened for Outcome {
    fn because(error: Error) -> Self {
        Outcome { bytes: 0, result: Err(error) }
    }
}

impl<T> Unopened for Option<T> {
    fn because(_: Error) -> Self {
        None
    }
}

/// The request that follows reports the error.
impl Unopened for bool {
    fn because(_: Error) -> Self {
        false
    }
}

impl Unopened for (bool, bool) {
    fn because(_: Error) -> Self {
        (false, false)
    }
}

impl Driver for LazyDriver {
    forward_driver! {
        through: needed,
        here: [
            name was_resized sync renew close sealing is_available facts meter background identity
            reserve_zeros knows_bytes_behind
        ],
        default: [
            [striped] "the rank that creates the file sets its stripes",
            [offer] "others take the descriptor of the rank that opened the file at once",
            [completes_at_close] "the last close is that of the rank that offers the file",
        ],
    }

    fn name(&self) -> &'static str {
        self.drivers.probe(&self.how.path).0.name()
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

    fn close(&self, how: Closing) -> Result<()> {
        let how = match how {
            // Nobody takes the file from this rank.
            Closing::Offering => Closing::Complete,
            other => other,
        };
        self.end(|driver| driver.close(how))
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

    /// Returns the identity offered by the opener, without opening the file.
    fn identity(&self) -> Option<Identity> {
        match self.opened.get() {
            Some(driver) => driver.identity(),
            None => (self.offer)().map(|offer| offer.identity).or(self.expected),
        }
    }

    fn reserve_zeros(&self, extent: Extent) -> Extent {
        let nothing = Extent::new(extent.offset, 0);
        self.get().map_or(nothing, |driver| driver.reserve_zeros(extent))
    }

    fn knows_bytes_behind(&self, offset: u64) -> bool {
        self.opened.get().is_some_and(|driver| driver.knows_bytes_behind(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::fake::{FakeDriver, FakeFile};

    #[test]
    fn a_file_that_was_opened_is_closed_in_the_way_that_is_asked_for() {
        let file = FakeFile::new(Vec::new());
        for how in [Closing::Complete, Closing::Offering, Closing::Incomplete] {
            let facts = Facts::of_bytes("");
            let lazy = LazyDriver::new(Arc::default(), OpenHow::default(), facts, || None);
            assert!(lazy.opened.set(Box::new(FakeDriver::new(&file))).is_ok());
            lazy.close(how).unwrap();
        }
        let expected = [Closing::Complete, Closing::Complete, Closing::Incomplete];
        assert_eq!(file.closings(), expected);
    }
}
