//! What of reading, cutting and synchronising the agent has to know.

use super::{agent, table};
use crate::errno;
use crate::state::Inside;
use crate::{next, system};
use libc::{c_int, off64_t, ssize_t};
use std::os::fd::{AsRawFd, OwnedFd};

/// After a read of `fd`, which returned `read`: the program has so many bytes more. Returns `read`.
#[inline]
pub fn delivered(fd: c_int, read: ssize_t) -> ssize_t {
    if let (Ok(bytes @ 1..), Some(open)) = (u64::try_from(read), table::get(fd)) {
        open.add(bytes);
    }
    read
}

/// The program can see all bytes of `fd` without a call.
pub fn delivered_all(fd: c_int) {
    if table::any()
        && let Some(open) = table::get(fd)
    {
        open.raise(u64::MAX);
    }
}

/// `ftruncate`, for which `kernel` is called unless it begins a new generation.
pub fn set_size(fd: c_int, len: off64_t, kernel: impl FnOnce() -> c_int) -> c_int {
    let open = table::get(fd).filter(|open| open.writes() && len == 0);
    let (Some(open), Ok(client)) = (open, agent::client()) else { return kernel() };
    let inside = Inside::enter();
    let opened = client.set_size_zero(open.handle());
    drop(inside);
    match opened {
        Err(error) => errno::fail(super::number(&error)) as c_int,
        Ok(None) => kernel(),
        Ok(Some(opened)) => {
            open.set_handle(opened.handle);
            replace(fd, &opened.fd)
        }
    }
}

/// Puts another description in the place of that of `fd` and its duplicates, at the same position.
fn replace(fd: c_int, with: &OwnedFd) -> c_int {
    let open = table::get(fd);
    let same = |other: &c_int| match (table::get(*other), open) {
        (Some(one), Some(other)) => std::ptr::eq(one, other),
        _ => false,
    };
    // SAFETY: plain numbers; all descriptors are open.
    unsafe {
        let position = next::lseek64(fd, 0, libc::SEEK_CUR);
        let status = next::fcntl(fd, libc::F_GETFL, 0);
        next::lseek64(with.as_raw_fd(), position.max(0), libc::SEEK_SET);
        next::fcntl(with.as_raw_fd(), libc::F_SETFL, status as usize);
        for fd in table::all().filter(same) {
            let flags = next::fcntl(fd, libc::F_GETFD, 0);
            let closes = if flags & libc::FD_CLOEXEC == 0 { 0 } else { libc::O_CLOEXEC };
            let from = with.as_raw_fd() as usize;
            // Not by a function of the C library, which would be a close.
            let done = system::call(libc::SYS_dup3, [from, fd as usize, closes as usize, 0, 0, 0]);
            if done < 0 {
                return errno::fail(-done as c_int) as c_int;
            }
        }
    }
    0
}

/// After `fsync` or `fdatasync` of `fd`, which returned `done`: what was written may be read.
pub fn synchronised(fd: c_int, done: c_int) -> c_int {
    let open = table::get(fd).filter(|open| done == 0 && open.writes());
    let (Some(open), Ok(client)) = (open, agent::client()) else { return done };
    let inside = Inside::enter();
    let told = client.sync(open.handle());
    drop(inside);
    told.map_or_else(|error| errno::fail(super::number(&error)) as c_int, |()| 0)
}
