//! `stat`, `access` and their kin for names of coupled files.

use super::{agent, names, number};
use crate::containers::Name;
use crate::errno;
use crate::facts::Facts;
use crate::next;
use crate::state::Inside;
use aggio_couple::Stat;
use libc::{c_int, c_void};
use std::io;
use std::path::Path;

/// Looks up a coupled name. Returns `None` if the name may refer to a file on disk.
pub(super) fn find(name: &Path) -> Option<io::Result<Stat>> {
    let _inside = Inside::enter();
    let found = agent::client().and_then(|client| client.stat(name));
    match found {
        Ok(None) if names::may_be_on_disk(name) => None,
        Ok(None) => Some(Err(io::Error::from_raw_os_error(libc::ENOENT))),
        Ok(Some(facts)) => Some(Ok(facts)),
        Err(error) => Some(Err(error)),
    }
}

/// As [`find`], for the name in a call. Also returns `None` if the name is not coupled.
pub(super) fn known(at: c_int, path: Name, follow: bool) -> Option<Result<Stat, c_int>> {
    let name = names::coupled(at, path, follow)?;
    crate::settle::all();
    let _errno = errno::Keep::new();
    Some(find(&name)?.map_err(|error| number(&error)))
}

fn follows(flags: c_int) -> bool {
    flags & libc::AT_SYMLINK_NOFOLLOW == 0
}

fn facts(known: &Stat) -> Facts {
    // SAFETY: asks for numbers.
    let owner = unsafe { (libc::geteuid(), libc::getegid()) };
    let Stat { device, inode, mode, size, blocks, modified, .. } = *known;
    Facts { device, inode, mode, names: 1, owner, size, blocks, times: [modified; 3] }
}

fn told(result: Result<(), c_int>) -> c_int {
    result.map_or_else(|error| errno::fail(error) as c_int, |()| 0)
}

/// `stat`, `lstat` and `fstatat`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn fstatat(at: c_int, path: Name, to: *mut c_void, flags: c_int) -> Option<c_int> {
    let known = known(at, path, follows(flags))?;
    // SAFETY: the caller's promise.
    Some(told(known.map(|known| unsafe { facts(&known).stat(to) })))
}

/// `statx`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn statx(at: c_int, path: Name, flags: c_int, to: *mut c_void) -> Option<c_int> {
    let known = known(at, path, follows(flags))?;
    // SAFETY: the caller's promise.
    Some(told(known.map(|known| unsafe { facts(&known).statx(to) })))
}

/// `access`, `eaccess` and `faccessat`.
pub fn access(at: c_int, path: Name, wanted: c_int, flags: c_int) -> Option<c_int> {
    let allowed = known(at, path, follows(flags))?.and_then(|facts| {
        // An agent has files of its own user only, so the owner's permissions apply.
        let allowed = (facts.mode >> 6 & 7).cast_signed();
        if wanted & !allowed & 7 == 0 { Ok(()) } else { Err(libc::EACCES) }
    });
    Some(told(allowed))
}

/// Whether a file of this name is on disk.
pub(super) fn is_on_disk(path: &Path) -> bool {
    let Ok(name) = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()) else {
        return false;
    };
    let _errno = errno::Keep::new();
    let flags = libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: the name is a C string.
    unsafe { next::faccessat(libc::AT_FDCWD, name.as_ptr(), libc::F_OK, flags) == 0 }
}
