//! Writing the logical file: every change becomes a frame in the writer's own log, in an order that
//! the shared counter gives.

mod mapped;
mod size;

use crate::format::{FILE_END, Kind, Manifest, Strip};
use crate::log::{Log, Words};
use crate::order::{Sequencer, Taken, Word};
use crate::reading::Shared;
use crate::writing::mapped_pages::MappedPages;
use crate::writing::seal;
use crate::writing::shared_size::{Changes, SharedSize};
use aggio_base::{Error, ErrorClass, Extent, Result};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Writes to a container. Every writer has a log of its own; readers see its writes after a
/// refresh.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    order: Arc<Sequencer>,
    log: Mutex<Log>,
    size: SharedSize,
    pages: MappedPages,
    /// Bytes that are to be brought to their pages, and were not for want of room.
    owed: Mutex<Extent>,
    closed: bool,
}

/// One write: where its bytes go, in how many pieces, and the end of the last one.
struct Frame<'a> {
    strips: &'a [Strip],
    pieces: u64,
    end: u64,
    data: &'a [&'a [u8]],
}

fn beyond(offset: u64, len: u64) -> Error {
    let words =
        format!("{len} bytes from {offset} on end behind the last byte that a file can have");
    Error::new(ErrorClass::NoSpace, words).with_errno(libc::EFBIG)
}

