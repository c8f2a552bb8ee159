//! Calls on a descriptor that are neither reads nor writes.

use super::facts::identity_of;
use super::host::process;
use super::next;
use super::reason::Reason;
use super::state::Inside;
use super::{coupled, errno, readable_memory, reading, settle};
use libc::{c_int, c_ulong, c_void, off64_t, size_t, ssize_t};

/// Writes out the buffered bytes of the file of `fd`, then lets the kernel perform the call.
#[inline]
pub fn drained(fd: c_int, kernel: impl FnOnce() -> c_int) -> c_int {
    match settle::drained(fd) {
        Ok(()) => kernel(),
        Err(error) => errno::fail(error) as c_int,
    }
}

/// As [`drained`], before a call that changes the file, or after which others' bytes are to be
/// seen.
pub fn changed(fd: c_int, kernel: impl FnOnce() -> c_int) -> c_int {
    reading::forget(fd);
    drained(fd, kernel)
}

/// As [`changed`], for the functions that return the error number.
pub fn changed_number(fd: c_int, kernel: impl FnOnce() -> c_int) -> c_int {
    reading::forget(fd);
    settle::drained(fd).map_or_else(|error| error, |()| kernel())
}

/// `fsync` and `fdatasync`: also return the error of an earlier write that could not be stored.
pub fn synced(fd: c_int, kernel: impl FnOnce() -> c_int) -> c_int {
    reading::forget(fd);
    let owed = super::access::Access::of(fd).map_or(0, |mut access| access.held().take_error());
    match settle::drained(fd) {
        Ok(()) if owed == 0 => kernel(),
        Ok(()) => {
            kernel();
            errno::fail(owed) as c_int
        }
        Err(error) => errno::fail(error) as c_int,
    }
}

/// Leaves a mapped file to the kernel for good, also if it is opened again while the mapping
/// exists.
pub fn before_mapping(fd: c_int, flags: c_int) {
    if flags & libc::MAP_TYPE != libc::MAP_PRIVATE
        && !Inside::is()
        && let Some(identity) = identity_of(fd)
    {
        process().mappings.remember(identity);
    }
    settle::demote(fd, Reason::Mapped);
}

/// `mmap`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn map(
    address: *mut c_void,
    len: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off64_t,
) -> *mut c_void {
    if flags & libc::MAP_FIXED != 0 {
        readable_memory::forget();
    }
    if flags & libc::MAP_ANONYMOUS == 0 {
        if !coupled::is_whole(fd) {
            errno::set(libc::ENODEV);
            return libc::MAP_FAILED;
        }
        if let Err(error) = coupled::fetch_all(fd) {
            errno::set(error);
            return libc::MAP_FAILED;
        }
        coupled::delivered_all(fd);
        before_mapping(fd, flags);
    }
    // SAFETY: the caller's arguments, passed on.
    unsafe { next::mmap64(address, len, protection, flags, fd, offset) }
}

/// `ioctl`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
    // Asking whether it is a terminal, and flags of the descriptor, change and show nothing.
    let harmless =
        [libc::TCGETS as c_ulong, libc::TIOCGWINSZ as c_ulong, 0x5451 /* FIOCLEX */, 0x5450];
    if !harmless.contains(&request) {
        settle::settle(fd, Some(Reason::Control));
    }
    // SAFETY: the caller's arguments, passed on.
    unsafe { next::ioctl(fd, request, argument) }
}

/// Lets the kernel move bytes between two files.
pub fn between(from: c_int, to: c_int, kernel: impl FnOnce() -> ssize_t) -> ssize_t {
    settle::causal();
    if !coupled::is_whole(from) {
        // Programs read and write then.
        return errno::fail(libc::EINVAL);
    }
    if let Err(error) = coupled::fetch_all(from) {
        return errno::fail(error);
    }
    coupled::delivered_all(from);
    for fd in [from, to] {
        settle::settle(fd, Some(Reason::Sendfile));
    }
    kernel()
}
