//! The end of an open file: whether it is closed, and how its driver and its lane are released.

use super::agreement::Words;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_comm::lanes::Lane;
use aggio_store::driver::{Closing, Driver, Drivers};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Whether a file is open, and how it ends.
pub(super) struct Lifecycle {
    closed: AtomicBool,
    /// A message from or to another rank failed: writes that depended on it may be missing.
    cut_off: AtomicBool,
    /// Other ranks of the node may take the file from this one until all close it.
    offers: bool,
    /// Held until the file is closed.
    lane: Mutex<Option<Lane>>,
    /// The file's name in any working directory.
    place: String,
}

impl Lifecycle {
    /// That of a file just opened.
    pub(super) fn new(lane: Lane, offers: bool, place: String) -> Self {
        let (closed, cut_off) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { closed, cut_off, offers, lane: Mutex::new(Some(lane)), place }
    }

    /// Whether the file is open.
    pub(super) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Acquire)
    }

    /// # Errors
    /// `File` if the file was closed.
    pub(super) fn check_open(&self) -> Result<()> {
        if self.is_open() {
            return Ok(());
        }
        Err(Error::new(ErrorClass::File, "the file has been closed"))
    }

    /// The file counts as closed from now on; whether it was open.
    pub(super) fn end(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }

    /// Notes the error of an operation.
    pub(super) fn note(&self, error: &Error) {
        if is_of_messages(error) {
            self.cut_off.store(true, Ordering::Relaxed);
        }
    }

    /// Closes the file of this rank; others that have not come to their close may still take it.
    pub(super) fn close_here(&self, driver: &dyn Driver) -> Result<()> {
        driver.close(match (self.cut_off.load(Ordering::Relaxed), self.offers) {
            (true, _) => Closing::Incomplete,
            (false, true) => Closing::Offering,
            (false, false) => Closing::Complete,
        })
    }

    /// Closes the file of this rank without the others.
    pub(super) fn close_alone(&self, driver: &dyn Driver) -> Result<()> {
        driver.close(match self.cut_off.load(Ordering::Relaxed) {
            true => Closing::Incomplete,
            false => Closing::Complete,
        })
    }

    /// Whether the last close of the file has a result of its own.
    pub(super) fn completes(&self, driver: &dyn Driver) -> bool {
        self.offers && driver.completes_at_close()
    }

    /// No rank needs the file of this one any more.
    pub(super) fn close_last(
        &self,
        driver: &dyn Driver,
        agreed: &Result<Vec<Words>>,
    ) -> Result<()> {
        if agreed.as_ref().err().is_some_and(is_of_messages) {
            driver.close(Closing::Incomplete)
        } else if self.offers {
            driver.close(Closing::Complete)
        } else {
            Ok(())
        }
    }

    /// Deletes the file, as `rank`.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn delete(&self, drivers: &Drivers, rank: usize) -> Result<()> {
        drivers.delete(&self.place, rank)
    }

    /// Releases the file's message tags, if all ranks are known to have closed it.
    pub(super) fn leave_lane(&self, agreed: &Result<Vec<Words>>) {
        let in_order = !agreed.as_ref().err().is_some_and(is_of_messages);
        let lane = self.lane.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(lane) = lane.filter(|_| in_order) {
            lane.release();
        }
    }
}

/// Whether an error is one of the ranks' exchange, not of the file.
fn is_of_messages(error: &Error) -> bool {
    [ErrorClass::Other, ErrorClass::Intern].contains(&error.class())
}

#[cfg(test)]
mod tests {
    use super::*;
    use aggio_comm::transport::{ThreadTransport, Transport};

    fn opened(transport: &ThreadTransport) -> Option<Lifecycle> {
        Some(Lifecycle::new(transport.lanes().choose()?, false, String::new()))
    }

    #[test]
    fn a_file_is_closed_once_and_gives_its_lane_back_if_all_ranks_know() {
        let transport = ThreadTransport::group(1).remove(0);
        let numbers = |agreed: Result<Vec<Words>>| {
            let mut lanes = 0;
            while let Some(file) = opened(&transport).filter(|_| lanes < 1000) {
                assert!(file.check_open().is_ok() && file.end() && !file.end());
                assert_eq!(file.check_open().expect_err("closed").class(), ErrorClass::File);
                file.leave_lane(&agreed);
                lanes += 1;
            }
            lanes
        };
        assert_eq!(numbers(Ok(Vec::new())), 1000);
        assert_eq!(numbers(Err(Error::new(ErrorClass::NoSpace, "full"))), 1000);
        assert!(numbers(Err(Error::new(ErrorClass::Intern, "no message"))) < 1000);
    }
}
