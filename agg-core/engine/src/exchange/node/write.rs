//! Writing: each rank puts its pieces into the windows, and idle ranks store full windows.

use super::super::coverage::Coverage;
use super::super::{Direction, step};
use super::NodeAggregation;
use super::{alone, lost, send};
use aggio_base::error::{Error, Result};
use aggio_comm::task::{join, yield_now};
use aggio_store::driver::Outcome;
use aggio_store::independent;
use aggio_types::copy;

/// Carries out this rank's part of the write.
pub(in super::super) async fn run(aggregation: &NodeAggregation<'_>) -> Outcome {
    let NodeAggregation { plan, ring, own, meeting, .. } = aggregation;
    let mut keeper = Keeper::new(aggregation);
    ring.pass_over(|window| plan.expected(window));
    let passed = match ring.node().has_others() {
        false => pass(aggregation, &mut keeper).await,
        // Boxed, for it is large, and every call on one node would carry its room about.
        true => Box::pin(pass_among_nodes(aggregation, &mut keeper)).await,
    };
    let alone = alone::run(aggregation, Direction::Write, passed.is_ok());
    let result = passed.and(keeper.result).and(alone.result);
    let result = meeting.agree(step::AGREE, result).await;
    let bytes = match &result {
        Ok(()) => own.request().len(),
        Err(_) => lost::everywhere(aggregation)
            .await
            .map_or(0, |lost| lost::stored_bytes(plan, own, &lost) - alone.left),
    };
    Outcome { bytes, result }
}

/// As [`pass`], and exchanges the messages of these windows with other nodes.
async fn pass_among_nodes(
    aggregation: &NodeAggregation<'_>,
    keeper: &mut Keeper<'_>,
) -> Result<()> {
    let messages = join(send::run(aggregation), send::receive(aggregation));
    let (passed, (sent, received)) = join(pass(aggregation, keeper), messages).await;
    passed.and(sent).and(received)
}

/// Takes part in all windows that this rank may have data in.
async fn pass(aggregation: &NodeAggregation<'_>, keeper: &mut Keeper<'_>) -> Result<()> {
    let NodeAggregation { plan, ring, .. } = aggregation;
    for window in plan.own_windows() {
        ring.open(window, || keeper.help()).await?;
        if !ring.failed() {
            aggregation.fill(window);
        }
        if ring.arrive(window, plan.expected(window)) {
            // A rank with nothing to fill stores it.
            ring.offer(window);
            // Other operations of this rank get a turn.
            yield_now().await;
        }
    }
    // A rank that cannot leave windows to others stays until the last one is stored. The number of
    // stored bytes is not final before that.
    ring.drained(|| keeper.help()).await
}

impl NodeAggregation<'_> {
    /// Puts this rank's pieces into the window.
    fn fill(&self, window: u32) {
        let extent = self.plan.extent(window);
        let mut parts = self.own.parts(extent).peekable();
        if parts.peek().is_none() {
            return;
        }
        let bytes = self.ring.bytes(window, extent.len as usize);
        for piece in self.own.in_turn(extent) {
            // SAFETY: the window is open, so it is this call's; other ranks write other bytes of
            // it, and where they write the same ones, the call is erroneous and either will do.
            unsafe { copy::put(self.own.data(), piece, bytes) };
        }
        parts.for_each(|part| self.marks().add(window, self.own.request().view, part));
    }

    /// Whether of two ranks that store windows one would wait for the other, in the kernel and
    /// wide awake, instead of filling the next ones. The question does not open the file.
    fn has_one_writer(&self) -> bool {
        self.scene.facts.has_one_writer() && !self.scene.hints.direct_write
    }
}

/// Stores full windows.
struct Keeper<'a> {
    aggregation: &'a NodeAggregation<'a>,
    /// Room for the marks of a window.
    scratch: Option<Coverage>,
    result: Result<()>,
}

impl<'a> Keeper<'a> {
    fn new(aggregation: &'a NodeAggregation<'a>) -> Self {
        Self { aggregation, scratch: None, result: Ok(()) }
    }

    /// Stores windows that others left.
    fn help(&mut self) {
        let NodeAggregation { ring, .. } = self.aggregation;
        let turn = ring.turn_to_store();
        if turn.is_none() && self.aggregation.has_one_writer() {
            return;
        }
        while let Some(window) = ring.take(|window| self.aggregation.stores(window)) {
            self.store(window);
        }
    }

    /// Stores the supplied bytes of a full window, and ends it.
    fn store(&mut self, window: u32) {
        let NodeAggregation { plan, ring, .. } = self.aggregation;
        let start = plan.extent(window).offset;
        let stored = match plan.empty_marks(&mut self.scratch) {
            Ok(marks) => {
                self.aggregation.marks().collect(window, marks);
                match ring.failed() {
                    true => Err((start, None)),
                    false => store_runs(self.aggregation, window, marks),
                }
            }
            Err(error) => {
                self.aggregation.marks().forget(window);
                Err((start, Some(error)))
            }
        };
        if let Err((upto, error)) = stored {
            ring.note_unstored(window, upto);
            if let Some(error) = error {
                self.result = std::mem::replace(&mut self.result, Ok(())).and(Err(error));
            }
        }
        ring.finish(window, |later| plan.expected(later));
    }
}

/// Stores the supplied runs; an error comes with the first byte that is not stored.
fn store_runs(
    NodeAggregation { scene, plan, ring, .. }: &NodeAggregation<'_>,
    window: u32,
    marks: &Coverage,
) -> std::result::Result<(), (u64, Option<Error>)> {
    let extent = plan.extent(window);
    let _lock = scene.lock_to_store(extent);
    // SAFETY: all ranks have arrived, so none writes to the window until it is done.
    let bytes = unsafe {
        let start = ring.bytes(window, extent.len as usize);
        std::slice::from_raw_parts(start, extent.len as usize)
    };
    let mut runs = plan.scale(extent).runs(marks).peekable();
    if runs.peek().is_some_and(|run| run.len() == bytes.len()) {
        let outcome = scene.driver.write_contig(bytes, extent.offset, scene.counters);
        return outcome.result.map_err(|error| (extent.offset + outcome.bytes, Some(error)));
    }
    let outcome = independent::write_runs(scene.driver, extent.offset, bytes, runs, scene.counters);
    outcome.result.map_err(|error| {
        let upto = error.extent().map_or(extent.offset, |rest| rest.offset);
        (upto, Some(error))
    })
}
