//! Shared memory where there can be no memory file, because the size of files is limited
//! (`RLIMIT_FSIZE` counts memory files, too) or because descriptors are used up.
//!
//! A segment of System V memory without a key, marked for removal as soon as its maker is attached:
//! it goes away with the last process that has it. Others attach it by its number, which they
//! accept only if it is the segment that this maker made.

use super::memory::last_error;
use aggio_base::error::{Error, ErrorClass, Result};
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;

/// Mode bit of a segment that is marked for removal.
const MARKED: u32 = 0o1000;
/// Storage is not reserved before it is touched.
const NO_RESERVE: i32 = 0o10000;

/// An attached segment.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) id: i32,
    pub(super) base: NonNull<u8>,
}

impl Segment {
    /// A new segment of `len` bytes, all zero.
    pub(super) fn create(len: usize) -> Result<Self> {
        let flags = libc::IPC_CREAT | 0o600 | NO_RESERVE;
        // SAFETY: makes a new segment without a key.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, len, flags) };
        if id < 0 {
            return Err(last_error("shmget"));
        }
        let attached = Self::attach(id);
        // SAFETY: the segment is ours; attached processes keep it.
        unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
        attached
    }

    /// The segment `id` of `len` bytes that `process` made and is attached to.
    pub(super) fn open(process: i32, id: i32, len: usize) -> Result<Self> {
        if space_of("self")? != space_of(&process.to_string())? {
            let text = "the maker of shared memory has numbers of its own for it";
            return Err(Error::new(ErrorClass::Other, text));
        }
        let segment = Self::attach(id)?;
        // SAFETY: all-zero bytes are a valid record, which the call fills.
        let (code, found) = unsafe {
            let mut found: libc::shmid_ds = std::mem::zeroed();
            (libc::shmctl(id, libc::IPC_STAT, &raw mut found), found)
        };
        if code != 0 {
            return Err(last_error("shmctl"));
        }
        let marked = u32::from(found.shm_perm.mode) & MARKED != 0;
        if found.shm_cpid != process || found.shm_segsz != len || !marked {
            let text = "a segment of shared memory is not this file's";
            return Err(Error::new(ErrorClass::Intern, text));
        }
        Ok(segment)
    }

    fn attach(id: i32) -> Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { libc::shmat(id, std::ptr::null(), 0) };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr() as isize != -1 => Ok(Self { id, base }),
            _ => Err(last_error("shmat")),
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: detaches the segment attached by `attach`; no reference to it outlives `self`.
        unsafe { libc::shmdt(self.base.as_ptr().cast()) };
    }
}

/// The space of numbers in which a process names segments.
fn space_of(process: &str) -> Result<(u64, u64)> {
    let space = std::fs::metadata(format!("/proc/{process}/ns/ipc"))
        .map_err(|cause| Error::os("stat of a process' IPC namespace", &cause))?;
    Ok((space.dev(), space.ino()))
}
