//! The names of files: finding, linking, removing and renaming.

use crate::attributes::is_directory;
use crate::blob;
use crate::held::{self, Dentry};
use crate::request::Place;
use crate::resolver::Resolver;
use crate::tree::{Identity, Kind, Known, Seen, Tree, check_name};
use agg_core::blob::is_hidden;
use aggio_couple::Viewed;
use fuser::RenameFlags;
use rustix::fs::{AtFlags, RenameFlags as Flags, Stat};
use rustix::io::Errno;
use std::io::{ErrorKind, Result};

/// How often a directory is emptied in which containers lose their names meanwhile.
const ATTEMPTS: usize = 8;

/// The files that the kernel knows, and their names.
pub(crate) struct Namespace {
    pub(crate) tree: Tree,
    pub(crate) resolver: Resolver,
    /// Whether files may be changed.
    write: bool,
}

impl Namespace {
    pub(crate) fn new(tree: Tree, resolver: Resolver, write: bool) -> Self {
        Namespace { tree, resolver, write }
    }

    /// Finds a file by name.
    pub(crate) fn find(&self, place: Place<'_>) -> Result<Seen> {
        self.resolver.find(&self.tree.get(place.parent)?.fd, place.name)
    }

    /// The file of a number, if it may be changed.
    pub(crate) fn changeable(&self, id: u64) -> Result<Known> {
        if !self.write {
            return Err(Errno::ROFS.into());
        }
        let known = self.tree.get(id)?;
        if matches!(known.kind, Kind::Set | Kind::Coupled) {
            return Err(Errno::ROFS.into());
        }
        Ok(known)
    }

