//! A flush in progress: the buffered writes taken from this rank, restored if the flush fails.

use super::File;
use aggio_base::error::Result;
use aggio_base::extent::Extent;
use aggio_comm::task;
use aggio_staging::pending::Pending;
use aggio_staging::write_behind::Ticket;
use std::sync::Arc;

/// A flush that has begun. One that does not end leaves everything waiting.
pub(super) struct Flight<'a> {
    file: &'a File,
    pub(super) pending: Arc<Pending>,
    pub(super) claims: Pending,
}

impl<'a> Flight<'a> {
    /// Takes the buffered writes, once the flushes of all earlier calls have ended: an older write
    /// must not reach the file later.
    pub(super) async fn begin(file: &'a File, ticket: &Ticket) -> Self {
        loop {
            if ticket.is_first()
                && let Some(mut waiting) = file.waiting()
                && waiting.flying.is_none()
            {
                let pending = Arc::new(std::mem::take(&mut waiting.pending));
                waiting.flying = Some(pending.clone());
                return Self { file, pending, claims: std::mem::take(&mut waiting.claims) };
            }
            file.progress();
            task::pause().await;
        }
    }

    /// Ends the flush. Independent writes of this rank during the flush are newer and are written
    /// once more.
    pub(super) fn land(self, result: Result<()>) -> Result<()> {
        result?;
        let mut waiting = match self.file.waiting() {
            Some(waiting) if waiting.flying.is_some() => waiting,
            _ => return Ok(()),
        };
        // All ranks have stored their part. It is not written again, even if the next step fails.
        (waiting.flying, waiting.flown, waiting.committed) = Default::default();
        waiting.hull = Extent::default();
        waiting.tell(self.file.holders.as_ref());
        let again = self.file.write_saved_again(&waiting.pending);
        if again.is_err() {
            waiting.pending.note_unsaved();
        }
        again
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let Some(mut waiting) = self.file.waiting() else { return };
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
        waiting.tell(self.file.holders.as_ref());
        drop(waiting);
        self.file.answer_others();
    }
}
