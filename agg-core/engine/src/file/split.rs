//! Split collective operations: one half begins, the other waits (MPI-4.1, 14.4.5).

use super::{Call, File, SplitKind};
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_comm::task::BoxFuture;
use aggio_comm::workers::{self, Running};
use aggio_store::driver::Outcome;
use std::sync::Arc;
use std::task::Poll;

/// The split operation of a file that has begun and not ended.
pub(super) struct Split {
    kind: SplitKind,
    running: Running<Outcome>,
    done: Option<Outcome>,
}

impl Split {
    fn needs_turns(&self) -> bool {
        self.done.is_none() && !self.running.is_settled()
    }
}

impl File {
    /// Begins a split collective operation; [`File::end_split`] with the same kind ends it.
    ///
    /// # Errors
    /// `Io` if one is active already, on this rank only: erroneous programs differ between ranks.
    pub fn begin_split(self: &Arc<Self>, mut call: Call) -> Result<()> {
        let kind = SplitKind::of(&call)?;
        let operation = call.operation;
        call.collective = true;
        let begun = self.check_open().and_then(|()| match &self.state().split {
            None => Ok(()),
            Some(active) => {
                let text = format!("the split operation {} is still active", active.kind);
                Err(Error::new(ErrorClass::Io, text))
            }
        });
        begun.map_err(|error| self.context(error, operation))?;
        let running = self.launch(call);
        self.state().split = Some(Split { kind, running, done: None });
        self.progress();
        Ok(())
    }

    /// Ends the split collective operation of this kind: ready when the operation is.
    ///
    /// If none is active, or one of another kind, the outcome is an error and an active operation
    /// stays active.
    pub fn end_split(
        self: &Arc<Self>,
        kind: SplitKind,
        operation: &'static str,
    ) -> BoxFuture<'static, Outcome> {
        let checked = match &self.state().split {
            None => Err(format!("no split operation {kind} is active")),
            Some(split) if split.kind != kind => {
                Err(format!("the active split operation is {}, not {kind}", split.kind))
            }
            Some(_) => Ok(()),
        };
        let file = self.clone();
        Box::pin(async move {
            match checked {
                Ok(()) => file.finish_split().await,
                Err(text) => {
                    let error = file.context(Error::new(ErrorClass::Io, text), operation);
                    Outcome { bytes: 0, result: Err(error) }
                }
            }
        })
    }

    /// The kind of the active split operation.
    pub fn active_split(&self) -> Option<SplitKind> {
        self.state().split.as_ref().map(|split| split.kind)
    }

    /// Lets an active split operation proceed, as far as it can without waiting. Whether there is
    /// one that may need this again.
    pub fn progress(&self) -> bool {
        self.poll_split();
        self.state().split.as_ref().is_some_and(Split::needs_turns)
    }

    /// Whether there is an active split operation that proceeds in [`File::progress`] only.
    pub fn needs_progress(&self) -> bool {
        let is_here = |split: &Split| split.done.is_none() && split.running.is_here();
        self.state().split.as_ref().is_some_and(is_here)
    }

    /// Polls the active split operation once; no lock is held meanwhile.
    fn poll_split(&self) {
        let running = self.state().split.as_ref().map(|split| split.running.clone());
        if let Some(outcome) = running.and_then(|running| running.poll())
            && let Some(split) = self.state().split.as_mut()
        {
            split.done = Some(outcome);
        }
    }

    /// Waits for the active split operation and makes room for the next one.
    pub(super) async fn finish_split(&self) -> Outcome {
        std::future::poll_fn(|_| {
            let told = workers::events();
            self.poll_split();
            let mut state = self.state();
            let Some(split) = state.split.as_mut() else {
                let error = Error::new(ErrorClass::Io, "another thread ended the split operation");
                return Poll::Ready(Outcome { bytes: 0, result: Err(error) });
            };
            match split.done.take() {
                Some(outcome) => {
                    state.split = None;
                    Poll::Ready(outcome)
                }
                None => {
                    if !split.running.is_here() {
                        workers::sleep_until_told(told);
                    }
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Gives up the active split operation.
    pub(super) fn drop_split(&self) {
        let split = self.state().split.take();
        drop(split.map(|split| split.running.stop()));
    }
}
