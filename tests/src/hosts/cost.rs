//! Measures the cost of a collective call between hosts, and compares it with bounds.

use super::Cluster;
use crate::{Finished, Job};
use std::collections::BTreeMap;
use std::path::Path;

/// Bytes of a block of one rank; not a power of two, so that nothing is aligned by chance.
const BLOCK: u64 = 1000;
/// Blocks of each rank.
const COUNT: u64 = 2000;
/// Bytes that an aggregator handles at a time.
const WINDOW: u64 = 1 << 20;

/// The measured cost of one interleaved collective call.
#[derive(Debug)]
pub struct Cost {
    /// Bytes that the program moved.
    pub data: u64,
    /// Bytes that left each host during the call, as the kernel counts them, with packet headers.
    pub sent: BTreeMap<String, u64>,
    /// The library's own counts, from open to close, over all ranks.
    pub report: BTreeMap<String, u64>,
}

/// Upper bounds of a cost.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes between hosts for each byte of data, in thousandths.
    pub wire_per_mille: u64,
    /// Additional bytes between hosts: the agreement of the ranks, views, barriers.
    pub wire_constant: u64,
    /// Bytes of messages with data, also between ranks of one host, for each byte of data, in
    /// thousandths.
    pub messages_per_mille: u64,
    /// Messages between each host and each window of another.
    pub messages_per_window: u64,
}

impl Cost {
    /// Runs `job`, which is `traffic.c` without arguments, on `cluster`; `direction` is `write` or
    /// `read`.
    ///
    /// # Errors
    ///
    /// The failed run.
    pub fn of(
        job: Job,
        cluster: &Cluster,
        file: &Path,
        direction: &str,
    ) -> Result<Self, Box<Finished>> {
        let finished = job
            .argument(file)
            .argument(direction)
            .argument(BLOCK.to_string())
            .argument(COUNT.to_string())
            .variable("AGGIO_REPORT", "json")
            .variable("AGGIO_HINTS", format!("*:cb_buffer_size={WINDOW}"))
            .run();
        let passed = finished.succeeded() && finished.stdout.lines().any(|line| line == "ok");
        let Some(report) = finished.json_report().filter(|_| passed) else {
            return Err(Box::new(finished));
        };
        let sent = finished.stdout.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let ["host", host, "out", bytes, ..] = words[..] else { return None };
            Some((host.to_owned(), bytes.parse().ok()?))
        });
        let data = BLOCK * COUNT * u64::from(cluster.ranks());
        Ok(Cost { data, sent: sent.collect(), report })
    }

    /// Checks the cost against the bounds.
    ///
    /// # Errors
    ///
    /// The first bound that does not hold, with the numbers.
    pub fn within(&self, bounds: &Bounds) -> Result<(), String> {
        let at_most = |what: &str, found: u64, most: u64| {
            let words = || format!("{found} {what}, more than {most}: {self:?}");
            (found <= most).then_some(()).ok_or_else(words)
        };
        let of_data = |per_mille: u64| self.data * per_mille / 1000;
        let wire = of_data(bounds.wire_per_mille) + bounds.wire_constant;
        at_most("bytes between hosts", self.sent.values().sum(), wire)?;
        let count = |name: &str| self.report.get(name).copied().unwrap_or(u64::MAX);
        let bytes = of_data(bounds.messages_per_mille);
        at_most("bytes in messages", count("message_bytes"), bytes)?;
        // Each host has an aggregator, and its last window may be small.
        let hosts = self.sent.len() as u64;
        let windows = self.data.div_ceil(WINDOW) + hosts;
        let most = windows * (hosts - 1) * bounds.messages_per_window;
        at_most("messages", count("messages"), most)
    }
}
