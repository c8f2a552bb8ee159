//! `stat`, `access` and their kin for names of coupled files.

use super::{agent, names, number};
use crate::containers::Name;
use crate::errno;
use crate::next;
use crate::state::Inside;
use aggio_couple::Stat;
use libc::{c_int, c_void};
use std::io;
use std::path::Path;

/// The preferred size of accesses in bytes.
const BLOCK: i64 = 1 << 20;

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

/// `stat`, `lstat` and `fstatat`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn fstatat(at: c_int, path: Name, to: *mut c_void, flags: c_int) -> Option<c_int> {
    Some(match known(at, path, follows(flags))? {
        Ok(facts) => {
            // SAFETY: the caller's promise.
            unsafe { tell(&facts, to) };
            0
        }
        Err(error) => errno::fail(error) as c_int,
    })
}

/// # Safety
/// `to` points to a record.
unsafe fn tell(known: &Stat, to: *mut c_void) {
    // SAFETY: all bits zero are a record.
    let mut facts: libc::stat64 = unsafe { std::mem::zeroed() };
    (facts.st_dev, facts.st_ino, facts.st_nlink) = (known.device, known.inode, 1);
    facts.st_mode = known.mode;
    // SAFETY: asks for numbers.
    (facts.st_uid, facts.st_gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    facts.st_size = known.size.cast_signed();
    (facts.st_blksize, facts.st_blocks) = (BLOCK as _, known.blocks.cast_signed());
    let (seconds, nanoseconds) = known.modified;
    (facts.st_atime, facts.st_mtime, facts.st_ctime) = (seconds, seconds, seconds);
    facts.st_atime_nsec = nanoseconds;
    (facts.st_mtime_nsec, facts.st_ctime_nsec) = (nanoseconds, nanoseconds);
    // SAFETY: the caller's promise.
    unsafe { to.cast::<libc::stat64>().write(facts) };
}

/// `statx`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn statx(at: c_int, path: Name, flags: c_int, to: *mut c_void) -> Option<c_int> {
    Some(match known(at, path, follows(flags))? {
        Ok(facts) => {
            // SAFETY: the caller's promise.
            unsafe { tell_x(&facts, to) };
            0
        }
        Err(error) => errno::fail(error) as c_int,
    })
}

/// # Safety
/// `to` points to a record.
unsafe fn tell_x(known: &Stat, to: *mut c_void) {
    // SAFETY: all bits zero are a record.
    let mut facts: libc::statx = unsafe { std::mem::zeroed() };
    (facts.stx_dev_major, facts.stx_dev_minor) =
        (libc::major(known.device), libc::minor(known.device));
    (facts.stx_mask, facts.stx_nlink, facts.stx_ino) = (libc::STATX_BASIC_STATS, 1, known.inode);
    // SAFETY: asks for numbers.
    (facts.stx_uid, facts.stx_gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    facts.stx_mode = known.mode as u16;
    (facts.stx_size, facts.stx_blocks) = (known.size, known.blocks);
    facts.stx_blksize = BLOCK as u32;
    // SAFETY: all bits zero are a time.
    let mut time: libc::statx_timestamp = unsafe { std::mem::zeroed() };
    (time.tv_sec, time.tv_nsec) = (known.modified.0, known.modified.1 as u32);
    (facts.stx_atime, facts.stx_mtime, facts.stx_ctime) = (time, time, time);
    // SAFETY: the caller's promise.
    unsafe { to.cast::<libc::statx>().write(facts) };
}

/// `access`, `eaccess` and `faccessat`.
pub fn access(at: c_int, path: Name, wanted: c_int, flags: c_int) -> Option<c_int> {
    let told = known(at, path, follows(flags))?.and_then(|facts| {
        // An agent has files of its own user only, so the owner's permissions apply.
        let allowed = (facts.mode >> 6 & 7).cast_signed();
        if wanted & !allowed & 7 == 0 { Ok(()) } else { Err(libc::EACCES) }
    });
    Some(told.map_or_else(|error| errno::fail(error) as c_int, |()| 0))
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
