//! Names, as programs give them.

use super::super::readable_memory;
use libc::{c_char, c_int};
use std::path::{Path, PathBuf};

/// A name, as the program gave it.
pub type Name = *const c_char;

/// The absolute name that a call means; symbolic links at its end are followed if `follow`.
pub(super) fn named(at: c_int, path: *const c_char, follow: bool) -> Option<PathBuf> {
    let full = joined(at, path)?;
    let is_link = follow && full.symlink_metadata().is_ok_and(|facts| facts.is_symlink());
    if is_link { full.canonicalize().ok().or(Some(full)) } else { Some(full) }
}

/// The absolute name that a call means; links in it are not resolved.
pub fn joined(at: c_int, path: *const c_char) -> Option<PathBuf> {
    // SAFETY: the program's path.
    let path = Path::new(unsafe { readable_memory::text(path) }?);
    if path.as_os_str().is_empty() {
        return None;
    }
    let base = match (path.is_absolute(), at) {
        (true, _) => PathBuf::new(),
        (_, libc::AT_FDCWD) => std::env::current_dir().ok()?,
        (_, fd) => std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?,
    };
    Some(base.join(path))
}

/// Whether a name ends as only those of directories may.
pub(super) fn is_of_a_directory(path: Name) -> bool {
    // SAFETY: the program's path is a C string.
    !path.is_null() && unsafe { std::ffi::CStr::from_ptr(path) }.to_bytes().ends_with(b"/")
}
