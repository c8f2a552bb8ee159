//! Opening and closing descriptors of all kinds.

use super::operations::Left;
use super::state::{self, Inside};
use super::{
    containers, coupled, descriptors, errno, next, plain, reading, served, settle, spool, staged,
    standard,
};
use crate::config;
use libc::{c_char, c_int, mode_t};

/// Before a file is opened or cut: writes out the buffered bytes, also those that killed processes
/// have left, which must not come after a truncation.
pub fn before() {
    if Inside::is() || state::is_guest() {
        return;
    }
    settle::all();
    let _errno = errno::Keep::new();
    reading::forget_all();
    let _inside = Inside::enter();
    if config::get().settings.keeps_back() {
        spool::recover();
    }
}

/// Opens a coupled file, a container or a set where the name means one or is to.
pub fn by_name(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> Option<c_int> {
    // SAFETY: the program's name, which the C library reads as well.
    unsafe { coupled::before_name(path) };
    coupled::open(at, path, flags, mode, served::vacate).or_else(|| {
        let fd = containers::open(at, path, flags, mode, served::vacate)?;
        standard::after_change(fd);
        Some(fd)
    })
}

/// `open` and its kin: a coupled file, a container or set where the name means one or is to,
/// otherwise the file that `kernel` opens.
pub fn open(
    at: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
    kernel: impl FnOnce() -> c_int,
) -> c_int {
    by_name(at, path, flags, mode).unwrap_or_else(|| {
        if let Err(number) = staged::before_open(at, path, flags) {
            return errno::fail(number) as c_int;
        }
        before();
        adopt(kernel())
    })
}

/// Takes `fd`, which the kernel has just opened, if a rule names its file; returns it.
pub fn adopt(fd: c_int) -> c_int {
    if (0..descriptors::LIMIT as c_int).contains(&fd) && !Inside::is() {
        let _errno = errno::Keep::new();
        served::vacate(fd);
        plain::adopt(fd);
    }
    fd
}

/// When the library is loaded: takes over the containers that this process has inherited.
pub fn attach_containers() {
    containers::attach();
    (0..=2).for_each(standard::after_change);
}

/// Whether `fd` belongs to this library and not to the program.
pub fn is_own(fd: c_int) -> bool {
    spool::is_descriptor(fd) || containers::is_own(fd) || coupled::is_own(fd)
}

/// `close`.
pub fn close(fd: c_int) -> c_int {
    if is_own(fd) {
        return errno::fail(libc::EBADF) as c_int;
    }
    // SAFETY: a plain number.
    let kernel = || unsafe { next::close(fd) };
    let Some(file) = served::of(fd).filter(|_| !state::is_guest()) else { return kernel() };
    standard::before_change(fd);
    let left = file.leave(fd);
    let closed = kernel();
    let owed = left.tell();
    standard::after_change(fd);
    match owed {
        Err(error) if closed == 0 => errno::fail(error) as c_int,
        _ => closed,
    }
}

/// Takes all descriptors of a range out of the table before they are closed.
fn leave_range(first: u32, last: u32) -> Vec<Left> {
    if state::is_guest() {
        return Vec::new();
    }
    let inside = |fd: &c_int| (first..=last).contains(&fd.cast_unsigned());
    (0..=2).filter(inside).for_each(standard::before_change);
    let served = descriptors::all().filter(inside);
    served.filter_map(|fd| Some(served::of(fd)?.leave(fd))).collect()
}

/// When they are closed.
fn tell(left: Vec<Left>) {
    // These calls do not report errors of the descriptors that they close.
    for left in left {
        let _ = left.tell();
    }
    (0..=2).for_each(standard::after_change);
}

/// The descriptors of a range that belong to this library and not to the program, in order.
fn own_among(first: u32, last: u32) -> Vec<u32> {
    let mut own = containers::own_among(first, last);
    own.extend(coupled::own_among(first, last));
    own.extend(
        spool::descriptor().map(c_int::cast_unsigned).filter(|fd| (first..=last).contains(fd)),
    );
    own.sort_unstable();
    own
}

/// `close_range` without the descriptors of this library.
pub fn close_range(first: u32, last: u32, flags: c_int) -> c_int {
    const CLOEXEC: c_int = 4;
    // SAFETY: plain numbers.
    let kernel = |first, last| unsafe { next::close_range(first, last, flags) };
    if first > last {
        return kernel(first, last);
    }
    if flags & CLOEXEC != 0 {
        let done = kernel(first, last);
        containers::inherit_all();
        return done;
    }
    let left = leave_range(first, last);
    let (mut from, mut result) = (first, 0);
    for fd in own_among(first, last) {
        if fd > from {
            result = kernel(from, fd - 1).min(result);
        }
        from = fd + 1;
    }
    let result = if from <= last { kernel(from, last).min(result) } else { result };
    tell(left);
    result
}

/// `closefrom`.
pub fn close_from(first: c_int) {
    let from = first.max(0).cast_unsigned();
    if own_among(from, u32::MAX).is_empty() && !containers::any() {
        let left = leave_range(from, u32::MAX);
        // SAFETY: a plain number.
        unsafe { next::closefrom(first) };
        tell(left);
    } else {
        close_range(from, u32::MAX, 0);
    }
}
