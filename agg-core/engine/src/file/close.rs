//! Closing and deleting.

use super::agreement::{Kind, Words, from_rank, meet, meet_with_news};
use super::{File, is_of_messages};
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_comm::task::BoxFuture;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

impl File {
    /// Closes the file; collective. The file is closed afterwards even on error.
    ///
    /// # Errors
    /// The system's error from any rank's close, on every rank; `Io` if a split operation was still
    /// active; `File` if the file was closed before.
    pub fn close(self: Arc<Self>) -> BoxFuture<'static, Result<()>> {
        let (flush, tags, seal) = (self.settling_flush(), self.tags.next(), self.tags.next());
        let last = self.tags.next();
        Box::pin(async move {
            let closed = async {
                let local = self.split.end_unfinished().await;
                let flushed = self.settle_and_flush(flush).await;
                let flushed = flushed.map_err(|error| self.write_behind.save_or_lose(error));
                self.write_behind.stop_answering();
                let local = local.and(flushed);
                if self.closed.swap(true, Ordering::AcqRel) {
                    // On every rank: none has closed it without the others.
                    let text = "the file has been closed before";
                    return Err(Error::new(ErrorClass::File, text));
                }
                let sealing = self.sealing();
                self.storage.small().leave();
                let local = local.and(self.close_driver());
                let is_open = self.offers && self.driver().completes_at_close();
                let met =
                    meet_with_news(&*self.transport, &tags, Kind::Close, sealing, local, is_open);
                let (agreed, completes) = match met.await {
                    Ok((all, completes)) => (Ok(all), completes),
                    Err(error) => (Err(error), false),
                };
                // No rank sends flush requests any more.
                self.write_behind.stop_serving_nodes();
                self.write_behind.withdraw();
                let closed = self.close_last(&agreed);
                let agreed = if completes {
                    meet(&*self.transport, &last, Kind::Close, [0; 4], closed).await.and(agreed)
                } else {
                    // No rank completes the file in its last close, so there is no further error.
                    agreed
                };
                let deleted = if self.is_deleted_on_close() {
                    from_rank(&*self.transport, &tags, self.leader, || {
                        self.delete_here().map(|()| [0; 4])
                    })
                    .await
                    .map(drop)
                } else {
                    Ok(())
                };
                let sealed = match &agreed {
                    Ok(told) if !self.is_deleted_on_close() => self.seal(told, &seal).await,
                    _ => Ok(None),
                };
                let told = sealed.as_ref().ok().and_then(|told| told.as_deref());
                self.report(&tags, told).await;
                self.leave_lane(&agreed);
                agreed.map(drop).and(deleted).and(sealed.map(drop))
            };
            closed.await.map_err(|error| self.context(error, "MPI_File_close"))
        })
    }

    /// No rank needs the file of this one any more.
    fn close_last(&self, agreed: &Result<Vec<Words>>) -> Result<()> {
        if agreed.as_ref().err().is_some_and(is_of_messages) {
            self.driver().close_incomplete()
        } else if self.offers {
            self.driver().close()
        } else {
            Ok(())
        }
    }

    /// Releases the file's message tags, if all ranks are known to have closed it.
    fn leave_lane(&self, agreed: &Result<Vec<Words>>) {
        let in_order = !agreed.as_ref().err().is_some_and(is_of_messages);
        let lane = self.lane.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(lane) = lane.filter(|_| in_order) {
            lane.release();
        }
    }

    /// Closes the file of this rank; others that have not come to their close may still take it.
    fn close_driver(&self) -> Result<()> {
        match (self.cut_off.load(Ordering::Relaxed), self.offers) {
            (true, _) => self.driver().close_incomplete(),
            (false, true) => self.driver().close_but_offer(),
            (false, false) => self.driver().close(),
        }
    }

    /// Closes the file on this rank without messages to the others, as at the end of a program that
    /// forgot to close it.
    ///
    /// # Errors
    /// The system's error from this rank's close.
    pub fn abandon(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.split.stop();
        let becomes_a_set = self.stays_because_it_was_open();
        self.write_behind.stop_answering();
        let drained = self.write_behind.drain();
        self.write_behind.stop_serving_nodes();
        self.tell_alone();
        let drained = drained.map_err(|error| self.write_behind.lose(error));
        self.write_behind.withdraw();
        let closed = match self.cut_off.load(Ordering::Relaxed) {
            true => self.driver().close_incomplete(),
            false => self.driver().close(),
        };
        let closed = drained.and(closed);
        let closed = closed.and(if becomes_a_set { self.drain_logs() } else { Ok(()) });
        let deletes = self.is_deleted_on_close() && self.transport.rank() == self.leader;
        let deleted = if deletes { self.delete_here() } else { Ok(()) };
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
        if self.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.write_behind.rescue().map_err(|error| self.context(error, "MPI_Abort"))
    }

    /// Stores the staged bytes of a file that is never closed.
    ///
    /// # Errors
    /// The system's error.
    pub fn store_staged(&self) -> Result<()> {
        let is_open = self.storage.reach().facts.is_staged && !self.closed.load(Ordering::Acquire);
        if is_open { self.driver().sync() } else { Ok(()) }
    }

    fn delete_here(&self) -> Result<()> {
        self.engine.drivers().delete(&self.place, self.transport.rank())
    }
}
