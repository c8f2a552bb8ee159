//! An open container or set: its reader and its log, which only the holder of the lock may use.

use super::set::OpenSet;
use super::table::OpenContainer;
use super::write_buffer::WriteBuffer;
use super::{areas, number, placeholder};
use agg_core::blob::{Attributes, Container, Hold, Presence, Reader, Writer};
use libc::c_int;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// The file that a descriptor stands for.
pub(super) enum Held {
    Container(Container),
    Set(Box<OpenSet>),
}

/// A container or set that is about to be opened.
pub(super) struct Found {
    pub(super) held: Held,
    /// Keeps the parts of a container after its name is removed.
    pub(super) hold: Option<Hold>,
    /// Device and inode by which it is known.
    pub(super) identity: (u64, u64),
}

impl Found {
    /// A container.
    ///
    /// # Errors
    /// `ENOENT` if somebody is removing it, and where descriptors are short.
    pub(super) fn container(container: Container) -> Result<Self, c_int> {
        let hold = match container.hold() {
            Ok(hold) => hold,
            Err(error) if is_final(number(&error)) => return Err(number(&error)),
            // Damaged containers can still be read.
            Err(_) => None,
        };
        let identity = placeholder::identity(container.directory().as_raw_fd());
        let identity = identity.ok_or(libc::EIO)?;
        Ok(Found { held: Held::Container(container), hold, identity })
    }

    /// A set of this identity.
    pub(super) fn set(set: OpenSet, identity: (u64, u64)) -> Self {
        Found { held: Held::Set(Box::new(set)), hold: None, identity }
    }
}

fn is_final(error: c_int) -> bool {
    matches!(error, libc::ENOENT | libc::EMFILE | libc::ENFILE | libc::ENOMEM)
}

/// Where bytes are read.
pub(super) enum Source<'a> {
    Container(&'a Reader),
    Set(&'a mut OpenSet),
}

/// The state that the lock protects.
pub(super) struct State {
    /// `None` when its last descriptor was closed.
    held: Option<Held>,
    /// Keeps the container from becoming a set of files, if it may.
    presence: Option<Presence>,
    reader: Option<Box<Reader>>,
    writer: Option<Box<Writer>>,
    pub(super) kept: WriteBuffer,
    /// Keeps its parts after its name is removed.
    hold: Option<Hold>,
    /// Its name was removed by this process, or by its parent before this one was made.
    pub(super) nameless: bool,
}

/// The container or set of a description that has descriptors.
fn open(held: &mut Option<Held>) -> agg_core::Result<&mut Held> {
    held.as_mut().ok_or_else(|| {
        let words = "the file was closed meanwhile";
        agg_core::Error::new(agg_core::ErrorClass::File, words).with_errno(libc::EBADF)
    })
}

/// The container, for a change.
fn container(held: &mut Option<Held>) -> agg_core::Result<&Container> {
    match open(held)? {
        Held::Container(container) => Ok(container),
        Held::Set(set) => Err(set.refusal()),
    }
}

impl Source<'_> {
    /// Bytes of the file.
    pub(super) fn size(&mut self) -> agg_core::Result<u64> {
        match self {
            Source::Container(reader) => Ok(reader.size()),
            Source::Set(set) => set.size(),
        }
    }

    /// Fills a buffer from `offset` on; less only at the end of the file.
    pub(super) fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> agg_core::Result<usize> {
        match self {
            Source::Container(reader) => reader.read_at(buffer, offset),
            Source::Set(set) => set.read_at(buffer, offset),
        }
    }
}

impl State {
    /// Nothing was read or written yet.
    pub(super) fn new(
        held: Held,
        (presence, hold): (Option<Presence>, Option<Hold>),
        kept: WriteBuffer,
    ) -> Self {
        let (held, reader, writer, nameless) = (Some(held), None, None, false);
        Self { held, presence, hold, reader, writer, kept, nameless }
    }

    /// Whether no name leads to it any more.
    pub(super) fn is_nameless(&self) -> bool {
        let removed = match &self.held {
            Some(Held::Container(container)) => container.removed().is_some(),
            _ => false,
        };
        self.nameless || removed
    }

    /// In a child after `fork`; nobody held the lock then if `was_free`.
    pub(super) fn disown(&mut self, was_free: bool) {
        if let (Some(Held::Set(set)), false) = (&mut self.held, was_free) {
            set.abandon();
        }
        let (reader, writer) = (self.reader.take(), self.writer.take());
        if was_free && !areas::any_live() {
            // Locks stay the parent's. With it they end, however it ends: this process does not
            // write to them.
            if let Some(writer) = writer {
                writer.abandon();
            }
            drop(reader);
        } else {
            // Interrupted changes are left as they are, and so are logs with mapped pages.
            std::mem::forget((reader, writer));
        }
        self.kept.disown();
    }

    /// The container, for a change.
    ///
    /// # Errors
    /// `EROFS` if it is a set.
    pub(super) fn container(&mut self) -> agg_core::Result<&Container> {
        self.store_kept()?;
        container(&mut self.held)
    }

    /// The result of `stat`.
    pub(super) fn attributes(&mut self) -> agg_core::Result<Attributes> {
        self.store_kept()?;
        match open(&mut self.held)? {
            Held::Container(container) => container.attributes(),
            Held::Set(set) => set.attributes(),
        }
    }

