//! Calls that change the metadata or the name of a coupled file.

use super::facts::{is_on_disk, known};
use super::{agent, names, number};
use crate::containers::{Name, joined};
use crate::errno;
use crate::settle;
use crate::state::{self, Inside};
use aggio_couple::Open;
use libc::{c_int, c_uint, c_void, mode_t, off64_t, ssize_t};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

fn told(result: io::Result<()>) -> c_int {
    result.map_or_else(|error| errno::fail(number(&error)) as c_int, |()| 0)
}

/// Calls `act` with the agent and the coupled file of a name. Returns `None` if the name is not
/// coupled, or if the agent has no file of this name but the disk has.
fn on(
    (at, path, follow): (c_int, Name, bool),
    act: impl FnOnce(&aggio_couple::Client, &Path) -> io::Result<()>,
) -> Option<c_int> {
    let name = names::coupled(at, path, follow)?;
    let before = errno::Keep::new();
    let inside = Inside::enter();
    let done = agent::client().and_then(|client| act(client, &name));
    drop(inside);
    drop(before);
    match done {
        Err(error) if number(&error) == libc::ENOENT && is_on_disk(&name) => None,
        done => Some(told(done)),
    }
}

/// `truncate`.
pub fn truncate(path: Name, len: off64_t) -> Option<c_int> {
    on((libc::AT_FDCWD, path, true), |client, name| {
        let len = u64::try_from(len).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        client.truncate(name, len)
    })
}

/// `unlink`, `unlinkat` and `remove`.
pub fn unlink(at: c_int, path: Name, flags: c_int) -> Option<c_int> {
    if flags & libc::AT_REMOVEDIR != 0 {
        return None;
    }
    on((at, path, false), |client, name| client.unlink(name))
}

/// `rename` and its kin, if one of the names is that of a coupled file.
pub fn rename(at: c_int, from: Name, there: c_int, to: Name, flags: c_uint) -> Option<c_int> {
    if !state::has_coupled() || Inside::is() {
        return None;
    }
    let (one, other) = (names::coupled(at, from, false), names::coupled(there, to, false));
    if one.is_none() && other.is_none() {
        return None;
    }
    settle::before_rename();
    let before = errno::Keep::new();
    let inside = Inside::enter();
    let source = one.clone().or_else(|| joined(at, from))?;
    // The kernel handles directories, and renames between two names on the disk.
    if source.is_dir() || one.is_some() && other.is_none() && stays_on_disk(&source) {
        return None;
    }
    let target = other.clone().or_else(|| joined(there, to))?;
    let done = renamed(&source, &target, other.is_some(), flags);
    drop(inside);
    drop(before);
    Some(told(done))
}

/// Whether a file of a coupled name is on disk, and the agent has none.
fn stays_on_disk(name: &Path) -> bool {
    let found = agent::client().and_then(|client| client.stat(name));
    matches!(found, Ok(None)) && is_on_disk(name)
}

fn renamed(source: &Path, target: &Path, coupled: bool, flags: c_uint) -> io::Result<()> {
    let refused = |errno| Err(io::Error::from_raw_os_error(errno));
    let client = agent::client()?;
    if flags & !libc::RENAME_NOREPLACE != 0 {
        return refused(libc::EINVAL);
    }
    if flags != 0 {
        let is_there = if coupled { client.stat(target)?.is_some() } else { is_on_disk(target) };
        if is_there {
            return refused(libc::EEXIST);
        }
    }
    client.rename(source, target)
}

/// Calls `act` with a descriptor of a coupled file, to change metadata in the kernel.
fn with_descriptor(name: (c_int, Name, bool), act: impl FnOnce(c_int) -> c_int) -> Option<c_int> {
    on(name, |client, name| {
        let opened = client.open(&Open { read: true, blocking: false, ..Open::new(name) });
        let again = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock => io::Error::from_raw_os_error(libc::ENOENT),
            _ => error,
        };
        let opened = opened.map_err(again)?;
        let done = match act(opened.fd.as_raw_fd()) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        drop(opened.fd);
        let closed = client.close(opened.handle, 0);
        done.and(closed)
    })
}

fn follows(flags: c_int) -> bool {
    flags & libc::AT_SYMLINK_NOFOLLOW == 0
}

/// `fchmodat`.
pub fn fchmodat(at: c_int, path: Name, mode: mode_t, flags: c_int) -> Option<c_int> {
    // SAFETY: plain numbers.
    with_descriptor((at, path, follows(flags)), |fd| unsafe { libc::fchmod(fd, mode) })
}

/// `fchownat`.
pub fn fchownat(at: c_int, path: Name, user: c_uint, group: c_uint, flags: c_int) -> Option<c_int> {
    // SAFETY: plain numbers.
    with_descriptor((at, path, follows(flags)), |fd| unsafe { libc::fchown(fd, user, group) })
}

/// `utimensat`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn utimensat(at: c_int, path: Name, both: *const c_void, flags: c_int) -> Option<c_int> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    with_descriptor((at, path, follows(flags)), |fd| unsafe { libc::futimens(fd, both.cast()) })
}

/// `link`: fails with `EXDEV` if one of the names is coupled.
pub fn link((at, from): (c_int, Name), (there, to): (c_int, Name)) -> Option<c_int> {
    let name = names::coupled(at, from, false).or_else(|| names::coupled(there, to, false));
    name.map(|_| errno::fail(libc::EXDEV) as c_int)
}

/// `getxattr` and its kin: a coupled file has no extended attributes.
pub fn attribute(path: Name, follow: bool) -> Option<ssize_t> {
    Some(errno::fail(known(libc::AT_FDCWD, path, follow)?.err().unwrap_or(libc::ENODATA)))
}

/// `listxattr` and its kin: the list is empty.
pub fn attributes(path: Name, follow: bool) -> Option<ssize_t> {
    Some(known(libc::AT_FDCWD, path, follow)?.map_or_else(errno::fail, |_| 0))
}

/// `setxattr`, `removexattr` and their kin: fails, because attributes are not supported.
pub fn change_attribute(path: Name, follow: bool) -> Option<c_int> {
    let error = known(libc::AT_FDCWD, path, follow)?.err().unwrap_or(libc::EOPNOTSUPP);
    Some(errno::fail(error) as c_int)
}
