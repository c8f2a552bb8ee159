//! Statistics of the waits of a process, for its report.

use aggio_base::report::Totals;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The number and duration of waits, and the bytes that were waited for.
#[derive(Debug, Default)]
pub(super) struct Waits {
    count: AtomicU64,
    nanoseconds: AtomicU64,
    bytes: AtomicU64,
}

impl Waits {
    /// Adds a wait for `bytes` of another node that began at `since`.
    pub(super) fn add(&self, since: Instant, bytes: u64) {
        let nanoseconds = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let values = [(&self.count, 1), (&self.nanoseconds, nanoseconds), (&self.bytes, bytes)];
        values.into_iter().for_each(|(to, more)| _ = to.fetch_add(more, Ordering::Relaxed));
    }

    /// Stores the statistics in the totals of a report.
    pub(super) fn count_in(&self, totals: &mut Totals) {
        let value = |of: &AtomicU64| of.load(Ordering::Relaxed);
        (totals.coupled_waits, totals.coupled_bytes) = (value(&self.count), value(&self.bytes));
        totals.coupled_nanoseconds = value(&self.nanoseconds);
    }
}