    /// A descriptor that carries locks, which is made only if `make`.
    pub(super) fn lock_file(&mut self, make: bool) -> agg_core::Result<File> {
        match open(&mut self.held)? {
            Held::Container(container) => container.lock_file(make),
            Held::Set(set) if make => set.lock_file(),
            Held::Set(_) => {
                let words = "nobody has locked the set";
                Err(agg_core::Error::new(agg_core::ErrorClass::File, words)
                    .with_errno(libc::ENOLCK))
            }
        }
    }

    /// Device and inode of the file that carries the locks of a container; `None` if there is none.
    pub(super) fn lock_identity(&mut self) -> agg_core::Result<Option<(u64, u64)>> {
        match open(&mut self.held)? {
            Held::Container(container) => container.lock_identity(),
            Held::Set(_) => Ok(None),
        }
    }

    /// Where a container is now; `None` if that cannot be determined.
    pub(super) fn path_now(&mut self) -> agg_core::Result<Option<PathBuf>> {
        match open(&mut self.held)? {
            Held::Container(container) => Ok(container.path_now()),
            Held::Set(_) => Ok(None),
        }
    }

    /// Sets whether the next program in this process ends the hold on a container without a name,
    /// which no other process may do.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn pass_hold_on(&mut self, does: bool) -> agg_core::Result<()> {
        let does = does && self.is_nameless();
        self.hold.as_ref().map_or(Ok(()), |hold| hold.set_inherited(does))
    }

    /// Whether it is a set.
    pub(super) fn is_set(&self) -> bool {
        matches!(self.held, Some(Held::Set(_)))
    }

    /// The source of reads, after the bytes that were written until now are stored.
    pub(super) fn source(&mut self) -> agg_core::Result<Source<'_>> {
        self.store_kept()?;
        match open(&mut self.held)? {
            Held::Set(set) => Ok(Source::Set(set)),
            Held::Container(container) => Ok(Source::Container(match &mut self.reader {
                Some(reader) => {
                    reader.catch_up()?;
                    reader
                }
                none => none.insert(Box::new(super::verified(container)?)),
            })),
        }
    }

    /// The log of this process.
    ///
    /// # Errors
    /// `EROFS` if it is a set.
    pub(super) fn writer(&mut self) -> agg_core::Result<&Writer> {
        self.store_kept()?;
        self.log()
    }

    /// The log; buffered writes are not stored first.
    fn log(&mut self) -> agg_core::Result<&Writer> {
        match &mut self.writer {
            Some(writer) => Ok(writer),
            none => Ok(none.insert(Box::new(container(&mut self.held)?.writer()?))),
        }
    }

    /// Lets a write wait, if it may; whether it does.
    ///
    /// # Errors
    /// If there is no room for it and the buffered writes cannot be stored; then no byte of it was
    /// taken.
    pub(super) fn keep(
        &mut self,
        open: &OpenContainer,
        buffers: &[&[u8]],
        start: u64,
    ) -> agg_core::Result<bool> {
        let len = buffers.iter().map(|buffer| buffer.len()).sum();
        let mapped = areas::has_live_on(open.identity);
        if !self.kept.wants(start, len) || open.is_synchronous() || self.nameless || mapped {
            return Ok(false);
        }
        // Report a missing permission to write now, not when the buffered bytes are stored.
        self.log()?;
        if !self.kept.has_room(start, len) {
            self.store_kept()?;
            self.kept.grow();
        }
        let container = container(&mut self.held)?;
        Ok(self.kept.take((container, open.identity), buffers, start))
    }

    /// Stores the buffered writes.
    ///
    /// # Errors
    /// If they cannot be stored; they stay buffered.
    pub(super) fn store_kept(&mut self) -> agg_core::Result<()> {
        self.writer.as_ref().map_or(Ok(()), |writer| self.kept.store(writer))
    }

    /// Bytes of the file.
    pub(super) fn size(&mut self) -> agg_core::Result<u64> {
        self.store_kept()?;
        match &self.writer {
            Some(writer) => writer.size(),
            None => self.source()?.size(),
        }
    }

    /// Synchronises the bytes that this process wrote.
    pub(super) fn sync(&mut self) -> agg_core::Result<()> {
        self.store_kept()?;
        self.writer.as_ref().map_or(Ok(()), |writer| writer.sync())
    }

    /// Ends the log of this process; another write would begin a new one.
    pub(super) fn end(&mut self) -> agg_core::Result<()> {
        let stored = self.store_kept();
        if let Some(Held::Container(container)) = &self.held {
            if let (Err(error), Some(writer)) = (&stored, &self.writer) {
                self.kept.give_up(writer, container, error);
            }
            self.kept.report(container);
        }
        self.reader = None;
        let closed = self.writer.take().map_or(Ok(()), |writer| writer.close());
        stored.and(closed)
    }

    /// Ends everything: there is no descriptor any more.
    pub(super) fn close(&mut self) -> agg_core::Result<()> {
        let ended = self.end();
        let released = self.release();
        (self.held, self.presence) = (None, None);
        ended.and(released)
    }

    /// Lets the container go if its name is gone, and nobody else has it open.
    pub(super) fn release(&mut self) -> agg_core::Result<()> {
        match (&self.held, self.hold.take()) {
            (Some(Held::Container(container)), Some(hold)) => container.release(hold),
            _ => Ok(()),
        }
    }
}
