//! A backing directory, shown: the operations that need both names and open files.

use crate::blob;
use crate::change::Change;
use crate::files::{Files, Opened, writes};
use crate::held;
use crate::listing::{self, Entry, Listing};
use crate::making::{Creation, NewNode};
use crate::namespace::Namespace;
use crate::open_file::OpenFile;
use crate::options::{NewFiles, Options};
use crate::request::{Caller, Place};
use crate::resolver::Resolver;
use crate::sets::OpenSet;
use crate::shown::Shown;
use crate::tree::{Kind, Known, ROOT, Seen, Tree};
use crate::xattr;
use fuser::{BackingId, FileHandle, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Result;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A backing directory, shown.
pub(crate) struct View {
    pub(crate) names: Namespace,
    pub(crate) files: Files,
    new_files: NewFiles,
    backend: PathBuf,
}

impl View {
    pub(crate) fn new(options: Options, most_held: usize) -> Result<Self> {
        let tree = Tree::new(&options.backend, most_held)?;
        let files = Files::new(&options);
        let resolver = Resolver::new(options.coupled, options.subfiles);
        let names = Namespace::new(tree, resolver, options.write);
        Ok(View { names, files, new_files: options.new_files, backend: options.backend })
    }

    /// Finds a file by name, and registers it as known to the kernel.
    pub(crate) fn entry(&self, place: Place<'_>) -> Result<Shown> {
        self.entry_of(place, &self.names.find(place)?)
    }

    /// The same for a file that was found, even if another one has its name by now.
    fn entry_of(&self, place: Place<'_>, seen: &Seen) -> Result<Shown> {
        let tree = &self.names.tree;
        let remember = |wanted| tree.remember(place.parent, place.name, seen, wanted);
        match seen.kind {
            Kind::Plain => Ok(Shown::plain(&seen.stat, remember(tree.wanted(seen)))),
            Kind::Set => {
                let directory = tree.get(place.parent)?.fd;
                let set = self.files.sets.get(&seen.fd, &directory, place.name)?;
                Ok(Shown::set(&set, remember(tree.wanted(seen))))
            }
            Kind::Coupled => Ok(Shown::generation(&seen.stat, remember(tree.wanted(seen)))),
            Kind::Container => {
                let open = tree.number(seen.identity());
                let found = self.files.containers.attributes(open, &seen.fd)?;
                Ok(Shown::container(&found, 1, remember(found.inode >> 2 | 1 << 62)))
            }
        }
    }

    /// As [`View::entry`]; a listing also shows files that cannot be read.
    fn entry_in_listing(&self, place: Place<'_>) -> Result<Shown> {
        let seen = self.names.find(place)?;
        match self.entry_of(place, &seen) {
            Err(_) if matches!(seen.kind, Kind::Set | Kind::Container) => {
                let tree = &self.names.tree;
                let id = tree.remember(place.parent, place.name, &seen, tree.wanted(&seen));
                Ok(Shown::broken(&seen.stat, id))
            }
            found => found,
        }
    }

    /// The set of this number.
    fn set(&self, id: u64, known: &Known) -> Result<Arc<OpenSet>> {
        let (directory, name) = self.names.tree.place(id)?;
        self.files.sets.get(&known.fd, &directory.fd, &name)
    }

    /// Attributes of a file, by a handle if there is one.
    pub(crate) fn attributes(&self, id: u64, handle: Option<FileHandle>) -> Result<Shown> {
        let open = handle.and_then(|handle| self.files.handles.get(handle).ok());
        if let Some(shown) = open.and_then(|open| open.shown(id)) {
            return shown;
        }
        let known = self.names.tree.get(id)?;
        match known.kind {
            Kind::Plain => Ok(Shown::plain(&rustix::fs::fstat(&*known.fd)?, id)),
            Kind::Set => Ok(Shown::set(&*self.set(id, &known)?, id)),
            // A generation that is open is known without its agent, which may have ended.
            Kind::Coupled => {
                match self.files.handles.generation(id).and_then(|one| one.shown(id)) {
                    Some(shown) => shown,
                    None => Ok(Shown::generation(&self.names.generation(id)?.1, id)),
                }
            }
            Kind::Container => match self.files.containers.get(id) {
                Some(blob) => Shown::open_container(&blob, id),
                None => Ok(Shown::container(&blob::attributes(&known.fd)?, 1, id)),
            },
        }
    }

    /// Changes attributes of a file, by a handle if there is one.
    pub(crate) fn change(
        &self,
        id: u64,
        handle: Option<FileHandle>,
        change: &Change,
        caller: Caller,
    ) -> Result<Shown> {
        let known = self.names.changeable(id)?;
        if known.is_container() {
            let blob = self.files.containers.get_or_open(id, &known.fd)?;
            change.apply_to_container(&blob, caller)?;
        } else {
            let open = handle.and_then(|handle| self.files.handles.get(handle).ok());
            change.apply_to_file(&known.fd, open.as_deref(), caller)?;
        }
        self.attributes(id, handle)
    }

    pub(crate) fn read_symlink(&self, id: u64) -> Result<Vec<u8>> {
        let known = self.names.tree.get(id)?;
        Ok(rustix::fs::readlinkat(&*known.fd, "", Vec::new())?.into_bytes())
    }

    pub(crate) fn link(&self, id: u64, place: Place<'_>) -> Result<Shown> {
        self.names.link(id, place)?;
        self.entry(place)
    }

    fn creation<'a>(&self, place: Place<'a>, maker: Caller) -> Result<Creation<'a>> {
        Ok(Creation { at: self.names.changeable_name(place)?, maker })
    }

    /// Makes a file and opens it.
    pub(crate) fn create(
        &self,
        place: Place<'_>,
        mode: u32,
        flags: i32,
        maker: Caller,
        register: impl FnOnce(&File) -> Result<BackingId>,
    ) -> Result<(Shown, Opened)> {
        let new = self.creation(place, maker)?;
        let tree = &self.names.tree;
        match self.new_files {
            NewFiles::Container => {
                let (container, seen) = new.container(mode)?;
                let found = self.entry_of(place, &seen)?;
                let (fd, made) = (tree.get(found.id())?.fd, (container, new.at.directory));
                let blob = self.files.containers.reserve_made(found.id(), fd, made)?;
                let opened = self.files.open_container(found.id(), blob, flags, tree)?;
                Ok((found, opened))
            }
            NewFiles::Plain => {
                let (file, seen) = new.file(mode, flags)?;
                let found = self.entry_of(place, &seen)?;
                let opened = self.files.open_plain(found.id(), file, tree, register)?;
                Ok((found, opened))
            }
        }
    }

    /// Makes a file without opening it.
    pub(crate) fn make_node(
        &self,
        place: Place<'_>,
        node: NewNode,
        maker: Caller,
    ) -> Result<Shown> {
        let new = self.creation(place, maker)?;
        let is_file = node.kind() == rustix::fs::FileType::RegularFile;
        if is_file && self.new_files == NewFiles::Container {
            return self.entry_of(place, &new.container(node.mode)?.1);
        }
        self.entry_of(place, &new.node(node)?)
    }

    pub(crate) fn make_directory(
        &self,
        place: Place<'_>,
        mode: u32,
        maker: Caller,
    ) -> Result<Shown> {
        self.entry_of(place, &self.creation(place, maker)?.directory(mode)?)
    }

    pub(crate) fn make_symlink(
        &self,
        place: Place<'_>,
        target: &Path,
        maker: Caller,
    ) -> Result<Shown> {
        self.entry_of(place, &self.creation(place, maker)?.symlink(target)?)
    }

    pub(crate) fn open(
        &self,
        id: u64,
        flags: i32,
        register: impl FnOnce(&File) -> Result<BackingId>,
    ) -> Result<Opened> {
        let tree = &self.names.tree;
        let known = if writes(flags) { self.names.changeable(id)? } else { tree.get(id)? };
        match known.kind {
            Kind::Plain => {
                self.files.open_plain(id, held::reopen(&known.fd, flags)?, tree, register)
            }
            Kind::Container => {
                let blob = self.files.containers.reserve(id, &known.fd)?;
                self.files.open_container(id, blob, flags, tree)
            }
            Kind::Set => Ok(self.files.open_set(id, self.set(id, &known)?, tree)),
            Kind::Coupled => Ok(self.files.open_generation(id, self.names.generation(id)?.0)),
        }
    }

    pub(crate) fn open_directory(&self, id: u64) -> Result<FileHandle> {
        self.names.tree.get(id)?;
        Ok(self.files.handles.insert(OpenFile::Directory(Listing::new(id))))
    }

    pub(crate) fn sync_directory(&self, id: u64) -> Result<()> {
        let directory = held::reopen_directory(&self.names.tree.get(id)?.fd)?;
        Ok(rustix::fs::fsync(&directory)?)
    }

    fn entries(&self, listing: &Listing, offset: u64) -> Result<Arc<Vec<Entry>>> {
        let read = || self.names.resolver.entries(&self.names.tree.get(listing.id)?.fd, listing.id);
        listing.entries(offset, read)
    }

    pub(crate) fn list(
        &self,
        handle: FileHandle,
        offset: u64,
        reply: &mut ReplyDirectory,
    ) -> Result<()> {
        let open = self.files.handles.get(handle)?;
        let entries = self.entries(open.listing()?, offset)?;
        for (next, entry) in listing::from(&entries, offset) {
            if reply.add(INodeNo(entry.number), next, entry.kind, &entry.name) {
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn list_with_attributes(
        &self,
        handle: FileHandle,
        offset: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Result<()> {
        let open = self.files.handles.get(handle)?;
        let listing = open.listing()?;
        let entries = self.entries(listing, offset)?;
        let directory = self.names.tree.get(listing.id)?;
        for (next, entry) in listing::from(&entries, offset) {
            let found = if entry.is_dot() {
                // The kernel counts no look-up for these two, and keeps nothing of them.
                let stat = rustix::fs::fstat(&*directory.fd)?;
                Shown { ttl: Duration::ZERO, ..Shown::plain(&stat, listing.id) }
            } else {
                let place = Place { parent: listing.id, name: &entry.name };
                let Ok(found) = self.entry_in_listing(place) else { continue };
                found
            };
            let (shown, ttl) = (&found.attributes, &found.ttl);
            if reply.add(shown.ino, next, &entry.name, ttl, shown, Generation(0)) {
                if !entry.is_dot() {
                    self.names.tree.forget(found.id(), 1);
                }
                break;
            }
        }
        Ok(())
    }

    /// The value of an attribute that aggio provides.
    fn own_value(&self, id: u64, known: &Known, name: &str) -> Result<Vec<u8>> {
        if id == ROOT {
            return xattr::of_mount(name, &self.backend);
        }
        match known.kind {
            Kind::Coupled => xattr::of_coupled(name),
            Kind::Set => xattr::of_set(name, || self.set(id, known)),
            Kind::Container => {
                let look = || self.files.containers.attributes(Some(id), &known.fd);
                xattr::of_container(name, &known.fd, look)
            }
            Kind::Plain => Err(rustix::io::Errno::NODATA.into()),
        }
    }

    /// The value of an extended attribute.
    pub(crate) fn value(&self, id: u64, name: &OsStr) -> Result<Vec<u8>> {
        let known = self.names.tree.get(id)?;
        match xattr::own_name(name) {
            Some(own) => self.own_value(id, &known, own),
            None => xattr::value(&known, name),
        }
    }

    /// The names of all extended attributes but those that aggio provides.
    pub(crate) fn attribute_names(&self, id: u64) -> Result<Vec<u8>> {
        xattr::names(&self.names.tree.get(id)?)
    }

    pub(crate) fn set_value(&self, id: u64, name: &OsStr, value: &[u8], flags: i32) -> Result<()> {
        xattr::refuse_own(name)?;
        xattr::set(&self.names.changeable(id)?, name, value, flags)
    }

    pub(crate) fn remove_value(&self, id: u64, name: &OsStr) -> Result<()> {
        xattr::refuse_own(name)?;
        xattr::remove(&self.names.changeable(id)?, name)
    }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
