//! The kernel's descriptor that stands for an open container.
//!
//! It is a file in memory that nobody can change, open for writing only: every call that does not
//! pass through this library fails there, instead of reading or writing other bytes. Its position
//! is that of the open file. Its content describes the open file, so that a program which inherits
//! the descriptor can go on using it.

use super::super::errno;
use super::super::next;
use super::super::state::Inside;
use libc::c_int;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The name that the kernel shows for such a file.
const NAME: &std::ffi::CStr = c"aggio-container";
const LINK: &[u8] = b"/memfd:aggio-container";
/// Descriptors that do not belong to the program have numbers from here on, so that it gets the
/// lowest free ones; where it may have few, in the upper half.
const ASIDE: c_int = 200;

/// The first number of descriptors that do not belong to the program.
pub(super) fn aside() -> c_int {
    ASIDE.min(limit() / 2)
}

/// One more than the highest number of a descriptor that the program may have.
pub(super) fn limit() -> c_int {
    // SAFETY: all-zero bytes are a limit, which is plain numbers.
    let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a limit.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    if known { c_int::try_from(limit.rlim_cur).unwrap_or(c_int::MAX) } else { 2 * ASIDE }
}

/// Status flags, which all processes that share the open file share: they are those of the
/// placeholder.
pub(super) const STATUS: c_int = libc::O_APPEND | libc::O_NONBLOCK;

/// The status flags of `fd` now.
pub(super) fn status(fd: c_int) -> c_int {
    // SAFETY: plain numbers.
    let flags = unsafe { next::fcntl(fd, libc::F_GETFL, 0) };
    if flags < 0 { 0 } else { flags & STATUS }
}

/// Changes the status flags of `fd` and returns the result of `fcntl`.
pub(super) fn set_status(fd: c_int, flags: c_int) -> c_int {
    // SAFETY: plain numbers.
    unsafe { next::fcntl(fd, libc::F_SETFL, (flags & STATUS) as usize) }
}

/// Keeps other processes that share the placeholder `fd` from doing so at the same time, or no
/// longer; whether that was possible. Each process has one such lock, and all of it ends with it.
pub(super) fn exclude_others(fd: c_int, excludes: bool) -> bool {
    let _errno = errno::Keep::new();
    // SAFETY: all-zero bytes are a lock, of the whole file.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = if excludes { libc::F_WRLCK } else { libc::F_UNLCK } as libc::c_short;
    loop {
        // SAFETY: the lock outlives the call.
        let done = unsafe { next::fcntl(fd, libc::F_SETLKW, (&raw const lock) as usize) };
        match errno::get() {
            _ if done == 0 => return true,
            libc::EINTR => {}
            // Two processes of several threads may seem to wait for each other.
            libc::EDEADLK => std::thread::yield_now(),
            _ => return false,
        }
    }
}

/// A new placeholder, with the lowest free number.
///
/// # Errors
/// The system's error.
pub(super) fn make(path: &Path, (device, inode): (u64, u64), flags: c_int) -> io::Result<c_int> {
    let _inside = Inside::enter();
    // The program may have changed its limit.
    agg_core::blob::keep_descriptors_above(aside());
    let mut text = format!("{flags} {device} {inode}\n").into_bytes();
    text.extend_from_slice(path.as_os_str().as_bytes());
    // SAFETY: the name is a C string; the data outlives the call; plain numbers.
    unsafe {
        let low = checked(libc::memfd_create(
            NAME.as_ptr(),
            libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING,
        ))?;
        let aside = checked(next::fcntl(low, libc::F_DUPFD_CLOEXEC, aside() as usize));
        next::close(low);
        let aside = aside?;
        let written = next::pwrite64(aside, text.as_ptr().cast(), text.len(), 0);
        let seals =
            libc::F_SEAL_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
        let sealed = checked(next::fcntl(aside, libc::F_ADD_SEALS, seals as usize));
        let opened = if written == text.len() as isize && sealed.is_ok() {
            reopen(aside, libc::O_WRONLY | flags & (libc::O_CLOEXEC | STATUS))
        } else {
            Err(io::Error::last_os_error())
        };
        next::close(aside);
        opened
    }
}

/// The content of a placeholder.
#[derive(Debug, PartialEq)]
pub(super) struct Meaning {
    /// The name when it was opened.
    pub(super) path: PathBuf,
    /// Flags of the open file.
    pub(super) flags: c_int,
    /// Device and inode of the container's directory, or of the set's first file.
    pub(super) identity: (u64, u64),
}

/// The meaning of `fd`, if it is a placeholder.
pub(super) fn meaning(fd: c_int) -> Option<Meaning> {
    behind(Path::new(&format!("/proc/self/fd/{fd}")))
}

/// The meaning of the placeholder behind a name such as `/dev/stdin` or `/proc/self/fd/3`.
pub(super) fn behind(name: &Path) -> Option<Meaning> {
    let mut name = name.to_path_buf();
    for _ in 0..8 {
        let link = std::fs::read_link(&name).ok()?;
        if link.as_os_str().as_bytes().starts_with(LINK) {
            return read(&name);
        }
        name = name.parent()?.join(link);
    }
    None
}

fn read(name: &Path) -> Option<Meaning> {
    let name = CString::new(name.as_os_str().as_bytes()).ok()?;
    let mut text = vec![0; libc::PATH_MAX as usize + 64];
    // SAFETY: the name is a C string; the buffer outlives the call.
    let read = unsafe {
        let reading = next::open64(name.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0);
        let read = next::pread64(reading, text.as_mut_ptr().cast(), text.len(), 0);
        if reading >= 0 {
            next::close(reading);
        }
        usize::try_from(read).ok()?
    };
    parse(&text[..read])
}

fn parse(text: &[u8]) -> Option<Meaning> {
    let end = text.iter().position(|byte| *byte == b'\n')?;
    let mut numbers = std::str::from_utf8(&text[..end]).ok()?.split(' ');
    let flags = numbers.next()?.parse().ok()?;
    let identity = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    let path = PathBuf::from(OsStr::from_bytes(&text[end + 1..]));
    Some(Meaning { path, flags, identity })
}

/// A number that no other open placeholder has.
pub(super) fn inode(fd: c_int) -> Option<libc::off64_t> {
    identity(fd).map(|(_, inode)| inode.cast_signed())
}

/// Device and inode of the file that the kernel has open as `fd`.
pub(super) fn identity(fd: c_int) -> Option<(u64, u64)> {
    // SAFETY: all bits zero are a record; it outlives the call.
    unsafe {
        let mut facts: libc::stat64 = std::mem::zeroed();
        let known = next::fstat64(fd, (&raw mut facts).cast()) == 0;
        known.then_some((facts.st_dev, facts.st_ino))
    }
}

/// A second open file description of the file behind `fd`.
fn reopen(fd: c_int, flags: c_int) -> io::Result<c_int> {
    let name = CString::new(format!("/proc/self/fd/{fd}"))?;
    // SAFETY: the name is a C string.
    checked(unsafe { next::open64(name.as_ptr(), flags, 0) })
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
