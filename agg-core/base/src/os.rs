//! System calls on raw descriptors: one safe function each, one attempt each unless said otherwise.
//!
//! Errors are the system's, with its number.

use crate::Extent;
use std::ffi::{CStr, CString};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Most bytes that Linux moves in one call (`MAX_RW_COUNT`).
pub const MAX_TRANSFER: usize = 0x7fff_f000;

/// Most buffers that one vectored call accepts (`IOV_MAX` of Linux).
pub const MAX_VECTORS: usize = 1024;

fn checked(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn status(result: libc::c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Repeats `call` while a signal interrupts it.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// The kernel's signed form of a file offset; `EINVAL` beyond `i64::MAX`.
fn signed(offset: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Opens a file, as `open`.
pub fn open(path: &CStr, flags: i32, permissions: u32) -> io::Result<RawFd> {
    // SAFETY: the path is a terminated string; no memory is written.
    let call = || unsafe { libc::open(path.as_ptr(), flags, permissions as libc::c_uint) };
    uninterrupted(|| {
        let fd = call();
        if fd == -1 { Err(io::Error::last_os_error()) } else { Ok(fd) }
    })
}

/// Whether the process' effective user may access `path` so (`R_OK`, `W_OK`).
pub fn may_access(path: &Path, mode: i32) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is a terminated string; no memory is written.
    let result = unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), mode, libc::AT_EACCESS) };
    status(result)
}

/// Closes `fd`. Linux has released the descriptor also when a signal interrupted the call.
pub fn close(fd: RawFd) -> io::Result<()> {
    // SAFETY: no memory is involved; the owner of `fd` gives it up here.
    match status(unsafe { libc::close(fd) }) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        result => result,
    }
}

/// Another descriptor of the same open file description.
pub fn duplicate(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
    owned(copy.into())
}

/// A copy of descriptor `fd` of process `process`, for which the process need do nothing.
pub fn copy_descriptor(process: libc::pid_t, fd: RawFd) -> io::Result<OwnedFd> {
    let process = open_process(process)?;
    // SAFETY: takes numbers only; the C library may have no function for it.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) })
}

/// A descriptor of a process, which is readable from its end on (`pidfd_open`, Linux 5.3).
pub fn open_process(process: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only; the C library may have no function for it.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) })
}

/// The new descriptor that a call returned.
fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(fd) {
        // SAFETY: the descriptor is new and has no other owner.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The umask of this thread. A system call returns it only while changing it, so it is read from
/// `/proc`; `0o077` if that fails.
pub fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|text| u32::from_str_radix(text.trim(), 8).ok()).unwrap_or(0o077)
}

/// How a descriptor may be used: `O_RDONLY`, `O_WRONLY` or `O_RDWR`.
pub fn access_mode(fd: RawFd) -> io::Result<i32> {
    // SAFETY: no memory is involved.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    status(flags)?;
    Ok(flags & libc::O_ACCMODE)
}

/// Opens the file behind `fd` anew, even if its name has changed.
pub fn reopen(fd: RawFd, flags: i32) -> io::Result<RawFd> {
    let path = CString::new(format!("/proc/self/fd/{fd}"))?;
    open(&path, flags | libc::O_CLOEXEC, 0)
}

/// Removes a name, as `unlink`.
pub fn unlink(path: &CStr) -> io::Result<()> {
    // SAFETY: the path is a terminated string.
    uninterrupted(|| status(unsafe { libc::unlink(path.as_ptr()) }))
}

/// One attempt to read at `offset`, as `pread`.
#[inline]
pub fn pread(fd: RawFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let offset = signed(offset)?;
    let len = buffer.len().min(MAX_TRANSFER);
    // SAFETY: the kernel writes at most `len` bytes into the borrowed buffer.
    checked(unsafe { libc::pread(fd, buffer.as_mut_ptr().cast(), len, offset) })
}

