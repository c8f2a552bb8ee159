//! Descriptors that belong to containers and not to the program: a program that closes whatever it finds must not close
//! them, for their numbers would become other files.

use super::super::state::{self, Inside};
use super::super::symbols::next;
use super::{placeholder, table};
use agg_core::blob::is_container;
use libc::{c_int, off64_t};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The position of descriptors of sets, which are read without it: one that every file system has, and that nobody who
/// reads in pieces of a usual size comes to.
const MARK: off64_t = 0x6167_6769;

/// Some descriptor was marked so, perhaps for a set that MPI-IO reads.
static HAS_SETS: AtomicBool = AtomicBool::new(false);

/// Takes the descriptor of a file that a set consists of out of the program's way.
///
/// # Errors
/// What the system says.
pub fn aside(file: File) -> io::Result<File> {
    let _inside = Inside::enter();
    HAS_SETS.store(true, Relaxed);
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

/// Whether there may be such descriptors, and it is the program that asks.
fn asks() -> bool {
    (table::any() || HAS_SETS.load(Relaxed)) && !Inside::is() && !state::is_guest()
}

/// Whether the open file is a container's directory, or a part of it, or read for a set.
fn is_part(fd: c_int) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{fd}"));
    let within = |path: &Path| is_container(path) || path.parent().is_some_and(is_container);
    // SAFETY: plain numbers.
    let is_marked = || unsafe { next::lseek64(fd, 0, libc::SEEK_CUR) } == MARK;
    is_marked() || link.is_ok_and(|path| within(&path))
}

/// Whether `fd` belongs to a container and not to the program.
pub fn is_own(fd: c_int) -> bool {
    if !asks() || fd < placeholder::aside() {
        return false;
    }
    let _inside = Inside::enter();
    is_part(fd)
}

/// The descriptors of a range that belong to containers, in order.
pub fn own_among(first: u32, last: u32) -> Vec<u32> {
    if !asks() || last < placeholder::aside().cast_unsigned() {
        return Vec::new();
    }
    let _inside = Inside::enter();
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let numbers: Vec<c_int> = numbers.filter(|fd| *fd >= placeholder::aside()).collect();
    let meant = numbers.into_iter().filter(|fd| (first..=last).contains(&fd.cast_unsigned()));
    let mut own: Vec<_> = meant.filter(|fd| is_part(*fd)).map(c_int::cast_unsigned).collect();
    own.sort_unstable();
    own
}
