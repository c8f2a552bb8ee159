//! Identity and name of the file that a descriptor is open on, and the results of `stat`.

use super::next;
use super::state::Inside;
use libc::{c_int, c_void};
use std::os::unix::ffi::OsStrExt;

/// Bytes that programs had best move at a time.
const BLOCK: u32 = 1 << 20;

/// The results of `stat` and `statx` on a file of ours, which is a regular one.
pub struct Facts {
    /// The device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
    /// The permissions.
    pub mode: u32,
    /// How many names it has.
    pub names: u32,
    /// The user and the group.
    pub owner: (u32, u32),
    /// Bytes.
    pub size: u64,
    /// Units of 512 bytes.
    pub blocks: u64,
    /// Last access, last change of the content, last change: seconds and nanoseconds.
    pub times: [(i64, i64); 3],
}

impl Facts {
    /// Stores them as `stat` does.
    ///
    /// # Safety
    /// `to` points to a record.
    pub unsafe fn stat(&self, to: *mut c_void) {
        // SAFETY: all bits zero are a record.
        let mut facts: libc::stat64 = unsafe { std::mem::zeroed() };
        (facts.st_dev, facts.st_ino) = (self.device, self.inode);
        (facts.st_mode, facts.st_nlink) = (libc::S_IFREG | self.mode, self.names.into());
        (facts.st_uid, facts.st_gid) = self.owner;
        (facts.st_size, facts.st_blocks) = (self.size.cast_signed(), self.blocks.cast_signed());
        facts.st_blksize = BLOCK as _;
        let [accessed, modified, changed] = self.times;
        (facts.st_atime, facts.st_atime_nsec) = accessed;
        (facts.st_mtime, facts.st_mtime_nsec) = modified;
        (facts.st_ctime, facts.st_ctime_nsec) = changed;
        // SAFETY: the caller's promise.
        unsafe { to.cast::<libc::stat64>().write(facts) };
    }

    /// Stores them as `statx` does.
    ///
    /// # Safety
    /// `to` points to a record.
    pub unsafe fn statx(&self, to: *mut c_void) {
        // SAFETY: all bits zero are a record.
        let mut facts: libc::statx = unsafe { std::mem::zeroed() };
        (facts.stx_mask, facts.stx_blksize) = (libc::STATX_BASIC_STATS, BLOCK);
        facts.stx_dev_major = libc::major(self.device);
        facts.stx_dev_minor = libc::minor(self.device);
        facts.stx_ino = self.inode;
        (facts.stx_mode, facts.stx_nlink) = ((libc::S_IFREG | self.mode) as u16, self.names);
        (facts.stx_uid, facts.stx_gid) = self.owner;
        (facts.stx_size, facts.stx_blocks) = (self.size, self.blocks);
        let [accessed, modified, changed] = self.times.map(|(seconds, nanoseconds)| {
            // SAFETY: all bits zero are a time.
            let mut time: libc::statx_timestamp = unsafe { std::mem::zeroed() };
            (time.tv_sec, time.tv_nsec) = (seconds, nanoseconds as u32);
            time
        });
        (facts.stx_atime, facts.stx_mtime, facts.stx_ctime) = (accessed, modified, changed);
        // SAFETY: the caller's promise.
        unsafe { to.cast::<libc::statx>().write(facts) };
    }
}

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
