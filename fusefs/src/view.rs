//! The view: files by their names, and their attributes.

use crate::attributes::{self, TTL, is_directory};
use crate::blob::{self, Blob};
use crate::coupled;
use crate::handles::{Handles, Open};
use crate::passthrough::Passthrough;
use crate::request::Place;
use crate::sets;
use crate::sets::{OpenSet, OpenSets};
use crate::tree::{Kind, Known, Seen, Stamp, Tree, mix, open_name};
use agg_core::blob::{Attributes, Verify, is_container, is_hidden};
use aggio_couple::Viewer;
use aggio_formats::Holes;
use fuser::{FileAttr, FileHandle};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, FileType, Stat};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A file as it is shown to the kernel.
pub(crate) struct Shown {
    pub(crate) attributes: FileAttr,
    /// How long the kernel may cache that.
    pub(crate) ttl: Duration,
}

impl Shown {
    fn plain(stat: &Stat, id: u64) -> Self {
        Shown { attributes: attributes::of_plain(stat, id), ttl: TTL }
    }

    /// A set, with the size of all its files.
    pub(crate) fn set(set: &OpenSet, id: u64) -> Self {
        Shown { attributes: attributes::of_set(set.stat(), set.file.size(), id), ttl: TTL }
    }

    /// A container. The kernel must not cache one that is being written.
    fn container(found: &Attributes, links: u32, id: u64) -> Self {
        let ttl = if found.sealed { TTL } else { Duration::ZERO };
        Shown { attributes: attributes::of_container(found, links, id), ttl }
    }

    fn open_container(blob: &Blob, id: u64) -> Result<Self> {
        Ok(Shown::container(&blob.attributes()?, blob.links(), id))
    }

    pub(crate) fn id(&self) -> u64 {
        self.attributes.ino.0
    }
}

/// The kind of new files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewFiles {
    /// Files as they are.
    #[default]
    Plain,
    /// Containers.
    Container,
}

/// The directory that is shown, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory that is shown.
    pub backend: PathBuf,
    /// Where it is shown.
    pub point: PathBuf,
    /// Whether it may be changed.
    pub write: bool,
    /// Whether other users may use it.
    pub allow_other: bool,
    /// The kind of files that are made here.
    pub new_files: NewFiles,
    /// Whether the kernel reads and writes plain files by itself where it can.
    pub passthrough: bool,
    /// Whether bytes of containers are compared with checksums when they are read.
    pub verify: Verify,
    /// Whether the files of sets are listed, too.
    pub subfiles: bool,
    /// The bytes of sets that were never written.
    pub holes: Holes,
    /// Opens files that programs exchange in memory, to show those as well.
    pub coupled: Option<Viewer>,
}

/// A backing directory, shown.
pub(crate) struct View {
    pub(crate) tree: Tree,
    pub(crate) handles: Handles,
    pub(crate) blobs: Mutex<HashMap<u64, Arc<Blob>>>,
    pub(crate) sets: OpenSets,
    pub(crate) passthrough: Passthrough,
    pub(crate) options: Options,
}

impl View {
    pub(crate) fn new(options: Options, most_held: usize) -> Result<Self> {
        Ok(View {
            tree: Tree::new(&options.backend, most_held)?,
            handles: Handles::default(),
            blobs: Mutex::default(),
            sets: OpenSets::new(options.holes),
            passthrough: Passthrough::new(options.passthrough),
            options,
        })
    }

    /// Finds a file by its name in the backing directory.
    pub(crate) fn see(&self, directory: &OwnedFd, name: &OsStr) -> Result<Seen> {
        if is_hidden(name) {
            return Err(rustix::io::Errno::NOENT.into());
        }
        if let Some(viewer) = &self.options.coupled
            && let Some(seen) = coupled::see(viewer, directory, name)?
        {
            return Ok(seen);
        }
        let fd = match open_name(directory, name) {
            Err(why) if why.kind() == ErrorKind::NotFound => {
                return sets::see(directory, name)?.ok_or(why);
            }
            fd => Arc::new(fd?),
        };
        let stat = rustix::fs::fstat(&*fd)?;
        if kind(&stat) == FileType::RegularFile
            && let Some(seen) = sets::see(directory, name)?
        {
            return Ok(seen);
        }
        let container = is_directory(&stat) && has_manifest(&fd);
        let kind = if container { Kind::Container } else { Kind::Plain };
        Ok(Seen { fd, stat, kind, first: None })
    }

    /// Finds a file by name, and registers it as known to the kernel.
    pub(crate) fn entry(&self, parent: u64, name: &OsStr) -> Result<Shown> {
        let seen = self.see(&self.tree.get(parent)?.fd, name)?;
        self.entry_of(Place { parent, name }, &seen)
    }

