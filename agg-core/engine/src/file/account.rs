//! Counts of a file's calls, reported when the file is closed.

use super::{Direction, File};
use aggio_base::log;
use aggio_base::log::Level;
use aggio_base::report::{Counters, Of, Summary, Totals};
use aggio_comm::group;
use aggio_comm::tags::TagBlock;
use aggio_config::settings::Report;
use aggio_store::driver::Outcome;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A data call that has begun.
#[derive(Clone, Copy)]
pub(super) struct Begun {
    operation: &'static str,
    direction: Direction,
    /// The start time, if times are taken.
    at: Option<Instant>,
}

impl File {
    /// Counts a call that begins.
    pub(super) fn begin(
        &self,
        operation: &'static str,
        direction: Direction,
        collective: bool,
    ) -> Begun {
        Counters::add(&self.storage.counters().calls, 1);
        if collective {
            Counters::add(&self.storage.counters().collective_calls, 1);
        }
        if self.report != Report::Off {
            self.storage.counters().take_times();
        }
        Begun { operation, direction, at: self.storage.counters().now() }
    }

    /// Counts a call, invalidates small reads after a write, and adds the file's context to its
    /// error.
    pub(super) fn end(&self, begun: Begun, mut outcome: Outcome) -> Outcome {
        let counters = &**self.storage.counters();
        let bytes = match begun.direction {
            Direction::Read => &counters.bytes_read,
            Direction::Write => {
                self.storage.small().changed();
                &counters.bytes_written
            }
        };
        Counters::add(bytes, outcome.bytes);
        Counters::add_since(&counters.nanoseconds, begun.at);
        log!(Level::Debug, "{}: {}: {} bytes", self.path, begun.operation, outcome.bytes);
        outcome.result = outcome.result.map_err(|error| {
            Counters::add(&counters.errors, 1);
            self.context(error, begun.operation)
        });
        outcome
    }

    /// Sums the counts of all ranks; rank 0 reports them. Does nothing without a request in the
    /// open.
    pub(super) async fn report(&self, tags: &TagBlock, sealed: Option<&str>) {
        if self.report == Report::Off {
            return;
        }
        let transport = &*self.transport;
        let mine = self.totals().to_bytes();
        // Ranks that cannot communicate have already reported that error.
        let Ok(sum) = group::allreduce(transport, tags.tag(5), mine, add).await else { return };
        if transport.rank() == 0 {
            let totals = Totals::from_bytes(&sum).unwrap_or_default();
            let (path, driver, ranks) =
                (&*self.path, self.storage.driver().name(), transport.size());
            Summary { path, driver, ranks, of: Of::All, totals, sealed }.tell(self.report);
        }
    }

    /// The counts of this rank: its calls, and the background work of its driver.
    fn totals(&self) -> Totals {
        let mut totals = self.storage.counters().totals();
        self.storage.driver().background().iter().for_each(|more| totals.add(more));
        totals
    }

    /// Reports this rank's counts of a file that is never closed, if the open requested a report.
    pub fn report_alone(&self) {
        if !self.closed.load(Ordering::Acquire) {
            self.tell_alone();
        }
    }

    /// Reports this rank's counts, if the open requested a report.
    pub(super) fn tell_alone(&self) {
        let (path, driver) = (&*self.path, self.storage.driver().name());
        let (ranks, totals) = (self.transport.size(), self.totals());
        let of = Of::Rank(self.transport.rank());
        Summary { path, driver, ranks, of, totals, sealed: None }.tell(self.report);
    }
}

fn add(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut sum = Totals::from_bytes(a).unwrap_or_default();
    sum.add(&Totals::from_bytes(b).unwrap_or_default());
    sum.to_bytes()
}

/// The report requested by the open, as a number for the other ranks.
pub(super) fn report_to_word(report: Report) -> u64 {
    match report {
        Report::Off => 0,
        Report::Line => 1,
        Report::Json => 2,
    }
}

/// The reverse of [`report_to_word`].
pub(super) fn report_from_word(word: u64) -> Report {
    match word {
        1 => Report::Line,
        2 => Report::Json,
        _ => Report::Off,
    }
}
