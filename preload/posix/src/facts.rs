//! Identity and name of the file that a descriptor is open on.

use super::next;
use super::state::Inside;
use libc::c_int;
use std::os::unix::ffi::OsStrExt;

/// Device and inode of the file that `fd` is open on, if it is a regular one with a name.
pub fn identity_of(fd: c_int) -> Option<[u64; 2]> {
    // SAFETY: all bits zero are a record; it outlives the call.
    unsafe {
        let mut facts: libc::stat64 = std::mem::zeroed();
        let known = next::fstat64(fd, (&raw mut facts).cast()) == 0;
        let regular = facts.st_mode & libc::S_IFMT == libc::S_IFREG;
        (known && regular && facts.st_nlink > 0).then_some([facts.st_dev, facts.st_ino])
    }
}

/// The name of the file that `fd` is open on.
pub fn name_of(fd: c_int) -> Option<Vec<u8>> {
    let _inside = Inside::enter();
    let path = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    let path = path.as_os_str().as_bytes();
    (path.first() == Some(&b'/') && !path.ends_with(b" (deleted)")).then(|| path.to_vec())
}
