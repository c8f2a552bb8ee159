//! Making files. The descriptor of a new file is opened before anybody else can reach the file:
//! owner and permission bits are set by it, never by the name.

use crate::attributes::is_directory;
use crate::blob;
use crate::held::{self, Dentry, child};
use crate::lists;
use crate::request::Caller;
use crate::tree::{Kind, Seen, open_name};
use agg_core::blob::{Container, Create, STAGED, is_container};
use agg_core::log::{self, Level};
use agg_core::output::{Aside, fresh_name, rename_new};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
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

impl NewNode {
    pub(crate) fn kind(self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }
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

/// A file that is to be made: its name, and the process that makes it.
pub(crate) struct Creation<'a> {
    pub(crate) at: Dentry<'a>,
    pub(crate) maker: Caller,
}

impl Creation<'_> {
    /// Makes a plain file and opens it.
    pub(crate) fn file(&self, mode: u32, flags: i32) -> Result<(File, Seen)> {
        // The maker of a file may write it, with any mode. The flags decide again above us.
        let access = OFlags::from_bits_retain(flags.cast_unsigned()) & OFlags::RWMODE;
        let how = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | access;
        let bits = Mode::from_raw_mode(mode & UNOWNED);
        let file = rustix::fs::openat(&*self.at.directory, self.at.name, how, bits)?;
        self.or_removed(&file, self.complete(&file, Some(mode)))?;
        let path = OFlags::PATH | OFlags::CLOEXEC;
        let named = seen(rustix::fs::open(held::path(&file), path, Mode::empty())?)?;
        Ok((File::from(file), named))
    }

    /// Makes a container.
    pub(crate) fn container(&self, mode: u32) -> Result<(Container, Seen)> {
        let how = Create { mode: mode & UNOWNED, exclusive: true, data_crc: true };
        let told = |why: agg_core::Error| blob::error(&self.at.directory, &why);
        let container = Container::create(&self.at.path(), &how).map_err(told)?;
        let complete = || {
            if let Some((owner, group)) = self.heir()? {
                let group = group.map(Gid::as_raw);
                container.set_owner(Some(owner.as_raw()), group).map_err(told)?;
            }
            let bits = self.granted(mode)?;
            container.set_mode(bits & 0o7777).map_err(told)
        };
        self.or_removed(container.directory(), complete())?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let own = rustix::fs::openat(container.directory(), ".", flags, Mode::empty())?;
        let named = Seen { kind: Kind::Container, ..seen(own)? };
        Ok((container, named))
    }

    /// Makes a file without opening it. Devices are for root alone, which the kernel has checked
    /// already, and where the backing file system and the rights of this process allow them.
    pub(crate) fn node(&self, node: NewNode) -> Result<Seen> {
        let kind = node.kind();
        let device = match kind {
            FileType::RegularFile | FileType::Fifo | FileType::Socket => 0,
            FileType::CharacterDevice | FileType::BlockDevice if self.maker.uid == 0 => {
                device(node.device)
            }
            _ => return Err(Errno::PERM.into()),
        };
        let bits = Mode::from_raw_mode(node.mode & UNOWNED);
        self.staged(Some(node.mode), &|at, name| rustix::fs::mknodat(at, name, kind, bits, device))
    }

    pub(crate) fn directory(&self, mode: u32) -> Result<Seen> {
        let bits = Mode::from_raw_mode(mode & UNOWNED);
        self.staged(Some(mode), &|at, name| rustix::fs::mkdirat(at, name, bits))
    }

    pub(crate) fn symlink(&self, target: &Path) -> Result<Seen> {
        self.staged(None, &|at, name| rustix::fs::symlinkat(target, at, name))
    }

    /// Makes a file of a kind that no call makes and opens at once.
    fn staged(
        &self,
        bits: Option<u32>,
        act: &dyn Fn(&OwnedFd, &OsStr) -> rustix::io::Result<()>,
    ) -> Result<Seen> {
        let make = || Staging::in_directory(&self.at.directory)?.make(self.at.name, act);
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
        self.or_removed(&made, self.complete(&made, bits))?;
        seen(made)
    }

    /// The owner and group to set for the file, where this process may make files for others.
    fn heir(&self) -> Result<Option<(Uid, Option<Gid>)>> {
        let me = rustix::process::geteuid();
        if !me.is_root() || self.maker.uid == me.as_raw() {
            return Ok(None);
        }
        let keeps_group = rustix::fs::fstat(&*self.at.directory)?.st_mode & 0o2000 != 0;
        let group = (!keeps_group).then(|| Gid::from_raw(self.maker.gid));
        Ok(Some((Uid::from_raw(self.maker.uid), group)))
    }

    /// The permission bits that the file gets if its maker asks for `bits`: the list that the
    /// directory passes on decides, and without one the umask.
    fn granted(&self, bits: u32) -> Result<u32> {
        let passed_on = lists::passed_on(&self.at.directory)?;
        let kept = passed_on.unwrap_or(0o777 & !self.maker.umask);
        Ok(bits & (0o7000 | kept))
    }

    /// Gives the new file its owner and then, as that takes set-id bits away, its permission bits;
    /// a directory keeps the set-group-id bit that it has inherited.
    fn complete(&self, file: &OwnedFd, bits: Option<u32>) -> Result<()> {
        if let Some((owner, group)) = self.heir()? {
            rustix::fs::chownat(file, "", Some(owner), group, AtFlags::EMPTY_PATH)?;
        }
        let Some(bits) = bits else { return Ok(()) };
        let bits = self.granted(bits)?;
        let stat = rustix::fs::fstat(file)?;
        let inherited = if is_directory(&stat) { stat.st_mode & 0o2000 } else { 0 };
        let mode = Mode::from_raw_mode(bits & 0o7777 | inherited);
        Ok(rustix::fs::chmod(held::path(file), mode)?)
    }

    /// The result of completing `made`, which has the name already: where that failed, the name
    /// goes again.
    fn or_removed(&self, made: impl AsFd, completed: Result<()>) -> Result<()> {
        completed.inspect_err(|_| {
            if let Err(left) = remove(&self.at, made) {
                let name = self.at.name.display();
                log::write(Level::Error, format_args!("{name}: made, and not removed: {left}"));
            }
        })
    }
}

/// Removes the file `made`, if it has the name still: it is looked at where nobody else can
/// exchange it.
fn remove(at: &Dentry<'_>, made: impl AsFd) -> agg_core::Result<()> {
    let path = at.path();
    let aside = Aside::make(&path)?;
    let held = aside.path_of(at.name);
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

/// The number of a device as the C library has it; the kernel passes it in 32 bits.
fn device(told: u32) -> rustix::fs::Dev {
    rustix::fs::makedev(told >> 8 & 0xfff, told & 0xff | told >> 12 & 0xf_ff00)
}

#[cfg(test)]
#[path = "making_tests.rs"]
mod tests;
