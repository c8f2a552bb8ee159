//! Writing the logical file: every change becomes a frame in the writer's own log, in an order that
//! the shared counter gives.

use super::container::Shared;
use super::frame::{FILE_END, Kind, Strip};
use super::log::{Log, Words};
use super::manifest::Manifest;
use super::order::{Order, Word};
use super::read::Reader;
use super::seal;
use crate::{Error, ErrorClass, Extent, Result};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Writes to a container. Every writer has a log of its own; what it wrote is seen by readers that are
/// refreshed afterwards.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    order: Order,
    log: Mutex<Log>,
    /// Looks up the size where the shared word cannot be trusted.
    reader: OnceLock<Reader>,
    closed: bool,
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
        let log = Mutex::new(Log::new(manifest.data_crc));
        Ok(Self { shared, order, log, reader: OnceLock::new(), closed: false })
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes all of `data` at `offset`; returns its length.
    ///
    /// # Errors
    ///
    /// If it could not be stored as a whole; then nothing of it was written.
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
    /// If they could not all be stored; then nothing of them was written.
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
        let offset = self.settled_size()?;
        let extent = possible(offset, data.len() as u64)?;
        if !extent.is_empty() {
            let seq = self.order.add(Word::Next, 1)?;
            let strips = [Strip::one(extent)];
            let words = Words { kind: Kind::Data, strips: &strips, seq, last_seq: seq };
            log.append(&self.shared.dir, &words, &[data])?;
            if self.order.is_counting() {
                self.order.add(Word::Done, 1)?;
                self.order.raise(Word::Size, extent.end())?;
            }
        }
        Ok(offset)
    }

    fn write_strips(&self, strips: &[Strip], pieces: u64, end: u64, data: &[&[u8]]) -> Result<()> {
        let counting = self.order.is_counting();
        let (truncations, counts, growths) = {
            let mut log = self.log();
            let load = |word| if counting { self.order.load(word) } else { Ok(0) };
            let (truncations, counts) = (load(Word::Truncations)?, load(Word::Counts)?);
            (truncations, counts, self.frame(&mut log, strips, pieces, data)?)
        };
        if counting {
            self.order.raise(Word::Size, end)?;
        }
        // Either this write sees the growth, or the growth sees the size, or the frame where sizes are not kept.
        fence(Ordering::SeqCst);
        if growths % 2 == 1 || self.order.load(Word::Growths)? != growths {
            // A growth that did not know of these bytes may have cut them off: they come after it.
            let mut log = self.log();
            let _turn = self.order.turn()?;
            self.frame(&mut log, strips, pieces, data)?;
            if counting {
                self.order.raise(Word::Size, end)?;
            }
        }
        if !counting {
            return Ok(());
        }
        if truncations % 2 == 1 || self.order.load(Word::Truncations)? != truncations {
            // The lock alone does not keep threads with the same writer apart.
            let _log = self.log();
            let _turn = self.order.turn()?;
            self.count_size()?;
        } else if counts % 2 == 1 || self.order.load(Word::Counts)? != counts {
            // Who counted did not know of these bytes, and may have made the size less than they need.
            let _log = self.log();
            let _turn = self.order.turn()?;
            match self.order.load(Word::Counts)? % 2 {
                0 => self.order.raise(Word::Size, end)?,
                // Killed in the middle of it.
                _ => drop(self.count_size()?),
            }
        }
        Ok(())
    }

    /// Appends a frame of data to the log; the number of growths before it.
    fn frame(&self, log: &mut Log, strips: &[Strip], pieces: u64, data: &[&[u8]]) -> Result<u64> {
        let (seq, growths) = self.order.take(pieces)?;
        let words = Words { kind: Kind::Data, strips, seq, last_seq: seq + (pieces - 1) };
        log.append(&self.shared.dir, &words, data)?;
        if self.order.is_counting() {
            self.order.add(Word::Done, 1)?;
        }
        Ok(growths)
    }

    /// The size word, which a truncation that was killed may have left wrong.
    fn settled_size(&self) -> Result<u64> {
        if !self.order.is_counted()? {
            return self.looked_up_size();
        }
        if self.order.load(Word::Truncations)? % 2 == 1 {
            return self.count_size();
        }
        self.order.load(Word::Size)
    }

    /// What all logs say.
    fn looked_up_size(&self) -> Result<u64> {
        let reader = match self.reader.get() {
            Some(reader) => reader,
            None => {
                let new = Reader::new(Arc::clone(&self.shared))?;
                self.reader.get_or_init(|| new)
            }
        };
        reader.refresh()?;
        Ok(reader.size())
    }

    /// Sets the size word to what all logs say; the caller has the turn.
    fn count_size(&self) -> Result<u64> {
        let counts = self.order.load(Word::Counts)? | 1;
        self.order.store(Word::Counts, counts)?;
        // Either a write's frame is in the logs by now, or the write sees that the size is being counted.
        fence(Ordering::SeqCst);
        let size = self.looked_up_size()?;
        self.order.store(Word::Size, size)?;
        self.order.store(Word::Counts, counts + 1)?;
        let truncations = self.order.load(Word::Truncations)?;
        if truncations % 2 == 1 {
            self.order.store(Word::Truncations, truncations + 1)?;
        }
        Ok(size)
    }

    /// Sets the file's size; bytes behind it are gone, new ones are zeros.
    ///
    /// # Errors
    ///
    /// If no file can have this size, or it could not be stored.
    pub fn set_size(&self, size: u64) -> Result<()> {
        possible(0, size)?;
        let mut log = self.log();
        let _turn = self.order.turn()?;
        self.cut(&mut log, size)
    }

    /// Makes the file at least `end` bytes long, with zeros behind what it has; what others write meanwhile stays.
    ///
    /// # Errors
    ///
    /// If no file can have this size, or it could not be stored.
    pub fn grow(&self, end: u64) -> Result<()> {
        possible(0, end)?;
        let mut log = self.log();
        let _turn = self.order.turn()?;
        let growths = self.order.load(Word::Growths)?;
        // One that was killed has left the number odd.
        self.order.store(Word::Growths, growths | 1)?;
        fence(Ordering::SeqCst);
        let stored = match self.settled_size() {
            Ok(size) if size < end => self.cut(&mut log, end),
            other => other.map(drop),
        };
        self.order.store(Word::Growths, (growths | 1) + 1)?;
        stored
    }

    /// Sets the size; the caller has the turn.
    fn cut(&self, log: &mut Log, size: u64) -> Result<()> {
        if !self.order.is_counted()? {
            return self.event(log, Kind::Truncate, Extent::new(size, 0));
        }
        if self.order.load(Word::Truncations)? % 2 == 1 {
            self.count_size()?;
        }
        self.order.add(Word::Truncations, 1)?;
        let stored = self.event(log, Kind::Truncate, Extent::new(size, 0));
        if stored.is_ok() {
            self.order.store(Word::Size, size)?;
        }
        self.order.add(Word::Truncations, 1)?;
        stored
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
        self.event(&mut self.log(), Kind::Hole, range)
    }

    fn event(&self, log: &mut Log, kind: Kind, range: Extent) -> Result<()> {
        let seq = self.order.add(Word::Next, 1)?;
        let strips = [Strip { start: range.offset, length: range.len, stride: 0, count: 1 }];
        let words = Words { kind, strips: &strips, seq, last_seq: seq };
        log.append(&self.shared.dir, &words, &[])?;
        if self.order.is_counting() { self.order.add(Word::Done, 1).map(drop) } else { Ok(()) }
    }

    /// The size of the logical file, with what all writers of this node have written.
    ///
    /// # Errors
    ///
    /// If it has to be looked up in the logs and they cannot be read.
    pub fn size(&self) -> Result<u64> {
        if self.order.is_counted()? && self.order.load(Word::Truncations)? % 2 == 0 {
            return self.order.load(Word::Size);
        }
        let _log = self.log();
        let _turn = self.order.turn()?;
        self.settled_size()
    }

    /// The id of this writer's log, once it has one.
    pub fn log_id(&self) -> Option<u64> {
        self.log().id()
    }

    /// Says which id its log shall have, before anything is written.
    pub(crate) fn name_log(&self, id: u64) {
        self.log().call(id);
    }

    /// Makes durable what this writer wrote.
    ///
    /// # Errors
    ///
    /// If something could not be stored; then every later call fails as well, because the kernel
    /// forgets what it could not store.
    pub fn sync(&self) -> Result<()> {
        self.shared.sync_birth()?;
        self.log().sync(&self.shared.dir)
    }

    /// Ends as a process that is killed: nothing is sealed.
    #[cfg(test)]
    pub(crate) fn abandon(mut self) {
        self.closed = true;
    }

    /// Ends writing. The last writer seals the container: its index is merged and its manifest says
    /// what belongs to it.
    ///
    /// # Errors
    ///
    /// If sealing failed. Nothing is lost then: readers find the frames in the logs.
    pub fn close(mut self) -> Result<()> {
        self.closed = true;
        seal::leave(&self.shared.dir, &self.order)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.closed {
            // Nobody asked for the result; without a seal readers scan the logs.
            let _ = seal::leave(&self.shared.dir, &self.order);
        }
    }
}
