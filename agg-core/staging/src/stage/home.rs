//! Where stages are: in memory of the node without a name, or in a directory that the user named.

use super::claim::Claim;
use super::control::{Control, Identity};
use super::directory::Directory;
use super::memory::Memory;
use super::room::Room;
use aggio_base::log::{self, Level};
use aggio_base::{Error, Result};
use aggio_config::settings::stage::StagePlace;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Where the stages of a user are, and the room there.
#[derive(Clone, Debug)]
pub struct Home {
    kind: HomeKind,
    room: Room,
}

#[derive(Clone, Debug)]
enum HomeKind {
    /// In a directory, where they survive the processes that use them.
    Directory(Directory),
    /// In memory, which ends with the last process that uses it.
    Memory(Memory),
}

/// The place of the stage of one file.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// A directory.
    Directory(PathBuf),
    /// Memory with the staged bytes of this file.
    Memory(Identity),
}

/// The open files of a stage.
pub(super) struct Files {
    pub(super) head: File,
    /// The head, once more: locks of draining are not those of accesses.
    pub(super) draining: File,
    pub(super) places: File,
    pub(super) bytes: File,
    /// Lets others find them, as long as it lives.
    pub(super) claim: Option<Claim>,
}

impl Home {
    /// Stages in the directory `dir`.
    pub fn new(dir: &Path) -> Self {
        Self { kind: HomeKind::Directory(Directory::new(dir)), room: Room::below(dir) }
    }

    /// Stages in a directory, which need no room: they are drained.
    pub(super) fn of(directory: Directory) -> Self {
        Self { kind: HomeKind::Directory(directory), room: Room::Storage }
    }

    /// The directory in which stages are, if they are in one.
    pub(super) fn directory(&self) -> Option<&Directory> {
        match &self.kind {
            HomeKind::Directory(directory) => Some(directory),
            HomeKind::Memory(_) => None,
        }
    }

    /// Stages in memory.
    ///
    /// # Errors
    /// The error of the system call: without `/proc` processes cannot find each other.
    pub fn in_memory() -> Result<Self> {
        let memory =
            Memory::new().map_err(|error| Error::os("open of /proc/self/ns/pid", &error))?;
        Ok(Self { kind: HomeKind::Memory(memory), room: Room::in_memory() })
    }

    /// Whether staged bytes survive the processes that use the stage.
    pub(super) fn survives(&self) -> bool {
        matches!(self.kind, HomeKind::Directory(_))
    }

    /// Bytes of a file that may be staged without a name; `None` in a directory.
    pub(super) fn most(&self) -> Option<u64> {
        match &self.room {
            Room::Memory(memory) if !self.survives() => Some(memory.most()),
            _ => None,
        }
    }

    /// Whether these pieces find room, as far as the system does not say so.
    pub(super) fn has_room_for(&self, pieces: &[(u64, &[u8])]) -> bool {
        self.room.takes(pieces)
    }

    /// Where the stage of a file is.
    pub(super) fn place(&self, identity: &Identity) -> Place {
        match &self.kind {
            HomeKind::Directory(directory) => Place::Directory(directory.place(identity)),
            HomeKind::Memory(_) => Place::Memory(*identity),
        }
    }

    /// Whether there may be a stage in `place`; takes a system call.
    pub(super) fn has(&self, place: &Place) -> bool {
        match (&self.kind, place) {
            (HomeKind::Memory(memory), Place::Memory(identity)) => memory.has(identity),
            (_, Place::Directory(path)) => Directory::has(path),
            _ => false,
        }
    }

    /// Opens the stage in `place`; `None` if there is none.
    ///
    /// # Errors
    /// `Access` if it is not private to the user; otherwise the error of the system call.
    pub(super) fn open(&self, place: &Place) -> Result<Option<Files>> {
        match (&self.kind, place) {
            (HomeKind::Directory(directory), Place::Directory(path)) => directory.open(path),
            (HomeKind::Memory(memory), Place::Memory(identity)) => memory.open(identity),
            _ => Ok(None),
        }
    }

    /// Makes a stage for `target`, called `path`, unless another process is quicker.
    ///
    /// # Errors
    /// The error of the system call.
    pub(super) fn make(&self, target: &File, path: &Path) -> Result<Option<Files>> {
        match &self.kind {
            HomeKind::Memory(memory) => memory.make(target, path),
            HomeKind::Directory(directory) => {
                directory.make(target, path)?;
                directory.open(&directory.place(&Identity::of(target)?))
            }
        }
    }

    /// Ends a stage that this process alone uses, and in which nothing is left.
    pub(super) fn end(&self, place: &Place, head: &File) {
        match (&self.kind, place) {
            (HomeKind::Directory(directory), Place::Directory(path)) => directory.remove(path),
            // A process that has found it meanwhile looks for another one.
            _ => _ = Control::give_up(head),
        }
    }
}

/// The home of the stages that the user wants at `place`, if any.
pub fn home_of(place: &StagePlace) -> Option<Home> {
    match place {
        StagePlace::Nowhere => None,
        StagePlace::Directory(name) => Some(Home::new(Path::new(name))),
        StagePlace::Memory => match Home::in_memory() {
            Ok(home) => Some(home),
            Err(error) => {
                log::once(Level::Warn, &format!("nothing is staged in memory: {error}"));
                None
            }
        },
    }
}

impl Place {
    /// Whether the stage with this head is still the one here.
    pub(super) fn is_of(&self, head: &File) -> bool {
        match self {
            Self::Directory(path) => Directory::is_in_place(path, head),
            Self::Memory(_) => !Control::is_given_up(head),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "{}", path.display()),
            Self::Memory(_) => write!(f, "memory"),
        }
    }
}
