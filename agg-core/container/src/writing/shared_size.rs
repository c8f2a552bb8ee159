//! The size of the logical file: a word that all writers share. Growths, truncations and counts of
//! the logs change it in turn; writes raise it at any time.

use crate::errors::damaged;
use crate::order::{Sequencer, Word};
use crate::reading::{Reader, Shared};
use aggio_base::Result;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, OnceLock};

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

/// The size, as a writer sees it.
#[derive(Debug)]
pub(crate) struct SharedSize {
    shared: Arc<Shared>,
    order: Arc<Sequencer>,
    /// Looks up the size where the shared word cannot be trusted.
    reader: OnceLock<Reader>,
}

impl SharedSize {
    pub(crate) fn new(shared: Arc<Shared>, order: Arc<Sequencer>) -> Self {
        Self { shared, order, reader: OnceLock::new() }
    }

    /// The number of changes of the size so far; zeros for words that are not kept.
    pub(crate) fn changes(&self) -> Result<Changes> {
        self.changes_beside(self.order.load(Word::Growths)?)
    }

    /// As [`changes`](SharedSize::changes), with a number of growths that is known: it may cost a
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

    /// The size word, if it is kept and no truncation is under way.
    pub(crate) fn told(&self) -> Result<Option<u64>> {
        if self.order.is_counted()? && self.order.load(Word::Truncations)? % 2 == 0 {
            return self.order.load(Word::Size).map(Some);
        }
        Ok(None)
    }

    /// The size word, which a truncation that was killed may have left wrong; the caller has the
    /// turn.
    pub(crate) fn settled(&self) -> Result<u64> {
        if !self.order.is_counted()? {
            return self.looked_up();
        }
        if self.order.load(Word::Truncations)? % 2 == 1 {
            return self.count();
        }
        self.order.load(Word::Size)
    }

    /// The size before a growth to `end`; the caller has the turn. If the word says that the file
    /// has `end` bytes already, the size is counted from the logs: the word may include the bytes
    /// of a write that an earlier growth has cut off, and that a killed writer does not append
    /// again.
    pub(crate) fn certain(&self, end: u64) -> Result<u64> {
        match self.settled()? {
            size if size >= end && self.order.is_counted()? => self.count(),
            size => Ok(size),
        }
    }

    /// The size according to all logs.
    pub(crate) fn looked_up(&self) -> Result<u64> {
        let reader = self.reader()?;
        reader.refresh()?;
        Ok(reader.size())
    }

    /// Sets the size word to the size according to all logs; the caller has the turn.
    pub(crate) fn count(&self) -> Result<u64> {
        let counts = self.order.load(Word::Counts)? | 1;
        self.order.store(Word::Counts, counts)?;
        // Either a write's frame is in the logs by now, or the write sees that the size is being
        // counted.
        fence(Ordering::SeqCst);
        let size = self.looked_up()?;
        self.order.store(Word::Size, size)?;
        self.order.store(Word::Counts, counts + 1)?;
        let truncations = self.order.load(Word::Truncations)?;
        if truncations % 2 == 1 {
            self.order.store(Word::Truncations, truncations + 1)?;
        }
        Ok(size)
    }

    /// Makes later writes newer than all that can be seen now.
    pub(crate) fn follow(&self) -> Result<()> {
        let reader = self.reader()?;
        reader.renew();
        reader.refresh()?;
        self.order.raise(Word::Next, reader.next_number())?;
        self.raise(reader.size())
    }

    /// The reader of the logs, as of its last refresh.
    fn reader(&self) -> Result<&Reader> {
        if self.reader.get().is_none() {
            let new = Reader::new(Arc::clone(&self.shared))?;
            self.reader.get_or_init(|| new);
        }
        self.reader.get().ok_or_else(|| damaged("no reader is there"))
    }

    /// The content as it is now; the caller has the turn.
    pub(crate) fn newest(&self) -> Result<&Reader> {
        let reader = self.reader()?;
        reader.catch_up()?;
        Ok(reader)
    }
}
