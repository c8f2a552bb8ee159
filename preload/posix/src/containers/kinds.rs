//! Calls that show the type of a file: they report a container as a regular file, not as the
//! directory that the kernel sees.

use super::super::errno;
use super::super::next;
use super::super::state::{self, Inside};
use super::names::{follows, look};
use super::paths::Name;
use agg_core::blob::{self, is_container};
use agg_core::{Error, ErrorClass};
use libc::{c_int, c_void, dirent64};
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// After `readdir`: whether the entry is to be shown, and not a container that has lost its name;
/// says of one that is a container that it is a regular file.
///
/// # Safety
/// `entry` is the result of `readdir` on `directory`.
pub unsafe fn readdir(directory: *mut c_void, entry: *mut dirent64) -> bool {
    if entry.is_null() || !state::has_containers() || Inside::is() {
        return true;
    }
    // SAFETY: the caller's promise.
    let (kind, name) = unsafe { ((*entry).d_type, CStr::from_ptr((*entry).d_name.as_ptr())) };
    if kind != libc::DT_DIR || matches!(name.to_bytes(), b"." | b"..") {
        return true;
    }
    let (_errno, _inside) = (errno::Keep::new(), Inside::enter());
    // SAFETY: the program's stream of a directory.
    let fd = unsafe { libc::dirfd(directory.cast()) };
    if name.to_bytes().starts_with(b".aggio-") && is_nameless(fd, name) {
        return false;
    }
    if is_inside(fd, name) {
        // SAFETY: the caller's promise.
        unsafe { (*entry).d_type = libc::DT_REG };
    }
    true
}

/// Whether the directory `name` in the directory `fd` is a container.
fn is_inside(fd: c_int, name: &CStr) -> bool {
    // This part alone distinguishes most directories from containers.
    let path = [name.to_bytes(), b"/", blob::MANIFEST.as_bytes(), b"\0"].concat();
    // SAFETY: the path ends with a zero byte.
    let there = unsafe { libc::faccessat(fd, path.as_ptr().cast(), libc::F_OK, 0) } == 0;
    there && path_in(fd, name).is_some_and(|path| is_container(&path))
}

/// Whether it is a container that has lost its name.
fn is_nameless(fd: c_int, name: &CStr) -> bool {
    path_in(fd, name).is_some_and(|path| blob::is_nameless(&path))
}

/// The path of `name` in the directory `fd`.
fn path_in(fd: c_int, name: &CStr) -> Option<PathBuf> {
    let place = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    Some(place.join(OsStr::from_bytes(name.to_bytes())))
}

/// Whether a call that needs a directory must fail with `errno`, because the name is a container.
pub fn is_no_directory(path: Name) -> bool {
    let refused = || Error::new(ErrorClass::NotSame, "a file").with_errno(libc::ENOTDIR);
    look((libc::AT_FDCWD, path, true), |_, _| Err(refused())).is_some()
}

/// `access`, `eaccess` and `faccessat`.
pub fn access(at: c_int, path: Name, wanted: c_int, flags: c_int) -> Option<c_int> {
    look((at, path, follows(flags)), |known, guard| {
        let denied = |errno| Error::new(ErrorClass::Access, "access").with_errno(errno);
        let wanted_bits = wanted.cast_unsigned() & 7;
        let allowed = match guard {
            Some(guard) => known.allows_by(wanted_bits, guard),
            None => known.allows(wanted_bits),
        };
        if !allowed {
            return Err(denied(libc::EACCES));
        }
        match guard {
            Some(guard) if wanted & libc::W_OK != 0 => is_writable(guard).map_err(denied),
            None if wanted & libc::W_OK != 0 => Err(denied(libc::EROFS)),
            _ => Ok(()),
        }
    })
}

/// # Errors
/// `EROFS` where nothing can be written.
fn is_writable(guard: &Path) -> Result<(), c_int> {
    let name = [guard.as_os_str().as_bytes(), b"\0"].concat();
    // SAFETY: the path ends with a zero byte.
    let allowed = unsafe {
        next::faccessat(libc::AT_FDCWD, name.as_ptr().cast(), libc::W_OK, libc::AT_EACCESS)
    };
    if allowed == 0 { Ok(()) } else { Err(errno::get()) }
}
