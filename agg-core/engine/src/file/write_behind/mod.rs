//! Write-behind: with the hint `aggio_defer`, writes are copied and flushed together when the file
//! is synchronised or closed, when all ranks read, or when this rank needs them in the file.
//!
//! An independent operation never needs another rank: a rank may always flush its own writes. All
//! ranks buffer writes of the same files, so that their collective calls stay the same.
//!
//! Bytes that announce others, such as the header of a netCDF file, reach the file after all bytes
//! buffered with them, including those of other ranks. So they stay buffered when a rank flushes by
//! itself, unless it has to see them.

mod answer;
mod buffer;
mod collective;
mod flight;
mod flush;
mod header;
mod open_files;
mod requests;
#[cfg(test)]
mod tests;
mod vote;
mod worth;

pub(super) use collective::Decision;
pub(super) use flush::Flush;
pub(crate) use open_files::OpenFiles;
pub(super) use open_files::{Handle, Name};

use super::request::Request;
use super::split::SplitCall;
use super::storage::Storage;
use crate::Direction;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::extent::Extent;
use aggio_comm::asks::NodeAsks;
use aggio_comm::transport::{Holders, Transport};
use aggio_comm::workers::Workers;
use aggio_config::hints::{Hints, Switch};
#[cfg(test)]
use aggio_staging::write_behind::Waiting;
use aggio_store::driver::Outcome;
use answer::Answering;
use buffer::Buffer;
use requests::FlushRequests;
use std::sync::Arc;

/// The terms on which writes of a file are buffered; the same on all ranks.
#[derive(Debug, Default)]
pub(super) struct Terms {
    /// The ranks of the node with buffered writes; `None` if writes are not buffered.
    pub(super) holders: Option<Holders>,
    /// The connection to other nodes, if there are any.
    pub(super) asks: Option<NodeAsks>,
}

/// The write-behind of one open file: its buffer, if it has one, and the buffers of other ranks and
/// of other handles of the file.
pub(crate) struct WriteBehind {
    storage: Arc<Storage>,
    /// It proceeds while this rank waits for others.
    split: Arc<SplitCall>,
    handle: Handle,
    /// On all ranks or on none.
    buffer: Option<Arc<Buffer>>,
    requests: FlushRequests,
    answering: Answering,
}

impl WriteBehind {
    /// That of a file just opened with these `hints`.
    pub(super) fn new(
        storage: Arc<Storage>,
        split: Arc<SplitCall>,
        handle: Handle,
        Terms { holders, asks }: Terms,
        hints: &Arc<Hints>,
        workers: Workers,
    ) -> Self {
        let new = |holders| Buffer::new(storage.clone(), holders, hints.clone());
        let buffer = holders.map(|holders| Arc::new(new(holders)));
        let requests = FlushRequests::new(storage.clone(), split.clone(), asks);
        Self { storage, split, handle, buffer, requests, answering: Answering::new(workers) }
    }

    /// Registers the handle, if writes of any handle may be buffered.
    pub(super) fn announce(self: &Arc<Self>, hints: &Hints) {
        if hints.aggio_defer == Switch::Enable || self.handle.somebody_buffers() {
            self.handle.announce(self, || self.storage.driver().identity());
        }
    }

    /// The file is closed: no other handle needs this one.
    pub(super) fn withdraw(&self) {
        self.handle.withdraw(self);
    }

    /// Whether writes of the file are buffered, but for those in atomic mode.
    pub(super) fn is_on(&self) -> bool {
        self.buffer.is_some()
    }

    /// Whether a write now is buffered; none is in `atomic` mode.
    pub(super) fn buffers(&self, atomic: bool) -> bool {
        self.is_on() && !atomic
    }

