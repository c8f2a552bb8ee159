//! Making, removing and renaming files.

use crate::blob::{self, Blob, Removed};
use crate::files::Opened;
use crate::held;
use crate::tree::{Kind, ROOT, Seen, check_name, open_name};
use crate::view::{NewFiles, Shown, View, is_directory};
use agg_core::blob::{Container, Create, is_hidden};
use agg_core::log::Level;
use agg_core::output::fresh_name;
use fuser::{BackingId, RenameFlags};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags as Flags, Uid};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// Bits that a new file may have before its owner is known: a set-id bit would be the rights of
/// the user who serves the mount.
const UNOWNED: u32 = 0o700;

/// Who makes or changes a file.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// What a file is to be that is made without being opened.
#[derive(Clone, Copy)]
pub(crate) struct NewNode {
    /// Kind and permission bits.
    pub(crate) mode: u32,
    /// The number of a device.
    pub(crate) device: u32,
}

/// A directory and a name in it.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) parent: u64,
    pub(crate) name: &'a OsStr,
}

fn refused(errno: rustix::io::Errno) -> Error {
    errno.into()
}

/// The same path with a name in the directory of a descriptor.
fn child(directory: &OwnedFd, name: &OsStr) -> std::path::PathBuf {
    held::path(directory).join(name)
}

impl View {
    /// The directory in which `place` lies, if it may be changed there.
    fn directory_of(&self, place: Place<'_>) -> Result<Arc<OwnedFd>> {
        if !self.options.write {
            return Err(rustix::io::Errno::ROFS.into());
        }
        check_name(place.name)?;
        if is_hidden(place.name) {
            return Err(refused(rustix::io::Errno::PERM));
        }
        Ok(self.tree.get(place.parent)?.fd)
    }

