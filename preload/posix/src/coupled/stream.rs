//! Streams of the C library on coupled files. They are ordinary streams on the descriptor.

use super::table::{self, Ended, OpenCoupled};
use super::{names, open, parts, step};
use crate::cookie::{Meaning, cookie_stream, meaning};
use crate::errno;
use crate::next::{self, Functions};
use libc::{FILE, c_char, c_int};
use std::ffi::CString;

/// A stream on `fd`: the C library's own, unless reads must go through this library.
///
/// # Safety
/// As `fdopen` demands; `functions` are those of a stream that calls this library.
pub(super) unsafe fn on(
    open: &'static OpenCoupled,
    fd: c_int,
    mode: *const c_char,
    functions: Functions,
) -> *mut FILE {
    let has_all = step::has_all(open);
    // SAFETY: the caller's promise.
    if unsafe { meaning(mode) }.is_none_or(|meaning| meaning.special) {
        parts::complete(open, fd);
    }
    if !has_all {
        open.set_read_ahead();
    }
    if has_all && !open.missing.any() {
        // SAFETY: the caller's arguments, passed on.
        return unsafe { next::fdopen(fd, mode) };
    }
    // SAFETY: the caller's promise.
    unsafe { cookie_stream(fd, mode, functions) }.unwrap_or_else(|| {
        errno::set(libc::ENOTSUP);
        std::ptr::null_mut()
    })
}

fn close(fd: c_int) {
    let left = open::leave(fd);
    // SAFETY: no other code uses the descriptor.
    unsafe { next::close(fd) };
    let _ = left.tell();
}

/// `freopen` with the name of a coupled file; `None` if the name is not coupled.
///
/// # Safety
/// As the C library demands.
pub unsafe fn reopen(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut FILE,
    vacate: fn(c_int),
) -> Option<*mut FILE> {
    if path.is_null() {
        return None;
    }
    names::coupled(libc::AT_FDCWD, path, true)?;
    // SAFETY: the caller's promise.
    let Meaning { flags, .. } = unsafe { meaning(mode) }?;
    let before = ended(stream);
    let fd = open::open(libc::AT_FDCWD, path, flags, 0o666, vacate);
    let Some(fd) = fd.filter(|fd| *fd >= 0) else {
        before.map(open::tell_ended);
        // A `freopen` that cannot open the file closes the stream: do the same.
        return fd.map(|_| {
            let _errno = errno::Keep::new();
            // SAFETY: the caller's stream.
            unsafe { next::fclose(stream) };
            std::ptr::null_mut()
        });
    };
    let opened = table::get(fd);
    if let Some(opened) = opened {
        parts::complete(opened, fd);
    }
    let name = CString::new(format!("/proc/self/fd/{fd}")).unwrap_or_default();
    // SAFETY: the caller's stream and mode.
    let made = unsafe { next::freopen64(name.as_ptr(), mode, stream) };
    let _errno = errno::Keep::new();
    if let (Some(opened), false) = (opened, made.is_null()) {
        // SAFETY: the C library's stream.
        open::duplicated(opened, unsafe { libc::fileno(made) });
    }
    close(fd);
    before.map(open::tell_ended);
    Some(made)
}

/// How many bytes netCDF reads to recognise the format of a file; of a smaller file, it reads all.
const LOOKED_AT: i64 = 2048;

/// Whether a stream was only read to recognise the format, by a library that opens the file again.
fn is_look(fd: c_int, stream: *mut FILE) -> bool {
    let mut magic = [0u8; 4];
    // SAFETY: the caller's stream; the kernel writes into the local array.
    let (position, read) = unsafe {
        (libc::ftello(stream), next::pread64(fd, magic.as_mut_ptr().cast(), magic.len(), 0))
    };
    let is_known = magic.starts_with(b"CDF") || magic == *b"\x89HDF";
    position < LOOKED_AT && read == 4 && is_known
}

/// Takes the descriptor of a stream out of the table before the stream is closed.
fn ended(stream: *mut FILE) -> Option<Ended> {
    if !table::any() || stream.is_null() {
        return None;
    }
    let _errno = errno::Keep::new();
    // SAFETY: the caller's stream.
    let fd = unsafe { libc::fileno(stream) };
    let open = table::get(fd)?;
    if open.is_read_ahead() || is_look(fd, stream) {
        return table::take(fd);
    }
    // Bytes that the stream has read ahead were not read by the program.
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