    /// The state of the buffered writes.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> Option<std::sync::MutexGuard<'_, Waiting>> {
        self.buffer.as_ref().map(|buffer| buffer.lock())
    }

    /// The state through which ranks request flushes.
    #[cfg(test)]
    pub(super) fn holders(&self) -> Option<&Holders> {
        Some(self.buffer.as_ref()?.holders())
    }

    fn transport(&self) -> &dyn Transport {
        &**self.storage.transport()
    }

    /// These hints are in force now.
    pub(super) fn set_hints(&self, hints: &Arc<Hints>) {
        if let Some(buffer) = &self.buffer {
            buffer.set_hints(hints.clone());
        }
    }

    /// Buffers a write. The program may change its memory afterwards.
    fn keep(&self, request: Result<Request>) -> Outcome {
        let Some(buffer) = &self.buffer else { return not_buffered() };
        let request = request.and_then(|request| {
            self.come_after_others(request.span())?;
            Ok(request)
        });
        buffer.keep(request)
    }

    /// Other handles of this process for the file.
    fn others(&self) -> Vec<Arc<Self>> {
        self.handle.others(self, || self.storage.driver().identity())
    }

    /// Whether no other file of this process buffers writes.
    fn buffers_alone(&self) -> bool {
        self.handle.count() <= usize::from(self.is_on())
    }

    /// Whether the file is not open a second time in this process.
    fn is_only_handle(&self) -> bool {
        self.buffers_alone() || self.others().is_empty()
    }

    /// Flushes the buffered writes of other handles. Bytes that cannot be stored stay buffered
    /// there, and the error is theirs.
    pub(super) fn drain_others(&self) {
        if self.handle.somebody_buffers() {
            // The next sync or close of that handle reports the error again.
            self.others().iter().for_each(|other| drop(other.drain()));
        }
    }

    /// Before a write of `span`: flushes buffered writes of other handles of this process that
    /// overlap it, so that the later of two writes wins, as without write-behind.
    ///
    /// # Errors
    /// The system's error; otherwise the older bytes would overwrite the newer ones.
    fn come_after_others(&self, span: Extent) -> Result<()> {
        if self.buffers_alone() {
            return Ok(());
        }
        let others = self.others();
        let buffers = others.iter().filter_map(|other| other.buffer.as_ref());
        buffers.filter(|buffer| buffer.awaits(span)).try_for_each(|buffer| buffer.drain())
    }

    /// Before a read or write of `span`: flushes buffered writes of other handles of this process
    /// that must come first.
    fn heed_others(&self, direction: Direction, span: Extent) -> Result<()> {
        match direction {
            Direction::Read if self.buffers_alone() => Ok(()),
            Direction::Read => {
                self.drain_others();
                Ok(())
            }
            Direction::Write => self.come_after_others(span),
        }
    }

    /// Before this rank alone reads or writes `span` (`None` for the entire file and its size):
    /// other ranks and this one store the buffered writes that must come first.
    ///
    /// # Errors
    /// `Io` if another rank could not store its buffered writes, `Other` if its process has ended,
    /// the system's error of this rank.
    pub(super) async fn before_independent(
        &self,
        direction: Direction,
        span: Option<Extent>,
    ) -> Result<()> {
        self.ask(direction, span).await?;
        self.settle_own(direction, span)
    }

    /// Before all ranks read or write; this rank `span`. A handle with a buffer flushes it instead.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn before_collective(&self, direction: Direction, span: Extent) -> Result<()> {
        if self.is_on() { Ok(()) } else { self.heed_others(direction, span) }
    }

    /// Before this rank alone reads, or writes in another way: flushes its buffered writes. A read
    /// leaves bytes buffered that must be stored last, if they are not in `span`.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn settle_own(&self, direction: Direction, span: Option<Extent>) -> Result<()> {
        self.heed_others(direction, span.unwrap_or_default())?;
        self.buffer.as_ref().map_or(Ok(()), |buffer| buffer.settle(direction, span))
    }

    /// Makes other ranks store their buffered writes of this file before this rank alone reads
    /// `span` (the entire file and its size if `None`) or writes.
    ///
    /// # Errors
    /// `Io` if another rank could not store its buffered writes, `Other` if its process has ended.
    pub(super) async fn ask(&self, direction: Direction, span: Option<Extent>) -> Result<()> {
        if !self.handle.somebody_buffers() {
            return Ok(());
        }
        let span = span.filter(|_| direction == Direction::Read);
        self.request_flush(span).await?;
        if self.buffers_alone() {
            return Ok(());
        }
        for other in self.others() {
            other.request_flush(span).await?;
        }
        Ok(())
    }

    /// Whether no rank has buffered writes, through whichever handle of this process: a call needs
    /// no flush.
    pub(super) fn is_idle(&self) -> bool {
        if !self.handle.somebody_buffers() || !self.is_on() && self.others().is_empty() {
            return true;
        }
        let Some(buffer) = &self.buffer else { return false };
        let holders = buffer.holders();
        if !self.buffers_alone() || holders.count() > 0 || buffer.is_ahead() {
            return false;
        }
        let waiting = buffer.lock();
        waiting.is_idle() && (!self.requests.reach_nodes() || waiting.hull.is_empty())
    }

    async fn request_flush(&self, span: Option<Extent>) -> Result<()> {
        match &self.buffer {
            Some(buffer) => self.requests.send(buffer, span).await,
            None => Ok(()),
        }
    }

    /// Starts a worker that answers flush requests of other ranks, once writes are buffered.
    fn answer_others(&self) {
        if let Some(buffer) = &self.buffer {
            self.answering.start(buffer);
        }
    }

    /// No worker looks at this file any more when this returns.
    pub(super) fn stop_answering(&self) {
        self.answering.stop();
    }

    /// No thread of this rank serves other nodes any more when this returns.
    pub(super) fn stop_serving_nodes(&self) {
        self.requests.stop_serving_nodes();
    }

    /// Writes out the buffered writes of this rank, without the others.
    ///
    /// # Errors
    /// The system's error; then all writes stay buffered.
    pub(super) fn drain(&self) -> Result<()> {
        self.buffer.as_ref().map_or(Ok(()), |buffer| buffer.drain())
    }

    /// Called when the file is closed and the collective write failed with `error`: stores the
    /// bytes that this rank may store alone, and gives up the rest.
    pub(super) fn save_or_lose(&self, error: Error) -> Error {
        if let Some(buffer) = &self.buffer {
            // The rest is reported as lost.
            drop(buffer.drain_but_last());
        }
        self.lose(error)
    }

    /// Gives up the buffered writes, because the file is closed; `error` is the reason.
    pub(super) fn lose(&self, error: Error) -> Error {
        let bytes = self.buffer.as_ref().map_or(0, |buffer| buffer.lock().give_up());
        if bytes == 0 {
            return error;
        }
        let text = format!("{bytes} bytes that waited are not stored: {error}");
        Error::new(error.class(), text).with_errno(error.errno())
    }

    /// Stores the buffered writes of this rank because the job is aborted, and waits a limited time
    /// for those of other ranks.
    ///
    /// # Errors
    /// The system's error, or `Io` if buffered writes of other ranks may be lost.
    pub(super) fn rescue(&self) -> Result<()> {
        let Some(buffer) = &self.buffer else { return Ok(()) };
        let (held, hull) = {
            let waiting = buffer.lock();
            (waiting.bytes(), waiting.hull)
        };
        let elsewhere = self.requests.reach_nodes() && !hull.is_empty();
        let holders = buffer.holders();
        let is_awaited = holders.count() > 0 || elsewhere;
        if held == 0 && !is_awaited {
            return Ok(());
        }
        let stored = buffer.drain_but_last();
        if is_awaited { self.requests.hurry(buffer).and(stored) } else { stored }
    }
}

fn not_buffered() -> Outcome {
    let error = Error::new(ErrorClass::Intern, "the writes of this file are not buffered");
    Outcome { bytes: 0, result: Err(error) }
}