    /// A name, if it may be given and taken away.
    pub(crate) fn changeable_name<'a>(&self, place: Place<'a>) -> Result<Dentry<'a>> {
        if !self.write {
            return Err(Errno::ROFS.into());
        }
        check_name(place.name)?;
        if is_hidden(place.name) {
            return Err(Errno::PERM.into());
        }
        Ok(Dentry { directory: self.tree.get(place.parent)?.fd, name: place.name })
    }

    /// The generation of this number, if its file is still that.
    pub(crate) fn generation(&self, id: u64) -> Result<(Viewed, Stat)> {
        let (directory, name) = self.tree.place(id)?;
        let found = self.resolver.generation(&directory.fd, &name)?;
        let is_it = |stat: &Stat| self.tree.number(Identity::new(stat, Kind::Coupled)) == Some(id);
        found.filter(|(_, stat)| is_it(stat)).ok_or_else(|| Errno::STALE.into())
    }

    /// Gives a file another name.
    pub(crate) fn link(&self, id: u64, place: Place<'_>) -> Result<()> {
        let new = self.changeable_name(place)?;
        let known = self.tree.get(id)?;
        if known.kind != Kind::Plain {
            // A container is a directory, and directories have one name; a set has many files.
            return Err(Errno::PERM.into());
        }
        let (old, flags) = (held::path(&known.fd), AtFlags::SYMLINK_FOLLOW);
        Ok(rustix::fs::linkat(rustix::fs::CWD, old, &*new.directory, new.name, flags)?)
    }

    /// Removes a directory, or a file that is none.
    pub(crate) fn remove(&self, place: Place<'_>, wants_directory: bool) -> Result<()> {
        let at = self.changeable_name(place)?;
        let seen = self.resolver.find(&at.directory, at.name)?;
        refuse_set(&seen)?;
        if wants_directory && seen.is_container() {
            return Err(Errno::NOTDIR.into());
        }
        self.tree.pin(&at.directory, at.name);
        if wants_directory {
            return emptied(&at, || unlink(&at, AtFlags::REMOVEDIR));
        }
        remove_file(&at, &seen)
    }

    /// Renames a file, over another one or in exchange for it if the flags say so.
    pub(crate) fn rename(&self, from: Place<'_>, to: Place<'_>, flags: RenameFlags) -> Result<()> {
        let (old, new) = (self.changeable_name(from)?, self.changeable_name(to)?);
        let flags = Flags::from_bits_retain(flags.bits());
        if flags.contains(Flags::WHITEOUT) {
            return Err(Errno::INVAL.into());
        }
        let moved = self.resolver.find(&old.directory, old.name)?;
        refuse_set(&moved)?;
        let replaced = match self.resolver.find(&new.directory, new.name) {
            Ok(seen) => {
                refuse_set(&seen)?;
                Some(seen)
            }
            Err(why) if why.kind() == ErrorKind::NotFound => None,
            Err(why) => return Err(why),
        };
        match &replaced {
            Some(target) if flags.is_empty() => {
                if target.identity() == moved.identity() {
                    return Ok(());
                }
                self.replace((&old, &moved), (&new, target))?;
            }
            _ => rename(&old, &new, flags)?,
        }
        self.tree.renamed(moved.identity(), to.parent, to.name);
        if let Some(target) = replaced.filter(|_| flags.contains(Flags::EXCHANGE)) {
            self.tree.renamed(target.identity(), from.parent, from.name);
        }
        Ok(())
    }

    /// Renames over another file. The system renames no file over the directory that a container
    /// is, nor that over a file: both are exchanged then, and the other one is removed.
    fn replace(
        &self,
        (old, moved): (&Dentry<'_>, &Seen),
        (new, target): (&Dentry<'_>, &Seen),
    ) -> Result<()> {
        let exchanges = moved.is_container() || target.is_container();
        let is_folder = |seen: &Seen| is_directory(&seen.stat) && !seen.is_container();
        match (is_folder(moved), is_folder(target)) {
            (false, true) if exchanges => return Err(Errno::ISDIR.into()),
            (true, false) if exchanges => return Err(Errno::NOTDIR.into()),
            _ => {}
        }
        self.tree.pin(&new.directory, new.name);
        if !exchanges {
            return emptied(new, || rename(old, new, Flags::empty()));
        }
        rename(old, new, Flags::EXCHANGE)?;
        remove_file(old, target)
    }
}

/// The name of a set is not the name of one file, and that of a coupled file is the agent's.
fn refuse_set(seen: &Seen) -> Result<()> {
    match seen.kind {
        Kind::Set | Kind::Coupled => Err(Errno::PERM.into()),
        Kind::Plain | Kind::Container => Ok(()),
    }
}

fn unlink(at: &Dentry<'_>, flags: AtFlags) -> rustix::io::Result<()> {
    rustix::fs::unlinkat(&*at.directory, at.name, flags)
}

fn rename(old: &Dentry<'_>, new: &Dentry<'_>, flags: Flags) -> rustix::io::Result<()> {
    rustix::fs::renameat_with(&*old.directory, old.name, &*new.directory, new.name, flags)
}

/// Takes the name away at once; the data of a container go when nobody has it open any more, here
/// or in another process.
fn remove_file(at: &Dentry<'_>, seen: &Seen) -> Result<()> {
    if seen.is_container() {
        let removed = agg_core::blob::remove(&at.path());
        return removed.map_err(|why| blob::error(&at.directory, &why));
    }
    Ok(unlink(at, AtFlags::empty())?)
}

/// Runs `act`, which needs the directory `at` to be empty: containers in it that have lost their
/// names, but are still open, are moved beside it. If nobody can know that, or one cannot be moved,
/// the error says why; a directory that may not be listed counts as not empty.
fn emptied(at: &Dentry<'_>, act: impl Fn() -> rustix::io::Result<()>) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let why = match act() {
            Err(why @ (Errno::NOTEMPTY | Errno::EXIST)) => why,
            done => return Ok(done?),
        };
        match agg_core::blob::lift_removed(&at.path()) {
            Ok(true) => {}
            Err(error) if error.errno() != Errno::ACCESS.raw_os_error() => {
                return Err(blob::error(&at.directory, &error));
            }
            _ => return Err(why.into()),
        }
    }
    Ok(act()?)
}

#[cfg(test)]
#[path = "namespace_tests.rs"]
mod tests;