/// One attempt to write at `offset`, as `pwrite`.
#[inline]
pub fn pwrite(fd: RawFd, buffer: &[u8], offset: u64) -> io::Result<usize> {
    let offset = signed(offset)?;
    let len = buffer.len().min(MAX_TRANSFER);
    // SAFETY: the kernel reads at most `len` bytes from the borrowed buffer.
    checked(unsafe { libc::pwrite(fd, buffer.as_ptr().cast(), len, offset) })
}

/// One attempt to read into `buffers`, as `preadv`.
#[inline]
pub fn preadv(fd: RawFd, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
    let offset = signed(offset)?;
    let count = buffers.len().min(MAX_VECTORS) as libc::c_int;
    // SAFETY: `IoSliceMut` has the layout of `iovec` and borrows the memory it names.
    checked(unsafe { libc::preadv(fd, buffers.as_mut_ptr().cast(), count, offset) })
}

/// One attempt to write `buffers`, as `pwritev`.
#[inline]
pub fn pwritev(fd: RawFd, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
    let offset = signed(offset)?;
    let count = buffers.len().min(MAX_VECTORS) as libc::c_int;
    // SAFETY: `IoSlice` has the layout of `iovec` and borrows the memory it names.
    checked(unsafe { libc::pwritev(fd, buffers.as_ptr().cast(), count, offset) })
}

/// Appends `bytes` at the end of the file, wherever it is by then: existing bytes cannot change.
pub fn append(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    let vector = [IoSlice::new(bytes)];
    uninterrupted(|| {
        // SAFETY: as in `pwritev`, for one buffer.
        checked(unsafe { libc::pwritev2(fd, vector.as_ptr().cast(), 1, 0, libc::RWF_APPEND) })
    })
}

/// Properties of a file, as `fstat`.
pub fn fstat(fd: RawFd) -> io::Result<libc::stat> {
    // SAFETY: all-zero bytes are a valid `stat`.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the local value.
    uninterrupted(|| status(unsafe { libc::fstat(fd, &raw mut stat) }))?;
    Ok(stat)
}

