//! Counts of a file's calls, reported when the file is closed.

use super::route::Route;
use super::storage::Storage;
use crate::Direction;
use aggio_base::log;
use aggio_base::log::Level;
use aggio_base::report::{Counters, Of, Summary, Totals};
use aggio_comm::group;
use aggio_comm::tags::TagBlock;
use aggio_config::settings::Report;
use aggio_store::driver::Outcome;
use std::sync::Arc;
use std::time::Instant;

/// A data call that has begun.
#[derive(Clone, Copy)]
pub(super) struct Begun {
    pub(super) operation: &'static str,
    pub(super) route: Route,
    direction: Direction,
    /// The start time, if times are taken.
    at: Option<Instant>,
}

/// The account of one open file on this rank.
pub(super) struct Account {
    storage: Arc<Storage>,
    /// The name that the program gave.
    path: String,
    /// As the open requested it.
    report: Report,
}

impl Account {
    /// That of a file just opened.
    pub(super) fn new(storage: Arc<Storage>, path: String, report: Report) -> Self {
        Self { storage, path, report }
    }

    /// The name that the program gave.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Counts a call that begins; its route is the fast path until another is chosen.
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
        Begun { operation, route: Route::FastPath, direction, at: self.storage.counters().now() }
    }

    /// Counts a call, and invalidates small reads after a write.
    pub(super) fn end(&self, begun: Begun, outcome: &Outcome) {
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
        let (path, operation, route) = (&*self.path, begun.operation, begun.route.name());
        log!(Level::Debug, "{path}: {operation}: {} bytes, {route}", outcome.bytes);
        if outcome.result.is_err() {
            Counters::add(&counters.errors, 1);
        }
    }

    /// Sums the counts of all ranks; rank 0 reports them. Does nothing without a request in the
    /// open.
    pub(super) async fn report(&self, tags: &TagBlock, sealed: Option<&str>) {
        if self.report == Report::Off {
            return;
        }
        let transport = &**self.storage.transport();
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

    /// Reports this rank's counts, if the open requested a report.
    pub(super) fn tell_alone(&self) {
        let (path, driver) = (&*self.path, self.storage.driver().name());
        let (ranks, totals) = (self.storage.transport().size(), self.totals());
        let of = Of::Rank(self.storage.transport().rank());
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
