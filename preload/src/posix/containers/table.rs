//! Which open container or set a descriptor belongs to.

use super::super::lock::Lock;
use super::super::state::Inside;
use super::kept::{self, Kept};
use super::placeholder::STATUS;
use super::set::OpenSet;
use super::{areas, number};
use crate::config;
use agg_core::blob::{self, Attributes, Container, Presence, Reader, Writer};
use agg_core::driver::blob::remakes;
use agg_core::rules::Mode;
use agg_core::settings::blobs::BlobRule;
use libc::c_int;
use std::cell::UnsafeCell;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering::AcqRel, Ordering::Acquire,
};
use std::sync::atomic::{Ordering::Relaxed, Ordering::Release};

/// Descriptors from this number on are never ours.
const LIMIT: usize = 65_536;

static TABLE: [AtomicPtr<Open>; LIMIT] = [const { AtomicPtr::new(std::ptr::null_mut()) }; LIMIT];
/// Descriptors in the table, and one more than the highest that ever was.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);

/// An open file description on a container; never freed, for a thread may have just found it.
pub(super) struct Open {
    /// Its absolute name when it was opened.
    pub(super) path: PathBuf,
    /// Device and inode of its directory; of a set, of its first file.
    pub(super) identity: (u64, u64),
    /// Access mode and flags of the open file; those that can be changed are the placeholder's.
    pub(super) flags: c_int,
    /// The descriptor that holds its locks; -1 as long as it never had any.
    pub(super) locks: AtomicI32,
    /// When its writes reach the log.
    pub(super) mode: Mode,
    /// Whether any of them waits.
    waiting: &'static AtomicBool,
    references: AtomicUsize,
    lock: Lock,
    state: UnsafeCell<State>,
}

/// What a descriptor stands for.
pub(super) enum Held {
    Container(Container),
    Set(Box<OpenSet>),
}

impl From<Container> for Held {
    fn from(container: Container) -> Self {
        Held::Container(container)
    }
}

impl From<OpenSet> for Held {
    fn from(set: OpenSet) -> Self {
        Held::Set(Box::new(set))
    }
}

/// Where bytes are read.
pub(super) enum Source<'a> {
    Container(&'a Reader),
    Set(&'a mut OpenSet),
}

/// What is only touched with the lock.
pub(super) struct State {
    identity: (u64, u64),
    /// `None` when its last descriptor was closed.
    held: Option<Held>,
    /// Keeps the container from becoming a set of files, if it may.
    presence: Option<Presence>,
    reader: Option<Box<Reader>>,
    writer: Option<Box<Writer>>,
    kept: Kept,
    /// Where it is since this process removed its name: it goes with the last descriptor.
    pub(super) removed: Option<PathBuf>,
    /// Its name was removed by this process, or by its parent before this one was made.
    pub(super) nameless: bool,
}

// SAFETY: what is no atomic is only touched with the lock, or never changes.
unsafe impl Sync for Open {}

/// Whether `fd` is open on a container.
#[inline(always)]
pub fn has(fd: c_int) -> bool {
    COUNT.load(Relaxed) != 0 && get(fd).is_some()
}

/// Whether any container is open.
pub fn any() -> bool {
    COUNT.load(Relaxed) != 0
}

/// The description of `fd`, if it is open on a container.
#[inline]
pub(super) fn get(fd: c_int) -> Option<&'static Open> {
    // SAFETY: descriptions are never freed.
    unsafe { TABLE.get(fd as usize)?.load(Acquire).as_ref() }
}

/// Says that `fd` belongs to a new description.
pub(super) fn add(fd: c_int, held: Held, (path, identity): (PathBuf, (u64, u64)), flags: c_int) {
    let mode = mode_of(&path);
    let waiting: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let presence = match (&held, path.to_str()) {
        // Who cannot have it uses the container like one that somebody removes.
        (Held::Container(container), Some(name)) if remakes(name) => {
            container.stay().ok().flatten()
        }
        _ => None,
    };
    let state = State {
        identity,
        held: Some(held),
        presence,
        reader: None,
        writer: None,
        kept: Kept::new(mode, waiting),
        removed: None,
        nameless: false,
    };
    let open = Box::leak(Box::new(Open {
        path,
        identity,
        flags: flags & !STATUS,
        locks: AtomicI32::new(-1),
        mode,
        waiting,
        references: AtomicUsize::new(0),
        lock: Lock::new(),
        state: UnsafeCell::new(state),
    }));
    set(fd, Some(open));
}