    /// Gives a new file to whom it belongs where this process may make files for others.
    fn hand_over(&self, directory: &OwnedFd, name: &OsStr, maker: Caller) -> Result<()> {
        let me = rustix::process::geteuid();
        if !me.is_root() || maker.uid == me.as_raw() {
            return Ok(());
        }
        let parent = rustix::fs::fstat(directory)?;
        let keeps_group = parent.st_mode & 0o2000 != 0;
        let group = (!keeps_group).then(|| Gid::from_raw(maker.gid));
        let owner = Some(Uid::from_raw(maker.uid));
        let seen = self.see(directory, name)?;
        if seen.is_container() {
            let container = Container::open(&held::directory(&seen.fd))
                .map_err(|why| blob::error(&seen.fd, &why))?;
            return container
                .set_owner(owner.map(Uid::as_raw), group.map(Gid::as_raw))
                .map_err(|why| blob::error(&seen.fd, &why));
        }
        Ok(rustix::fs::chownat(directory, name, owner, group, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Gives a new file its owner and then, as that takes set-id bits away, its permission bits.
    fn made(
        &self,
        directory: &OwnedFd,
        place: Place<'_>,
        bits: Option<u32>,
        maker: Caller,
    ) -> Result<Shown> {
        self.hand_over(directory, place.name, maker)?;
        if let Some(bits) = bits {
            widen(directory, place.name, Mode::from_raw_mode(bits & 0o7777))?;
        }
        self.entry(place.parent, place.name)
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
        let directory = self.directory_of(place)?;
        if self.options.new_files == NewFiles::Container {
            let (container, found) = self.make_container(&directory, place, mode, maker)?;
            let known = self.tree.get(found.id())?;
            let blob = Blob::made(known.fd, (container, directory), self.options.verify)?;
            let opened = self.open_made(found.id(), blob, flags)?;
            return Ok((found, opened));
        }
        // Who makes a file may write it, whatever mode it gets. The flags decide again above us.
        let access = OFlags::from_bits_retain(flags.cast_unsigned()) & OFlags::RWMODE;
        let how = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | access;
        let bits = Mode::from_raw_mode(mode & UNOWNED);
        let file = File::from(rustix::fs::openat(&*directory, place.name, how, bits)?);
        let found = self.made(&directory, place, Some(mode), maker)?;
        let opened = self.open_plain(found.id(), file, register)?;
        Ok((found, opened))
    }

    fn make_container(
        &self,
        directory: &OwnedFd,
        place: Place<'_>,
        mode: u32,
        maker: Caller,
    ) -> Result<(Container, Shown)> {
        let how = Create { mode: mode & UNOWNED, exclusive: true, data_crc: true };
        let told = |why: agg_core::Error| blob::error(directory, &why);
        let container = Container::create(&child(directory, place.name), &how).map_err(told)?;
        self.hand_over(directory, place.name, maker)?;
        container.set_mode(mode & 0o7777).map_err(told)?;
        Ok((container, self.entry(place.parent, place.name)?))
    }

    /// Makes a file without opening it. Devices are for root alone, which the kernel has checked
    /// already, and where the backing file system and the rights of this process allow them.
    pub(crate) fn make_node(
        &self,
        place: Place<'_>,
        node: NewNode,
        maker: Caller,
    ) -> Result<Shown> {
        use rustix::fs::FileType;
        let directory = self.directory_of(place)?;
        let kind = FileType::from_raw_mode(node.mode);
        let device = match kind {
            FileType::RegularFile if self.options.new_files == NewFiles::Container => {
                return self.make_container(&directory, place, node.mode, maker).map(|made| made.1);
            }
            FileType::RegularFile | FileType::Fifo | FileType::Socket => 0,
            FileType::CharacterDevice | FileType::BlockDevice if maker.uid == 0 => {
                device(node.device)
            }
            _ => return Err(refused(rustix::io::Errno::PERM)),
        };
        let bits = Mode::from_raw_mode(node.mode & UNOWNED);
        rustix::fs::mknodat(&*directory, place.name, kind, bits, device)?;
        self.made(&directory, place, Some(node.mode), maker)
    }

    pub(crate) fn make_directory(
        &self,
        place: Place<'_>,
        mode: u32,
        maker: Caller,
    ) -> Result<Shown> {
        let directory = self.directory_of(place)?;
        rustix::fs::mkdirat(&*directory, place.name, Mode::from_raw_mode(mode & UNOWNED))?;
        self.made(&directory, place, Some(mode), maker)
    }

    pub(crate) fn make_symlink(
        &self,
        place: Place<'_>,
        target: &Path,
        maker: Caller,
    ) -> Result<Shown> {
        let directory = self.directory_of(place)?;
        rustix::fs::symlinkat(target, &*directory, place.name)?;
        self.made(&directory, place, None, maker)
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
        self.entry(place.parent, place.name)
    }

    pub(crate) fn remove(&self, place: Place<'_>, wants_directory: bool) -> Result<()> {
        let directory = self.directory_of(place)?;
        let seen = self.see(&directory, place.name)?;
        refuse_set(&seen)?;
        if !wants_directory && seen.is_container() {
            return self.remove_container(&directory, place.name, &seen);
        }
        if wants_directory && seen.is_container() {
            return Err(refused(rustix::io::Errno::NOTDIR));
        }
        self.tree.pin(&directory, place.name);
        let flags = if wants_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        Ok(rustix::fs::unlinkat(&*directory, place.name, flags)?)
    }

    /// Takes the name away at once; the data go when nobody has it open any more.
    fn remove_container(&self, directory: &Arc<OwnedFd>, name: &OsStr, seen: &Seen) -> Result<()> {
        let root = self.tree.get(ROOT)?.fd;
        let aside: OsString = fresh_name().map_err(|_| refused(rustix::io::Errno::IO))?.into();
        self.tree.pin(directory, name);
        let to_root =
            rustix::fs::renameat_with(&**directory, name, &*root, &aside, Flags::NOREPLACE);
        let home = match to_root {
            Ok(()) => root,
            Err(_) => {
                rustix::fs::renameat(&**directory, name, &**directory, &aside)?;
                Arc::clone(directory)
            }
        };
        let place = Removed { directory: home, name: aside };
        let open = self.tree.number(seen.identity()).and_then(|id| self.open_blob(id));
        let now = match open {
            Some(blob) => blob.remove_later(place),
            None => Some(place),
        };
        now.map_or(Ok(()), |place| remove_data(&place))
    }

    /// A container was closed by its last user: removes it if its name is gone.
    pub(crate) fn remove_if_last(&self, blob: &Blob) {
        if !blob.is_unused() {
            return;
        }
        if let Some(place) = blob.take_removed()
            && let Err(why) = remove_data(&place)
        {
            agg_core::log!(Level::Error, "{}: not removed: {why}", blob.name());
        }
    }

    pub(crate) fn rename(&self, from: Place<'_>, to: Place<'_>, flags: RenameFlags) -> Result<()> {
        let (old, new) = (self.directory_of(from)?, self.directory_of(to)?);
        let flags = Flags::from_bits_retain(flags.bits());
        if flags.contains(Flags::WHITEOUT) {
            return Err(refused(rustix::io::Errno::INVAL));
        }
        let moved = self.see(&old, from.name)?;
        refuse_set(&moved)?;
        let replaced = match self.see(&new, to.name) {
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
                if replaced.is_some() && flags.is_empty() {
                    self.tree.pin(&new, to.name);
                }
                rustix::fs::renameat_with(&*old, from.name, &*new, to.name, flags)?;
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
            return self.remove_container(old, from.name, target);
        }
        Ok(rustix::fs::unlinkat(&**old, from.name, AtFlags::empty())?)
    }
}

/// The name of a set is not the name of one file.
fn refuse_set(seen: &Seen) -> Result<()> {
    if seen.kind == Kind::Set { Err(refused(rustix::io::Errno::PERM)) } else { Ok(()) }
}

/// Gives a file that was made with few permission bits those that were asked for; a directory keeps
/// the set-group-id bit that it has inherited.
fn widen(directory: &OwnedFd, name: &OsStr, mode: Mode) -> Result<()> {
    let file = open_name(directory, name)?;
    let stat = rustix::fs::fstat(&file)?;
    let inherited = if is_directory(&stat) { stat.st_mode & 0o2000 } else { 0 };
    let mode = mode | Mode::from_raw_mode(inherited);
    Ok(rustix::fs::chmod(held::path(&file), mode)?)
}

/// The number of a device as the C library has it; the kernel tells it in 32 bits.
fn device(told: u32) -> rustix::fs::Dev {
    rustix::fs::makedev(told >> 8 & 0xfff, told & 0xff | told >> 12 & 0xf_ff00)
}

fn remove_data(place: &Removed) -> Result<()> {
    agg_core::blob::remove(&child(&place.directory, &place.name))
        .map_err(|why| blob::error(&place.directory, &why))
}
