//! Making files. The descriptor of a new file is opened before anybody else can reach the file:
//! owner and permission bits are set by it, never by the name.

use crate::attributes::is_directory;
use crate::blob;
use crate::files::Opened;
use crate::held::{self, Dentry, child};
use crate::lists;
use crate::options::NewFiles;
use crate::request::{Caller, Place};
use crate::shown::Shown;
use crate::tree::{Kind, Seen, open_name};
use crate::view::View;
use agg_core::blob::{Container, Create, STAGED, is_container};
use agg_core::log::{self, Level};
use agg_core::output::{Aside, fresh_name, rename_new};
use fuser::BackingId;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Result;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// Bits that a new file may have before its owner is set: a set-id bit would give the rights of the
/// user that serves the mount.
const UNOWNED: u32 = 0o700;
/// The most attempts, while another process that removes remains removes the directory.
const ATTEMPTS: usize = 8;

/// A file to be made without being opened.
#[derive(Clone, Copy)]
pub(crate) struct NewNode {
    /// Kind and permission bits.
    pub(crate) mode: u32,
    /// The number of a device.
    pub(crate) device: u32,
}

/// A hidden directory of this process in the one where a file is to be: no call returns the
/// descriptor of a directory, a link or a device that it makes, and here nobody else can exchange
/// the name before it is opened.
struct Staging<'a> {
    directory: &'a OwnedFd,
    name: String,
    own: OwnedFd,
}

impl<'a> Staging<'a> {
    fn in_directory(directory: &'a OwnedFd) -> Result<Self> {
        let name = fresh_name().map_err(|_| Errno::IO)?;
        rustix::fs::mkdirat(directory, &*name, Mode::RWXU)?;
        let own = open_name(directory, OsStr::new(&name))?;
        if !is_private(&own)? {
            // Somebody else has exchanged the name: the directory is his.
            return Err(Errno::PERM.into());
        }
        Ok(Staging { directory, name, own })
    }

    /// Makes the file and gives it its name. Only the descriptor of the file is trusted.
    fn make(
        &self,
        name: &OsStr,
        act: &dyn Fn(&OwnedFd, &OsStr) -> rustix::io::Result<()>,
    ) -> Result<OwnedFd> {
        let staged = OsStr::new(STAGED);
        act(&self.own, staged)?;
        let file = open_name(&self.own, staged)?;
        rename_new(&child(&self.own, staged), &child(self.directory, name))
            .map_err(|why| why.to_io())?;
        Ok(file)
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        for flags in [AtFlags::empty(), AtFlags::REMOVEDIR] {
            // After success nothing is there; after a failure, that error counts.
            let _ = rustix::fs::unlinkat(&self.own, STAGED, flags);
        }
        // `aggio recover` removes a directory that stays.
        let _ = rustix::fs::unlinkat(self.directory, &*self.name, AtFlags::REMOVEDIR);
    }
}

/// Whether a directory is one that this process has made, and in which nobody else can make
/// anything.
fn is_private(directory: &OwnedFd) -> Result<bool> {
    let own = rustix::fs::fstat(directory)?;
    if !is_directory(&own) || own.st_mode & 0o077 != 0 {
        return Ok(false);
    }
    if own.st_uid == rustix::process::geteuid().as_raw() {
        return Ok(true);
    }
    // A server may give the files that this process makes to another user, the directory and the
    // files in it alike.
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let probe = rustix::fs::openat(directory, STAGED, flags | OFlags::NOFOLLOW, Mode::RUSR)?;
    let made = rustix::fs::fstat(&probe)?;
    rustix::fs::unlinkat(directory, STAGED, AtFlags::empty())?;
    Ok(own.st_uid == made.st_uid)
}

/// A new file that is not a container, as it is found by name.
fn seen(fd: OwnedFd) -> Result<Seen> {
    let stat = rustix::fs::fstat(&fd)?;
    Ok(Seen { fd: Arc::new(fd), stat, kind: Kind::Plain, first: None })
}

