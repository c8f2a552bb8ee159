//! Split collective operations: one half begins, the other waits (MPI-4.1, 14.4.5).

use super::call::SplitKind;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_comm::workers::{self, Running};
use aggio_store::driver::Outcome;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;

/// The split operation of a file: at most one is active.
#[derive(Default)]
pub struct SplitCall(Mutex<Option<Active>>);

/// An operation that has begun and not ended.
struct Active {
    kind: SplitKind,
    running: Running<Outcome>,
    done: Option<Outcome>,
}

impl Active {
    fn needs_turns(&self) -> bool {
        self.done.is_none() && !self.running.is_settled()
    }
}

impl SplitCall {
    /// The kind of the active operation.
    pub fn active(&self) -> Option<SplitKind> {
        self.lock().as_ref().map(|active| active.kind)
    }

    /// Lets an active operation proceed, as far as it can without waiting. Whether there is one
    /// that may need this again.
    pub fn progress(&self) -> bool {
        self.poll();
        self.lock().as_ref().is_some_and(Active::needs_turns)
    }

    /// Whether there is an active operation that proceeds in [`SplitCall::progress`] only.
    pub fn needs_progress(&self) -> bool {
        let is_here = |active: &Active| active.done.is_none() && active.running.is_here();
        self.lock().as_ref().is_some_and(is_here)
    }

    /// Makes the operation that `launch` starts the active one.
    ///
    /// # Errors
    /// `Io` if one is active already.
    pub(super) fn begin(
        &self,
        kind: SplitKind,
        launch: impl FnOnce() -> Running<Outcome>,
    ) -> Result<()> {
        if let Some(active) = self.active() {
            let text = format!("the split operation {active} is still active");
            return Err(Error::new(ErrorClass::Io, text));
        }
        let running = launch();
        *self.lock() = Some(Active { kind, running, done: None });
        self.progress();
        Ok(())
    }

    /// Checks that an operation of this kind is active.
    ///
    /// # Errors
    /// `Io` if no operation of this kind is active.
    pub(super) fn check(&self, kind: SplitKind) -> Result<()> {
        let text = match self.active() {
            Some(active) if active == kind => return Ok(()),
            Some(active) => format!("the active split operation is {active}, not {kind}"),
            None => format!("no split operation {kind} is active"),
        };
        Err(Error::new(ErrorClass::Io, text))
    }

    /// Polls the active operation once; no lock is held meanwhile.
    fn poll(&self) {
        let running = self.lock().as_ref().map(|active| active.running.clone());
        if let Some(outcome) = running.and_then(|running| running.poll())
            && let Some(active) = self.lock().as_mut()
        {
            active.done = Some(outcome);
        }
    }

    /// Waits for the active operation and makes room for the next one.
    pub(super) async fn finish(&self) -> Outcome {
        std::future::poll_fn(|_| {
            let told = workers::events();
            self.poll();
            let mut slot = self.lock();
            let Some(active) = slot.as_mut() else {
                let error = Error::new(ErrorClass::Io, "another thread ended the split operation");
                return Poll::Ready(Outcome { bytes: 0, result: Err(error) });
            };
            match active.done.take() {
                Some(outcome) => {
                    *slot = None;
                    Poll::Ready(outcome)
                }
                None => {
                    if !active.running.is_here() {
                        workers::sleep_until_told(told);
                    }
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Waits for an operation that was not ended before the file is closed.
    ///
    /// # Errors
    /// `Io` if there is one.
    pub(super) async fn end_unfinished(&self) -> Result<()> {
        let Some(kind) = self.active() else { return Ok(()) };
        let _ = self.finish().await;
        Err(Error::new(ErrorClass::Io, format!("the split operation {kind} was not ended")))
    }

    /// Gives up the active operation.
    pub(super) fn stop(&self) {
        let active = self.lock().take();
        drop(active.map(|active| active.running.stop()));
    }

    fn lock(&self) -> MutexGuard<'_, Option<Active>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;
    use crate::file::SplitPointer;
    use aggio_comm::task::block_on;
    use aggio_comm::workers::Workers;

    const READ: SplitKind =
        SplitKind { direction: Direction::Read, pointer: SplitPointer::Explicit };
    const WRITE: SplitKind = SplitKind { direction: Direction::Write, ..READ };

    fn operation(turns: usize) -> Running<Outcome> {
        Workers::default().here(Box::pin(async move {
            for _ in 0..turns {
                aggio_comm::task::pause().await;
            }
            Outcome { bytes: 7, result: Ok(()) }
        }))
    }

    #[test]
    fn one_operation_is_active_until_its_end_and_proceeds_meanwhile() {
        let split = SplitCall::default();
        assert!(split.check(READ).is_err() && !split.progress() && !split.needs_progress());
        split.begin(READ, || operation(3)).expect("none is active");
        split.begin(WRITE, || unreachable!("one is active")).expect_err("one is active");
        assert!(split.check(WRITE).is_err() && split.check(READ).is_ok());
        assert!(split.needs_progress());
        assert!((1..10).any(|_| !split.progress()), "each turn is a step");
        assert_eq!(split.active(), Some(READ));
        assert_eq!(block_on(split.finish(), |_| {}).bytes, 7);
        assert_eq!(split.active(), None);
    }

    #[test]
    fn an_operation_without_an_end_is_an_error_at_close() {
        let split = SplitCall::default();
        block_on(split.end_unfinished(), |_| {}).expect("none is active");
        split.begin(WRITE, || operation(2)).expect("none is active");
        block_on(split.end_unfinished(), |_| {}).expect_err("it was not ended");
        split.begin(WRITE, || operation(2)).expect("none is active");
        split.stop();
        assert_eq!(split.active(), None);
    }
}
