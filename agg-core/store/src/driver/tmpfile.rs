//! Temporary files without a name: they end with their last descriptor or mapping, even if the
//! process is killed.

use super::{facts, os};
use aggio_base::Extent;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// File systems that keep their files in memory; tests do not care.
const IN_MEMORY: &[&str] = if cfg!(test) { &[] } else { &["tmpfs", "ramfs"] };

/// A file of `len` bytes in `directory`, with storage for all of them, beside which `spare` bytes
/// stay free.
///
/// # Errors
/// The system's error: there is no room, or the file system has no such files; `Unsupported` if it
/// keeps them in memory.
pub fn create(directory: &Path, len: u64, spare: u64) -> io::Result<OwnedFd> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    let fd = os::open(&path, libc::O_RDWR | libc::O_TMPFILE | libc::O_CLOEXEC, 0o600)?;
    // SAFETY: the descriptor is new and has no other owner.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    let room = os::fstatfs(fd)?;
    if IN_MEMORY.contains(&&*facts::name_of(room.f_type as u32)) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let free = room.f_bavail.saturating_mul(u64::try_from(room.f_bsize).unwrap_or(0));
    if free < len.saturating_add(spare) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    os::fallocate(file.as_raw_fd(), Extent::new(0, len), false)?;
    Ok(file)
}
