//! A flush in progress: the buffered writes taken from this rank, restored if the flush fails.

use super::WriteBehind;
use super::buffer::Buffer;
use aggio_base::error::Result;
use aggio_base::extent::Extent;
use aggio_comm::task;
use aggio_staging::pending::Pending;
use aggio_staging::write_behind::Ticket;
use std::sync::Arc;

/// A flush that has begun. One that does not end leaves everything buffered.
pub(super) struct Flight<'a> {
    write_behind: &'a WriteBehind,
    buffer: &'a Buffer,
    pub(super) pending: Arc<Pending>,
    pub(super) claims: Pending,
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
                    waiting.flying = Some(pending.clone());
                    let claims = std::mem::take(&mut waiting.claims);
                    return Self { write_behind, buffer, pending, claims };
                }
            }
            write_behind.split.progress();
            task::pause().await;
        }
    }

    /// Ends the flush. Independent writes of this rank during the flush are newer and are written
    /// once more.
    pub(super) fn land(self, result: Result<()>) -> Result<()> {
        result?;
        let mut waiting = self.buffer.lock();
        if waiting.flying.is_none() {
            return Ok(());
        }
        // All ranks have stored their part. It is not written again, even if the next step fails.
        (waiting.flying, waiting.flown, waiting.committed) = Default::default();
        waiting.hull = Extent::default();
        self.buffer.tell(&mut waiting);
        let again = self.buffer.write_saved_again(&waiting.pending);
        if again.is_err() {
            waiting.pending.note_unsaved();
        }
        again
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut waiting = self.buffer.lock();
        if waiting.flying.take().is_none() {
            return;
        }
        let has_flown = std::mem::take(&mut waiting.flown);
        waiting.committed = false;
        waiting.claims.add_before(std::mem::take(&mut self.claims));
        // No rank uses it any more, unless one writes it out right now, which holds the lock.
        if let Some(flown) = Arc::get_mut(&mut self.pending).filter(|_| !has_flown) {
            waiting.pending.add_before(std::mem::take(flown));
        }
        self.buffer.tell(&mut waiting);
        drop(waiting);
        self.write_behind.answer_others();
    }
}
