//! Changes of the size by a writer.

use super::{Writer, possible};
use crate::format::Kind;
use crate::log::Log;
use crate::order::Word;
use aggio_base::{Extent, Result};
use std::sync::atomic::{Ordering, fence};

impl Writer {
    /// Makes later writes newer than all that can be seen now. Where caches are not coherent, the
    /// shared words are those of this computer only: other computers count with words of their own.
    ///
    /// # Errors
    ///
    /// If the logs cannot be read.
    pub fn follow(&self) -> Result<()> {
        self.size.follow()
    }

    /// The size of the logical file, with all writes of this node.
    ///
    /// # Errors
    ///
    /// If it has to be looked up in the logs and they cannot be read.
    pub fn size(&self) -> Result<u64> {
        if let Some(size) = self.size.told()? {
            return Ok(size);
        }
        let _log = self.log();
        let _turn = self.order.turn()?;
        self.size.settled()
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
        let certain = self.size.certain(end);
        let stored =
            certain.and_then(|size| if size < end { self.cut(&mut log, end) } else { Ok(()) });
        self.order.store(Word::Growths, (growths | 1) + 1)?;
        stored
    }

    /// Sets the size; the caller has the turn.
    pub(crate) fn cut(&self, log: &mut Log, size: u64) -> Result<()> {
        if !self.order.is_counted()? {
            return self.event(log, Kind::Truncate, Extent::new(size, 0));
        }
        if self.order.load(Word::Truncations)? % 2 == 1 {
            self.size.count()?;
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
