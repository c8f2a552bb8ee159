//! Descriptors that belong to containers and not to the program: a program that closes whatever it finds must not close
//! them, for their numbers would become other files.

use super::super::host::process;
use super::super::next;
use super::super::state::{self, Inside};
use super::{placeholder, table};
use agg_core::blob::is_container;
use libc::{c_int, off64_t};
use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

/// The position of descriptors of sets, which are read without it: one that every file system has, and that nobody who
/// reads in pieces of a usual size comes to.
const MARK: off64_t = 0x6167_6769;

/// Takes the descriptor of a file that a set consists of out of the program's way.
///
/// # Errors
/// What the system says.
pub fn aside(file: File) -> io::Result<File> {
    let _inside = Inside::enter();
    process().containers.has_sets.store(true, Relaxed);
    let first = placeholder::aside() as usize;
    // SAFETY: plain numbers; the new descriptor is nobody else's.
    unsafe {
        let fd = next::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, first);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let moved = File::from_raw_fd(fd);
        // Without the mark the program might close it, and another file get its number.
        if next::lseek64(fd, MARK, libc::SEEK_SET) != MARK {
            return Err(io::Error::last_os_error());
        }
        Ok(moved)
    }
}

/// How many descriptors one set may have: several are to have room besides the program's own.
pub fn room() -> usize {
    placeholder::limit().saturating_sub(placeholder::aside()).max(0) as usize / 8
}

/// Whether there may be such descriptors, and it is the program that asks. A child that shares its
/// memory has copies of them, which the program that it starts inherits.
fn asks() -> bool {
    (table::any() || process().containers.has_sets.load(Relaxed)) && !Inside::is()
}

/// Whether the open file is a container's directory, or a part of it, or read for a set.
fn is_part(fd: c_int) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{fd}"));
    let within = |path: &Path| is_container(path) || path.parent().is_some_and(is_container);
    // SAFETY: plain numbers.
    let is_marked = || unsafe { next::lseek64(fd, 0, libc::SEEK_CUR) } == MARK;
    is_marked() || link.is_ok_and(|path| within(&path))
}

/// Whether a child that shares the memory of the program leaves `fd`, which a container has, to the
/// program that it starts: it holds locks and parts for a descriptor that this one inherits, and
/// that is not among those being closed.
fn is_lent(fd: c_int, numbers: &[c_int], closing: &RangeInclusive<u32>) -> bool {
    // SAFETY: plain numbers.
    let (mark, is_inherited) = unsafe {
        let flags = |fd| next::fcntl(fd, libc::F_GETFD, 0);
        (next::lseek64(fd, 0, libc::SEEK_CUR), move |fd| flags(fd) == 0)
    };
    let stays = |other: &&c_int| !closing.contains(&other.cast_unsigned()) && is_inherited(**other);
    mark > 0 && numbers.iter().filter(stays).any(|other| placeholder::inode(*other) == Some(mark))
}

/// The numbers of all open descriptors.
fn numbers() -> Vec<c_int> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Whether `fd` belongs to a container and not to the program.
pub fn is_own(fd: c_int) -> bool {
    asks() && fd >= placeholder::aside() && !own_among(fd as u32, fd as u32).is_empty()
}

/// The descriptors of a range that belong to containers, in order.
pub fn own_among(first: u32, last: u32) -> Vec<u32> {
    if !asks() || last < placeholder::aside().cast_unsigned() {
        return Vec::new();
    }
    let _inside = Inside::enter();
    let closing = first..=last;
    let all = if first == last && !state::is_guest() { vec![first as c_int] } else { numbers() };
    let is_own = |fd: &c_int| {
        let among = *fd >= placeholder::aside() && closing.contains(&fd.cast_unsigned());
        among && is_part(*fd) && (!state::is_guest() || is_lent(*fd, &all, &closing))
    };
    let mut own: Vec<_> = all.iter().copied().filter(is_own).map(c_int::cast_unsigned).collect();
    own.sort_unstable();
    own
}

/// Where the directory with this identity is, if this process has it open, or a file in it.
pub(super) fn place_of(identity: (u64, u64)) -> Option<PathBuf> {
    let links = std::fs::read_dir("/proc/self/fd").ok()?.flatten();
    let paths = links.filter_map(|link| std::fs::read_link(link.path()).ok());
    let both = paths.flat_map(|path| [path.parent().map(Path::to_path_buf), Some(path)]);
    both.flatten().find(|path| table::identity_of(path) == identity)
}
