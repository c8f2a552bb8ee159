//! Descriptors that belong to containers and not to the program: a program that closes whatever it finds must not close
//! them, for their numbers would become other files.

use super::super::state::{self, Inside};
use super::placeholder::aside;
use super::table;
use agg_core::blob::is_container;
use libc::c_int;
use std::path::Path;

/// Whether there may be such descriptors, and it is the program that asks.
fn asks() -> bool {
    table::any() && !Inside::is() && !state::is_guest()
}

/// Whether the open file is a container's directory, or a part of it.
fn is_part(fd: c_int) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{fd}"));
    let within = |path: &Path| is_container(path) || path.parent().is_some_and(is_container);
    link.is_ok_and(|path| within(&path))
}

/// Whether `fd` belongs to a container and not to the program.
pub fn is_own(fd: c_int) -> bool {
    if !asks() || fd < aside() {
        return false;
    }
    let _inside = Inside::enter();
    is_part(fd)
}

/// The descriptors of a range that belong to containers, in order.
pub fn own_among(first: u32, last: u32) -> Vec<u32> {
    if !asks() || last < aside().cast_unsigned() {
        return Vec::new();
    }
    let _inside = Inside::enter();
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let numbers: Vec<c_int> = numbers.filter(|fd| *fd >= aside()).collect();
    let meant = numbers.into_iter().filter(|fd| (first..=last).contains(&fd.cast_unsigned()));
    let mut own: Vec<_> = meant.filter(|fd| is_part(*fd)).map(c_int::cast_unsigned).collect();
    own.sort_unstable();
    own
}
