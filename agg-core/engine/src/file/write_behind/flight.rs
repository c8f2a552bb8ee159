//! A flush in progress: the buffered writes taken from this rank, restored if the flush fails.

use super::WriteBehind;
use super::buffer::Buffer;
use aggio_base::error::Result;
use aggio_base::extent::Extent;
use aggio_comm::task;
use aggio_staging::pending::Pending;
use aggio_staging::write_behind::{Flying, Ticket};
use std::sync::Arc;

/// A flush that has begun. One that does not end leaves everything buffered.
pub(super) struct Flight<'a> {
    write_behind: &'a WriteBehind,
    buffer: &'a Buffer,
    pub(super) pending: Arc<Pending>,
}

impl<'a> Flight<'a> {
    /// Takes the buffered writes, once the flushes of all earlier calls have ended: an older write
    /// must not reach the file later.
    pub(super) async fn begin(
        write_behind: &'a WriteBehind,
        buffer: &'a Buffer,
        ticket: &Ticket,
    ) -> Self {
        loop {
            if ticket.is_first() {
                let mut waiting = buffer.lock();
                if waiting.flying.is_none() {
                    let pending = Arc::new(std::mem::take(&mut waiting.pending));
                    waiting.flying = Some(Flying::new(pending.clone()));
                    return Self { write_behind, buffer, pending };
                }
            }
            write_behind.split.progress();
            task::pause().await;
        }
    }

    /// Ends the flush.
    pub(super) fn land(self, result: Result<()>) -> Result<()> {
        result?;
        let mut waiting = self.buffer.lock();
        // All ranks have stored their part. It is not written again, even if the next step fails.
        if waiting.flying.take().is_some() {
            waiting.hull = Extent::default();
            self.buffer.tell(&mut waiting);
        }
        Ok(())
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut waiting = self.buffer.lock();
        let Some(Flying { pending, flown, .. }) = waiting.flying.take() else { return };
        drop(pending);
        // No rank uses it any more, unless one writes it out right now, which holds the lock.
        if let Some(pending) = Arc::get_mut(&mut self.pending).filter(|_| !flown) {
            waiting.pending.add_before(std::mem::take(pending));
        }
        self.buffer.tell(&mut waiting);
        drop(waiting);
        self.write_behind.answer_others();
    }
}