    /// The same for a file that was found, even if another one has its name by now.
    pub(crate) fn entry_of(&self, place: Place<'_>, seen: &Seen) -> Result<Shown> {
        let Place { parent, name } = place;
        if seen.kind == Kind::Plain {
            let id = self.tree.remember(parent, name, seen, self.tree.wanted(&seen.stat));
            return Ok(Shown::plain(&seen.stat, id));
        }
        if seen.kind == Kind::Set {
            let set = self.sets.get(&seen.fd, &self.tree.get(parent)?.fd, name)?;
            let id = self.tree.remember(parent, name, seen, Self::wanted_by_set(&seen.stat));
            return Ok(Shown::set(&set, id));
        }
        if seen.kind == Kind::Coupled {
            let id = self.tree.remember(parent, name, seen, coupled::wanted(&seen.stat));
            return Ok(Shown::generation(&seen.stat, id));
        }
        let open = self.tree.number(seen.identity()).and_then(|id| self.open_blob(id));
        let found = match open {
            Some(blob) => blob.attributes()?,
            None => blob::attributes(&seen.fd)?,
        };
        let id = self.tree.remember(parent, name, seen, found.inode >> 2 | 1 << 62);
        Ok(Shown::container(&found, 1, id))
    }

    /// As [`View::entry`]; a listing also shows files that cannot be read.
    pub(crate) fn entry_in_listing(&self, parent: u64, name: &OsStr) -> Result<Shown> {
        let why = match self.entry(parent, name) {
            Ok(found) => return Ok(found),
            Err(why) => why,
        };
        let directory = self.tree.get(parent)?;
        let seen = self.see(&directory.fd, name)?;
        let wanted = match seen.kind {
            Kind::Plain | Kind::Coupled => return Err(why),
            Kind::Set => Self::wanted_by_set(&seen.stat),
            Kind::Container => mix(seen.stat.st_ino ^ mix(seen.stat.st_dev)) >> 2 | 1 << 62,
        };
        let id = self.tree.remember(parent, name, &seen, wanted);
        Ok(Shown { attributes: attributes::of_broken(&seen.stat, id), ttl: Duration::ZERO })
    }

    pub(crate) fn forget(&self, id: u64, lookups: u64) {
        self.tree.forget(id, lookups);
    }

    /// The container of this number if it is open.
    pub(crate) fn open_blob(&self, id: u64) -> Option<Arc<Blob>> {
        self.blobs.lock().get(&id).cloned()
    }

    /// The container of this number; opened if it is not.
    pub(crate) fn blob(&self, id: u64, known: &Known) -> Result<Arc<Blob>> {
        match self.open_blob(id) {
            Some(blob) => Ok(blob),
            None => Ok(Arc::new(Blob::open(Arc::clone(&known.fd), self.options.verify)?)),
        }
    }

    /// The number that a set wants.
    fn wanted_by_set(first: &Stat) -> u64 {
        mix(mix(first.st_ino) ^ first.st_dev) >> 2 | 1 << 61
    }

    /// The set of this number.
    pub(crate) fn set(&self, id: u64, known: &Known) -> Result<Arc<OpenSet>> {
        let (directory, name) = self.tree.place(id)?;
        self.sets.get(&known.fd, &directory.fd, &name)
    }

    pub(crate) fn attributes(&self, id: u64) -> Result<Shown> {
        let known = self.tree.get(id)?;
        match known.kind {
            Kind::Plain => return Ok(Shown::plain(&rustix::fs::fstat(&*known.fd)?, id)),
            Kind::Set => return Ok(Shown::set(&*self.set(id, &known)?, id)),
            Kind::Coupled => return self.attributes_of_generation(id),
            Kind::Container => {}
        }
        match self.open_blob(id) {
            Some(blob) => Shown::open_container(&blob, id),
            None => Ok(Shown::container(&blob::attributes(&known.fd)?, 1, id)),
        }
    }

    /// Attributes of a file, by a handle if there is one.
    pub(crate) fn attributes_of(&self, id: u64, handle: Option<FileHandle>) -> Result<Shown> {
        let open = handle.and_then(|handle| self.handles.get(handle).ok());
        match open.as_deref() {
            Some(Open::Blob { blob, .. }) => Shown::open_container(blob, id),
            Some(Open::Set { set, .. }) => Ok(Shown::set(set, id)),
            Some(Open::Generation { viewed, .. }) => {
                Ok(Shown::generation(&rustix::fs::fstat(&viewed.file)?, id))
            }
            Some(Open::Plain { file, .. }) => Ok(Shown::plain(&rustix::fs::fstat(file)?, id)),
            _ => self.attributes(id),
        }
    }

    /// The state of a plain file, if it can be told from any later one by its times.
    pub(crate) fn stamp_of_plain(stat: &Stat) -> Option<Stamp> {
        let stamp = Stamp {
            version: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
        };
        Self::is_old(stat.st_mtime).then_some(stamp)
    }

    /// Clocks of file systems are coarse: two changes in quick succession may have one time.
    pub(crate) fn is_old(seconds: i64) -> bool {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        now.saturating_sub(seconds) > 1
    }
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Whether a directory is a container. The first look is cheap and decides for most.
fn has_manifest(directory: &Arc<OwnedFd>) -> bool {
    let found =
        rustix::fs::statat(&**directory, agg_core::blob::MANIFEST, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok() && is_container(&crate::held::directory(directory))
}
