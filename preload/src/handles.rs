//! Our open files as values of `MPI_File`.
//!
//! A handle is an address inside a region that is reserved once and never accessible, so no real
//! library's handle can equal one of ours, and nobody can follow one. Addresses are given out in
//! turn: one that belongs to a closed file is met again only after millions of opens, so the use
//! of a closed handle is noticed.

use crate::attached::Attached;
use crate::view_types::Types;
use agg_core::file::File;
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
static FILES: Slots<OpenFile> = Slots::new();

/// Things with addresses in the region.
struct Slots<T>(RwLock<Table<T>>);

struct Table<T> {
    entries: BTreeMap<u32, Arc<T>>,
    next: u32,
}

/// An open file and its MPI objects.
pub struct OpenFile {
    /// The value of `MPI_File` that the program holds.
    pub handle: usize,
    /// The name it was opened with.
    pub path: String,
    /// The communicator of the ranks that opened it.
    pub comm: usize,
    /// The group of that communicator, an MPI handle of our own.
    pub group: usize,
    /// The file in the engine.
    pub engine: Arc<File>,
    /// The datatypes of the view, as MPI handles.
    pub types: Mutex<Types>,
    /// The error handler in force.
    pub errhandler: Mutex<Attached>,
}

/// The meaning of a value of `MPI_File`.
pub enum Found<T = OpenFile> {
    /// A file of the real library, or rubbish.
    Foreign,
    /// A file of ours that has been closed.
    Closed,
    /// An open file of ours.
    Open(Arc<T>),
}

impl<T> Slots<T> {
    const fn new() -> Self {
        Self(RwLock::new(Table { entries: BTreeMap::new(), next: 0 }))
    }

    fn find(&self, handle: usize) -> Found<T> {
        let Some(slot) = slot_of(handle) else { return Found::Foreign };
        match slot.and_then(|slot| self.get(slot)) {
            Some(entry) => Found::Open(entry),
            None => Found::Closed,
        }
    }

    fn get(&self, slot: u32) -> Option<Arc<T>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).entries.get(&slot).cloned()
    }

    fn insert(&self, make: impl FnOnce(usize) -> T) -> Result<Arc<T>> {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let base = reserved_base()?;
        if table.entries.len() >= SLOTS {
            return Err(Error::new(ErrorClass::NoMem, format!("{SLOTS} files are open")));
        }
        while table.entries.contains_key(&table.next) {
            table.next = (table.next + 1) % SLOTS as u32;
        }
        let slot = table.next;
        table.next = (slot + 1) % SLOTS as u32;
        let entry = Arc::new(make(base + slot as usize * SPACING));
        table.entries.insert(slot, entry.clone());
        Ok(entry)
    }

    fn remove(&self, handle: usize) -> Option<Arc<T>> {
        let slot = slot_of(handle)??;
        self.0.write().unwrap_or_else(PoisonError::into_inner).entries.remove(&slot)
    }
}

/// The meaning of `handle`.
#[inline]
pub fn find(handle: usize) -> Found {
    FILES.find(handle)
}

/// The open file in `slot`.
pub fn by_slot(slot: u32) -> Option<Arc<OpenFile>> {
    FILES.get(slot)
}

/// `None` if the address lies outside our region; `Some(None)` if no handle can have it.
fn slot_of(handle: usize) -> Option<Option<u32>> {
    let base = BASE.load(Ordering::Relaxed);
    let distance = handle.wrapping_sub(base);
    if base == 0 || distance >= REGION {
        return None;
    }
    Some(distance.is_multiple_of(SPACING).then_some((distance / SPACING) as u32))
}

/// Puts a file into the table: `make` is given its handle.
///
/// # Errors
/// `NoMem` if the addresses cannot be reserved, or are all in use.
pub fn insert(make: impl FnOnce(usize) -> OpenFile) -> Result<Arc<OpenFile>> {
    FILES.insert(make)
}

/// Takes the file with this handle out of the table.
pub fn remove(handle: usize) -> Option<Arc<OpenFile>> {
    FILES.remove(handle)
}

/// All open files.
pub fn all() -> Vec<Arc<OpenFile>> {
    let table = FILES.0.read().unwrap_or_else(PoisonError::into_inner);
    table.entries.values().cloned().collect()
}

/// The number of `handle` among our handles, if it is one.
pub fn slot(handle: usize) -> Option<u32> {
    slot_of(handle)?
}

/// Start of the region, which the first call reserves.
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
    match BASE.compare_exchange(0, region as usize, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => Ok(region as usize),
        Err(earlier) => {
            // SAFETY: the region was mapped just now, and there is no other reference to it.
            unsafe { libc::munmap(region, REGION) };
            Ok(earlier)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_handle_is_noticed_and_not_given_out_again_soon() -> Result<()> {
        let slots = Slots::new();
        let first = *slots.insert(|handle| handle)?;
        assert!(matches!(slots.find(first), Found::Open(entry) if *entry == first));
        slots.remove(first);
        assert!(matches!(slots.find(first), Found::Closed));
        for _ in 0..1000 {
            let other = *slots.insert(|handle| handle)?;
            assert_ne!(other, first);
            slots.remove(other);
        }
        Ok(())
    }

    #[test]
    fn foreign_addresses_and_addresses_between_handles_are_told_apart() -> Result<()> {
        let slots = Slots::new();
        let ours = slots.insert(|handle| handle)?;
        assert!(matches!(slots.find(0), Found::Foreign));
        assert!(matches!(slots.find(0x118), Found::Foreign));
        assert!(matches!(slots.find((&raw const ours) as usize), Found::Foreign));
        assert!(matches!(slots.find(*ours + 1), Found::Closed));
        Ok(())
    }

    #[test]
    fn addresses_in_use_are_passed_over_when_the_region_has_been_used_up() -> Result<()> {
        let slots = Slots::new();
        let kept = *slots.insert(|handle| handle)?;
        slots.0.write().unwrap_or_else(PoisonError::into_inner).next = SLOTS as u32 - 1;
        let last = *slots.insert(|handle| handle)?;
        let next = *slots.insert(|handle| handle)?;
        assert_eq!(last - kept, (SLOTS - 1) * SPACING);
        assert_eq!(next - kept, SPACING);
        Ok(())
    }
}
