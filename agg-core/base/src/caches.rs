//! What this computer keeps of a file after another computer has changed it.
//!
//! Clients of file servers give bytes from the kernel's page cache as long as they see no reason to
//! ask: FUSE keeps pages across opens, NFS for some seconds. Where caches are not coherent, who
//! opens or synchronises a file drops what is kept of it, size and pages, and the next reads ask
//! the server. What was written here and is not on its way yet stays.

use crate::{file_systems, os};
use std::ffi::CStr;
use std::os::fd::RawFd;

/// Whether what is kept of the file behind `fd`, which lies on `device`, may be older than the
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

/// Drops what this computer keeps of the file behind `fd`, if it may be older than the file.
/// Nothing is lost if the kernel refuses; reads then give what they gave before.
pub fn renew(fd: RawFd, device: u64) {
    if may_be_stale(fd, device) {
        forget(fd);
    }
}

/// Drops what this computer keeps of the file behind `fd`, but what was written here and has not
/// been passed on.
pub fn forget(fd: RawFd) {
    // The size first: the kernel drops pages of its own accord if it sees another one.
    let _ = os::ask_size(fd);
    let _ = os::drop_pages(fd);
}

/// Asks the server how long the file is that has the name in the directory `dir`, and which file
/// has it if the one that this computer believes to have it is gone.
pub fn forget_name(dir: RawFd, name: &CStr) {
    // The kernel repeats a look at a file that is gone, and asks for the name then.
    let _ = os::ask_at(dir, name);
}
