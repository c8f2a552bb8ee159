//! The view: files by their names, and their attributes.

use crate::blob::{self, Blob};
use crate::handles::{Handles, Open};
use crate::options::Options;
use crate::passthrough::Passthrough;
use crate::request::Place;
use crate::resolver::Resolver;
use crate::sets::{OpenSet, OpenSets};
use crate::shown::Shown;
use crate::tree::{Identity, Kind, Known, Seen, Tree};
use aggio_couple::Viewed;
use fuser::FileHandle;
use parking_lot::Mutex;
use rustix::fs::Stat;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Result;
use std::sync::Arc;

/// A backing directory, shown.
pub(crate) struct View {
    pub(crate) tree: Tree,
    pub(crate) resolver: Resolver,
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
            resolver: Resolver::new(options.coupled.clone(), options.subfiles),
            handles: Handles::default(),
            blobs: Mutex::default(),
            sets: OpenSets::new(options.holes),
            passthrough: Passthrough::new(options.passthrough),
            options,
        })
    }

    /// Finds a file by name, and registers it as known to the kernel.
    pub(crate) fn entry(&self, parent: u64, name: &OsStr) -> Result<Shown> {
        let seen = self.resolver.find(&self.tree.get(parent)?.fd, name)?;
        self.entry_of(Place { parent, name }, &seen)
    }

    /// The same for a file that was found, even if another one has its name by now.
    pub(crate) fn entry_of(&self, place: Place<'_>, seen: &Seen) -> Result<Shown> {
        let Place { parent, name } = place;
        if seen.kind == Kind::Plain {
            let id = self.tree.remember(parent, name, seen, self.tree.wanted(seen));
            return Ok(Shown::plain(&seen.stat, id));
        }
        if seen.kind == Kind::Set {
            let set = self.sets.get(&seen.fd, &self.tree.get(parent)?.fd, name)?;
            let id = self.tree.remember(parent, name, seen, self.tree.wanted(seen));
            return Ok(Shown::set(&set, id));
        }
        if seen.kind == Kind::Coupled {
            let id = self.tree.remember(parent, name, seen, self.tree.wanted(seen));
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
        let seen = self.resolver.find(&self.tree.get(parent)?.fd, name)?;
        if matches!(seen.kind, Kind::Plain | Kind::Coupled) {
            return Err(why);
        }
        let id = self.tree.remember(parent, name, &seen, self.tree.wanted(&seen));
        Ok(Shown::broken(&seen.stat, id))
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

    /// The generation of this number, if its file is still that.
    pub(crate) fn generation(&self, id: u64) -> Result<(Viewed, Stat)> {
        let (directory, name) = self.tree.place(id)?;
        let found = self.resolver.generation(&directory.fd, &name)?;
        let is_it = |stat: &Stat| self.tree.number(Identity::new(stat, Kind::Coupled)) == Some(id);
        found.filter(|(_, stat)| is_it(stat)).ok_or_else(|| rustix::io::Errno::STALE.into())
    }

    /// Attributes of the generation of this number. One that is open is known without its agent,
    /// which may have ended.
    fn attributes_of_generation(&self, id: u64) -> Result<Shown> {
        if let Some(open) = self.handles.generation(id)
            && let Open::Generation { viewed, .. } = &*open
        {
            return Ok(Shown::generation(&rustix::fs::fstat(&viewed.file)?, id));
        }
        Ok(Shown::generation(&self.generation(id)?.1, id))
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
}
