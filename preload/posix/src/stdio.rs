//! Streams of the C library on files of ours. The library's own streams call the kernel where
//! nobody can stand before it; a cookie stream calls us.

use super::cookie::meaning;
use super::next::{self, Functions};
use super::operations::{OpenFile, Transfer};
use super::reason::Reason;
use super::state::Inside;
use super::{containers, coupled, descriptors, errno, open, served, staged, wide};
use libc::{FILE, c_char, c_int, c_void, off64_t, size_t, ssize_t};

/// The functions of a stream that calls this library; its cookie is the descriptor.
const FUNCTIONS: Functions = Functions { read, write, seek, close };

fn descriptor_of(cookie: *mut c_void) -> c_int {
    cookie as usize as c_int
}

unsafe extern "C" fn read(cookie: *mut c_void, data: *mut c_char, len: size_t) -> ssize_t {
    let fd = descriptor_of(cookie);
    // SAFETY: the stream's buffer.
    let transfer = unsafe { Transfer::one(data.cast(), len) };
    match served::of(fd) {
        Some(file) => file.read_for_stream(fd, &transfer),
        None => transfer.read(fd, None),
    }
}

unsafe extern "C" fn write(cookie: *mut c_void, data: *const c_char, len: size_t) -> ssize_t {
    let mut done = 0;
    while done < len {
        // SAFETY: the stream's buffer.
        let transfer = unsafe { Transfer::one(data.add(done).cast(), len - done) };
        match served::write(descriptor_of(cookie), &transfer) {
            written @ 1.. => done += written as size_t,
            // A cookie stream takes less than was asked for as a failure, and nothing else.
            _ => break,
        }
    }
    done as ssize_t
}

unsafe extern "C" fn seek(cookie: *mut c_void, offset: *mut off64_t, whence: c_int) -> c_int {
    // SAFETY: the stream passes a place.
    let place = unsafe { &mut *offset };
    let position = served::seek(descriptor_of(cookie), *place, whence);
    if position < 0 {
        return -1;
    }
    *place = position;
    0
}

unsafe extern "C" fn close(cookie: *mut c_void) -> c_int {
    open::close(descriptor_of(cookie))
}

/// `fopen`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
    open::before();
    // SAFETY: the caller's promise.
    let meaning = unsafe { meaning(mode) };
    let ours = meaning
        .as_ref()
        .and_then(|meaning| open::by_name(libc::AT_FDCWD, path, meaning.flags, 0o666));
    let fd = match (ours, meaning) {
        (Some(fd), _) => fd,
        (None, meaning) => {
            if let Err(number) = staged::before_open(libc::AT_FDCWD, path, 0) {
                errno::fail(number);
                return std::ptr::null_mut();
            }
            let Some(meaning) = meaning.filter(|meaning| !meaning.special && !Inside::is()) else {
                // SAFETY: the caller's arguments, passed on.
                return unsafe { own_stream(next::fopen64(path, mode)) };
            };
            // SAFETY: the caller's path.
            unsafe { open::adopt(next::open64(path, meaning.flags, 0o666)) }
        }
    };
    if fd < 0 {
        return std::ptr::null_mut();
    }
    // SAFETY: the descriptor is open and nobody else's.
    let stream = unsafe {
        match served::of(fd) {
            Some(file) => on_descriptor(file, fd, mode),
            None => next::fdopen(fd, mode),
        }
    };
    if stream.is_null() {
        let _errno = errno::Keep::new();
        open::close(fd);
    }
    stream
}

/// A stream that the C library serves itself: its file is left to the kernel.
///
/// # Safety
/// `stream` is a stream or null.
unsafe fn own_stream(stream: *mut FILE) -> *mut FILE {
    if !stream.is_null() && !Inside::is() {
        let _errno = errno::Keep::new();
        // SAFETY: the caller's promise.
        let fd = unsafe { libc::fileno(stream) };
        if !descriptors::has::<coupled::OpenCoupled>(fd) {
            open::adopt(fd);
        }
        served::demote(fd, Reason::Stream);
    }
    stream
}

/// `fdopen` on a file of ours.
///
/// # Safety
/// As the C library demands.
pub unsafe fn on_descriptor(
    file: &'static dyn OpenFile,
    fd: c_int,
    mode: *const c_char,
) -> *mut FILE {
    // SAFETY: the caller's arguments, passed on; the functions live as long as the process.
    unsafe { file.stream(fd, mode, FUNCTIONS) }
}

/// The offset of the state for wide characters in a stream of glibc, the value there in a stream
/// that supports none, and room for the state.
const WIDE: usize = 160;
const NO_WIDE: usize = usize::MAX;
const WIDE_ROOM: usize = 1024;

/// `freopen`: the C library makes the stream its own.
///
/// # Safety
/// As the C library demands.
pub unsafe fn reopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE {
    open::before();
    // SAFETY: the caller's arguments, passed on.
    unsafe {
        if let Some(made) = coupled::reopen(path, mode, stream, served::vacate) {
            return made;
        }
        if wide::is_ours(stream) {
            give_up(stream);
        } else if path.is_null() {
            served::demote(libc::fileno(stream), Reason::Stream);
        }
        let refused = containers::reopened(path, mode);
        let staged = || staged::before_open(libc::AT_FDCWD, path, 0).err();
        if let Some(error) = refused.or_else(staged) {
            // The old file is closed in any case.
            libc::fclose(stream);
            errno::fail(error);
            return std::ptr::null_mut();
        }
        own_stream(next::freopen64(path, mode, stream))
    }
}

/// Before the C library takes over a stream of ours: writes its buffered bytes, gives its
/// descriptor to the kernel, and adds the state that all streams have that the C library makes from
/// files.
///
/// # Safety
/// `stream` is ours.
unsafe fn give_up(stream: *mut FILE) {
    // SAFETY: the caller's promise; a stream without wide characters has a number instead of an
    // address.
    unsafe {
        libc::fflush(stream);
        let fd = libc::fileno(stream);
        if let Some(file) = served::of(fd) {
            file.demote(fd, Reason::Stream);
            let _ = file.leave(fd).tell();
        }
        let place = stream.cast::<u8>().add(WIDE).cast::<usize>();
        if *place == NO_WIDE {
            // It stays until the process ends, as the C library does not free it.
            *place = libc::calloc(1, WIDE_ROOM) as usize;
        }
    }
}
