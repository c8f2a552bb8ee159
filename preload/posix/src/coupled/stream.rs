//! Streams of the C library on coupled files. They are ordinary streams on the descriptor.

use super::table::{self, Ended};
use super::{names, open, parts, step};
use crate::cookie::{Meaning, cookie_stream, meaning};
use crate::errno;
use crate::next::{self, Functions};
use libc::{FILE, c_char, c_int, c_void, off64_t, size_t, ssize_t};
use std::ffi::CString;

/// `fopen`; `None` if the name is not that of a coupled file.
///
/// # Safety
/// As the C library demands.
pub unsafe fn fopen(path: *const c_char, mode: *const c_char) -> Option<*mut FILE> {
    // SAFETY: the caller's promise.
    let Meaning { flags, special } = unsafe { meaning(mode) }?;
    let fd = open::open(libc::AT_FDCWD, path, flags, 0o666)?;
    if fd < 0 {
        return Some(std::ptr::null_mut());
    }
    let has_all = step::has_all(fd);
    if special {
        parts::complete(fd);
    }
    let open = table::get(fd);
    if let Some(open) = open.filter(|_| !has_all) {
        open.set_read_ahead();
    }
    let stream = match has_all && !open.is_some_and(|open| open.missing.any()) {
        // Reads must go through this library.
        // SAFETY: the functions live as long as the process; the caller's mode.
        false => unsafe { cookie_stream(fd, mode, FUNCTIONS) }.unwrap_or_else(|| {
            errno::set(libc::ENOTSUP);
            std::ptr::null_mut()
        }),
        // SAFETY: the descriptor is open, and no other code uses it; the caller's mode.
        true => unsafe { next::fdopen(fd, mode) },
    };
    if stream.is_null() {
        let _errno = errno::Keep::new();
        close(fd);
    }
    Some(stream)
}

/// The functions of a stream on a file that is being written, or that lacks bytes.
const FUNCTIONS: Functions = Functions { read, write, seek, close: closed };

unsafe extern "C" fn read(cookie: *mut c_void, to: *mut c_char, len: size_t) -> ssize_t {
    let fd = cookie as usize as c_int;
    // SAFETY: the stream's buffer.
    unsafe {
        step::showing(fd, None, &step::one(to.cast(), len), || next::read(fd, to.cast(), len))
    }
}

unsafe extern "C" fn write(_: *mut c_void, _: *const c_char, _: size_t) -> ssize_t {
    // The stream is open for reading.
    errno::set(libc::EBADF);
    0
}

unsafe extern "C" fn seek(cookie: *mut c_void, to: *mut off64_t, whence: c_int) -> c_int {
    // SAFETY: the stream's value.
    unsafe {
        let position = next::lseek64(cookie as usize as c_int, *to, whence);
        *to = position;
        if position < 0 { -1 } else { 0 }
    }
}

unsafe extern "C" fn closed(cookie: *mut c_void) -> c_int {
    // SAFETY: the stream's descriptor.
    unsafe { next::close(cookie as usize as c_int) }
}

fn close(fd: c_int) {
    // SAFETY: no other code uses the descriptor.
    open::close(fd, || unsafe { next::close(fd) });
}

/// `freopen` with the name of a coupled file; `None` if the name is not coupled.
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
        // A `freopen` that cannot open the file closes the stream: do the same.
        return fd.map(|_| {
            let _errno = errno::Keep::new();
            // SAFETY: the caller's stream.
            unsafe { next::fclose(stream) };
            std::ptr::null_mut()
        });
    };
    parts::complete(fd);
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
