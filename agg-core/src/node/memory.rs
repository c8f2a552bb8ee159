//! Memory that processes of one node share: a nameless file, mapped by each.
//!
//! Other processes change it at any time, so it is reached through atomic words and raw pointers
//! only. It goes away with the last process that has it, whatever ends them.

use crate::error::{Error, ErrorClass, Result};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Where other processes of the node find a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The process that made it.
    pub process: i32,
    /// Its descriptor there.
    pub descriptor: i32,
}

impl Address {
    /// The bytes for another process.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        [self.process.to_le_bytes(), self.descriptor.to_le_bytes()].concat()
    }

    /// What [`Address::to_bytes`] made.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (process, rest) = bytes.split_first_chunk()?;
        let descriptor = rest.first_chunk()?;
        let (process, descriptor) = (i32::from_le_bytes(*process), i32::from_le_bytes(*descriptor));
        Some(Self { process, descriptor })
    }
}

/// A mapped piece of shared memory.
#[derive(Debug)]
pub(crate) struct Memory {
    file: OwnedFd,
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping lives as long as the value and is reached through atomics and raw pointers.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

fn failed(what: &str) -> Error {
    Error::os(what, &io::Error::last_os_error())
}

impl Memory {
    /// New memory of `len` zero bytes; storage is taken as it is touched.
    pub(crate) fn create(len: usize) -> Result<Self> {
        let flags = libc::MFD_CLOEXEC;
        // SAFETY: the name is a C string.
        let fd = unsafe { libc::memfd_create(c"aggio-node".as_ptr(), flags) };
        if fd < 0 {
            return Err(failed("memfd_create"));
        }
        // SAFETY: the descriptor is new and belongs to nobody else.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the descriptor is open.
        if unsafe { libc::ftruncate(file.as_raw_fd(), len as libc::off_t) } != 0 {
            return Err(failed("ftruncate of shared memory"));
        }
        Self::map(file, len)
    }

    /// The memory of `len` bytes that another process of this node made and still holds.
    pub(crate) fn open(address: Address, len: usize) -> Result<Self> {
        let path = format!("/proc/{}/fd/{}", address.process, address.descriptor);
        let file = File::options().read(true).write(true).open(path);
        let file = file.map_err(|cause| Error::os("open of shared memory", &cause))?;
        let size = file.metadata().map_err(|cause| Error::os("fstat of shared memory", &cause))?;
        if size.len() != len as u64 {
            let detail = format!("shared memory of {} bytes, expected {len}", size.len());
            return Err(Error::new(ErrorClass::Intern, detail));
        }
        Self::map(file.into(), len)
    }

    fn map(file: OwnedFd, len: usize) -> Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { file, base, len }),
            _ => Err(failed("mmap of shared memory")),
        }
    }

    /// What the other processes need for [`Memory::open`].
    pub(crate) fn address(&self) -> Address {
        let process = i32::try_from(std::process::id()).unwrap_or(-1);
        Address { process, descriptor: self.file.as_raw_fd() }
    }

    /// The address of byte `at`, of which `len` bytes are used.
    ///
    /// # Panics
    /// If they are not inside the memory: that is a mistake in the layout.
    pub(crate) fn place(&self, at: usize, len: usize) -> *mut u8 {
        let end = at.checked_add(len);
        assert!(end.is_some_and(|end| end <= self.len), "bytes {at}+{len} of shared memory");
        self.base.as_ptr().wrapping_add(at)
    }

    /// The 32-bit word at byte `at`, a multiple of 4.
    pub(crate) fn word(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at.is_multiple_of(4));
        // SAFETY: inside the mapping, aligned, and lives as long as `self`.
        unsafe { AtomicU32::from_ptr(self.place(at, 4).cast()) }
    }

    /// The 64-bit word at byte `at`, a multiple of 8.
    pub(crate) fn long(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8));
        // SAFETY: inside the mapping, aligned, and lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.place(at, 8).cast()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: unmaps what `map` mapped; no reference to it outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