/// The range, if a file can have it.
fn possible(offset: u64, len: u64) -> Result<Extent> {
    let end = offset.checked_add(len).filter(|end| *end <= FILE_END);
    end.map(|end| Extent::between(offset, end)).ok_or_else(|| beyond(offset, len))
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>) -> Result<Self> {
        Self::with(shared, true)
    }

    /// As on a file system where nothing can be mapped.
    #[cfg(test)]
    pub(crate) fn without_mapping(shared: Arc<Shared>) -> Result<Self> {
        Self::with(shared, false)
    }

    fn with(shared: Arc<Shared>, map: bool) -> Result<Self> {
        let order = seal::arrive(&shared.dir, map)?;
        let manifest = Manifest::load(&shared.dir)?;
        let log = Log::new(manifest.data_crc).staged(shared.stage.get());
        let log = Mutex::new(log);
        let order = Arc::new(order);
        let size = SharedSize::new(Arc::clone(&shared), Arc::clone(&order));
        let pages = MappedPages::new(Arc::clone(&shared));
        let owed = Mutex::default();
        let writer = Self { shared, order, log, size, pages, owed, closed: false };
        if writer.shared.dir.may_be_stale() {
            writer.follow()?;
        }
        Ok(writer)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes all of `data` at `offset`; returns its length.
    ///
    /// # Errors
    ///
    /// If it could not be stored as a whole; then nothing of it was written, but to bytes that are
    /// mapped to memory.
    pub fn write_at(&self, data: &[u8], offset: u64) -> Result<usize> {
        let extent = possible(offset, data.len() as u64)?;
        if !extent.is_empty() {
            self.write_strips(&[Strip::one(extent)], 1, extent.end(), &[data])?;
        }
        Ok(data.len())
    }

    /// Writes many pieces as one frame; of pieces that overlap, the later one counts.
    ///
    /// # Errors
    ///
    /// If they could not all be stored; then nothing of them was written, but to bytes that are
    /// mapped to memory.
    pub fn write_pieces(&self, pieces: &[(u64, &[u8])]) -> Result<()> {
        let mut strips: Vec<Strip> = Vec::new();
        let mut data = Vec::with_capacity(pieces.len());
        let mut end = 0;
        for (offset, bytes) in pieces.iter().filter(|(_, bytes)| !bytes.is_empty()) {
            let extent = possible(*offset, bytes.len() as u64)?;
            end = end.max(extent.end());
            data.push(*bytes);
            if !strips.last_mut().is_some_and(|last| last.extend(extent)) {
                strips.push(Strip::one(extent));
            }
        }
        if data.is_empty() {
            return Ok(());
        }
        self.write_strips(&strips, data.len() as u64, end, &data)
    }

    /// Appends `data` to the file; no other writer's bytes come between. Returns where it went.
    ///
    /// # Errors
    ///
    /// If it could not be stored as a whole; then nothing of it was written.
    pub fn append(&self, data: &[u8]) -> Result<u64> {
        let mut log = self.log();
        let _turn = self.order.turn()?;
        let offset = self.size.settled()?;
        let extent = possible(offset, data.len() as u64)?;
        if !extent.is_empty() {
            let seq = self.order.add(Word::Next, 1)?;
            let strips = [Strip::one(extent)];
            let words = Words { kind: Kind::Data, strips: &strips, seq, last_seq: seq };
            log.append(&self.shared.dir, &words, &[data])?;
            self.completed()?;
            self.size.raise(extent.end())?;
            self.bring_home(&mut log, extent)?;
        }
        Ok(offset)
    }

    fn write_strips(&self, strips: &[Strip], pieces: u64, end: u64, data: &[&[u8]]) -> Result<()> {
        let frame = Frame { strips, pieces, end, data };
        if let Some(before) = self.put(&frame)? {
            self.settle(&frame, &before)?;
        }
        if self.order.is_mapped()? { self.write_in_place(&frame) } else { Ok(()) }
    }

    /// Appends the frame to the log and raises the size. Returns the state of the size's changes
    /// before. Returns `None`, with nothing appended, if bytes of the file may be changed in
    /// memory.
    fn put(&self, frame: &Frame<'_>) -> Result<Option<Changes>> {
        let mut log = self.log();
        let mut before = self.size.changes_beside(0)?;
        // A frame with these numbers would be newer than the pages that were mapped until then.
        let taken = self.order.take(frame.pieces)?;
        if taken.mapped {
            return Ok(None);
        }
        before.growths = taken.growths;
        self.append_taken(&mut log, frame, &taken)?;
        self.size.raise(frame.end)?;
        Ok(Some(before))
    }

    /// Makes sure that neither a concurrent growth nor a concurrent count of the size leaves out
    /// the frame.
    fn settle(&self, frame: &Frame<'_>, before: &Changes) -> Result<()> {
        // Either this write sees the growth, or the growth sees the size (or the frame, where sizes
        // are not kept). Either a count of the size sees the frame, or this write sees that the
        // size was counted.
        fence(Ordering::SeqCst);
        if before.is_quiet() && self.size.changes()? == *before {
            return Ok(());
        }
        // The lock alone does not keep threads with the same writer apart.
        let mut log = self.log();
        let _turn = self.order.turn()?;
        let now = self.size.changes()?;
        if now.growths % 2 == 1 {
            // Killed in the middle of it.
            self.order.store(Word::Growths, now.growths + 1)?;
        }
        let grown = before.growths % 2 == 1 || now.growths != before.growths;
        // Where bytes may be changed in memory, they are stored in place afterwards.
        if grown && !self.order.is_mapped()? {
            // A growth without these bytes may have cut them off, and so may a growth that relied
            // on a counted size without them: they come after it.
            self.append_frame(&mut log, frame)?;
        }
        // Odd numbers are left by those that were killed in the middle of it.
        if now.truncations != before.truncations || (now.truncations | now.counts) % 2 == 1 {
            return self.size.count().map(drop);
        }
        self.size.raise(frame.end)
    }

    /// Appends a frame of data to the log.
    fn append_frame(&self, log: &mut Log, frame: &Frame<'_>) -> Result<()> {
        let taken = self.order.take(frame.pieces)?;
        self.append_taken(log, frame, &taken)
    }

    /// As [`append_frame`](Writer::append_frame), with these sequence numbers.
    fn append_taken(&self, log: &mut Log, frame: &Frame<'_>, taken: &Taken) -> Result<()> {
        let (seq, last_seq) = (taken.first, taken.first + (frame.pieces - 1));
        let words = Words { kind: Kind::Data, strips: frame.strips, seq, last_seq };
        log.append(&self.shared.dir, &words, frame.data)?;
        self.completed()
    }

    /// Counts a frame that was completely written.
    fn completed(&self) -> Result<()> {
        if self.order.is_counting() { self.order.add(Word::Done, 1).map(drop) } else { Ok(()) }
    }

    /// Makes the bytes of `range` zeros; the size stays.
    ///
    /// # Errors
    ///
    /// If it could not be stored.
    pub fn punch(&self, range: Extent) -> Result<()> {
        let range = range.intersect(Extent::new(0, FILE_END));
        if range.is_empty() {
            return Ok(());
        }
        let mut log = self.log();
        let taken = self.order.take(1)?;
        if !taken.mapped {
            self.append_event(&mut log, Kind::Hole, range, taken.first)?;
        }
        drop(log);
        if self.order.is_mapped()? { self.punch_in_place(range) } else { Ok(()) }
    }

    /// Appends a truncation or a hole; with bytes that are changed in memory, the caller has the
    /// turn.
    fn event(&self, log: &mut Log, kind: Kind, range: Extent) -> Result<()> {
        let seq = self.order.add(Word::Next, 1)?;
        self.append_event(log, kind, range, seq)
    }

    fn append_event(&self, log: &mut Log, kind: Kind, range: Extent, seq: u64) -> Result<()> {
        let strips = [Strip { start: range.offset, length: range.len, stride: 0, count: 1 }];
        let words = Words { kind, strips: &strips, seq, last_seq: seq };
        log.append(&self.shared.dir, &words, &[])?;
        self.completed()
    }

    /// The id of this writer's log, once it has one.
    pub fn log_id(&self) -> Option<u64> {
        self.log().id()
    }

    /// Sets the id of its log, before anything is written.
    pub(crate) fn name_log(&self, id: u64) {
        self.log().call(id);
    }

    /// Makes all writes of this writer durable.
    ///
    /// # Errors
    ///
    /// If something could not be stored; then every later call fails as well, because the kernel
    /// discards data that it could not store.
    pub fn sync(&self) -> Result<()> {
        self.shared.sync_birth()?;
        self.log().sync(&self.shared.dir)?;
        self.pages.sync()
    }

    /// Ends without closing, like a process that is killed, or a child that shares the writer with
    /// its parent: nothing is sealed, and locks stay as long as any process has them.
    pub fn abandon(mut self) {
        self.closed = true;
    }

    /// Ends writing. The last writer seals the container: it merges the index and records the parts
    /// in the manifest.
    ///
    /// # Errors
    ///
    /// If sealing failed. Nothing is lost then: readers find the frames in the logs.
    pub fn close(mut self) -> Result<()> {
        self.closed = true;
        self.leave()
    }

    fn leave(&self) -> Result<()> {
        self.log().end(&self.shared.dir);
        seal::leave(&self.shared.dir, &self.order)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.closed {
            // The result cannot be returned; without a seal readers scan the logs.
            let _ = self.leave();
        }
    }
}

#[cfg(test)]
mod tests;
