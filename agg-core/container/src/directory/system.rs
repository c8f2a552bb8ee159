//! System calls on names of a directory, and random numbers.

use crate::directory::fd_range;
use crate::errors::damaged;
use aggio_base::{Error, ErrorClass, Result};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A number nobody can guess.
pub(crate) fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    // SAFETY: the buffer has 8 bytes.
    let n = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if n != 8 {
        return Err(Error::os("getrandom", &io::Error::last_os_error()));
    }
    Ok(u64::from_le_bytes(bytes))
}

/// A path as the system calls want it.
pub(crate) fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| {
        let words = format!("file name {path:?} contains a zero byte");
        Error::new(ErrorClass::BadFile, words).with_errno(libc::EINVAL)
    })
}

pub(crate) fn c_name(name: &str) -> Result<CString> {
    let plain = !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != "..";
    if !plain {
        return Err(damaged(format!("{name:?} is not the name of a part of a container")));
    }
    CString::new(name).map_err(|_| damaged(format!("{name:?} contains a zero byte")))
}

/// `openat` that follows no symlink at the end and is closed by `exec`.
pub(crate) fn open_at(dir: libc::c_int, name: &CStr, flags: i32, mode: u32) -> io::Result<File> {
    let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NOCTTY;
    loop {
        // SAFETY: the name ends with a zero byte.
        let fd = unsafe { libc::openat(dir, name.as_ptr(), flags, mode as libc::c_uint) };
        if fd >= 0 {
            // SAFETY: the descriptor is new and nobody else's.
            return Ok(fd_range::moved(unsafe { File::from_raw_fd(fd) }));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Metadata of `name` itself; a symlink is not followed.
pub(crate) fn stat_at(dir: &File, name: &CStr) -> io::Result<libc::stat> {
    // SAFETY: all-zero bytes are a valid `stat`, which is plain numbers.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let flags = libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: the name ends with a zero byte and the buffer is a `stat`.
    match unsafe { libc::fstatat(dir.as_raw_fd(), name.as_ptr(), &mut stat, flags) } {
        0 => Ok(stat),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The user with whose rights this process acts.
pub(crate) fn user() -> u32 {
    // SAFETY: the call only returns a number of the process.
    unsafe { libc::geteuid() }
}
