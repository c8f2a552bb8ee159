//! Where stages are: in memory of the node without a name, or in a directory that the user named.

use super::claim::Claim;
use super::control::{Control, Identity};
use super::directory::Directory;
use super::memory::Memory;
use aggio_base::log::{self, Level};
use aggio_base::{Error, Result};
use aggio_config::settings::stage::StagePlace;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Where the stages of a user are.
#[derive(Clone, Debug)]
pub enum Home {
    /// In a directory, where they survive those who use them.
    Directory(Directory),
    /// In memory, which ends with the last process that uses it.
    Memory(Memory),
}

/// The place of the stage of one file.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// A directory.
    Directory(PathBuf),
    /// Memory; what is staged there is for this file.
    Memory(Identity),
}

/// The open files of a stage.
pub(super) struct Files {
    pub(super) head: File,
    /// The head, once more: locks of draining are not those of accesses.
    pub(super) draining: File,
    pub(super) places: File,
    pub(super) bytes: File,
    /// By which others find them, as long as it lives.
    pub(super) claim: Option<Claim>,
}

impl Home {
    /// Stages in the directory `dir`.
    pub fn new(dir: &Path) -> Self {
        Self::Directory(Directory::new(dir))
    }

    /// Stages in memory.
    ///
    /// # Errors
    /// What the system says: without `/dev/shm` processes cannot find each other.
    pub fn in_memory() -> Result<Self> {
        Memory::new().map(Self::Memory).map_err(|error| Error::os("open of /dev/shm", &error))
    }

    /// Whether what is staged survives those who use it.
    pub(super) fn survives(&self) -> bool {
        matches!(self, Self::Directory(_))
    }

    /// Bytes that may be staged here at most; `None` where the system says when it is full.
    pub(super) fn room(&self) -> Option<u64> {
        match self {
            Self::Directory(_) => None,
            Self::Memory(memory) => Some(memory.room()),
        }
    }

    /// Whether these pieces find room, as far as the system does not say so.
    pub(super) fn has_room_for(&self, pieces: &[(u64, &[u8])]) -> bool {
        match self {
            Self::Directory(_) => true,
            Self::Memory(memory) => memory.has_room_for(pieces),
        }
    }

    /// Where the stage of a file is.
    pub(super) fn place(&self, identity: &Identity) -> Place {
        match self {
            Self::Directory(directory) => Place::Directory(directory.place(identity)),
            Self::Memory(_) => Place::Memory(*identity),
        }
    }

    /// Whether there may be a stage in `place`; takes a system call.
    pub(super) fn has(&self, place: &Place) -> bool {
        match (self, place) {
            (Self::Memory(memory), Place::Memory(identity)) => memory.has(identity),
            (_, Place::Directory(path)) => Directory::has(path),
            _ => false,
        }
    }

    /// Opens the stage in `place`; `None` if there is none.
    ///
    /// # Errors
    /// `Access` if it is not the user's alone; what the system says.
    pub(super) fn open(&self, place: &Place) -> Result<Option<Files>> {
        match (self, place) {
            (Self::Directory(directory), Place::Directory(path)) => directory.open(path),
            (Self::Memory(memory), Place::Memory(identity)) => memory.open(identity),
            _ => Ok(None),
        }
    }

    /// Makes a stage for `target`, called `path`, unless another process is quicker.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn make(&self, target: &File, path: &Path) -> Result<Option<Files>> {
        match self {
            Self::Memory(memory) => memory.make(target, path),
            Self::Directory(directory) => {
                directory.make(target, path)?;
                directory.open(&directory.place(&Identity::of(target)?))
            }
        }
    }

    /// Ends a stage that this process alone uses, and in which nothing is left.
    pub(super) fn end(&self, place: &Place, head: &File) {
        match (self, place) {
            (Self::Directory(directory), Place::Directory(path)) => directory.remove(path),
            // Whoever has found it meanwhile looks for another one.
            _ => _ = Control::give_up(head),
        }
    }
}

/// Where stages are that the user wants at `place`, if he wants any.
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
    /// Whether the stage of which `head` is the head is still the one here.
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
