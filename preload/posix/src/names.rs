//! Calls with names: each acts on the coupled file, container or set that the name means; the
//! result is `None` if it means another file, which the kernel knows.

use super::containers::{self, Name};
use super::times::{finer, pointer};
use super::{coupled, readable_memory, staged};
use libc::{c_int, c_uint, c_void, mode_t, off64_t, ssize_t, timespec};

/// The functions of coupled files and of containers with these names and arguments.
macro_rules! either {
    ($($(#[$text:meta])* $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty;)*) => {
        $($(#[$text])*
        pub fn $name($($arg: $ty),*) -> Option<$ret> {
            coupled::$name($($arg),*).or_else(|| containers::$name($($arg),*))
        })*
    };
}

either! {
    /// `rename` and its kin.
    rename(at: c_int, from: Name, there: c_int, to: Name, flags: c_uint) -> c_int;
    /// `unlink` and its kin.
    unlink(at: c_int, path: Name, flags: c_int) -> c_int;
    /// `link` and `linkat`.
    link(from: (c_int, Name), to: (c_int, Name)) -> c_int;
    /// `chmod` and `fchmodat`.
    fchmodat(at: c_int, path: Name, mode: mode_t, flags: c_int) -> c_int;
    /// `chown` and its kin.
    fchownat(at: c_int, path: Name, user: c_uint, group: c_uint, flags: c_int) -> c_int;
    /// `access` and its kin.
    access(at: c_int, path: Name, wanted: c_int, flags: c_int) -> c_int;
    /// `getxattr` and its kin.
    attribute(path: Name, follow: bool) -> ssize_t;
    /// `listxattr` and its kin.
    attributes(path: Name, follow: bool) -> ssize_t;
    /// `setxattr` and its kin.
    change_attribute(path: Name, follow: bool) -> c_int;
}

/// `truncate`.
pub fn truncate(path: Name, len: off64_t) -> Option<c_int> {
    coupled::truncate(path, len)
        .or_else(|| containers::truncate(path, len))
        .or_else(|| staged::before_facts(libc::AT_FDCWD, path, 0))
}

/// `stat` and its kin.
///
/// # Safety
/// As the C library demands.
pub unsafe fn fstatat(at: c_int, path: Name, to: *mut c_void, flags: c_int) -> Option<c_int> {
    // SAFETY: the caller's promise.
    unsafe { coupled::fstatat(at, path, to, flags) }
        // SAFETY: as above.
        .or_else(|| unsafe { containers::fstatat(at, path, to, flags) })
        .or_else(|| staged::before_facts(at, path, flags))
}

/// `statx`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn statx(at: c_int, path: Name, flags: c_int, to: *mut c_void) -> Option<c_int> {
    // SAFETY: the caller's promise.
    unsafe { coupled::statx(at, path, flags, to) }
        // SAFETY: as above.
        .or_else(|| unsafe { containers::statx(at, path, flags, to) })
        .or_else(|| staged::before_facts(at, path, flags))
}

/// `utimensat`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn utimensat(at: c_int, path: Name, both: *const c_void, flags: c_int) -> Option<c_int> {
    // SAFETY: the caller's promise.
    unsafe { coupled::utimensat(at, path, both, flags) }
        // SAFETY: as above.
        .or_else(|| unsafe { containers::utimensat(at, path, both, flags) })
}

/// `utimes`, `lutimes` and `futimesat`. The kernel refuses times that are wrong.
///
/// # Safety
/// As the C library demands.
pub unsafe fn utimes(at: c_int, path: Name, both: *const c_void, flags: c_int) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let times = unsafe { finer(both.cast()) }.ok()?;
    // SAFETY: null or two times.
    unsafe { utimensat(at, path, pointer(times.as_ref()), flags) }
}

/// `utime`. The kernel refuses times that cannot be read.
///
/// # Safety
/// As the C library demands.
pub unsafe fn utime(path: Name, both: *const c_void) -> Option<c_int> {
    if !both.is_null() && !readable_memory::readable(both.cast(), size_of::<libc::utimbuf>()) {
        return None;
    }
    // SAFETY: null, or it can be read.
    let times = unsafe { both.cast::<libc::utimbuf>().as_ref() }.map(|times| {
        [times.actime, times.modtime].map(|time| timespec { tv_sec: time, tv_nsec: 0 })
    });
    // SAFETY: null or two times.
    unsafe { utimensat(libc::AT_FDCWD, path, pointer(times.as_ref()), 0) }
}
