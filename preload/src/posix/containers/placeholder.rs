//! The kernel's descriptor that stands for an open container.
//!
//! It is a file in memory that nobody can change, open for writing only: every call that does not
//! pass through this library fails there, instead of reading or writing other bytes. Its position is
//! that of the open file. Its content says what it stands for, so that a program which inherits it can go on.

use super::super::state::Inside;
use super::super::symbols::next;
use libc::c_int;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What the kernel shows as the name of such a file.
const NAME: &std::ffi::CStr = c"aggio-container";
const LINK: &[u8] = b"/memfd:aggio-container";
/// Descriptors that are no business of the program have numbers from here on, so that it gets the lowest
/// free ones; where it may have few, in the upper half.
const ASIDE: c_int = 200;

/// The first number of descriptors that are no business of the program.
pub(super) fn aside() -> c_int {
    // SAFETY: all-zero bytes are a limit, which is plain numbers.
    let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a limit.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    let half = c_int::try_from(limit.rlim_cur / 2).unwrap_or(ASIDE);
    if known { ASIDE.min(half) } else { ASIDE }
}

/// A new placeholder, with the lowest free number.
///
/// # Errors
/// What the system says.
pub(super) fn make(path: &Path, flags: c_int) -> io::Result<c_int> {
    let _inside = Inside::enter();
    // The program may have changed its limit.
    agg_core::blob::keep_descriptors_above(aside());
    let mut text = format!("{flags}\n").into_bytes();
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
            reopen(aside, libc::O_WRONLY | flags & libc::O_CLOEXEC)
        } else {
            Err(io::Error::last_os_error())
        };
        next::close(aside);
        opened
    }
}

/// What `fd` stands for, if it is a placeholder: the path and the flags of the open file.
pub(super) fn meaning(fd: c_int) -> Option<(PathBuf, c_int)> {
    let link = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    if !link.as_os_str().as_bytes().starts_with(LINK) {
        return None;
    }
    let reading = reopen(fd, libc::O_RDONLY | libc::O_CLOEXEC).ok()?;
    let mut text = vec![0; libc::PATH_MAX as usize + 16];
    // SAFETY: the buffer outlives the call.
    let read = unsafe {
        let read = next::pread64(reading, text.as_mut_ptr().cast(), text.len(), 0);
        next::close(reading);
        usize::try_from(read).ok()?
    };
    let end = text[..read].iter().position(|byte| *byte == b'\n')?;
    let flags = std::str::from_utf8(&text[..end]).ok()?.parse().ok()?;
    Some((PathBuf::from(OsStr::from_bytes(&text[end + 1..read])), flags))
}

/// A number that no other open placeholder has.
pub(super) fn inode(fd: c_int) -> Option<libc::off64_t> {
    // SAFETY: all bits zero are a record; it outlives the call.
    unsafe {
        let mut facts: libc::stat64 = std::mem::zeroed();
        let known = next::fstat64(fd, (&raw mut facts).cast()) == 0;
        known.then(|| facts.st_ino.cast_signed())
    }
}

/// Another open file description of what `fd` is open on.
fn reopen(fd: c_int, flags: c_int) -> io::Result<c_int> {
    let name = CString::new(format!("/proc/self/fd/{fd}"))?;
    // SAFETY: the name is a C string.
    checked(unsafe { next::open64(name.as_ptr(), flags, 0) })
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