/// When writes to the container `path` reach its log.
fn mode_of(path: &Path) -> Mode {
    let rules = &config::get().settings.blobs;
    BlobRule::of(rules, &path.to_string_lossy()).map_or(Mode::Posix, |rule| rule.mode)
}

/// Device and inode of the directory `path`.
pub(super) fn identity_of(path: &Path) -> (u64, u64) {
    path.symlink_metadata().map_or((0, 0), |facts| (facts.dev(), facts.ino()))
}

/// The descriptions on the container with this identity.
pub(super) fn on(identity: (u64, u64)) -> impl Iterator<Item = &'static Open> {
    all().map(|(_, open)| open).filter(move |open| open.identity == identity)
}

/// Says to which description `fd` belongs; the one that it belonged to, if that has no other.
pub(super) fn set(fd: c_int, open: Option<&'static Open>) -> Option<&'static Open> {
    let entry = TABLE.get(fd as usize)?;
    if let Some(open) = open {
        open.references.fetch_add(1, AcqRel);
        COUNT.fetch_add(1, Relaxed);
        END.fetch_max(fd as usize + 1, Relaxed);
    }
    let new = open.map_or(std::ptr::null_mut(), |open| std::ptr::from_ref(open).cast_mut());
    // SAFETY: descriptions are never freed.
    let old = unsafe { entry.swap(new, AcqRel).as_ref() }?;
    COUNT.fetch_sub(1, Relaxed);
    (old.references.fetch_sub(1, Release) == 1).then_some(old)
}

/// All descriptors that are open on containers.
pub(super) fn all() -> impl Iterator<Item = (c_int, &'static Open)> {
    let end = if COUNT.load(Relaxed) == 0 { 0 } else { END.load(Relaxed) };
    (0..end as c_int).filter_map(|fd| Some((fd, get(fd)?)))
}

impl Open {
    /// Lets `act` use what the lock protects.
    ///
    /// # Errors
    /// `EDEADLK` in a signal handler that interrupted such a call, and those of `act`.
    pub(super) fn locked<T>(
        &self,
        act: impl FnOnce(&Open, &mut State) -> agg_core::Result<T>,
    ) -> Result<T, c_int> {
        kept::store_beside(self)?;
        self.alone(act)
    }

    /// As [`locked`](Open::locked), whatever waits of the same container elsewhere.
    ///
    /// # Errors
    /// The same.
    pub(super) fn alone<T>(
        &self,
        act: impl FnOnce(&Open, &mut State) -> agg_core::Result<T>,
    ) -> Result<T, c_int> {
        let _inside = Inside::enter();
        let _guard = self.lock.lock().ok_or(libc::EDEADLK)?;
        // SAFETY: the lock is held.
        act(self, unsafe { &mut *self.state.get() }).map_err(|error| number(&error))
    }

    /// Whether any of its writes waits.
    pub(super) fn waits(&self) -> bool {
        self.waiting.load(Relaxed)
    }

    /// Whether any descriptor belongs to it.
    pub(super) fn has_descriptors(&self) -> bool {
        self.references.load(Acquire) != 0
    }

    /// Ends everything: neither a descriptor nor a mapping needs it any more.
    ///
    /// # Errors
    /// What the program must hear.
    pub(super) fn finish(&self) -> Result<(), c_int> {
        self.locked(|open, state| {
            let ended = state.close();
            let vanished = state.vanish(open);
            ended.and(vanished)
        })
    }

    fn access(&self) -> c_int {
        self.flags & libc::O_ACCMODE
    }

    /// # Errors
    /// `EBADF` if the descriptor is not open for reading.
    pub(super) fn may_read(&self) -> Result<(), c_int> {
        if self.access() == libc::O_WRONLY { Err(libc::EBADF) } else { Ok(()) }
    }

    /// # Errors
    /// `EBADF` if the descriptor is not open for writing.
    pub(super) fn may_write(&self) -> Result<(), c_int> {
        if self.access() == libc::O_RDONLY { Err(libc::EBADF) } else { Ok(()) }
    }

    /// Whether a write returns when it is durable.
    pub(super) fn is_synchronous(&self) -> bool {
        self.flags & libc::O_DSYNC != 0
    }

    /// In a child after `fork`: the parent's log and readers are the parent's, and so was whoever held
    /// the lock.
    pub(super) fn disown(&self) {
        let was_free = self.lock.is_free();
        self.lock.release();
        // SAFETY: a child has one thread.
        let state = unsafe { &mut *self.state.get() };
        if let (Some(Held::Set(set)), false) = (&mut state.held, was_free) {
            set.abandon();
        }
        // What they have open is left open: closing it would say that the parent does not write any more.
        std::mem::forget(state.reader.take());
        std::mem::forget(state.writer.take());
        state.kept.disown();
        state.removed = None;
    }
}

/// What a description that has descriptors stands for.
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
    /// The container, for a change.
    ///
    /// # Errors
    /// `EROFS` if it is a set.
    pub(super) fn container(&mut self) -> agg_core::Result<&Container> {
        self.store_kept()?;
        container(&mut self.held)
    }

    /// What `stat` tells.
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

    /// Whether it is a set.
    pub(super) fn is_set(&self) -> bool {
        matches!(self.held, Some(Held::Set(_)))
    }

    /// Where bytes are read; what was written until now is known there.
    pub(super) fn source(&mut self) -> agg_core::Result<Source<'_>> {
        self.store_kept()?;
        match open(&mut self.held)? {
            Held::Set(set) => Ok(Source::Set(set)),
            Held::Container(container) => Ok(Source::Container(match &mut self.reader {
                Some(reader) => {
                    reader.catch_up()?;
                    reader
                }
                none => none.insert(Box::new(container.reader()?)),
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

    /// The log, whatever waits to be written to it.
    fn log(&mut self) -> agg_core::Result<&Writer> {
        match &mut self.writer {
            Some(writer) => Ok(writer),
            none => {
                let writer = container(&mut self.held)?.writer()?;
                // The writer that a mapping was made with has ended.
                if areas::has_live_on(self.identity) {
                    writer.keep_mapped()?;
                }
                Ok(none.insert(Box::new(writer)))
            }
        }
    }

    /// Lets a write wait, if it may; whether it does.
    ///
    /// # Errors
    /// If there is no room for it and what waits already cannot be stored; then nothing of it was taken.
    pub(super) fn keep(
        &mut self,
        open: &Open,
        buffers: &[&[u8]],
        start: u64,
    ) -> agg_core::Result<bool> {
        let len = buffers.iter().map(|buffer| buffer.len()).sum();
        let mapped = areas::has_live_on(open.identity);
        if !self.kept.wants(start, len) || open.is_synchronous() || self.nameless || mapped {
            return Ok(false);
        }
        // Who may not write hears of it now.
        self.log()?;
        if !self.kept.has_room(start, len) {
            self.store_kept()?;
            self.kept.grow();
        }
        let container = container(&mut self.held)?;
        Ok(self.kept.take((container, open.identity), buffers, start))
    }

    /// Stores what waits.
    ///
    /// # Errors
    /// If it cannot be stored; it waits still.
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

    /// Synchronises what this process wrote.
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
        (self.held, self.presence) = (None, None);
        ended
    }

    /// What is to be done when the container of `open` has no descriptor any more.
    pub(super) fn vanish(&mut self, open: &Open) -> agg_core::Result<()> {
        match self.removed.take() {
            Some(place) if on(open.identity).next().is_none() => blob::remove(&place),
            _ => Ok(()),
        }
    }
}
