//! Flush on demand: before a rank reads or writes independently, through any handle, the other
//! ranks store their buffered writes of the file. Their workers do so, whether or not their threads
//! are busy.

use super::{Direction, File};
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::extent::Extent;
use aggio_comm::node::Pulse;
use aggio_comm::task::{self, BoxFuture};
use aggio_comm::transport::Holders;
use aggio_comm::workers::Running;
use aggio_staging::pending::Pending;
use aggio_staging::write_behind::Waiting;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

/// How long an aborting job waits for buffered writes of ranks.
const SOON: Duration = Duration::from_secs(5);

impl File {
    /// Makes other ranks store their buffered writes of this file before this rank alone reads
    /// `span` (the entire file and its size if `None`) or writes.
    ///
    /// # Errors
    /// `Io` if another rank could not store its buffered writes, `Other` if its process has ended.
    pub(super) async fn ask(&self, direction: Direction, span: Option<Extent>) -> Result<()> {
        if !self.engine.somebody_defers() {
            return Ok(());
        }
        let span = span.filter(|_| direction == Direction::Read);
        self.ask_for(span).await?;
        if self.defers_alone() {
            return Ok(());
        }
        for other in self.others() {
            other.ask_for(span).await?;
        }
        Ok(())
    }

    /// Whether no rank holds anything back, through whichever handle of this process.
    pub(super) fn has_nothing_waiting(&self) -> bool {
        self.defers_alone()
            && self.holders.as_ref().is_some_and(|holders| holders.count() == 0)
            && !self.is_ahead()
            && self.waiting().is_some_and(|waiting| {
                waiting.is_idle() && (self.asks.is_none() || waiting.hull.is_empty())
            })
    }

    /// Whether another rank is still in a collective write that this one has finished, so that it
    /// may not have buffered its part yet.
    pub(super) fn is_ahead(&self) -> bool {
        let done = self.waiting().map_or(0, |waiting| waiting.done);
        self.holders.as_ref().is_some_and(|all| all.are_behind(done))
    }

    /// Whether the file ends before the end of `span` and becomes longer once the buffered writes
    /// in `hull` are stored.
    pub(super) fn ends_before(&self, hull: Extent, span: Extent) -> bool {
        hull.end() > span.offset && self.driver.size().map_or(true, |size| size < span.end())
    }

    async fn ask_for(&self, span: Option<Extent>) -> Result<()> {
        let Some(holders) = &self.holders else { return Ok(()) };
        if let Some(asks) = &self.asks {
            return self.ask_nodes(asks, span).await;
        }
        let Some(hull) = self.waiting().map(|waiting| waiting.hull) else { return Ok(()) };
        let alone = holders.alone();
        let touches = |span: Extent, held: Extent| !held.intersect(span).is_empty();
        let concerns =
            |span| touches(span, hull) || touches(span, alone) || self.ends_before(hull, span);
        let own = |file: &Self| u32::from(file.waiting().is_some_and(|mut w| w.hold().is_some()));
        let is_awaited = || self.is_ahead() || holders.count() > own(self);
        if !is_awaited() || !span.is_none_or(concerns) {
            return Ok(());
        }
        let _ask = holders.ask(true);
        let mut pulse = Pulse::default();
        while is_awaited() {
            if holders.have_failed() {
                let text = "another rank could not store what it has written before";
                return Err(Error::new(ErrorClass::Io, text));
            }
            self.transport.node().map_or(Ok(()), |node| pulse.look(node))?;
            self.progress();
            task::pause().await;
        }
        Ok(())
    }

