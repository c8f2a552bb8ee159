//! Streams of the C library on coupled files. They are its own, on the descriptor.

use super::table::{self, Ended};
use super::{names, open};
use crate::cookie::{Meaning, meaning};
use crate::errno;
use crate::next;
use libc::{FILE, c_char, c_int};
use std::ffi::CString;

/// `fopen`; `None` if the name is not that of a coupled file.
///
/// # Safety
/// As the C library demands.
pub unsafe fn fopen(path: *const c_char, mode: *const c_char) -> Option<*mut FILE> {
    // SAFETY: the caller's promise.
    let Meaning { flags, .. } = unsafe { meaning(mode) }?;
    let fd = open::open(libc::AT_FDCWD, path, flags, 0o666)?;
    if fd < 0 {
        return Some(std::ptr::null_mut());
    }
    // SAFETY: the descriptor is open and nobody else's; the caller's mode.
    let stream = unsafe { next::fdopen(fd, mode) };
    if stream.is_null() {
        let _errno = errno::Keep::new();
        close(fd);
    }
    Some(stream)
}

fn close(fd: c_int) {
    // SAFETY: the descriptor is nobody else's.
    open::close(fd, || unsafe { next::close(fd) });
}

/// `freopen` with the name of a coupled file; `None` if it is none.
///
/// # Safety
/// As the C library demands.
pub unsafe fn reopen(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut FILE,
) -> Option<*mut FILE> {
    if path.is_null() {
        return None;
    }
    names::coupled(libc::AT_FDCWD, path, true)?;
    // SAFETY: the caller's promise.
    let Meaning { flags, .. } = unsafe { meaning(mode) }?;
    let before = ended(stream);
    let fd = open::open(libc::AT_FDCWD, path, flags, 0o666);
    let Some(fd) = fd.filter(|fd| *fd >= 0) else {
        before.map(open::tell_ended);
        // The C library closes the stream if it cannot open the file: so does this, which it
        // cannot, as it cannot open a name without one.
        return fd.map(|_| {
            let _errno = errno::Keep::new();
            // SAFETY: the caller's stream.
            unsafe { next::fclose(stream) };
            std::ptr::null_mut()
        });
    };
    let name = CString::new(format!("/proc/self/fd/{fd}")).unwrap_or_default();
    // SAFETY: the caller's stream and mode.
    let made = unsafe { next::freopen64(name.as_ptr(), mode, stream) };
    let _errno = errno::Keep::new();
    if !made.is_null() {
        // SAFETY: the C library's stream.
        open::duplicated(fd, unsafe { libc::fileno(made) });
    }
    close(fd);
    before.map(open::tell_ended);
    Some(made)
}

/// Takes the descriptor of a stream that is to be closed out of the table.
fn ended(stream: *mut FILE) -> Option<Ended> {
    if !table::any() || stream.is_null() {
        return None;
    }
    let _errno = errno::Keep::new();
    // SAFETY: the caller's stream.
    let fd = unsafe { libc::fileno(stream) };
    let open = table::get(fd)?;
    // What the stream has read ahead, the program has not.
    // SAFETY: as above.
    if let Ok(position) = u64::try_from(unsafe { libc::ftello(stream) }) {
        open.raise(position);
    }
    table::take(fd)
}

/// `fclose`: `kernel` closes the stream.
///
/// # Safety
/// As the C library demands.
pub unsafe fn fclose(stream: *mut FILE) -> c_int {
    let ended = ended(stream);
    // SAFETY: the caller's stream.
    let closed = unsafe { next::fclose(stream) };
    match ended.map_or(Ok(()), open::tell_ended) {
        Err(error) if closed == 0 => errno::fail(error) as c_int,
        _ => closed,
    }
}
