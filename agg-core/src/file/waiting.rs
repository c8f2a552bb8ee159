//! What waits on a rank, and a flush of it that is under way.

use super::File;
use crate::error::Result;
use crate::pending::Pending;
use crate::task;
use std::sync::Arc;

/// What waits on this rank.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Writes since the last flush.
    pub(super) pending: Pending,
    /// What all ranks are writing just now.
    pub(super) flying: Option<Arc<Pending>>,
    /// What this rank has written by itself meanwhile.
    pub(super) since: Pending,
}

impl Waiting {
    pub(super) fn bytes(&self) -> u64 {
        self.pending.bytes() + self.flying.as_ref().map_or(0, |flying| flying.bytes())
    }
}

/// A flush that has begun. One that does not end leaves everything waiting.
pub(super) struct Flight<'a> {
    file: &'a File,
    pub(super) pending: Arc<Pending>,
}

impl<'a> Flight<'a> {
    /// Takes what waits, once no other flush is under way: an older write must not come after it.
    pub(super) async fn begin(file: &'a File) -> Self {
        loop {
            if let Some(mut waiting) = file.waiting()
                && waiting.flying.is_none()
            {
                let pending = Arc::new(std::mem::take(&mut waiting.pending));
                waiting.flying = Some(pending.clone());
                return Self { file, pending };
            }
            file.progress();
            task::pause().await;
        }
    }

    /// The flush has ended. What this rank has written by itself meanwhile is newer and is written once more.
    pub(super) fn land(self, result: Result<()>) -> Result<()> {
        result?;
        let mut waiting = match self.file.waiting() {
            Some(waiting) if waiting.flying.is_some() => waiting,
            _ => return Ok(()),
        };
        self.file.write_out(&waiting.since)?;
        (waiting.flying, waiting.since) = (None, Pending::default());
        Ok(())
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let Some(mut waiting) = self.file.waiting() else { return };
        if waiting.flying.take().is_none() {
            return;
        }
        let since = std::mem::take(&mut waiting.since);
        waiting.pending.add_before(since);
        // Nobody else has it any more, unless a rank writes it out right now, which holds the lock.
        let Some(flown) = Arc::get_mut(&mut self.pending) else { return };
        waiting.pending.add_before(std::mem::take(flown));
    }
}
