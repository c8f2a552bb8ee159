//! Converts a container that is no longer written into a set of files of another layout, which
//! stand for the same file.
//!
//! The files are made inside of the container, which stays complete until all of them are; then
//! they get their names beside it, and it is removed.

use crate::directory::Dir;
use crate::directory::user;
use crate::errors::{at, failed, refused};
use crate::file::{Container, drain, names};
use crate::format::{Manifest, part_mode};
use crate::order::Sequencer;
use crate::output::parent_of;
use crate::reading::Reader;
use crate::repair::{Findings, examine};
use aggio_base::log;
use aggio_base::log::Level;
use aggio_base::{Error, ErrorClass, Result};
pub use aggio_config::settings::blobs::Layout;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// How a rank's container is converted, and the rank's own part in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sealing {
    /// The layout.
    pub layout: Layout,
    /// How many files; zero for one of each node.
    pub files: u32,
    /// The log that this rank wrote, or zero.
    pub log: u64,
    /// Whether some of the bytes are durable.
    pub durable: bool,
}

/// The conversion of a container.
#[derive(Clone, Debug)]
pub struct Recast {
    /// The path of the container, which becomes the name of the set.
    pub path: PathBuf,
    /// The layout.
    pub layout: Layout,
    /// The log of each rank; zero if it has none. Bytes in other logs count as the first rank's.
    pub logs: Vec<u64>,
    /// For each file, the ranks with bytes in it.
    pub groups: Vec<Vec<u32>>,
    /// Whether the bytes must be durable as they are in the container.
    pub durable: bool,
}

/// The result for a file of the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// It holds its share of the container's content in this generation.
    Made {
        /// The generation.
        generation: u64,
    },
    /// The layout cannot express the file, for this reason.
    Unsuited(String),
}

/// Writes files of other layouts.
pub trait Recaster: Send + Sync {
    /// The name of a file of the set that stands for `set`.
    fn file_name(&self, set: &str, part: usize) -> String;

    /// Whether the file `path` is one of a set, which may be replaced by another one.
    fn is_part(&self, path: &Path) -> bool;

    /// Writes a file of the set; returns why the layout cannot express the file, if so.
    ///
    /// # Errors
    ///
    /// If the container cannot be read or the file not be written.
    fn write(
        &self,
        recast: &Recast,
        reader: &Reader,
        part: usize,
        to: &File,
    ) -> Result<Option<String>>;
}

/// The name of an unfinished file in the container. Names that begin with a dot mark remains of a
/// crash.
fn unfinished(part: usize) -> String {
    format!(".part.{part:04}")
}

/// Fails unless the file was made by [`Recast::write`]: another user with write access to the
/// container may have replaced it.
fn require_own(dir: &Dir, name: &str) -> Result<()> {
    let fail = |error: io::Error| failed("stat", &error, &dir.path_of(name));
    let owner = dir.file().metadata().map_err(fail)?.uid();
    let is_own = dir.stat(name)?.is_some_and(|found| {
        let own = found.st_uid == owner || found.st_uid == user();
        own && found.st_mode & libc::S_IFMT == libc::S_IFREG && found.st_nlink == 1
    });
    if is_own { Ok(()) } else { Err(fail(io::Error::other("somebody else has put it there"))) }
}

impl Recast {
    /// Makes a file of the set inside of the container; ranks make different ones at the same time.
    ///
    /// # Errors
    ///
    /// If somebody writes the container still, it is damaged or cannot be read, or the file cannot
    /// be stored.
    pub fn write(&self, recaster: &dyn Recaster, part: usize) -> Result<Part> {
        let container = Container::open(&self.path)?;
        let reader = container.reader()?;
        if !reader.is_sealed() {
            return Err(self.busy());
        }
        let dir = &container.shared.dir;
        self.verify(part, dir)?;
        let name = unfinished(part);
        let mode = container.attributes()?.mode;
        dir.remove(&name)?;
        let file = dir.new_part(&name, part_mode(mode))?;
        let made = recaster.write(self, &reader, part, &file).and_then(|unsuited| {
            let fail = |error| failed("write", &error, &dir.path_of(&name));
            file.set_permissions(Permissions::from_mode(mode & 0o777)).map_err(fail)?;
            if self.durable && unsuited.is_none() {
                file.sync_all().map_err(fail)?;
            }
            Ok(unsuited)
        });
        match made {
            Ok(None) => Ok(Part::Made { generation: reader.generation() }),
            Ok(Some(why)) => Ok(Part::Unsuited(why)),
            Err(error) => Err(error),
        }
    }

