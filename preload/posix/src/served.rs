//! Calls on descriptors: each asks the table once, and the open file does what its kind does.

use super::facts::identity_of;
use super::files::Description;
use super::host::process;
use super::next;
use super::operations::{Mapping, OpenFile, Transfer};
use super::reason::Reason;
use super::state::{self, Inside};
use super::{containers, coupled, descriptors, errno, readable_memory, settle};
use libc::{c_char, c_int, c_void, off64_t, ssize_t};

/// The open file of a descriptor of ours.
#[inline(always)]
pub fn of(fd: c_int) -> Option<&'static dyn OpenFile> {
    let entry = descriptors::entry(fd)?;
    if let Some(open) = entry.object::<Description>() {
        return Some(open);
    }
    if let Some(open) = entry.object::<containers::OpenContainer>() {
        return Some(open);
    }
    Some(entry.object::<coupled::OpenCoupled>()?)
}

/// Reads from any descriptor.
pub fn read(fd: c_int, transfer: &Transfer) -> ssize_t {
    of(fd).map_or_else(|| transfer.read(fd, None), |file| file.read(fd, transfer))
}

/// Writes to any descriptor.
pub fn write(fd: c_int, transfer: &Transfer) -> ssize_t {
    of(fd).map_or_else(|| transfer.write(fd, None), |file| file.write(fd, transfer))
}

/// `lseek` of any descriptor.
pub fn seek(fd: c_int, offset: off64_t, whence: c_int) -> off64_t {
    match of(fd) {
        Some(file) => file.seek(fd, offset, whence),
        // SAFETY: plain numbers.
        None => unsafe { next::lseek64(fd, offset, whence) },
    }
}

/// Ends the open file that `fd` belonged to before the kernel has given the number to another one,
/// if it was closed where this library does not see it.
pub fn vacate(fd: c_int) {
    if let Some(file) = of(fd)
        && !state::is_guest()
    {
        file.vanish(fd);
    }
}

/// Leaves the file of `fd` to the kernel for good.
pub fn demote(fd: c_int, reason: Reason) {
    if let Some(file) = of(fd) {
        file.demote(fd, reason);
    }
}

/// `vdprintf` on a file of ours.
///
/// # Safety
/// As the C library demands.
pub unsafe fn print(
    file: &'static dyn OpenFile,
    fd: c_int,
    format: *const c_char,
    list: *mut c_void,
) -> c_int {
    unsafe extern "C" {
        fn vasprintf(to: *mut *mut c_char, format: *const c_char, list: *mut c_void) -> c_int;
    }
    let mut text = std::ptr::null_mut();
    // SAFETY: the caller's promise; the text is the C library's until it is freed here.
    unsafe {
        let len = vasprintf(&raw mut text, format, list);
        let Ok(room) = usize::try_from(len) else { return -1 };
        let written = file.write(fd, &Transfer::one(text.cast(), room));
        let _errno = errno::Keep::new();
        libc::free(text.cast());
        if written == room as isize { len } else { -1 }
    }
}

/// `mmap`. A mapping outlives its descriptor: a file that is mapped as shared memory is left to the
/// kernel when it is opened while the mapping may exist.
///
/// # Safety
/// As the C library demands.
pub unsafe fn map(fd: c_int, mapping: &Mapping) -> *mut c_void {
    if mapping.flags & libc::MAP_FIXED != 0 {
        readable_memory::forget();
        containers::forget_copies(mapping.address as usize, mapping.len);
    }
    let is_of_file = mapping.flags & libc::MAP_ANONYMOUS == 0;
    if is_of_file
        && mapping.is_shared()
        && !Inside::is()
        && let Some(identity) = identity_of(fd)
    {
        process().mappings.remember(identity);
    }
    // SAFETY: the caller's promise.
    unsafe {
        match of(fd).filter(|_| is_of_file) {
            Some(file) => file.map(fd, mapping),
            None => mapping.kernel(fd),
        }
    }
}

/// Lets the kernel move bytes from one file to another. If it cannot, because one of them is a
/// container, `otherwise` moves them.
pub fn between(
    from: c_int,
    to: c_int,
    kernel: impl FnOnce() -> ssize_t,
    otherwise: impl FnOnce() -> ssize_t,
) -> ssize_t {
    settle::causal();
    let mut can = true;
    for (fd, is_from) in [(from, true), (to, false)] {
        match of(fd).map(|file| file.before_move(fd, is_from)) {
            Some(Err(error)) => return errno::fail(error),
            Some(Ok(false)) => can = false,
            _ => {}
        }
    }
    if can { kernel() } else { otherwise() }
}

/// Bytes that are moved at a time where the kernel cannot.
const PIECE: usize = 1 << 20;

/// `sendfile`, where the kernel cannot.
///
/// # Safety
/// `at` points to an offset or is null.
pub unsafe fn send(to: c_int, from: c_int, at: *mut off64_t, len: usize) -> ssize_t {
    if let Err(error) = may_send(to, from, at) {
        return errno::fail(error);
    }
    // SAFETY: the caller's promise.
    let mut place = unsafe { at.as_ref() }.copied();
    let (mut bytes, mut done) = (vec![0u8; len.min(PIECE)], 0);
    while done < len {
        let wanted = (len - done).min(PIECE);
        let moved = send_piece(to, from, &mut bytes[..wanted], place);
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
fn may_send(to: c_int, from: c_int, at: *const off64_t) -> Result<(), c_int> {
    if !at.is_null() && !readable_memory::readable(at.cast(), size_of::<off64_t>()) {
        return Err(libc::EFAULT);
    }
    let status = |fd| match control(fd, libc::F_GETFL) {
        flags @ 0.. => Ok(flags),
        _ => Err(libc::EBADF),
    };
    let (source, target) = (status(from)?, status(to)?);
    if source & libc::O_ACCMODE == libc::O_WRONLY || target & libc::O_ACCMODE == libc::O_RDONLY {
        return Err(libc::EBADF);
    }
    // SAFETY: null, or it can be read.
    let negative = unsafe { at.as_ref() }.is_some_and(|at| *at < 0);
    if negative || target & libc::O_APPEND != 0 { Err(libc::EINVAL) } else { Ok(()) }
}

/// `fcntl` with a command without an argument.
fn control(fd: c_int, command: c_int) -> c_int {
    // SAFETY: plain numbers.
    unsafe {
        match of(fd) {
            Some(file) => file.control(fd, command, 0),
            None => next::fcntl(fd, command, 0),
        }
    }
}

/// Moves one piece. Bytes that were read but could not be written count as not read.
fn send_piece(to: c_int, from: c_int, bytes: &mut [u8], place: Option<off64_t>) -> ssize_t {
    let data = bytes.as_mut_ptr().cast();
    // SAFETY: the bytes outlive the call.
    let mut source = unsafe { Transfer::one(data, bytes.len()) };
    source.offset = place;
    let got = read(from, &source);
    let Ok(len @ 1..) = usize::try_from(got) else { return got };
    // SAFETY: as above.
    let written = write(to, &unsafe { Transfer::one(data, len) });
    let left = len - usize::try_from(written).unwrap_or(0);
    if left > 0 && place.is_none() {
        let _errno = errno::Keep::new();
        seek(from, -(left as off64_t), libc::SEEK_CUR);
    }
    written
}
