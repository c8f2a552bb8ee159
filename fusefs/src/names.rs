//! Names of files: removing and renaming.

use crate::attributes::is_directory;
use crate::blob;
use crate::held::{self, child};
use crate::request::Place;
use crate::shown::Shown;
use crate::tree::{Kind, Seen, check_name};
use crate::view::View;
use agg_core::blob::is_hidden;
use fuser::RenameFlags;
use rustix::fs::{AtFlags, RenameFlags as Flags};
use std::ffi::OsStr;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// How often a directory is emptied in which containers lose their names meanwhile.
const ATTEMPTS: usize = 8;

pub(crate) fn refused(errno: rustix::io::Errno) -> Error {
    errno.into()
}

impl View {
    /// The directory in which `place` lies, if it may be changed there.
    pub(crate) fn directory_of(&self, place: Place<'_>) -> Result<Arc<OwnedFd>> {
        if !self.options.write {
            return Err(rustix::io::Errno::ROFS.into());
        }
        check_name(place.name)?;
        if is_hidden(place.name) {
            return Err(refused(rustix::io::Errno::PERM));
        }
        Ok(self.tree.get(place.parent)?.fd)
    }

    pub(crate) fn read_symlink(&self, id: u64) -> Result<Vec<u8>> {
        let known = self.tree.get(id)?;
        Ok(rustix::fs::readlinkat(&*known.fd, "", Vec::new())?.into_bytes())
    }

    pub(crate) fn make_link(&self, id: u64, place: Place<'_>) -> Result<Shown> {
        let directory = self.directory_of(place)?;
        let known = self.tree.get(id)?;
        if known.kind != Kind::Plain {
            // A container is a directory, and directories have one name; a set has many files.
            return Err(refused(rustix::io::Errno::PERM));
        }
        let old = held::path(&known.fd);
        rustix::fs::linkat(rustix::fs::CWD, old, &*directory, place.name, AtFlags::SYMLINK_FOLLOW)?;
        self.entry(place)
    }

    pub(crate) fn remove(&self, place: Place<'_>, wants_directory: bool) -> Result<()> {
        let directory = self.directory_of(place)?;
        let seen = self.resolver.find(&directory, place.name)?;
        refuse_set(&seen)?;
        if !wants_directory && seen.is_container() {
            return self.remove_container(&directory, place.name);
        }
        if wants_directory && seen.is_container() {
            return Err(refused(rustix::io::Errno::NOTDIR));
        }
        self.tree.pin(&directory, place.name);
        if wants_directory {
            let remove = || rustix::fs::unlinkat(&*directory, place.name, AtFlags::REMOVEDIR);
            return emptied(&directory, place.name, remove);
        }
        Ok(rustix::fs::unlinkat(&*directory, place.name, AtFlags::empty())?)
    }

    /// Takes the name away at once; the data go when nobody has it open any more, here or in
    /// another process.
    fn remove_container(&self, directory: &OwnedFd, name: &OsStr) -> Result<()> {
        self.tree.pin(directory, name);
        agg_core::blob::remove(&child(directory, name)).map_err(|why| blob::error(directory, &why))
    }

    pub(crate) fn rename(&self, from: Place<'_>, to: Place<'_>, flags: RenameFlags) -> Result<()> {
        let (old, new) = (self.directory_of(from)?, self.directory_of(to)?);
        let flags = Flags::from_bits_retain(flags.bits());
        if flags.contains(Flags::WHITEOUT) {
            return Err(refused(rustix::io::Errno::INVAL));
        }
        let moved = self.resolver.find(&old, from.name)?;
        refuse_set(&moved)?;
        let replaced = match self.resolver.find(&new, to.name) {
            Ok(seen) => {
                refuse_set(&seen)?;
                Some(seen)
            }
            Err(why) if why.kind() == ErrorKind::NotFound => None,
            Err(why) => return Err(why),
        };
        let simple = |replaced: &Seen| !replaced.is_container() && !moved.is_container();
        match &replaced {
            Some(target) if flags.is_empty() && target.identity() == moved.identity() => {
                return Ok(());
            }
            Some(target) if flags.is_empty() && !simple(target) => {
                self.replace(&old, from, &new, to, target, &moved)?;
            }
            _ => {
                let rename = || rustix::fs::renameat_with(&*old, from.name, &*new, to.name, flags);
                if replaced.is_some() && flags.is_empty() {
                    self.tree.pin(&new, to.name);
                    emptied(&new, to.name, rename)?;
                } else {
                    rename()?;
                }
            }
        }
        self.tree.renamed(moved.identity(), to.parent, to.name);
        if let Some(target) = replaced.filter(|_| flags.contains(Flags::EXCHANGE)) {
            self.tree.renamed(target.identity(), from.parent, from.name);
        }
        Ok(())
    }

    /// Renames over a container, or a container over a file: `to` always has one of both.
    fn replace(
        &self,
        old: &Arc<OwnedFd>,
        from: Place<'_>,
        new: &Arc<OwnedFd>,
        to: Place<'_>,
        target: &Seen,
        moved: &Seen,
    ) -> Result<()> {
        let is_folder = |seen: &Seen| is_directory(&seen.stat) && !seen.is_container();
        match (is_folder(moved), is_folder(target)) {
            (false, true) => return Err(rustix::io::Errno::ISDIR.into()),
            (true, false) => return Err(rustix::io::Errno::NOTDIR.into()),
            _ => {}
        }
        self.tree.pin(new, to.name);
        rustix::fs::renameat_with(&**old, from.name, &**new, to.name, Flags::EXCHANGE)?;
        if target.is_container() {
            return self.remove_container(old, from.name);
        }
        Ok(rustix::fs::unlinkat(&**old, from.name, AtFlags::empty())?)
    }
}

/// The name of a set is not the name of one file, and that of a coupled file is the agent's.
fn refuse_set(seen: &Seen) -> Result<()> {
    if matches!(seen.kind, Kind::Set | Kind::Coupled) {
        Err(refused(rustix::io::Errno::PERM))
    } else {
        Ok(())
    }
}

/// Runs `act`, which needs the directory `name` to be empty: containers in it that have lost their
/// names, but are still open, are moved beside it. If nobody can know that, or one cannot be moved,
/// the error says why; a directory that may not be listed counts as not empty.
fn emptied(
    directory: &OwnedFd,
    name: &OsStr,
    act: impl Fn() -> rustix::io::Result<()>,
) -> Result<()> {
    use rustix::io::Errno;
    for _ in 0..ATTEMPTS {
        let why = match act() {
            Err(why @ (Errno::NOTEMPTY | Errno::EXIST)) => why,
            done => return Ok(done?),
        };
        match agg_core::blob::lift_removed(&child(directory, name)) {
            Ok(true) => {}
            Err(error) if error.errno() != Errno::ACCESS.raw_os_error() => {
                return Err(blob::error(directory, &error));
            }
            _ => return Err(refused(why)),
        }
    }
    Ok(act()?)
}