/// The owner and group to set for a new file in `directory`, where this process may make files for
/// others.
fn heir(directory: &OwnedFd, maker: Caller) -> Result<Option<(Uid, Option<Gid>)>> {
    let me = rustix::process::geteuid();
    if !me.is_root() || maker.uid == me.as_raw() {
        return Ok(None);
    }
    let keeps_group = rustix::fs::fstat(directory)?.st_mode & 0o2000 != 0;
    Ok(Some((Uid::from_raw(maker.uid), (!keeps_group).then(|| Gid::from_raw(maker.gid)))))
}

/// Gives a new file its owner and then, as that takes set-id bits away, its permission bits; a
/// directory keeps the set-group-id bit that it has inherited.
fn complete(directory: &OwnedFd, file: &OwnedFd, bits: Option<u32>, maker: Caller) -> Result<()> {
    if let Some((owner, group)) = heir(directory, maker)? {
        rustix::fs::chownat(file, "", Some(owner), group, AtFlags::EMPTY_PATH)?;
    }
    let Some(bits) = bits else { return Ok(()) };
    let bits = granted(directory, bits, maker)?;
    let stat = rustix::fs::fstat(file)?;
    let inherited = if is_directory(&stat) { stat.st_mode & 0o2000 } else { 0 };
    let mode = Mode::from_raw_mode(bits & 0o7777 | inherited);
    Ok(rustix::fs::chmod(held::path(file), mode)?)
}

/// The permission bits that a file of `maker` gets which asks for `bits`: the list that a directory
/// passes on decides, and without one the umask.
fn granted(directory: &OwnedFd, bits: u32, maker: Caller) -> Result<u32> {
    let passed_on = lists::passed_on(directory)?;
    let kept = passed_on.unwrap_or(0o777 & !maker.umask);
    Ok(bits & (0o7000 | kept))
}

/// The result of completing `made`, a new file that has the name `place` already: where that
/// failed, the name goes again.
fn or_removed<T>(
    (directory, name): (&OwnedFd, &OsStr),
    made: impl AsFd,
    completed: Result<T>,
) -> Result<T> {
    completed.inspect_err(|_| {
        if let Err(left) = remove(directory, name, made) {
            let name = name.display();
            log::write(Level::Error, format_args!("{name}: made, and not removed: {left}"));
        }
    })
}

/// Removes the file `made`, if it has the name `name` still: it is looked at where nobody else can
/// exchange it.
fn remove(directory: &OwnedFd, name: &OsStr, made: impl AsFd) -> agg_core::Result<()> {
    let path = child(directory, name);
    let aside = Aside::make(&path)?;
    let held = aside.path_of(name);
    rename_new(&path, &held)?;
    let failed = |why: std::io::Error| agg_core::Error::os("unlink", &why);
    let number = |facts: rustix::fs::Stat| (facts.st_dev, facts.st_ino);
    let own = rustix::fs::fstat(made).map(number).map_err(|why| failed(why.into()))?;
    let found = rustix::fs::lstat(&held).map_err(|why| failed(why.into()))?;
    if number(found) != own {
        return rename_new(&held, &path);
    }
    if is_container(&held) {
        return agg_core::blob::remove(&held);
    }
    let is_folder = is_directory(&found);
    let removed = if is_folder { std::fs::remove_dir(&held) } else { std::fs::remove_file(&held) };
    removed.map_err(failed)
}

