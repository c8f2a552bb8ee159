//! Reads and writes of an open file.

use super::account::Begun;
use super::data_call::DataCall;
use super::{Call, File, SplitCall, SplitKind};
use aggio_base::error::Result;
use aggio_comm::task::BoxFuture;
use aggio_comm::workers::Running;
use aggio_store::driver::Outcome;
use std::sync::Arc;

impl File {
    /// Starts a data operation; the future carries it out.
    ///
    /// File pointers move at once, so that calls take their ranges in the order in which they are
    /// made. A blocking call waits for the future; a nonblocking one keeps it and must poll it to
    /// its end while the memory stays valid. Errors in the arguments come with the outcome.
    pub fn start(self: &Arc<Self>, call: Call) -> BoxFuture<'static, Outcome> {
        DataCall::new(self, call, true).start().0
    }

    /// As [`File::start`], for a nonblocking call: large transfers, and collective ones in the
    /// memory of one node, proceed independently on [workers](aggio_comm::workers).
    ///
    /// Wrong arguments of a call of this rank alone are found by the first poll.
    pub fn launch(self: &Arc<Self>, call: Call) -> Running<Outcome> {
        match DataCall::new(self, call, false).start() {
            (future, true) => self.engine.workers().away(future),
            (future, false) => self.engine.workers().here(future),
        }
    }

    /// Counts a call and adds the file's context to its error.
    pub(super) fn end(&self, begun: Begun, mut outcome: Outcome) -> Outcome {
        self.account.end(begun, &outcome);
        outcome.result = outcome.result.map_err(|error| self.context(error, begun.operation));
        outcome
    }

    /// Begins a split collective operation; [`File::end_split`] with the same kind ends it.
    ///
    /// # Errors
    /// `Io` if one is active already, on this rank only: erroneous programs differ between ranks.
    pub fn begin_split(self: &Arc<Self>, mut call: Call) -> Result<()> {
        let (kind, operation) = (SplitKind::of(&call)?, call.operation);
        call.collective = true;
        let checked = self.lifecycle.check_open();
        let begun = checked.and_then(|()| self.split.begin(kind, || self.launch(call)));
        begun.map_err(|error| self.context(error, operation))
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
        let (checked, file) = (self.split.check(kind), self.clone());
        Box::pin(async move {
            match checked {
                Ok(()) => file.split.finish().await,
                Err(error) => {
                    let error = file.context(error, operation);
                    Outcome { bytes: 0, result: Err(error) }
                }
            }
        })
    }

    /// The file's split operation.
    pub fn split(&self) -> &SplitCall {
        &self.split
    }
}