    /// Compares the logs that belong to a file of the set with their checksums. This is the last
    /// chance: the container is removed afterwards.
    fn verify(&self, part: usize, dir: &Dir) -> Result<()> {
        let mut findings = Findings::default();
        for (number, log) in Manifest::load(dir)?.logs.iter().enumerate() {
            if self.part_of(log.id).unwrap_or(number % self.groups.len()) == part {
                examine(dir, log.id, Some(*log), true, false, &mut findings)?;
            }
        }
        findings.demand_undamaged(dir.path())
    }

    /// The file that has the bytes of the rank which wrote the log, if one of them did.
    fn part_of(&self, log: u64) -> Option<usize> {
        let rank = self.logs.iter().position(|own| *own == log)? as u32;
        self.groups.iter().position(|group| group.contains(&rank))
    }

    /// Removes the files that [`write`](Recast::write) has made.
    pub fn discard(&self) {
        let Ok(dir) = Dir::open(&self.path) else { return };
        // A file that cannot be removed looks like a remain of a crash to readers.
        (0..self.groups.len()).for_each(|part| drop(dir.remove(&unfinished(part))));
    }

    /// Moves logs that wait in a directory of the node into the container, which stays one.
    ///
    /// # Errors
    ///
    /// If it cannot be stored, or not be read. It stays where it is.
    pub fn drain(&self) -> Result<()> {
        match drain(&self.path) {
            // Somebody has removed it, or made something else of it; or another job writes it and
            // does the same with its own logs.
            Err(error) if matches!(error.errno(), libc::ENOENT | libc::EINVAL | libc::EBUSY) => {
                Ok(())
            }
            drained => drained.map(drop),
        }
    }

    /// Gives all files their names and removes the container, which had this `generation` when they
    /// were made. An older set of the name is replaced.
    ///
    /// # Errors
    ///
    /// If the container was changed or is being written, or a name belongs to something else. It
    /// stays then.
    pub fn publish(&self, recaster: &dyn Recaster, generation: u64) -> Result<()> {
        let container = Container::open(&self.path)?;
        let dir = &container.shared.dir;
        let order = Sequencer::open(dir, part_mode(container.attributes()?.mode), false)?;
        if !order.be_alone()? || !order.close_for_others()? {
            return Err(self.busy());
        }
        let reader = container.reader()?;
        if !reader.is_sealed() || reader.generation() != generation {
            return Err(self.busy());
        }
        let parts = self.groups.len();
        for part in 0..parts {
            let to = self.path_of(recaster, part)?;
            if to.symlink_metadata().is_ok() && !recaster.is_part(&to) {
                let words = "there is something else of this name";
                return Err(refused((ErrorClass::FileExists, libc::EEXIST), &to, words));
            }
        }
        // The first file gets its name last, because it identifies the set.
        for part in (0..parts).rev() {
            let (from, to) = (dir.path_of(&unfinished(part)), self.path_of(recaster, part)?);
            require_own(dir, &unfinished(part))?;
            std::fs::rename(&from, &to).map_err(|error| failed("rename", &error, &to))?;
        }
        if self.durable {
            Dir::open_following(&parent_of(&self.path))?.sync()?;
        }
        self.remove_further(recaster)?;
        match names::remove(&self.path) {
            // The container has lost its name, so the set counts; the rest of it has a hidden name.
            Err(error) if self.path.symlink_metadata().is_err() => {
                log!(Level::Warn, "what is left of the container cannot be removed: {error}");
                Ok(())
            }
            removed => removed,
        }
    }

    /// Removes the surplus files of an older, larger set, the last one first: after a crash, a
    /// later call finds the others.
    fn remove_further(&self, recaster: &dyn Recaster) -> Result<()> {
        let mut further = Vec::new();
        for part in self.groups.len().. {
            let path = self.path_of(recaster, part)?;
            if path.symlink_metadata().is_err() || !recaster.is_part(&path) {
                break;
            }
            further.push(path);
        }
        further.iter().rev().try_for_each(|path| {
            std::fs::remove_file(path).map_err(|error| failed("unlink", &error, path))
        })
    }

    fn path_of(&self, recaster: &dyn Recaster, part: usize) -> Result<PathBuf> {
        let name = self.path.file_name().and_then(|name| name.to_str());
        let unnamed = || {
            let words = "a set of files needs a name that is text";
            at(Error::new(ErrorClass::BadFile, words), &self.path)
        };
        Ok(self.path.with_file_name(recaster.file_name(name.ok_or_else(unnamed)?, part)))
    }

    fn busy(&self) -> Error {
        let words = "somebody else has the container open";
        refused((ErrorClass::FileInUse, libc::EBUSY), &self.path, words)
    }
}
