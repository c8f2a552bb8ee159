//! Closing and deleting.

use super::closing::Closing;
use super::{Amode, File};
use aggio_base::error::Result;
use aggio_comm::task::BoxFuture;
use std::sync::Arc;

impl File {
    /// Closes the file; collective. The file is closed afterwards even on error.
    ///
    /// # Errors
    /// The system's error from any rank's close, on every rank; `Io` if a split operation was still
    /// active; `File` if the file was closed before.
    pub fn close(self: Arc<Self>) -> BoxFuture<'static, Result<()>> {
        let closing = Closing::new(&self);
        Box::pin(async move {
            closing.run().await.map_err(|error| self.context(error, "MPI_File_close"))
        })
    }

    /// Closes the file on this rank without messages to the others, as at the end of a program that
    /// forgot to close it.
    ///
    /// # Errors
    /// The system's error from this rank's close.
    pub fn abandon(&self) -> Result<()> {
        if !self.lifecycle.end() {
            return Ok(());
        }
        self.split.stop();
        let becomes_a_set = self.conversion.stays_because_it_was_open(&**self.driver());
        self.write_behind.stop_answering();
        let drained = self.write_behind.drain();
        self.write_behind.stop_serving_nodes();
        self.account.tell_alone();
        let drained = drained.map_err(|error| self.write_behind.lose(error));
        self.write_behind.withdraw();
        let closed = self.lifecycle.close_alone(&**self.driver());
        let closed = drained.and(closed);
        let closed = closed.and(if becomes_a_set { self.conversion.drain_logs() } else { Ok(()) });
        let deletes =
            self.amode().has(Amode::DELETE_ON_CLOSE) && self.transport.rank() == self.leader;
        let deleted = if deletes {
            self.lifecycle.delete(self.engine.drivers(), self.transport.rank())
        } else {
            Ok(())
        };
        closed.and(deleted).map_err(|error| self.context(error, "MPI_Finalize"))
    }

    /// Stores the buffered writes of this rank because the job is aborted, and waits a limited time
    /// for those of other ranks.
    ///
    /// # Errors
    /// The system's error, or `Io` if buffered writes of other ranks may be lost.
    pub fn rescue(&self) -> Result<()> {
        if self.storage.reach().facts.is_staged {
            // Staged bytes in a directory would survive, but users may not find them there.
            return self.store_staged().map_err(|error| self.context(error, "MPI_Abort"));
        }
        if !self.lifecycle.is_open() {
            return Ok(());
        }
        self.write_behind.rescue().map_err(|error| self.context(error, "MPI_Abort"))
    }

    /// Stores the staged bytes of a file that is never closed.
    ///
    /// # Errors
    /// The system's error.
    pub fn store_staged(&self) -> Result<()> {
        let is_open = self.storage.reach().facts.is_staged && self.lifecycle.is_open();
        if is_open { self.driver().sync() } else { Ok(()) }
    }

    /// Reports this rank's counts of a file that is never closed, if the open requested a report.
    pub fn report_alone(&self) {
        if self.lifecycle.is_open() {
            self.account.tell_alone();
        }
    }

    /// Why no set of files was made of this file, which one was asked for, and the cure; on one
    /// rank, once the file is closed. One line, for the end of the program.
    pub fn no_set(&self) -> Option<&str> {
        self.conversion.no_set()
    }
}
