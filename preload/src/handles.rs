//! Our open files as values of `MPI_File`.
//!
//! A handle is an address inside a region that is reserved once and never accessible, so no real
//! library's handle can equal one of ours, and nobody can follow one. Addresses are given out in
//! turn: one that belongs to a closed file is met again only after millions of opens, so the use
//! of a closed handle is noticed.

use crate::errhandler::Attached;
use agg_core::{Error, ErrorClass, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Number of addresses; the number of files that can be open at once.
const SLOTS: usize = 1 << 22;
const SPACING: usize = 16;
const REGION: usize = SLOTS * SPACING;

/// Start of the reserved region, 0 until the first open.
static BASE: AtomicUsize = AtomicUsize::new(0);
static TABLE: RwLock<Table> = RwLock::new(Table { files: BTreeMap::new(), next: 0 });

struct Table {
    files: BTreeMap<u32, Arc<OpenFile>>,
    next: u32,
}

/// An open file and what MPI knows about it.
pub struct OpenFile {
    /// The value of `MPI_File` that the program holds.
    pub handle: usize,
    /// The name it was opened with.
    pub path: String,
    /// The communicator of the ranks that opened it.
    pub comm: usize,
    /// The error handler in force.
    pub errhandler: Mutex<Attached>,
}

/// What a value of `MPI_File` stands for.
pub enum Found {
    /// A file of the real library, or rubbish.
    Foreign,
    /// A file of ours that has been closed.
    Closed,
    /// An open file of ours.
    Open(Arc<OpenFile>),
}

/// What `handle` stands for.
#[inline]
pub fn find(handle: usize) -> Found {
    let Some(slot) = slot_of(handle) else { return Found::Foreign };
    match slot.and_then(by_slot) {
        Some(file) => Found::Open(file),
        None => Found::Closed,
    }
}

/// The open file in `slot`.
pub fn by_slot(slot: u32) -> Option<Arc<OpenFile>> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner).files.get(&slot).cloned()
}

/// `None` if the address lies outside our region; `Some(None)` if no handle can have it.
fn slot_of(handle: usize) -> Option<Option<u32>> {
    let base = BASE.load(Ordering::Relaxed);
    let distance = handle.wrapping_sub(base);
    if base == 0 || distance >= REGION {
        return None;
    }
    Some((distance % SPACING == 0).then_some((distance / SPACING) as u32))
}

/// Puts a file into the table: `make` is given its handle.
///
/// # Errors
/// `NoMem` if the addresses cannot be reserved, or are all in use.
pub fn insert(make: impl FnOnce(usize) -> OpenFile) -> Result<Arc<OpenFile>> {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let base = reserved_base()?;
    if table.files.len() >= SLOTS {
        return Err(Error::new(ErrorClass::NoMem, format!("{SLOTS} files are open")));
    }
    while table.files.contains_key(&table.next) {
        table.next = (table.next + 1) % SLOTS as u32;
    }
    let slot = table.next;
    table.next = (slot + 1) % SLOTS as u32;
    let file = Arc::new(make(base + slot as usize * SPACING));
    table.files.insert(slot, file.clone());
    Ok(file)
}

/// Takes the file with this handle out of the table.
pub fn remove(handle: usize) -> Option<Arc<OpenFile>> {
    let slot = slot_of(handle)??;
    TABLE.write().unwrap_or_else(PoisonError::into_inner).files.remove(&slot)
}

/// All open files.
pub fn all() -> Vec<Arc<OpenFile>> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner).files.values().cloned().collect()
}

/// The number of `handle` among our handles, if it is one.
pub fn slot(handle: usize) -> Option<u32> {
    slot_of(handle)?
}

/// Called with the table locked.
fn reserved_base() -> Result<usize> {
    let base = BASE.load(Ordering::Relaxed);
    if base != 0 {
        return Ok(base);
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let region = unsafe { libc::mmap(std::ptr::null_mut(), REGION, libc::PROT_NONE, flags, -1, 0) };
    if region == libc::MAP_FAILED {
        return Err(Error::os("mmap", &std::io::Error::last_os_error()));
    }
    BASE.store(region as usize, Ordering::Relaxed);
    Ok(region as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(handle: usize) -> OpenFile {
        OpenFile { handle, path: String::new(), comm: 0, errhandler: Mutex::default() }
    }

    #[test]
    fn a_closed_handle_is_noticed_and_not_given_out_again_soon() {
        let Ok(first) = insert(file) else { panic!("no table") };
        assert!(matches!(find(first.handle), Found::Open(_)));
        remove(first.handle);
        assert!(matches!(find(first.handle), Found::Closed));
        for _ in 0..1000 {
            let Ok(other) = insert(file) else { panic!("no table") };
            assert_ne!(other.handle, first.handle);
            remove(other.handle);
        }
    }

    #[test]
    fn foreign_addresses_and_addresses_between_handles_are_told_apart() {
        let Ok(ours) = insert(file) else { panic!("no table") };
        assert!(matches!(find(0), Found::Foreign));
        assert!(matches!(find(0x118), Found::Foreign));
        assert!(matches!(find((&raw const ours) as usize), Found::Foreign));
        assert!(matches!(find(ours.handle + 1), Found::Closed));
        remove(ours.handle);
    }
}