impl View {
    /// Makes a file and opens it.
    pub(crate) fn create(
        &self,
        place: Place<'_>,
        mode: u32,
        flags: i32,
        maker: Caller,
        register: impl FnOnce(&File) -> Result<BackingId>,
    ) -> Result<(Shown, Opened)> {
        let Dentry { directory, .. } = self.names.changeable_name(place)?;
        if self.new_files == NewFiles::Container {
            let (container, found) = self.make_container(&directory, place, mode, maker)?;
            let known = self.names.tree.get(found.id())?;
            let made = (container, directory);
            let blob = self.files.containers.reserve_made(found.id(), known.fd, made)?;
            let opened = self.files.open_container(found.id(), blob, flags, &self.names.tree)?;
            return Ok((found, opened));
        }
        // The maker of a file may write it, with any mode. The flags decide again above us.
        let access = OFlags::from_bits_retain(flags.cast_unsigned()) & OFlags::RWMODE;
        let how = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | access;
        let bits = Mode::from_raw_mode(mode & UNOWNED);
        let file = rustix::fs::openat(&*directory, place.name, how, bits)?;
        let completed = complete(&directory, &file, Some(mode), maker);
        or_removed((&directory, place.name), &file, completed)?;
        let path = OFlags::PATH | OFlags::CLOEXEC;
        let named = seen(rustix::fs::open(held::path(&file), path, Mode::empty())?)?;
        let found = self.entry_of(place, &named)?;
        let opened =
            self.files.open_plain(found.id(), File::from(file), &self.names.tree, register)?;
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
        let complete = || {
            if let Some((owner, group)) = heir(directory, maker)? {
                let group = group.map(Gid::as_raw);
                container.set_owner(Some(owner.as_raw()), group).map_err(told)?;
            }
            let bits = granted(directory, mode, maker)?;
            container.set_mode(bits & 0o7777).map_err(told)
        };
        or_removed((directory, place.name), container.directory(), complete())?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let own = rustix::fs::openat(container.directory(), ".", flags, Mode::empty())?;
        let named = Seen { kind: Kind::Container, ..seen(own)? };
        Ok((container, self.entry_of(place, &named)?))
    }

    /// Makes a file of a kind that no call makes and opens at once.
    fn make_staged(
        &self,
        place: Place<'_>,
        bits: Option<u32>,
        maker: Caller,
        act: &dyn Fn(&OwnedFd, &OsStr) -> rustix::io::Result<()>,
    ) -> Result<Shown> {
        let Dentry { directory, .. } = self.names.changeable_name(place)?;
        let make = || Staging::in_directory(&directory)?.make(place.name, act);
        let gone = |made: &Result<OwnedFd>| {
            made.as_ref().is_err_and(|why| why.kind() == std::io::ErrorKind::NotFound)
        };
        let mut made = make();
        for _ in 1..ATTEMPTS {
            if !gone(&made) {
                break;
            }
            made = make();
        }
        let made = made?;
        let completed = complete(&directory, &made, bits, maker);
        or_removed((&directory, place.name), &made, completed)?;
        self.entry_of(place, &seen(made)?)
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
        let kind = FileType::from_raw_mode(node.mode);
        let device = match kind {
            FileType::RegularFile if self.new_files == NewFiles::Container => {
                let Dentry { directory, .. } = self.names.changeable_name(place)?;
                return self.make_container(&directory, place, node.mode, maker).map(|made| made.1);
            }
            FileType::RegularFile | FileType::Fifo | FileType::Socket => 0,
            FileType::CharacterDevice | FileType::BlockDevice if maker.uid == 0 => {
                device(node.device)
            }
            _ => return Err(Errno::PERM.into()),
        };
        let bits = Mode::from_raw_mode(node.mode & UNOWNED);
        let make = |at: &OwnedFd, name: &OsStr| rustix::fs::mknodat(at, name, kind, bits, device);
        self.make_staged(place, Some(node.mode), maker, &make)
    }

    pub(crate) fn make_directory(
        &self,
        place: Place<'_>,
        mode: u32,
        maker: Caller,
    ) -> Result<Shown> {
        let bits = Mode::from_raw_mode(mode & UNOWNED);
        let make = |at: &OwnedFd, name: &OsStr| rustix::fs::mkdirat(at, name, bits);
        self.make_staged(place, Some(mode), maker, &make)
    }

    pub(crate) fn make_symlink(
        &self,
        place: Place<'_>,
        target: &Path,
        maker: Caller,
    ) -> Result<Shown> {
        let make = |at: &OwnedFd, name: &OsStr| rustix::fs::symlinkat(target, at, name);
        self.make_staged(place, None, maker, &make)
    }
}

/// The number of a device as the C library has it; the kernel passes it in 32 bits.
fn device(told: u32) -> rustix::fs::Dev {
    rustix::fs::makedev(told >> 8 & 0xfff, told & 0xff | told >> 12 & 0xf_ff00)
}

#[cfg(test)]
#[path = "making_tests.rs"]
mod tests;