/// Properties of a file that never change: its type, its numbers, and the length of its blocks.
/// Other fields are the cached ones of this computer. The server is not asked.
pub fn lasting_facts(fd: RawFd) -> io::Result<libc::stat> {
    // SAFETY: all-zero bytes are a valid `statx`, which is plain numbers.
    let mut facts: libc::statx = unsafe { std::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    let wanted = libc::STATX_TYPE | libc::STATX_INO;
    // SAFETY: the name is a terminated string, and the kernel fills the local value.
    let asked = status(unsafe { libc::statx(fd, c"".as_ptr(), flags, wanted, &raw mut facts) });
    if asked.is_err() || facts.stx_mask & wanted != wanted {
        return fstat(fd);
    }
    // SAFETY: all-zero bytes are a valid `stat`.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    stat.st_dev = libc::makedev(facts.stx_dev_major, facts.stx_dev_minor);
    stat.st_ino = facts.stx_ino;
    stat.st_mode = facts.stx_mode.into();
    stat.st_blksize = facts.stx_blksize.into();
    Ok(stat)
}

/// Properties of the file system under a file, as `fstatfs`.
pub fn fstatfs(fd: RawFd) -> io::Result<libc::statfs> {
    // SAFETY: all-zero bytes are a valid `statfs`.
    let mut facts: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the local value.
    uninterrupted(|| status(unsafe { libc::fstatfs(fd, &raw mut facts) }))?;
    Ok(facts)
}

/// Reads the extended attribute `name` into `buffer`; the number of bytes it has.
pub fn fgetxattr(fd: RawFd, name: &CStr, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most `buffer.len()` bytes into the borrowed buffer.
    checked(unsafe { libc::fgetxattr(fd, name.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) })
}

/// A request of the file system's own, with `argument` to read.
pub fn ioctl_with<const N: usize>(
    fd: RawFd,
    request: libc::c_ulong,
    argument: &[u8; N],
) -> io::Result<()> {
    // A request that is unknown there may write: into a private copy.
    let mut argument = *argument;
    // SAFETY: the kernel reads, and at most writes, the bytes of the local value; the request's
    // number and its first word determine their number.
    status(unsafe { libc::ioctl(fd, request as _, argument.as_mut_ptr()) })
}

/// Unread bytes in a pipe.
///
/// # Errors
/// `ENOTTY` if it is not a pipe.
pub fn unread(fd: RawFd) -> io::Result<u64> {
    if fstat(fd)?.st_mode & libc::S_IFMT != libc::S_IFIFO {
        return Err(io::Error::from_raw_os_error(libc::ENOTTY));
    }
    let mut bytes: libc::c_int = 0;
    // SAFETY: for a pipe the kernel writes one `int`, the local one.
    status(unsafe { libc::ioctl(fd, libc::FIONREAD as _, &raw mut bytes) })?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Makes the file `size` bytes long, as `ftruncate`.
pub fn ftruncate(fd: RawFd, size: u64) -> io::Result<()> {
    let size = signed(size)?;
    // SAFETY: no memory is involved.
    uninterrupted(|| status(unsafe { libc::ftruncate(fd, size) }))
}

/// The size up to which this process may make files, memory files included. Making a larger one
/// raises a signal besides the error.
pub fn largest_file() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
    // SAFETY: the record outlives the call.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
}

/// Allocates storage for a range and changes no data; the file grows to it unless `keep_size`.
pub fn fallocate(fd: RawFd, range: Extent, keep_size: bool) -> io::Result<()> {
    let (start, len) = (signed(range.offset)?, signed(range.len)?);
    let mode = if keep_size { libc::FALLOC_FL_KEEP_SIZE } else { 0 };
    // SAFETY: no memory is involved.
    uninterrupted(|| status(unsafe { libc::fallocate(fd, mode, start, len) }))
}

/// Frees the storage of a range, which reads as zeros from then on; the size stays.
pub fn punch(fd: RawFd, range: Extent) -> io::Result<()> {
    let (start, len) = (signed(range.offset)?, signed(range.len)?);
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: no memory is involved.
    uninterrupted(|| status(unsafe { libc::fallocate(fd, mode, start, len) }))
}

/// The first byte at or behind `offset` that may be stored, as far as the file system distinguishes
/// holes from data; `None` if there is none before the end of the file.
pub fn next_data(fd: RawFd, offset: u64) -> io::Result<Option<u64>> {
    seek(fd, offset, libc::SEEK_DATA)
}

/// The first byte at or behind `offset` that is in a hole, the end of the file included; `None` if
/// the offset is behind the end.
pub fn next_hole(fd: RawFd, offset: u64) -> io::Result<Option<u64>> {
    seek(fd, offset, libc::SEEK_HOLE)
}

fn seek(fd: RawFd, offset: u64, whence: libc::c_int) -> io::Result<Option<u64>> {
    // SAFETY: no memory is involved; nothing here depends on the position of a descriptor.
    let found = unsafe { libc::lseek(fd, signed(offset)?, whence) };
    match u64::try_from(found) {
        Ok(found) => Ok(Some(found)),
        Err(_) => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
            error => Err(error),
        },
    }
}

/// Makes the kernel ask the server for the size of a file, even if a size is cached.
pub fn ask_size(fd: RawFd) -> io::Result<()> {
    ask_at(fd, c"")
}

/// The same of a file by its name in the directory `dir`, which is not followed if it is a symlink.
pub fn ask_at(dir: RawFd, name: &CStr) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid `statx`, which is plain numbers.
    let mut facts: libc::statx = unsafe { std::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_FORCE_SYNC | libc::AT_SYMLINK_NOFOLLOW;
    let wanted = libc::STATX_SIZE | libc::STATX_MTIME;
    // SAFETY: the name is a terminated string, and the kernel fills the local value.
    status(unsafe { libc::statx(dir, name.as_ptr(), flags, wanted, &raw mut facts) })
}