    /// Makes other ranks store their buffered writes, before this rank alone reads the file's size.
    ///
    /// # Errors
    /// `Io` if another rank could not store its buffered writes, `Other` if its process has ended.
    pub fn settled(self: &Arc<Self>) -> BoxFuture<'static, Result<()>> {
        let file = self.clone();
        Box::pin(async move { file.ask(Direction::Read, None).await })
    }

    /// Requests the workers of all ranks, including this one, to store their buffered writes, and
    /// waits a limited time.
    ///
    /// # Errors
    /// `Io` if buffered writes remain.
    pub(super) fn hurry(&self, holders: &Holders) -> Result<()> {
        let since = Instant::now();
        if let Some(asks) = &self.asks {
            return self.hurry_nodes(asks, since + SOON).map_err(|_| lost());
        }
        let _ask = holders.ask(true);
        while !holders.can_store_no_more() && since.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(1));
        }
        if holders.count() == 0 {
            return Ok(());
        }
        Err(lost())
    }

    /// Starts a worker that answers flush requests of other ranks, once writes are buffered.
    pub(super) fn answer_others(&self) {
        let (Some(holders), Some(me)) = (&self.holders, self.me.get()) else { return };
        let starts = self.waiting().is_some_and(|mut waiting| {
            waiting.hold().is_some() && !std::mem::replace(&mut waiting.is_answered, true)
        });
        if !starts {
            return;
        }
        let running = self.engine.workers().away(Box::pin(answers(me.clone(), holders.clone())));
        if !running.is_here() {
            *self.answering() = Some(running);
            return;
        }
        // No thread can answer, so nothing stays buffered.
        let drained = self.drain();
        if let Some(mut waiting) = self.waiting() {
            waiting.is_answered = false;
            if let Some(hold) = waiting.hold() {
                hold.set_failed(drained.is_err());
            }
        }
    }

    fn answering(&self) -> MutexGuard<'_, Option<Running<()>>> {
        self.answering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No worker looks at this file any more when this returns.
    pub(super) fn stop_answering(&self) {
        let running = self.answering().take();
        drop(running.and_then(|running| running.stop()));
    }

    /// Stores buffered writes if another rank requests it; returns whether any remain.
    fn answer(&self, holders: &Holders) -> bool {
        let has_failed =
            self.waiting().is_some_and(|mut w| w.hold().is_some_and(|hold| hold.has_failed()));
        if holders.are_asked() && !has_failed {
            self.store_for_others(holders);
        }
        self.waiting().is_some_and(|mut waiting| {
            if let Some(hold) = waiting.hold().filter(|_| !holders.are_asked()) {
                hold.set_failed(false);
            }
            waiting.is_answered = waiting.hold().is_some();
            waiting.is_answered
        })
    }

    /// Stores buffered writes. Bytes that must be stored last (see [`File::last_bytes`]) are stored
    /// only if no other rank has buffered writes. Records a failure.
    fn store_for_others(&self, holders: &Holders) {
        let last = self.last_bytes();
        let drained = self.drain_but(last);
        if let Some(mut waiting) = self.waiting() {
            waiting.was_asked = true;
            if let Some(hold) = waiting.hold() {
                hold.set_failed(drained.is_err());
                hold.set_last(drained.is_ok() && !last.is_empty());
            }
        }
        // A rank that is still in a write holds nothing of it back yet.
        let last_is_due =
            holders.are_asked_for_all() && holders.hold_the_last_only() && !self.is_ahead();
        if drained.is_err() || last.is_empty() || !last_is_due {
            return;
        }
        let drained = self.drain();
        if let Some(mut waiting) = self.waiting()
            && let Some(hold) = waiting.hold()
        {
            hold.set_failed(drained.is_err());
        }
    }

    /// Buffered writes of this rank, except `last`, are in the file. They are not written again, as
    /// other ranks may write there from now on.
    pub(super) fn note_alone(&self, waiting: &mut Waiting, last: Extent) -> Result<()> {
        waiting.flown |= waiting.flying.is_some() && !waiting.committed && last.is_empty();
        let unsaved = waiting.pending.take_unsaved()?;
        waiting.pending = unsaved;
        waiting.claims = Pending::default();
        waiting.tell(self.holders.as_ref());
        Ok(())
    }

    /// Called when all ranks have begun a flush: whether this rank has still to write its part.
    pub(super) fn commits(&self) -> bool {
        self.waiting().is_none_or(|mut waiting| {
            waiting.committed = true;
            !waiting.flown
        })
    }
}

fn lost() -> Error {
    let text = "what ranks have written and could not store in time is lost";
    Error::new(ErrorClass::Io, text)
}

/// Answers flush requests of other ranks as long as writes are buffered.
async fn answers(file: Weak<File>, holders: Holders) {
    loop {
        let seen = holders.changes();
        match file.upgrade() {
            Some(file) if file.answer(&holders) => {}
            _ => return,
        }
        let mut slept = false;
        std::future::poll_fn(|_| {
            if std::mem::replace(&mut slept, true) {
                return Poll::Ready(());
            }
            holders.sleep_until_changed(seen);
            Poll::Pending
        })
        .await;
    }
}
