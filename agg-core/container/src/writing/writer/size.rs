//! The size of the logical file: a word that all writers share. Growths, truncations and counts of
//! the logs change it in turn; writes raise it at any time.

use crate::format::frame::Kind;
use crate::log::writer_log::Log;
use crate::order::sequencer::Word;
use crate::reading::reader::Reader;
use crate::writing::writer::{Writer, possible};
use aggio_base::{Extent, Result};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// How often others have grown the file, cut it, or counted its size, each begun and ended: odd
/// while one is under way.
#[derive(Debug, PartialEq)]
pub(crate) struct Changes {
    pub(crate) growths: u64,
    pub(crate) truncations: u64,
    pub(crate) counts: u64,
}

impl Changes {
    pub(crate) fn is_quiet(&self) -> bool {
        (self.growths | self.truncations | self.counts).is_multiple_of(2)
    }
}

impl Writer {
    /// The number of changes of the size so far; zeros for words that are not kept.
    pub(crate) fn changes(&self) -> Result<Changes> {
        self.changes_beside(self.order.load(Word::Growths)?)
    }

    /// As [`changes`](Writer::changes), with a number of growths that is known: it may cost a
    /// request.
    pub(crate) fn changes_beside(&self, growths: u64) -> Result<Changes> {
        let load = |word| if self.order.is_counting() { self.order.load(word) } else { Ok(0) };
        let (truncations, counts) = (load(Word::Truncations)?, load(Word::Counts)?);
        Ok(Changes { growths, truncations, counts })
    }

    /// Makes the size word at least `end`, where it is kept.
    pub(crate) fn raise(&self, end: u64) -> Result<()> {
        if self.order.is_counting() { self.order.raise(Word::Size, end) } else { Ok(()) }
    }

    /// The size word, which a truncation that was killed may have left wrong.
    pub(crate) fn settled_size(&self) -> Result<u64> {
        if !self.order.is_counted()? {
            return self.looked_up_size();
        }
        if self.order.load(Word::Truncations)? % 2 == 1 {
            return self.count_size();
        }
        self.order.load(Word::Size)
    }

    /// The size before a growth to `end`; the caller has the turn. If the word says that the file
    /// has `end` bytes already, the size is counted from the logs: the word may include the bytes
    /// of a write that an earlier growth has cut off, and that a killed writer does not append
    /// again.
    pub(crate) fn certain_size(&self, end: u64) -> Result<u64> {
        match self.settled_size()? {
            size if size >= end && self.order.is_counted()? => self.count_size(),
            size => Ok(size),
        }
    }

    /// The size according to all logs.
    pub(crate) fn looked_up_size(&self) -> Result<u64> {
        let reader = self.reader()?;
        reader.refresh()?;
        Ok(reader.size())
    }

    /// Makes later writes newer than all that can be seen now. Where caches are not coherent, the
    /// shared words are those of this computer only: other computers count with words of their own.
    ///
    /// # Errors
    ///
    /// If the logs cannot be read.
    pub fn follow(&self) -> Result<()> {
        let reader = self.reader()?;
        reader.renew();
        reader.refresh()?;
        self.order.raise(Word::Next, reader.next_number())?;
        if self.order.is_counting() { self.order.raise(Word::Size, reader.size()) } else { Ok(()) }
    }

    /// The reader of the logs, as of its last refresh.
    pub(crate) fn reader(&self) -> Result<&Reader> {
        if self.reader.get().is_none() {
            let new = Reader::new(Arc::clone(&self.shared))?;
            self.reader.get_or_init(|| new);
        }
        self.reader.get().ok_or_else(|| crate::errors::damaged("no reader is there"))
    }

    /// Sets the size word to the size according to all logs; the caller has the turn.
    pub(crate) fn count_size(&self) -> Result<u64> {
        let counts = self.order.load(Word::Counts)? | 1;
        self.order.store(Word::Counts, counts)?;
        // Either a write's frame is in the logs by now, or the write sees that the size is being
        // counted.
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

    /// The size of the logical file, with all writes of this node.
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

    /// Makes the file at least `end` bytes long, with zeros behind its current end; concurrent
    /// writes stay.
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
        let stored = self
            .certain_size(end)
            .and_then(|size| if size < end { self.cut(&mut log, end) } else { Ok(()) });
        self.order.store(Word::Growths, (growths | 1) + 1)?;
        stored
    }

    /// Sets the size; the caller has the turn.
    pub(crate) fn cut(&self, log: &mut Log, size: u64) -> Result<()> {
        if !self.order.is_counted()? {
            return self.event(log, Kind::Truncate, Extent::new(size, 0));
        }
        if self.order.load(Word::Truncations)? % 2 == 1 {
            self.count_size()?;
        }
        self.order.add(Word::Truncations, 1)?;
        let before = self.order.load(Word::Size)?;
        let stored = self.event(log, Kind::Truncate, Extent::new(size, 0));
        if stored.is_ok() {
            self.order.store(Word::Size, size)?;
        }
        self.order.add(Word::Truncations, 1)?;
        stored?;
        if size < before {
            self.clear_behind(size)
        } else {
            self.bring_home(log, Extent::between(before, size))
        }
    }
}
