//! Descriptors that share a description.

use super::access::Access;
use super::files;
use super::next;
use super::reason::Reason;
use super::{containers, coupled, descriptors, errno, open, settle, spool, state};
use libc::c_int;
use std::sync::atomic::Ordering::Relaxed;

/// Lets `kernel` duplicate `fd`, and remembers that the new descriptor shares its description.
pub fn duplicate(fd: c_int, kernel: impl FnOnce() -> c_int) -> c_int {
    if coupled::has(fd) {
        return coupled::duplicated(fd, kernel());
    }
    if state::is_guest() {
        settle::demote(fd, Reason::Vfork);
        return kernel();
    }
    // The list comes first: a number that was closed unseen is forgotten here.
    let mut kernel = Some(kernel);
    let made = files::registry(|_| {
        let access = Access::of(fd)?;
        let new = kernel.take()?();
        if new >= 0 {
            access.description.references.fetch_add(1, Relaxed);
            descriptors::set(new, Some(access.description));
        }
        Some(new)
    });
    let new = made.flatten().unwrap_or_else(|| kernel.map_or(-1, |kernel| kernel()));
    if (0..=2).contains(&new) {
        settle::demote(new, Reason::StandardStream);
    }
    new
}

/// `dup2` and `dup3`, which close `new` first.
pub fn replace(old: c_int, new: c_int, kernel: impl FnOnce() -> c_int) -> c_int {
    if spool::is_descriptor(new) || containers::is_own(new) || coupled::is_own(new) {
        return errno::fail(libc::EBADF) as c_int;
    }
    // SAFETY: plain numbers.
    let valid = || unsafe { next::fcntl(old, libc::F_GETFD, 0) } >= 0;
    if old == new || !valid() {
        return kernel();
    }
    containers::before_change(new);
    let left = coupled::leave(new.cast_unsigned(), new.cast_unsigned());
    let kernel = || {
        let made = kernel();
        left.tell();
        made
    };
    if containers::has(old) {
        if descriptors::has(new) && !state::is_guest() {
            let _ = open::forget(new);
        }
        return containers::duplicate(old, kernel());
    }
    if containers::has(new) && !state::is_guest() {
        let _ = containers::forget(new);
    }
    let kernel = || {
        let made = kernel();
        containers::after_change(new);
        made
    };
    if descriptors::has(new) && !state::is_guest() {
        // `dup2` does not report errors of closing the old descriptor, so neither do we.
        let _ = open::forget(new);
    }
    if descriptors::has(old) || coupled::has(old) { duplicate(old, kernel) } else { kernel() }
}

/// `fcntl`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn control(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    let kernel = || unsafe { next::fcntl(fd, command, argument) };
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => return duplicate(fd, kernel),
        libc::F_SETFL => {
            let special = libc::O_APPEND | libc::O_DIRECT | libc::O_ASYNC;
            if argument as c_int & special != 0 {
                settle::demote(fd, Reason::StatusFlags);
            }
        }
        libc::F_GETFD | libc::F_SETFD | libc::F_GETFL | libc::F_GETOWN => {}
        libc::F_SETLEASE | libc::F_NOTIFY => settle::demote(fd, Reason::Lease),
        // Locks are counted from the position, and bytes written under a lock must be visible after
        // it.
        _ => settle::settle(fd, None),
    }
    kernel()
}
