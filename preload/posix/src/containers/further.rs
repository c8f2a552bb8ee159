//! Calls that fail on sets, but work on containers, which are directories: extended attributes and
//! further names.

use super::super::cookie::meaning;
use super::super::errno;
use super::names::set_of;
use super::paths::Name;
use libc::{c_char, c_int, ssize_t};

/// Reading an extended attribute of a set.
pub fn attribute(path: Name, follow: bool) -> Option<ssize_t> {
    set_of(libc::AT_FDCWD, path, follow).map(|_| errno::fail(libc::ENODATA))
}

/// The names of the extended attributes of a set.
pub fn attributes(path: Name, follow: bool) -> Option<ssize_t> {
    set_of(libc::AT_FDCWD, path, follow).map(|_| 0)
}

/// Changing an extended attribute of a set.
pub fn change_attribute(path: Name, follow: bool) -> Option<c_int> {
    set_of(libc::AT_FDCWD, path, follow)
        .map(|set| errno::fail(super::number(&set.refusal())) as c_int)
}

/// Another name for a set, or the name of a set for another file.
pub fn link((at, from): (c_int, Name), (there, to): (c_int, Name)) -> Option<c_int> {
    let set = set_of(at, from, false).or_else(|| set_of(there, to, false))?;
    Some(errno::fail(super::number(&set.refusal())) as c_int)
}

/// The error with which `freopen` refuses a set in any mode; `None` if the name is not a set.
///
/// # Safety
/// As `freopen` demands.
pub unsafe fn reopened(path: Name, mode: *const c_char) -> Option<c_int> {
    let set = if path.is_null() { None } else { set_of(libc::AT_FDCWD, path, true) }?;
    // SAFETY: the caller's promise.
    let reads = unsafe { meaning(mode) }.is_some_and(|meaning| meaning.flags == libc::O_RDONLY);
    Some(if reads { libc::ENOTSUP } else { super::number(&set.refusal()) })
}
