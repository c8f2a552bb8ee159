//! Memory that processes of one node share: a nameless file, mapped by each.
//!
//! Other processes change it at any time, so it is reached through atomic words and raw pointers
//! only. It goes away with the last process that has it, whatever ends them.

use crate::error::{Error, ErrorClass, Result};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Where other processes of the node find an open descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeAddress {
    /// The process that has it.
    pub process: i32,
    /// Its number there.
    pub descriptor: i32,
}

impl NodeAddress {
    /// The bytes that carry the address to another rank.
    pub fn to_bytes(self) -> [u8; 8] {
        let word = u64::from(self.process.cast_unsigned()) << 32
            | u64::from(self.descriptor.cast_unsigned());
        word.to_le_bytes()
    }

    /// The address in `bytes`.
    ///
    /// # Errors
    /// `Other` if there is none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let none = |_| Error::new(ErrorClass::Other, "the first rank could not make shared memory");
        let word = u64::from_le_bytes(bytes.try_into().map_err(none)?);
        let half = |word: u64| (word as u32).cast_signed();
        Ok(Self { process: half(word >> 32), descriptor: half(word) })
    }
}

/// An anonymous memory file.
#[derive(Debug)]
pub(crate) struct MemoryFile(OwnedFd);

fn last_error(operation: &str) -> Error {
    Error::os(operation, &io::Error::last_os_error())
}

pub(crate) fn open_descriptor(address: NodeAddress) -> Result<OwnedFd> {
    let NodeAddress { process, descriptor } = address;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/{process}/fd/{descriptor}"));
    file.map(OwnedFd::from).map_err(|cause| Error::os("open of shared memory", &cause))
}

impl MemoryFile {
    /// A new file of `size` bytes, all zero.
    pub(crate) fn create(size: usize) -> Result<Self> {
        // SAFETY: the name is a C string; the call has no other requirement.
        let fd = unsafe { libc::memfd_create(c"aggio".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(last_error("memfd_create"));
        }
        // SAFETY: the descriptor is new and belongs to nobody else.
        let memory = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the descriptor is open.
        if unsafe { libc::ftruncate(memory.as_raw_fd(), size as libc::off_t) } != 0 {
            return Err(last_error("ftruncate of shared memory"));
        }
        Ok(Self(memory))
    }

    /// The file of `size` bytes that another process of this node made and still holds.
    pub(crate) fn open(address: NodeAddress, size: usize) -> Result<Self> {
        let memory = open_descriptor(address)?;
        let found = std::fs::File::from(memory.try_clone().map_err(|e| Error::os("dup", &e))?)
            .metadata()
            .map_err(|cause| Error::os("fstat of shared memory", &cause))?
            .len();
        if found != size as u64 {
            let detail = format!("shared memory of {found} bytes is not this file's");
            return Err(Error::new(ErrorClass::Intern, detail));
        }
        Ok(Self(memory))
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.0
    }

    /// Where the other processes find it.
    pub(crate) fn address(&self) -> NodeAddress {
        let process = i32::try_from(std::process::id()).unwrap_or(-1);
        NodeAddress { process, descriptor: self.0.as_raw_fd() }
    }
}

/// A mapped piece of shared memory.
#[derive(Debug)]
pub(crate) struct Memory {
    file: MemoryFile,
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping lives as long as the value and is reached through atomics and raw pointers.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// New memory of `len` zero bytes; storage is taken as it is touched.
    pub(crate) fn create(len: usize) -> Result<Self> {
        Self::map(MemoryFile::create(len)?, len)
    }

    /// The memory of `len` bytes that another process of this node made and still holds.
    pub(crate) fn open(address: NodeAddress, len: usize) -> Result<Self> {
        Self::map(MemoryFile::open(address, len)?, len)
    }

    fn map(file: MemoryFile, len: usize) -> Result<Self> {
        let (access, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.descriptor().as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, fd, 0) };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { file, base, len }),
            _ => Err(last_error("mmap of shared memory")),
        }
    }

    /// What the other processes need for [`Memory::open`].
    pub(crate) fn address(&self) -> NodeAddress {
        self.file.address()
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
