//! Streams of the C library on containers.

use super::super::cookie::{Meaning, cookie_stream, meaning};
use super::super::errno;
use super::super::next::Functions;
use super::{data, open, placeholder, table};
use libc::{FILE, c_char, c_int, c_void, off64_t, size_t, ssize_t};

fn descriptor_of(cookie: *mut c_void) -> c_int {
    cookie as usize as c_int
}

unsafe extern "C" fn read(cookie: *mut c_void, to: *mut c_char, len: size_t) -> ssize_t {
    // SAFETY: the stream's buffer.
    unsafe { data::read(descriptor_of(cookie), to.cast(), len) }
}

/// A cookie stream takes 0 as a failure.
unsafe extern "C" fn write(cookie: *mut c_void, from: *const c_char, len: size_t) -> ssize_t {
    // SAFETY: the stream's buffer.
    unsafe { data::write(descriptor_of(cookie), from.cast(), len) }.max(0)
}

unsafe extern "C" fn seek(cookie: *mut c_void, offset: *mut off64_t, whence: c_int) -> c_int {
    // SAFETY: the stream passes a place.
    let place = unsafe { &mut *offset };
    let position = data::seek(descriptor_of(cookie), *place, whence);
    if position < 0 {
        return -1;
    }
    *place = position;
    0
}

unsafe extern "C" fn close(cookie: *mut c_void) -> c_int {
    open::close(descriptor_of(cookie))
}

/// `vdprintf`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn print(fd: c_int, format: *const c_char, list: *mut c_void) -> c_int {
    unsafe extern "C" {
        fn vasprintf(to: *mut *mut c_char, format: *const c_char, list: *mut c_void) -> c_int;
    }
    let mut text = std::ptr::null_mut();
    // SAFETY: the caller's promise; the text is the C library's until it is freed here.
    unsafe {
        let len = vasprintf(&raw mut text, format, list);
        let Ok(room) = usize::try_from(len) else { return -1 };
        let written = data::write(fd, text.cast(), room);
        let _errno = errno::Keep::new();
        libc::free(text.cast());
        if written == room as isize { len } else { -1 }
    }
}

/// `fopen` of a container, or of a file that is to become one; `None` for other files.
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
    // SAFETY: the caller's mode.
    let stream = unsafe { on(fd, mode) };
    if stream.is_null() {
        let _errno = errno::Keep::new();
        open::close(fd);
    }
    Some(stream)
}

/// `fdopen` of a descriptor of a container.
///
/// # Safety
/// As the C library demands.
pub unsafe fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    // SAFETY: the caller's promise.
    let wanted = unsafe { meaning(mode) };
    let allowed = |wanted: c_int| {
        let flags = table::get(fd).map_or(0, |open| open.flags);
        let (has, wants) = (flags & libc::O_ACCMODE, wanted & libc::O_ACCMODE);
        has == libc::O_RDWR || has == wants
    };
    match wanted {
        Some(Meaning { flags, .. }) if allowed(flags) => {
            if flags & libc::O_APPEND != 0 {
                placeholder::set_status(fd, placeholder::status(fd) | libc::O_APPEND);
            }
            // SAFETY: the caller's mode.
            unsafe { on(fd, mode) }
        }
        _ => {
            errno::set(libc::EINVAL);
            std::ptr::null_mut()
        }
    }
}

/// A stream on the container of `fd`; null if there is none for it.
///
/// # Safety
/// `mode` is a C string.
pub(super) unsafe fn on(fd: c_int, mode: *const c_char) -> *mut FILE {
    let functions = Functions { read, write, seek, close };
    // SAFETY: the functions live as long as the process.
    unsafe { cookie_stream(fd, mode, functions) }.unwrap_or_else(|| {
        errno::set(libc::ENOTSUP);
        std::ptr::null_mut()
    })
}
