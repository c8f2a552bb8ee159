//! Which description a descriptor belongs to.

use super::files::Description;
use libc::c_int;
use std::sync::atomic::{
    AtomicPtr, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// Descriptors from this number on are never ours.
pub const LIMIT: usize = 65_536;

/// The descriptions of all descriptors, as the host's item `aggio_posix_descriptors`. All its bytes
/// are zero, so that it takes no room in a file, nor in memory before it is used.
pub struct Descriptors {
    entries: [AtomicPtr<Description>; LIMIT],
    /// One more than the highest descriptor that was ever in the table.
    end: AtomicUsize,
}

impl Descriptors {
    /// None is ours.
    pub const fn new() -> Self {
        let entries = [const { AtomicPtr::new(std::ptr::null_mut()) }; LIMIT];
        Self { entries, end: AtomicUsize::new(0) }
    }
}

unsafe extern "Rust" {
    #[link_name = "aggio_posix_descriptors"]
    safe static TABLE: Descriptors;
}

/// The description of `fd`, if it is one of ours.
#[inline(always)]
pub fn get(fd: c_int) -> Option<&'static Description> {
    let entry = TABLE.entries.get(fd as usize)?;
    // SAFETY: descriptions are never freed.
    unsafe { entry.load(Acquire).as_ref() }
}

/// Whether `fd` is one of ours.
#[inline(always)]
pub fn has(fd: c_int) -> bool {
    get(fd).is_some()
}

/// Says that `fd` belongs to `description`; the file is locked.
pub fn set(fd: c_int, description: Option<&'static Description>) {
    let Some(entry) = TABLE.entries.get(fd as usize) else { return };
    let pointer = description.map_or(std::ptr::null_mut(), |d| std::ptr::from_ref(d).cast_mut());
    TABLE.end.fetch_max(fd as usize + 1, Relaxed);
    entry.store(pointer, Release);
}

/// All descriptors that are ours.
pub fn all() -> impl Iterator<Item = c_int> {
    (0..TABLE.end.load(Relaxed) as c_int).filter(|fd| has(*fd))
}

/// A descriptor of `description`, if it has one.
pub fn of(description: &'static Description) -> Option<c_int> {
    all().find(|fd| get(*fd).is_some_and(|other| std::ptr::eq(other, description)))
}
