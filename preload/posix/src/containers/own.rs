//! Descriptors that belong to containers and not to the program: a program that closes all
//! descriptors that it finds must not close them, for their numbers would become other files.

use super::super::next;
use super::super::state::{self, Inside};
use super::aside::{MARK, has_sets};
use super::{placeholder, table};
use agg_core::blob::is_container;
use libc::c_int;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Whether there may be such descriptors, and it is the program that asks. A child that shares its
/// memory has copies of them, which the program that it starts inherits.
fn asks() -> bool {
    (table::any() || has_sets()) && !Inside::is()
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
