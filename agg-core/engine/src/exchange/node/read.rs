//! Reading: the first rank that needs a window reads it, and each rank takes its pieces.

use super::super::{Direction, step};
use super::NodeAggregation;
use super::{alone, fetch};
use aggio_base::Extent;
use aggio_base::error::Result;
use aggio_comm::task::{join, yield_now};
use aggio_store::driver::Outcome;
use aggio_types::copy;

/// Carries out this rank's part of the read.
pub(in super::super) async fn run(aggregation: &NodeAggregation<'_>) -> Outcome {
    let NodeAggregation { plan, ring, own, meeting, .. } = aggregation;
    let mut reader = Reader { aggregation, missing: u64::MAX, result: Ok(()) };
    ring.pass_over(|window| plan.expected(window));
    let passed = match ring.node().has_others() {
        false => pass(aggregation, &mut reader).await,
        // Boxed, for it is large, and every call on one node would carry its room about.
        true => Box::pin(pass_among_nodes(aggregation, &mut reader)).await,
    };
    let alone = alone::run(aggregation, Direction::Read, passed.is_ok());
    let result = passed.and(reader.result).and(alone.result);
    let result = meeting.agree(step::AGREE, result).await;
    // Data counts up to the first byte that is missing.
    let upto = ring.end().min(reader.missing).min(alone.upto);
    Outcome { bytes: own.bytes_below(upto), result }
}

/// As [`pass`], and fetches from other nodes and serves them.
async fn pass_among_nodes(
    aggregation: &NodeAggregation<'_>,
    reader: &mut Reader<'_>,
) -> Result<()> {
    let own = join(fetch::mark(aggregation), pass(aggregation, reader));
    let messages = join(fetch::run(aggregation), fetch::serve(aggregation));
    let ((marked, passed), (fetched, served)) = join(own, messages).await;
    marked.and(passed).and(fetched).and(served)
}

/// Takes part in all windows that this rank may have data in.
async fn pass(aggregation: &NodeAggregation<'_>, reader: &mut Reader<'_>) -> Result<()> {
    let NodeAggregation { plan, ring, .. } = aggregation;
    for window in plan.own_windows() {
        let valid = match ring.loaded(window, || reader.help()).await {
            Ok(valid) => valid,
            Err(error) => {
                reader.missing = plan.first_offset_from(window);
                return Err(error);
            }
        };
        aggregation.take(window, valid);
        if ring.arrive(window, plan.expected(window)) {
            ring.finish(window, |later| plan.expected(later));
            yield_now().await;
        }
    }
    // The end of the file is known when all windows are done.
    ring.drained(|| while reader.help() {}).await
}

impl NodeAggregation<'_> {
    /// Copies this rank's pieces out of the window; the file's bytes in it end at `valid`.
    fn take(&self, window: u32, valid: u64) {
        let extent = self.plan.extent(window);
        let there = Extent::between(extent.offset, valid.clamp(extent.offset, extent.end()));
        for part in self.own.parts(there) {
            let bytes = self.ring.bytes(window, extent.len as usize);
            // SAFETY: the window is loaded, and no rank writes to it before this rank arrives.
            unsafe { copy::get(self.own.data(), part, bytes) };
        }
    }
}

struct Reader<'a> {
    aggregation: &'a NodeAggregation<'a>,
    /// First byte of the windows that never came.
    missing: u64,
    result: Result<()>,
}

impl Reader<'_> {
    /// Reads the first open window that no rank reads yet; returns whether there was one.
    fn help(&mut self) -> bool {
        let aggregation = self.aggregation;
        let wanted = |window| aggregation.plan.expected(window) > 0 && aggregation.serves(window);
        let claimed = aggregation.ring.claim(wanted);
        if let Some(window) = claimed {
            self.load(window);
        }
        claimed.is_some()
    }

    /// Reads a claimed window.
    fn load(&mut self, window: u32) {
        let NodeAggregation { scene, ring, plan, .. } = self.aggregation;
        let (extent, wanted) = (plan.extent(window), plan.wanted(window));
        let mut valid = wanted.end();
        if ring.end() <= wanted.offset {
            valid = wanted.offset;
        } else {
            let skip = (wanted.offset - extent.offset) as usize;
            let start = ring.bytes(window, extent.len as usize).wrapping_add(skip);
            // SAFETY: only the rank that claimed the window accesses it until it is loaded.
            let bytes = unsafe { std::slice::from_raw_parts_mut(start, wanted.len as usize) };
            let outcome = scene.driver.read_contig(bytes, wanted.offset, scene.counters);
            if outcome.bytes < wanted.len || outcome.result.is_err() {
                valid = wanted.offset + outcome.bytes;
                ring.note_end(valid);
            }
            self.result = std::mem::replace(&mut self.result, Ok(())).and(outcome.result);
        }
        ring.note_loaded(window, valid);
    }
}
