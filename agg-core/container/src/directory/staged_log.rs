//! Logs that wait in a directory of the node until their container becomes a set of files, or they
//! are drained into it. In the container such a log is a symbolic link. To open, measure or remove
//! the log applies to the file behind the link.
//!
//! The name of that file says to which container it belongs, so that copies of the links lead to
//! nothing. Only its writer changes it, and nobody maps it.

use crate::directory::dir::Dir;
use crate::directory::liveness;
use crate::directory::part_names::{log_id, log_name};
use crate::directory::system::{c_name, c_path, open_at, random, stat_at};
use crate::errors::{damaged_at, failed, refused};
use aggio_base::{Error, ErrorClass, Result, os};
use std::ffi::{CStr, OsStr};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// How the name of a staged log begins, before the device and the number of its container.
const START: &str = "aggio-log-";

/// How the name of a log begins that is being drained, in the container.
pub(crate) const DRAINED: &str = ".drain.";

/// Times that a link is followed which is replaced meanwhile.
const ATTEMPTS: usize = 8;

/// Bytes of the name of a file at most.
const NAME: usize = 4096;

/// Where the logs of a container wait, and how many bytes of each.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) place: PathBuf,
    pub(crate) limit: u64,
}

/// How the names of staged logs of this container begin.
fn mark(dir: &Dir) -> io::Result<String> {
    let own = dir.file().metadata()?;
    Ok(format!("{START}{:x}-{:x}-", own.dev(), own.ino()))
}

/// A log of a container that waits in a directory of the node: a link in the container, and the
/// file behind it.
pub(crate) struct StagedLog<'a> {
    dir: &'a Dir,
    /// The name of the link.
    name: &'a str,
    /// The file.
    path: PathBuf,
}

impl<'a> StagedLog<'a> {
    /// The log `name` of `dir`, if it is a link to a staged log of this container.
    fn behind(dir: &'a Dir, name: &'a str) -> Option<Self> {
        log_id(name)?;
        let (fd, link) = (dir.file().as_raw_fd(), c_name(name).ok()?);
        let facts = stat_at(dir.file(), &link).ok()?;
        if facts.st_mode & libc::S_IFMT != libc::S_IFLNK {
            return None;
        }
        let mut room = [0u8; NAME];
        // SAFETY: the name ends with a zero byte; the kernel writes at most the bytes of the array.
        let len =
            unsafe { libc::readlinkat(fd, link.as_ptr(), room.as_mut_ptr().cast(), room.len()) };
        let len = usize::try_from(len).ok().filter(|len| *len < NAME)?;
        let path = PathBuf::from(OsStr::from_bytes(&room[..len]));
        let rest = path.file_name()?.to_str()?.strip_prefix(&*mark(dir).ok()?)?;
        let is_ours = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        let is_number = rest.len() == 32 && rest.bytes().all(is_ours);
        (is_number && path.is_absolute()).then_some(Self { dir, name, path })
    }

    /// Whether the log with this id waits in a directory of the node.
    pub(crate) fn waits(dir: &Dir, id: u64) -> bool {
        StagedLog::behind(dir, &log_name(id)).is_some()
    }

