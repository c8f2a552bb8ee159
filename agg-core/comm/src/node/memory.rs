//! Memory that processes of one node share: a nameless file, mapped by each, or where there can be
//! none a [segment](super::segment).
//!
//! Other processes change it at any time, so it is accessed through atomic words and raw pointers
//! only. The kernel frees it with the last process that maps it, however that process ends.

use super::segment::Segment;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::{Extent, os};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Where other processes of the node find an open descriptor, or a segment of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeAddress {
    /// The process that has it; negative for a segment.
    pub process: i32,
    /// Its number there, or that of the segment.
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

pub(super) fn last_error(operation: &str) -> Error {
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
        if size as u64 > os::largest_file() {
            let cause = io::Error::from_raw_os_error(libc::EFBIG);
            return Err(Error::os("ftruncate of shared memory", &cause));
        }
        // SAFETY: the name is a C string; the call has no other requirement.
        let fd = unsafe { libc::memfd_create(c"aggio".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(last_error("memfd_create"));
        }
        // SAFETY: the descriptor is new and has no other owner.
        let memory = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the descriptor is open.
        if size != 0 && unsafe { libc::ftruncate(memory.as_raw_fd(), size as libc::off_t) } != 0 {
            return Err(last_error("ftruncate of shared memory"));
        }
        Ok(Self(memory))
    }

    /// The file of `size` bytes that another process of this node made and still holds.
    pub(crate) fn open(address: NodeAddress, size: usize) -> Result<Self> {
        let memory = open_descriptor(address)?;
        // SAFETY: an operation that only memory files support; no memory is involved.
        if unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_GET_SEALS) } < 0 {
            return Err(last_error("fcntl of shared memory"));
        }
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
        NodeAddress { process: this_process(), descriptor: self.0.as_raw_fd() }
    }
}

/// The number of this process.
fn this_process() -> i32 {
    std::process::id().cast_signed()
}

/// A mapped piece of shared memory.
#[derive(Debug)]
pub(crate) struct Memory {
    source: Source,
    base: NonNull<u8>,
    len: usize,
}

/// The kind of mapped memory.
#[derive(Debug)]
enum Source {
    File(MemoryFile),
    Segment(Segment),
}

// SAFETY: the mapping lives as long as the value and is reached through atomics and raw pointers.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// New memory of `len` zero bytes; storage is taken as it is touched.
    pub(crate) fn create(len: usize) -> Result<Self> {
        let file = MemoryFile::create(len).and_then(|file| Self::map(file, len));
        file.or_else(|why| Segment::create(len).map_or(Err(why), |new| Ok(Self::of(new, len))))
    }

    /// The memory of `len` bytes that another process of this node made and still holds.
    pub(crate) fn open(address: NodeAddress, len: usize) -> Result<Self> {
        let NodeAddress { process, descriptor } = address;
        if process < 0 {
            let segment = Segment::open(process.saturating_neg(), descriptor, len)?;
            return Ok(Self::of(segment, len));
        }
        Self::map(MemoryFile::open(address, len)?, len)
    }

    fn of(segment: Segment, len: usize) -> Self {
        Self { base: segment.base, source: Source::Segment(segment), len }
    }

    fn map(file: MemoryFile, len: usize) -> Result<Self> {
        let (access, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.descriptor().as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, fd, 0) };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(Self { source: Source::File(file), base, len })
            }
            _ => Err(last_error("mmap of shared memory")),
        }
    }

    /// The arguments of [`Memory::open`] in the other processes.
    pub(crate) fn address(&self) -> NodeAddress {
        match &self.source {
            Source::File(file) => file.address(),
            Source::Segment(segment) => {
                NodeAddress { process: -this_process(), descriptor: segment.id }
            }
        }
    }

    /// The address of byte `at`; `len` bytes are used from there.
    ///
    /// # Panics
    /// If they are not inside the memory: that is a mistake in the layout.
    pub(crate) fn place(&self, at: usize, len: usize) -> *mut u8 {
        let end = at.checked_add(len);
        assert!(end.is_some_and(|end| end <= self.len), "bytes {at}+{len} of shared memory");
        self.base.as_ptr().wrapping_add(at)
    }

    /// Whether there is storage for `len` bytes from byte `at` on; always true for a segment, which
    /// gets storage when it is used.
    pub(crate) fn reserve(&self, at: usize, len: usize) -> bool {
        let Source::File(file) = &self.source else { return true };
        let extent = Extent::new(at as u64, len as u64);
        len == 0 || os::fallocate(file.descriptor().as_raw_fd(), extent, true).is_ok()
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

    /// The `count` 64-bit words from byte `at` on, a multiple of 8.
    pub(crate) fn longs(&self, at: usize, count: usize) -> &[AtomicU64] {
        assert!(at.is_multiple_of(8), "64-bit words at byte {at} of shared memory");
        // SAFETY: inside the mapping, aligned, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.place(at, 8 * count).cast(), count) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Source::File(_) = self.source {
            // SAFETY: unmaps the mapping made by `map`; no reference to it outlives `self`.
            unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    /// A size that no machine has an address space for.
    const TOO_LARGE: usize = 1 << 60;

    #[test]
    fn a_segment_serves_where_there_can_be_no_memory_file_and_goes_with_its_last_user() {
        let made = Segment::create(8192).map(|segment| Memory::of(segment, 8192)).expect("memory");
        let found = Memory::open(made.address(), 8192).expect("it is still there");
        made.word(4096).store(17, Ordering::Release);
        assert_eq!(found.word(4096).load(Ordering::Acquire), 17);
        let address = made.address();
        drop(made);
        assert_eq!(found.word(4096).load(Ordering::Acquire), 17);
        drop(found);
        assert!(Memory::open(address, 8192).is_err(), "nobody has it any more");
    }

    #[test]
    fn a_segment_of_another_process_or_size_is_refused() {
        let made = Segment::create(8192).map(|segment| Memory::of(segment, 8192)).expect("memory");
        let address = made.address();
        let class = |address, len| Memory::open(address, len).expect_err("another").class();
        assert_eq!(class(address, 4096), ErrorClass::Intern);
        // The parent is another process that has the same space of numbers.
        // SAFETY: asks for a number.
        let parent = NodeAddress { process: -unsafe { libc::getppid() }, ..address };
        assert_eq!(class(parent, 8192), ErrorClass::Intern);
    }

    #[test]
    fn memory_that_is_not_to_be_had_is_an_error() {
        assert!(Memory::create(TOO_LARGE).is_err());
    }
}
