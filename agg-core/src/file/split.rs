//! Split collective operations: one half begins, the other waits (MPI-4.1, 14.4.5).

use super::{Call, File, SplitKind};
use crate::driver::Outcome;
use crate::error::{Error, ErrorClass, Result};
use crate::task::BoxFuture;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The split operation of a file that has begun and not ended.
pub(super) struct Split {
    kind: SplitKind,
    /// Taken out while it is polled, so that no lock is held meanwhile.
    running: Option<BoxFuture<'static, Outcome>>,
    done: Option<Outcome>,
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
        let running = Some(self.start(call));
        self.state().split = Some(Split { kind, running, done: None });
        self.progress();
        Ok(())
    }

    /// Ends the split collective operation of this kind: ready when the operation is.
    ///
    /// If none is active, or one of another kind, the outcome is an error and what is active stays
    /// so.
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
    /// one with work left.
    pub fn progress(&self) -> bool {
        let waker = std::task::Waker::noop();
        self.poll_split(&mut Context::from_waker(waker));
        self.state().split.as_ref().is_some_and(|split| split.done.is_none())
    }

    /// Polls the active split operation once, unless another thread does.
    fn poll_split(&self, context: &mut Context<'_>) {
        let Some(mut running) = self.state().split.as_mut().and_then(|split| split.running.take())
        else {
            return;
        };
        let polled = running.as_mut().poll(context);
        if let Some(split) = self.state().split.as_mut() {
            match polled {
                Poll::Ready(outcome) => split.done = Some(outcome),
                Poll::Pending => split.running = Some(running),
            }
        }
    }

    /// Waits for the active split operation and makes room for the next one.
    pub(super) async fn finish_split(&self) -> Outcome {
        std::future::poll_fn(|context| {
            self.poll_split(context);
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
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Gives up the active split operation.
    pub(super) fn drop_split(&self) {
        let split = self.state().split.take();
        drop(split);
    }
}