/// Lets the kernel drop the clean pages that it keeps of a file.
pub fn drop_pages(fd: RawFd) -> io::Result<()> {
    // SAFETY: no memory of this process is involved; length 0 means to the end of the file.
    match unsafe { libc::posix_fadvise(fd, 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Makes completed writes durable, as `fsync`.
pub fn fsync(fd: RawFd) -> io::Result<()> {
    // SAFETY: no memory is involved.
    uninterrupted(|| status(unsafe { libc::fsync(fd) }))
}

/// Waits for, or releases, an open-file-description lock; `kind` is `F_RDLCK`, `F_WRLCK` or
/// `F_UNLCK`, `len` 0 means "to the end of all files".
pub fn ofd_lock(
    fd: RawFd,
    command: libc::c_int,
    kind: libc::c_int,
    start: i64,
    len: i64,
) -> io::Result<()> {
    let lock = flock(kind, start, len);
    // SAFETY: the kernel reads the local value.
    uninterrupted(|| status(unsafe { libc::fcntl(fd, command, &raw const lock) }))
}

/// Whether such a lock of a kind is available now.
pub fn ofd_would_lock(fd: RawFd, kind: libc::c_int, start: i64, len: i64) -> io::Result<bool> {
    let mut lock = flock(kind, start, len);
    // SAFETY: the kernel changes the local value.
    status(unsafe { libc::fcntl(fd, libc::F_OFD_GETLK, &raw mut lock) })?;
    Ok(libc::c_int::from(lock.l_type) == libc::F_UNLCK)
}

fn flock(kind: libc::c_int, start: i64, len: i64) -> libc::flock {
    // SAFETY: all-zero bytes are a valid `flock`; `l_pid` must be 0 for such locks.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = start;
    lock.l_len = len;
    lock
}

/// A nameless file in memory.
pub fn memory_file(label: &CStr) -> io::Result<RawFd> {
    // SAFETY: the label is a terminated string.
    let fd = unsafe { libc::memfd_create(label.as_ptr(), libc::MFD_CLOEXEC) };
    if fd == -1 { Err(io::Error::last_os_error()) } else { Ok(fd) }
}

/// Bytes of a page of memory.
#[inline]
pub fn page_size() -> usize {
    // SAFETY: only numbers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Shared memory that is a range of a file.
#[derive(Debug)]
pub struct Mapping {
    address: *mut libc::c_void,
    len: usize,
    /// File byte at `address`.
    start: u64,
}

// SAFETY: an address range of the process, which any thread may unmap; through `&self` its bytes
// are reached by raw pointers only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the pages that hold `range`, for storing or only for reading.
    pub fn new(fd: RawFd, range: Extent, writable: bool) -> io::Result<Self> {
        let start = range.offset - range.offset % page_size() as u64;
        let len = usize::try_from(range.end() - start).map_err(io::Error::other)?;
        let access = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let offset = signed(start)?;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, fd, offset) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { address, len, start })
    }

    /// Gets all pages at once, ready for being stored to if `for_stores`; an error if one is not
    /// available. A system without such a call gets each page when it is touched.
    pub fn populate(&self, for_stores: bool) -> io::Result<()> {
        let advice = if for_stores { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
        // SAFETY: the pages are those of this mapping, and getting them changes no byte.
        match status(unsafe { libc::madvise(self.address, self.len, advice) }) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            result => result,
        }
    }

    /// The addresses of all pages.
    #[inline]
    pub fn addresses(&self) -> std::ops::Range<usize> {
        let start = self.address.expose_provenance();
        start..start + self.len.next_multiple_of(page_size())
    }

    /// The address of byte `offset` of the file, one of those that were to be mapped.
    #[inline]
    pub fn place(&self, offset: u64) -> *mut u8 {
        self.address.cast::<u8>().wrapping_add((offset - self.start) as usize)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing refers to it any more.
        unsafe { libc::munmap(self.address, self.len) };
    }
}
