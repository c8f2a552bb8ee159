//! The results of `stat` and `statx` on a container.

use super::super::errno;
use super::table::OpenContainer;
use agg_core::blob::Attributes;
use libc::{c_int, c_void};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes that programs had best move at a time.
const BLOCK: i64 = 1 << 20;

/// Seconds and nanoseconds since 1970.
fn parts(time: SystemTime) -> (i64, i64) {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (after.as_secs() as i64, after.subsec_nanos().into()),
        Err(before) => {
            let before = before.duration();
            match before.subsec_nanos() {
                0 => (-(before.as_secs() as i64), 0),
                n => (-(before.as_secs() as i64) - 1, 1_000_000_000 - i64::from(n)),
            }
        }
    }
}

/// The device of the directory that the container is.
pub(super) fn device(path: &Path) -> u64 {
    path.symlink_metadata().map_or(0, |facts| facts.dev())
}

/// Stores the attributes as `stat` does.
///
/// # Safety
/// `to` points to a record.
pub(super) unsafe fn tell(known: &Attributes, device: u64, names: u32, to: *mut c_void) {
    // SAFETY: all bits zero are a record.
    let mut facts: libc::stat64 = unsafe { std::mem::zeroed() };
    facts.st_dev = device;
    facts.st_ino = known.inode;
    facts.st_mode = libc::S_IFREG | known.mode;
    facts.st_nlink = names.into();
    (facts.st_uid, facts.st_gid) = (known.uid, known.gid);
    facts.st_size = known.size as i64;
    facts.st_blksize = BLOCK as _;
    facts.st_blocks = known.blocks as i64;
    (facts.st_atime, facts.st_atime_nsec) = parts(known.atime);
    (facts.st_mtime, facts.st_mtime_nsec) = parts(known.mtime);
    (facts.st_ctime, facts.st_ctime_nsec) = parts(known.ctime);
    // SAFETY: the caller's promise.
    unsafe { to.cast::<libc::stat64>().write(facts) };
}

/// Stores the attributes as `statx` does.
///
/// # Safety
/// `to` points to a record.
pub(super) unsafe fn tell_x(known: &Attributes, device: u64, names: u32, to: *mut c_void) {
    // SAFETY: all bits zero are a record.
    let mut facts: libc::statx = unsafe { std::mem::zeroed() };
    let time = |time| {
        let (tv_sec, nanoseconds) = parts(time);
        // SAFETY: all bits zero are a time.
        let mut told: libc::statx_timestamp = unsafe { std::mem::zeroed() };
        (told.tv_sec, told.tv_nsec) = (tv_sec, nanoseconds as u32);
        told
    };
    facts.stx_mask = libc::STATX_BASIC_STATS;
    facts.stx_blksize = BLOCK as u32;
    facts.stx_nlink = names;
    (facts.stx_uid, facts.stx_gid) = (known.uid, known.gid);
    facts.stx_mode = (libc::S_IFREG | known.mode) as u16;
    facts.stx_ino = known.inode;
    facts.stx_size = known.size;
    facts.stx_blocks = known.blocks;
    (facts.stx_dev_major, facts.stx_dev_minor) = (libc::major(device), libc::minor(device));
    facts.stx_atime = time(known.atime);
    facts.stx_mtime = time(known.mtime);
    facts.stx_ctime = time(known.ctime);
    // SAFETY: the caller's promise.
    unsafe { to.cast::<libc::statx>().write(facts) };
}

/// The attributes of an open container, and how many names it has.
fn known(open: &OpenContainer) -> Result<(Attributes, u32), c_int> {
    let _errno = errno::Keep::new();
    open.locked(|_, state| {
        let names = if state.is_nameless() { 0 } else { 1 };
        Ok((state.attributes()?, names))
    })
}

/// `fstat`.
///
/// # Safety
/// As the C library demands.
pub(super) unsafe fn fstat(open: &OpenContainer, to: *mut c_void) -> Result<(), c_int> {
    let (facts, names) = known(open)?;
    // SAFETY: the caller's promise.
    unsafe { tell(&facts, open.identity.0, names, to) };
    Ok(())
}

/// `statx` of a descriptor.
///
/// # Safety
/// As the C library demands.
pub(super) unsafe fn fstatx(open: &OpenContainer, to: *mut c_void) -> Result<(), c_int> {
    let (facts, names) = known(open)?;
    // SAFETY: the caller's promise.
    unsafe { tell_x(&facts, open.identity.0, names, to) };
    Ok(())
}
