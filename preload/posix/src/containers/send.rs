//! Copies between two descriptors that the kernel would do by itself, if one of them is a
//! container.

use super::super::next;
use super::super::{errno, readable_memory};
use super::data::{pread, read, write};
use super::{placeholder, table};
use libc::{c_int, c_void, off64_t, size_t, ssize_t};

/// Bytes that are moved at a time.
const PIECE: usize = 1 << 20;

/// `sendfile`, where one of both is a container.
///
/// # Safety
/// `at` points to an offset or is null.
pub unsafe fn between(to: c_int, from: c_int, at: *mut off64_t, len: size_t) -> ssize_t {
    if let Err(error) = possible(to, from, at) {
        return errno::fail(error);
    }
    // SAFETY: the caller's promise.
    let mut place = unsafe { at.as_ref() }.copied();
    let (mut bytes, mut done) = (vec![0u8; len.min(PIECE)], 0);
    while done < len {
        let wanted = (len - done).min(PIECE);
        let moved = piece(to, from, &mut bytes[..wanted], place);
        match usize::try_from(moved) {
            Ok(0) => break,
            Ok(moved) => {
                done += moved;
                place = place.map(|place| place + moved as off64_t);
            }
            Err(_) if done > 0 => break,
            Err(_) => return moved,
        }
    }
    if let Some(place) = place {
        // SAFETY: the caller's promise.
        unsafe { *at = place };
    }
    done as ssize_t
}

/// # Errors
/// As the kernel's, before it looks for bytes.
fn possible(to: c_int, from: c_int, at: *const off64_t) -> Result<(), c_int> {
    if !at.is_null() && !readable_memory::readable(at.cast(), size_of::<off64_t>()) {
        return Err(libc::EFAULT);
    }
    match table::get(from) {
        Some(open) => open.may_read()?,
        None if access(from)? == libc::O_WRONLY => return Err(libc::EBADF),
        None => {}
    }
    match table::get(to) {
        Some(open) => open.may_write()?,
        None if access(to)? == libc::O_RDONLY => return Err(libc::EBADF),
        None => {}
    }
    // SAFETY: null, or it can be read.
    let negative = unsafe { at.as_ref() }.is_some_and(|at| *at < 0);
    let appends = table::has(to) && placeholder::status(to) & libc::O_APPEND != 0;
    if negative || appends { Err(libc::EINVAL) } else { Ok(()) }
}

/// How an ordinary descriptor is open.
fn access(fd: c_int) -> Result<c_int, c_int> {
    // SAFETY: plain numbers.
    let flags = unsafe { next::fcntl(fd, libc::F_GETFL, 0) };
    if flags < 0 { Err(libc::EBADF) } else { Ok(flags & libc::O_ACCMODE) }
}

/// Moves one piece. Bytes that were read but could not be written count as not read.
fn piece(to: c_int, from: c_int, bytes: &mut [u8], place: Option<off64_t>) -> ssize_t {
    let data = bytes.as_mut_ptr().cast::<c_void>();
    let container = table::has(from);
    // SAFETY: the bytes outlive the calls.
    let got = unsafe {
        match place {
            Some(place) if container => pread(from, data, bytes.len(), place),
            Some(place) => next::pread64(from, data, bytes.len(), place),
            None if container => read(from, data, bytes.len()),
            None => next::read(from, data, bytes.len()),
        }
    };
    let Ok(len @ 1..) = usize::try_from(got) else { return got };
    // SAFETY: as above.
    let written =
        unsafe { if table::has(to) { write(to, data, len) } else { next::write(to, data, len) } };
    let left = len - usize::try_from(written).unwrap_or(0);
    if left > 0 && place.is_none() {
        let _errno = errno::Keep::new();
        // SAFETY: plain numbers.
        unsafe { next::lseek64(from, -(left as off64_t), libc::SEEK_CUR) };
    }
    written
}
