//! Writing: each rank puts its pieces into the windows, and idle ranks store full windows.

use super::super::coverage::Coverage;
use super::super::{Direction, step};
use super::NodeAggregation;
use super::{lost, send};
use aggio_base::allocate::no_memory;
use aggio_base::error::{Error, Result};
use aggio_comm::task::{join, yield_now};
use aggio_store::driver::Outcome;
use aggio_store::independent;
use aggio_types::copy;

/// Carries out this rank's part of the write.
pub(in super::super) async fn run(passage: &NodeAggregation<'_>) -> Outcome {
    let mut keeper = Keeper::new(passage);
    passage.ring.pass_over(|window| passage.expected(window));
    let passed = match passage.node().has_others() {
        false => pass(passage, &mut keeper).await,
        // Boxed, for it is large, and every call on one node would carry its room about.
        true => Box::pin(pass_among_nodes(passage, &mut keeper)).await,
    };
    let alone = passage.move_alone(Direction::Write, passed.is_ok());
    let result = passed.and(keeper.result).and(alone.result);
    let result = passage.meeting.agree(step::AGREE, result).await;
    let bytes = match &result {
        Ok(()) => passage.request.len(),
        Err(_) => lost::everywhere(passage)
            .await
            .map_or(0, |lost| passage.stored_bytes(&lost) - alone.left),
    };
    Outcome { bytes, result }
}

/// As [`pass`], and exchanges the messages of these windows with other nodes.
async fn pass_among_nodes(passage: &NodeAggregation<'_>, keeper: &mut Keeper<'_>) -> Result<()> {
    let messages = join(send::run(passage), send::receive(passage));
    let (passed, (sent, received)) = join(pass(passage, keeper), messages).await;
    passed.and(sent).and(received)
}

/// Takes part in all windows that this rank may have data in.
async fn pass(passage: &NodeAggregation<'_>, keeper: &mut Keeper<'_>) -> Result<()> {
    let ring = &passage.ring;
    for window in passage.own_windows() {
        ring.open(window, || keeper.help()).await?;
        if !ring.failed() {
            passage.fill(window);
        }
        if ring.arrive(window, passage.expected(window)) {
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
        let extent = self.windows.extent(window);
        let mut parts = self.parts(extent).peekable();
        if parts.peek().is_none() {
            return;
        }
        let bytes = self.ring.bytes(window, extent.len as usize);
        for piece in self.in_turn(extent) {
            // SAFETY: the window is open, so it is this call's; other ranks write other bytes of
            // it, and where they write the same ones, the call is erroneous and either will do.
            unsafe { copy::put(self.data(), piece, bytes) };
        }
        parts.for_each(|part| self.mark(window, part));
    }

    /// Whether of two ranks that store windows one would wait for the other, in the kernel and
    /// wide awake, instead of filling the next ones. The question does not open the file.
    fn has_one_writer(&self) -> bool {
        self.scene.facts.has_one_writer() && !self.scene.hints.direct_write
    }
}

/// Stores full windows.
struct Keeper<'a> {
    passage: &'a NodeAggregation<'a>,
    marks: Option<Coverage>,
    result: Result<()>,
}

impl<'a> Keeper<'a> {
    fn new(passage: &'a NodeAggregation<'a>) -> Self {
        Self { passage, marks: None, result: Ok(()) }
    }

    /// Stores windows that others left.
    fn help(&mut self) {
        let passage = self.passage;
        let turn = passage.ring.turn_to_store();
        if turn.is_none() && passage.has_one_writer() {
            return;
        }
        while let Some(window) = passage.ring.take(|window| passage.stores(window)) {
            self.store(window);
        }
    }

    /// Stores the supplied bytes of a full window, and ends it.
    fn store(&mut self, window: u32) {
        let passage = self.passage;
        let extent = passage.windows.extent(window);
        let bits = (passage.windows.size() as usize >> passage.grain) + 2;
        if self.marks.is_none() {
            self.marks = Coverage::new(bits);
        }
        let stored = match &mut self.marks {
            Some(marks) => {
                passage.collect(window, marks);
                let stored = if passage.ring.failed() {
                    Err((extent.offset, None))
                } else {
                    store_runs(passage, window, marks)
                };
                marks.clear();
                stored
            }
            None => {
                passage.forget(window);
                Err((extent.offset, Some(no_memory(bits / 8))))
            }
        };
        if let Err((upto, error)) = stored {
            passage.ring.note_unstored(window, upto);
            if let Some(error) = error {
                self.result = std::mem::replace(&mut self.result, Ok(())).and(Err(error));
            }
        }
        passage.ring.finish(window, |later| passage.expected(later));
    }
}

/// Stores the supplied runs; an error comes with the first byte that is not stored.
fn store_runs(
    passage: &NodeAggregation<'_>,
    window: u32,
    marks: &Coverage,
) -> std::result::Result<(), (u64, Option<Error>)> {
    let extent = passage.windows.extent(window);
    let scene = &passage.scene;
    let _lock = scene.lock_to_store(extent);
    // SAFETY: all ranks have arrived, so none writes to the window until it is done.
    let bytes = unsafe {
        let start = passage.ring.bytes(window, extent.len as usize);
        std::slice::from_raw_parts(start, extent.len as usize)
    };
    let mut runs = passage.runs(extent, marks).peekable();
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
