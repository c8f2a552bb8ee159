//! This computer's cached size and pages of a file that another computer may have changed.
//!
//! Clients of file servers return bytes from the kernel's page cache without a request to the
//! server: FUSE keeps pages across opens, NFS for some seconds. Where caches are not coherent, an
//! open or a synchronisation drops the cached size and pages of the file, and the next reads ask
//! the server. Local writes that have not been sent yet stay.

use crate::{file_systems, os};
use std::ffi::CStr;
use std::os::fd::RawFd;

/// Whether cached pages of the file behind `fd`, which lies on `device`, may be older than the
/// file.
///
/// Where the device is one with a driver of its own (a disk), no system call is made: the file
/// system is of this computer, or its locks keep caches coherent.
pub fn may_be_stale(fd: RawFd, device: u64) -> bool {
    has_no_disk(device) && file_systems::magic(fd).is_some_and(file_systems::may_be_stale)
}

/// Whether the device number belongs to no disk: a file server, or memory.
pub fn has_no_disk(device: u64) -> bool {
    libc::major(device) == 0
}

/// Drops cached pages of the file behind `fd`, if they may be older than the file. If the kernel
/// refuses nothing is lost; reads then return the same bytes as before.
pub fn renew(fd: RawFd, device: u64) {
    if may_be_stale(fd, device) {
        forget(fd);
    }
}

/// Drops cached pages of the file behind `fd`, except local writes that have not been passed on.
pub fn forget(fd: RawFd) {
    // The size first: the kernel drops pages of its own accord if it sees another one.
    let _ = os::ask_size(fd);
    let _ = os::drop_pages(fd);
}

/// Asks the server for the length of the file with this name in the directory `dir`, and for the
/// file itself if the one cached under the name no longer exists.
pub fn forget_name(dir: RawFd, name: &CStr) {
    // The kernel repeats a look-up of a file that no longer exists, and asks for the name then.
    let _ = os::ask_at(dir, name);
}
