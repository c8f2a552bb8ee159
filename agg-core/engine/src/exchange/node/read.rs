//! Reading: the first rank that needs a window reads it, and each rank takes its pieces.

use super::super::{Direction, step};
use super::NodeAggregation;
use super::fetch;
use aggio_base::Extent;
use aggio_base::error::Result;
use aggio_comm::task::{join, yield_now};
use aggio_plan::plan::Summary;
use aggio_store::driver::Outcome;
use aggio_types::copy;

/// Carries out this rank's part of the read.
pub(in super::super) async fn run(passage: &NodeAggregation<'_>) -> Outcome {
    let mut reader = Reader { passage, missing: u64::MAX, result: Ok(()) };
    passage.ring.pass_over(|window| passage.expected(window));
    let passed = match passage.node().has_others() {
        false => pass(passage, &mut reader).await,
        // Boxed, for it is large, and every call on one node would carry its room about.
        true => Box::pin(pass_among_nodes(passage, &mut reader)).await,
    };
    let alone = passage.move_alone(Direction::Read, passed.is_ok());
    let result = passed.and(reader.result).and(alone.result);
    let result = passage.meeting.agree(step::AGREE, result).await;
    // Data counts up to the first byte that is missing; a view's data is in file order.
    let (first, len) = (passage.request.position, passage.request.len());
    let upto =
        passage.request.view.data_before(passage.ring.end().min(reader.missing).min(alone.upto));
    Outcome { bytes: upto.saturating_sub(first).min(len), result }
}

/// As [`pass`], and fetches from other nodes and serves them.
async fn pass_among_nodes(passage: &NodeAggregation<'_>, reader: &mut Reader<'_>) -> Result<()> {
    let own = join(fetch::mark(passage), pass(passage, reader));
    let messages = join(fetch::run(passage), fetch::serve(passage));
    let ((marked, passed), (fetched, served)) = join(own, messages).await;
    marked.and(passed).and(fetched).and(served)
}

/// Takes part in all windows that this rank may have data in.
async fn pass(passage: &NodeAggregation<'_>, reader: &mut Reader<'_>) -> Result<()> {
    let ring = &passage.ring;
    for window in passage.own_windows() {
        let valid = match ring.loaded(window, || reader.help()).await {
            Ok(valid) => valid,
            Err(error) => {
                reader.missing = passage.first_offset_from(window);
                return Err(error);
            }
        };
        passage.take(window, valid);
        if ring.arrive(window, passage.expected(window)) {
            ring.finish(window, |later| passage.expected(later));
            yield_now().await;
        }
    }
    // The end of the file is known when all windows are done.
    ring.drained(|| while reader.help() {}).await
}

impl NodeAggregation<'_> {
    /// Copies this rank's pieces out of the window; the file's bytes in it end at `valid`.
    fn take(&self, window: u32, valid: u64) {
        let extent = self.windows.extent(window);
        let there = Extent::between(extent.offset, valid.clamp(extent.offset, extent.end()));
        for part in self.parts(there) {
            let bytes = self.ring.bytes(window, extent.len as usize);
            // SAFETY: the window is loaded, and no rank writes to it before this rank arrives.
            unsafe { copy::get(self.data(), part, bytes) };
        }
    }

    /// The lowest byte of this rank's windows from `window` on.
    fn first_offset_from(&self, window: u32) -> u64 {
        let rest = self.own_windows().filter(|own| *own >= window);
        rest.map(|own| self.windows.extent(own).offset).min().unwrap_or(u64::MAX)
    }

    /// The bytes of the window from the first to the last that a rank may need.
    pub(super) fn wanted(&self, window: u32) -> Extent {
        let wanted = self.wanted_by_all(window);
        let Some(exchanged) = self.exchanged else { return wanted };
        let hull = |a: Extent, b: Extent| Extent::between(a.offset, b.end());
        exchanged.parts(wanted).reduce(hull).unwrap_or(Extent::new(wanted.offset, 0))
    }

    /// As if all data went through windows.
    fn wanted_by_all(&self, window: u32) -> Extent {
        let extent = self.windows.extent(window);
        if self.node().has_others() {
            let nodes = 0..self.party.nodes.len();
            let parts =
                nodes.map(|node| self.part_of(node, window)).filter(|part| !part.is_empty());
            let hull = |a: Extent, b: Extent| {
                Extent::between(a.offset.min(b.offset), a.end().max(b.end()))
            };
            return parts.reduce(hull).unwrap_or_default();
        }
        let parts =
            self.party.members.iter().filter(|summary| summary.bytes > 0).filter_map(|summary| {
                let span = summary.span.intersect(extent);
                (!span.is_empty()).then(|| Summary { span, bytes: 1, ..Summary::default() })
            });
        Summary::hull(&parts.collect::<Vec<_>>())
    }
}

struct Reader<'a> {
    passage: &'a NodeAggregation<'a>,
    /// First byte of the windows that never came.
    missing: u64,
    result: Result<()>,
}

impl Reader<'_> {
    /// Reads the first open window that no rank reads yet; returns whether there was one.
    fn help(&mut self) -> bool {
        let passage = self.passage;
        let wanted = |window| passage.expected(window) > 0 && passage.serves(window);
        let claimed = passage.ring.claim(wanted);
        if let Some(window) = claimed {
            self.load(window);
        }
        claimed.is_some()
    }

    /// Reads a claimed window.
    fn load(&mut self, window: u32) {
        let NodeAggregation { scene, ring, windows, .. } = self.passage;
        let (extent, wanted) = (windows.extent(window), self.passage.wanted(window));
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