    /// Runs `look` on the file behind the log `name`; `None` if that is no staged log. A missing
    /// file is an error, never a log without bytes.
    fn look<T>(
        dir: &'a Dir,
        name: &'a str,
        look: impl Fn(&CStr) -> io::Result<(T, libc::stat)>,
    ) -> Result<Option<T>> {
        for _ in 0..ATTEMPTS {
            let Some(log) = Self::behind(dir, name) else { return Ok(None) };
            match look(&c_path(&log.path)?) {
                Ok((found, facts)) => return log.require_own(&facts).map(|()| Some(found)),
                // It may have been drained meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if Self::behind(dir, name).is_some_and(|now| now.path == log.path) {
                        return Err(log.away());
                    }
                }
                Err(error) => return Err(failed("open", &error, &log.path)),
            }
        }
        Err(failed("open", &io::Error::from_raw_os_error(libc::EBUSY), &dir.path_of(name)))
    }

    /// Opens the staged log `name`; `None` if it is none.
    pub(crate) fn open(dir: &'a Dir, name: &'a str, access: libc::c_int) -> Result<Option<File>> {
        Self::look(dir, name, |path| {
            let file = open_at(libc::AT_FDCWD, path, access | libc::O_NONBLOCK, 0)?;
            let facts = os::fstat(file.as_raw_fd())?;
            Ok((file, facts))
        })
    }

    /// Metadata of the staged log `name`; `None` if it is none.
    pub(crate) fn stat(dir: &'a Dir, name: &'a str) -> Result<Option<libc::stat>> {
        Self::look(dir, name, |path| stat_at(dir.file(), path).map(|facts| (facts, facts)))
    }

    /// Fails unless the file belongs to the owner of the link or of the container, and has no other
    /// name.
    fn require_own(&self, facts: &libc::stat) -> Result<()> {
        let link = stat_at(self.dir.file(), &c_name(self.name)?);
        let own = self.dir.file().metadata().map_err(|e| failed("fstat", &e, self.dir.path()))?;
        let is_own =
            facts.st_uid == own.uid() || link.is_ok_and(|link| link.st_uid == facts.st_uid);
        let is_file = facts.st_mode & libc::S_IFMT == libc::S_IFREG;
        match is_file && facts.st_nlink == 1 && is_own {
            true => Ok(()),
            false => {
                Err(damaged_at(&self.link(), "the file behind it is no log of this container"))
            }
        }
    }

    /// Makes the log `name` of `dir`, which waits in the directory `place`.
    pub(crate) fn create(dir: &Dir, name: &str, place: &Path) -> Result<File> {
        let mark = mark(dir).map_err(|error| failed("fstat", &error, dir.path()))?;
        let path = place.join(format!("{mark}{:016x}{:016x}", random()?, random()?));
        let target = c_path(&path)?;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        let file = open_at(libc::AT_FDCWD, &target, flags, 0o600)
            .map_err(|error| failed("create", &error, &path))?;
        let linked = dir
            .adopt(&file)
            .map_err(|error| failed("fchown", &error, &path))
            .and_then(|()| link(dir, &target, name));
        // Report the original error.
        linked.inspect_err(|_| drop(std::fs::remove_file(&path)))?;
        Ok(file)
    }

    /// Removes the file behind the log `name`, if that is a staged log of this container.
    pub(crate) fn remove(dir: &Dir, name: &str) -> Result<()> {
        let Some(log) = StagedLog::behind(dir, name) else { return Ok(()) };
        let removed = match stat_at(dir.file(), &c_path(&log.path)?) {
            Ok(facts) => {
                log.require_own(&facts)?;
                std::fs::remove_file(&log.path)
            }
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("unlink", &error, &log.path))
            }
            _ => Ok(()),
        }
    }

    /// Moves the staged log `name` into the container. Returns the log there; `None` if it does not
    /// wait. The caller is its writer, or `is_ended` returns whether its writer has ended.
    pub(crate) fn drain(
        dir: &Dir,
        name: &str,
        is_ended: impl Fn(&File) -> bool,
    ) -> Result<Option<File>> {
        let Some(log) = StagedLog::behind(dir, name) else { return Ok(None) };
        let Some(from) = StagedLog::open(dir, name, libc::O_RDWR)? else { return Ok(None) };
        // A log without a writer never gets one: it does not grow during the copy.
        if !is_ended(&from) {
            return Err(log.used());
        }
        let unfinished = format!("{DRAINED}{:016x}.{name}", random()?);
        let to = dir.new_part(&unfinished, 0o600)?;
        let fail = |error| failed("write", &error, &dir.path_of(name));
        let drained = copy(&from, &to).map_err(fail).and_then(|()| {
            // Mark the new file as having a living writer.
            liveness::keep(&to);
            dir.rename(&unfinished, name)
        });
        if let Err(error) = drained {
            // Report the original error.
            let _ = dir.remove(&unfinished);
            return Err(error);
        }
        // Nothing leads there any more.
        let _ = std::fs::remove_file(&log.path);
        Ok(Some(to))
    }

    /// The path of the link, for messages.
    fn link(&self) -> PathBuf {
        self.dir.path_of(self.name)
    }

    /// The error for a log that somebody writes.
    fn used(&self) -> Error {
        let words = "somebody writes this log, which waits in a directory of the node";
        refused((ErrorClass::FileInUse, libc::EBUSY), &self.link(), words)
    }

    /// The error for a log that waits where it cannot be found.
    fn away(&self) -> Error {
        let words = format!(
            "the bytes of this log wait in {}, which is not on this node or was removed",
            self.path.display()
        );
        damaged_at(&self.link(), words)
    }
}

/// Makes the link `name` to a staged log.
fn link(dir: &Dir, target: &CStr, name: &str) -> Result<()> {
    let (fd, link) = (dir.file().as_raw_fd(), c_name(name)?);
    // SAFETY: both names end with a zero byte.
    match unsafe { libc::symlinkat(target.as_ptr(), fd, link.as_ptr()) } {
        0 => Ok(()),
        _ => Err(failed("symlink", &io::Error::last_os_error(), &dir.path_of(name))),
    }
}

/// Moves the logs of a container that wait elsewhere, and that nobody writes, into it; returns how
/// many there were. `EBUSY` if somebody writes one, after all others were moved.
pub(crate) fn drain_all(dir: &Dir) -> Result<usize> {
    let (mut drained, mut used) = (0, None);
    for id in dir.logs()? {
        match StagedLog::drain(dir, &log_name(id), liveness::is_abandoned) {
            // Its writer drains it, or a later call.
            Err(error) if error.errno() == libc::EBUSY => used = Some(error),
            found => drained += usize::from(found?.is_some()),
        }
    }
    used.map_or(Ok(drained), Err)
}

/// Copies all bytes and the permissions.
fn copy(from: &File, to: &File) -> io::Result<()> {
    let (mut source, mut sink) = (from, to);
    io::copy(&mut source, &mut sink)?;
    to.set_permissions(Permissions::from_mode(from.metadata()?.permissions().mode() & 0o777))
}
