//! Containers and sets that are open, and which descriptors belong to them.

use super::super::descriptors::{self, Kind, Object};
use super::super::lock::Locked;
use super::super::state::Inside;
use super::number;
use super::open_file::{Found, Held, State};
use super::placeholder::STATUS;
use super::write_buffer::{self, WriteBuffer};
use crate::config;
use crate::config::remakes;
use agg_core::rules::Mode;
use agg_core::settings::blobs::BlobRule;
use libc::c_int;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed};

/// An open file description on a container; never freed, for a thread may have just found it.
pub struct OpenContainer {
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
    /// Whether another process may have the description, too, and with it the position.
    shared: AtomicBool,
    /// Whether any of them waits.
    waiting: &'static AtomicBool,
    references: AtomicUsize,
    state: Locked<State>,
}

// SAFETY: no other type has the kind, and descriptions are never freed.
unsafe impl Object for OpenContainer {
    const KIND: Kind = Kind::Container;

    fn references(&self) -> &AtomicUsize {
        &self.references
    }
}

/// Whether any container is open.
pub fn any() -> bool {
    descriptors::any::<OpenContainer>()
}

/// The description of `fd`, if it is open on a container.
#[inline]
pub(super) fn get(fd: c_int) -> Option<&'static OpenContainer> {
    descriptors::get(fd)
}

/// Says that `fd` belongs to a new description.
pub(super) fn add(fd: c_int, found: Found, path: PathBuf, flags: c_int) -> &'static OpenContainer {
    let Found { held, hold, identity } = found;
    let mode = mode_of(&path);
    let waiting: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let presence = match (&held, path.to_str()) {
        // If this fails, the container may become a set of files while it is open, as if it was
        // removed.
        (Held::Container(container), Some(name)) if remakes(name) => {
            container.stay().ok().flatten()
        }
        _ => None,
    };
    let state = State::new(held, (presence, hold), WriteBuffer::new(mode, waiting));
    let open: &'static OpenContainer = Box::leak(Box::new(OpenContainer {
        path,
        identity,
        flags: flags & !STATUS,
        locks: AtomicI32::new(-1),
        mode,
        shared: AtomicBool::new(false),
        waiting,
        references: AtomicUsize::new(0),
        state: Locked::new(state),
    }));
    descriptors::put(fd, open);
    open
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
pub(super) fn on(identity: (u64, u64)) -> impl Iterator<Item = &'static OpenContainer> {
    all().map(|(_, open)| open).filter(move |open| open.identity == identity)
}

/// All descriptors that are open on containers.
pub(super) fn all() -> impl Iterator<Item = (c_int, &'static OpenContainer)> {
    descriptors::each()
}

impl OpenContainer {
    /// Calls `act` with the state that the lock protects.
    ///
    /// # Errors
    /// `EDEADLK` in a signal handler that interrupted such a call, and those of `act`.
    pub(super) fn locked<T>(
        &self,
        act: impl FnOnce(&OpenContainer, &mut State) -> agg_core::Result<T>,
    ) -> Result<T, c_int> {
        write_buffer::store_beside(self)?;
        self.alone(act)
    }

    /// As [`locked`](Self::locked), without storing writes to the same container that other open
    /// files buffer.
    ///
    /// # Errors
    /// The same.
    pub(super) fn alone<T>(
        &self,
        act: impl FnOnce(&OpenContainer, &mut State) -> agg_core::Result<T>,
    ) -> Result<T, c_int> {
        let _inside = Inside::enter();
        let done = self.state.with(|state| act(self, state)).ok_or(libc::EDEADLK)?;
        done.map_err(|error| number(&error))
    }

    /// From now on another process may have it, too.
    pub(super) fn share(&self) {
        self.shared.store(true, Relaxed);
    }

    /// Whether another process may have it, too.
    pub(super) fn is_shared(&self) -> bool {
        self.shared.load(Relaxed)
    }

    /// Whether any of its writes waits.
    pub(super) fn waits(&self) -> bool {
        self.waiting.load(Relaxed)
    }

    /// Bytes of the file.
    ///
    /// # Errors
    /// As [`locked`](Self::locked).
    pub(super) fn size(&self) -> Result<u64, c_int> {
        self.locked(|_, state| state.size())
    }

    /// Whether any descriptor belongs to it.
    pub(super) fn has_descriptors(&self) -> bool {
        self.references.load(Acquire) != 0
    }

    /// Ends everything: neither a descriptor nor a mapping needs it any more.
    ///
    /// # Errors
    /// The error that `close` returns to the program.
    pub(super) fn finish(&self) -> Result<(), c_int> {
        self.locked(|_, state| state.close())
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

    /// In a child after `fork`: leaves the log and the readers to the parent, and releases the
    /// lock, which a thread of the parent may have held.
    pub(super) fn disown(&self) {
        // SAFETY: a child has one thread.
        unsafe { self.state.in_child(State::disown) };
    }
}

/// Says that a log could not be ended: its bytes are in it, and the container is to be checked.
pub(super) fn tell(open: &OpenContainer, error: c_int) {
    let cause = std::io::Error::from_raw_os_error(error);
    let path = open.path.display();
    let text = format_args!("{path}: the container could not be completed: {cause}");
    agg_core::log::write(agg_core::log::Level::Error, text);
}
