//! Streams of the C library with functions of ours, and the meaning of their modes.

use super::next::{self, Functions};
use super::wide;
use libc::{FILE, c_char, c_int, c_void};
use std::ffi::CStr;

/// The offset of the descriptor in a stream of glibc, and its value in a cookie stream.
const DESCRIPTOR: usize = 112;
const NO_DESCRIPTOR: c_int = -2;

/// The meaning of a mode like `r+`.
pub struct Meaning {
    /// As `open` takes them.
    pub flags: c_int,
    /// The stream converts characters or maps the file: only the C library's own can.
    pub special: bool,
}

impl Meaning {
    /// Whether a descriptor with these `flags` may have a stream with the `wanted` ones.
    pub fn allows(flags: c_int, wanted: c_int) -> bool {
        let (has, wants) = (flags & libc::O_ACCMODE, wanted & libc::O_ACCMODE);
        has == libc::O_RDWR || has == wants
    }
}

/// Parses a mode; `None` if it is invalid.
///
/// # Safety
/// `mode` is a C string.
pub unsafe fn meaning(mode: *const c_char) -> Option<Meaning> {
    // SAFETY: the caller's promise.
    let mode = unsafe { CStr::from_ptr(mode) }.to_bytes();
    let (first, rest) = mode.split_first()?;
    let (access, mut flags) = match first {
        b'r' => (libc::O_RDONLY, 0),
        b'w' => (libc::O_WRONLY, libc::O_CREAT | libc::O_TRUNC),
        b'a' => (libc::O_WRONLY, libc::O_CREAT | libc::O_APPEND),
        _ => return None,
    };
    let options = rest.split(|byte| *byte == b',').next().unwrap_or_default();
    // glibc looks at so many letters and no more.
    let options = &options[..options.len().min(6)];
    let access = if options.contains(&b'+') { libc::O_RDWR } else { access };
    for option in options {
        match option {
            b'x' => flags |= libc::O_EXCL,
            b'e' => flags |= libc::O_CLOEXEC,
            _ => {}
        }
    }
    let special = *first == b'a' || rest.contains(&b',') || options.contains(&b'm');
    Some(Meaning { flags: flags | access, special })
}

/// A stream with functions of ours that returns `fd` as its descriptor; `None`, and one stream is
/// leaked, if the streams of this C library do not have the known layout.
///
/// # Safety
/// `mode` is a C string; the functions take `fd` as their cookie.
pub unsafe fn cookie_stream(
    fd: c_int,
    mode: *const c_char,
    functions: Functions,
) -> Option<*mut FILE> {
    // SAFETY: the caller's promise; the place is inside glibc's stream.
    unsafe {
        let stream = next::fopencookie(fd as usize as *mut c_void, mode, functions);
        if stream.is_null() {
            return Some(stream);
        }
        let place = stream.cast::<u8>().add(DESCRIPTOR).cast::<c_int>();
        if *place != NO_DESCRIPTOR {
            return None;
        }
        *place = fd;
        wide::learn(stream);
        Some(stream)
    }
}
