//! Answers to the flush requests of other ranks: a worker of this rank stores its buffered writes,
//! whether or not the threads of the program are busy.

use super::buffer::Buffer;
use aggio_comm::transport::Holders;
use aggio_comm::workers::{Running, Workers};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;

/// The task that answers flush requests while writes are buffered.
pub(super) struct Answering {
    workers: Workers,
    running: Mutex<Option<Running<()>>>,
}

impl Answering {
    /// None yet.
    pub(super) fn new(workers: Workers) -> Self {
        Self { workers, running: Mutex::default() }
    }

    /// Starts a worker that answers the requests for `buffer`, once writes are buffered.
    pub(super) fn start(&self, buffer: &Arc<Buffer>) {
        if !buffer.takes_answering() {
            return;
        }
        let task = answers(Arc::downgrade(buffer), buffer.holders().clone());
        let running = self.workers.away(Box::pin(task));
        if running.is_here() {
            // No thread can answer, so nothing stays buffered.
            buffer.drain_unanswered();
        } else {
            *self.running() = Some(running);
        }
    }

    /// No worker looks at the buffer any more when this returns.
    pub(super) fn stop(&self) {
        let running = self.running().take();
        drop(running.and_then(|running| running.stop()));
    }

    fn running(&self) -> MutexGuard<'_, Option<Running<()>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers flush requests of other ranks as long as writes are buffered.
async fn answers(buffer: Weak<Buffer>, holders: Holders) {
    loop {
        let seen = holders.changes();
        match buffer.upgrade() {
            Some(buffer) if buffer.answer(&holders) => {}
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

impl Buffer {
    /// Whether writes are buffered that no worker answers for; the caller starts one.
    fn takes_answering(&self) -> bool {
        let mut waiting = self.lock();
        waiting.hold().is_some() && !std::mem::replace(&mut waiting.is_answered, true)
    }

    /// Stores buffered writes that no worker can answer for.
    fn drain_unanswered(&self) {
        let drained = self.drain();
        self.lock().is_answered = false;
        self.note_failed(drained.is_err());
    }

    /// Records for other ranks whether buffered writes could not be stored.
    fn note_failed(&self, has_failed: bool) {
        if let Some(hold) = self.lock().hold() {
            hold.set_failed(has_failed);
        }
    }

    /// Stores buffered writes if another rank requests it; returns whether any remain.
    fn answer(&self, holders: &Holders) -> bool {
        let has_failed = self.lock().hold().is_some_and(|hold| hold.has_failed());
        if holders.are_asked() && !has_failed {
            self.store_for_others(holders);
        }
        let mut waiting = self.lock();
        if let Some(hold) = waiting.hold().filter(|_| !holders.are_asked()) {
            hold.set_failed(false);
        }
        waiting.is_answered = waiting.hold().is_some();
        waiting.is_answered
    }

    /// Stores buffered writes. Bytes that must be stored last (see [`Buffer::last_bytes`]) are
    /// stored only if no other rank has buffered writes. Records a failure.
    fn store_for_others(&self, holders: &Holders) {
        let last = self.last_bytes();
        let drained = self.drain_but(last);
        {
            let mut waiting = self.lock();
            waiting.was_asked = true;
            if let Some(hold) = waiting.hold() {
                hold.set_failed(drained.is_err());
                hold.set_last(drained.is_ok() && !last.is_empty());
            }
        }
        // A rank that is still in a write has not buffered its part yet.
        let last_is_due =
            holders.are_asked_for_all() && holders.hold_the_last_only() && !self.is_ahead();
        if drained.is_ok() && !last.is_empty() && last_is_due {
            let drained = self.drain();
            self.note_failed(drained.is_err());
        }
    }
}
