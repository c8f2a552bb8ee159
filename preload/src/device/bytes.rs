//! Memory of the host for the bytes of device memory: a pinned buffer, or ordinary memory.

use super::api::Place;
use agg_core::{Result, allocate};
use std::sync::{Mutex, PoisonError};

/// Bytes of the pinned buffer.
pub(super) const PINNED: u64 = 16 << 20;

/// The pinned buffer of the process while no call uses it.
static FREE: Mutex<Pinned> = Mutex::new(Pinned::Unmade);

enum Pinned {
    /// No call has needed it so far.
    Unmade,
    /// It starts here.
    Free(usize),
    /// A call has it, or there is no memory for it.
    Taken,
}

/// Bytes of one call.
pub(super) enum Bytes {
    /// In the pinned buffer, which others may use afterwards.
    Pinned(*mut u8),
    /// In memory of their own.
    Own(Vec<u8>),
}

impl Bytes {
    /// Room for bytes of device memory at `place`; pinned if they are few and the buffer is free.
    ///
    /// # Errors
    /// `NoMem` if there is no memory for them.
    pub(super) fn new(len: u64, place: Place) -> Result<Self> {
        if len <= PINNED
            && let Some(start) = take(place)
        {
            return Ok(Self::Pinned(start));
        }
        Self::own(len)
    }

    /// Room for bytes in memory of their own.
    ///
    /// # Errors
    /// As [`Bytes::new`].
    pub(super) fn own(len: u64) -> Result<Self> {
        allocate::zeros(usize::try_from(len).unwrap_or(usize::MAX)).map(Self::Own)
    }

    /// The first byte.
    pub(super) fn start(&mut self) -> *mut u8 {
        match self {
            Self::Pinned(start) => *start,
            Self::Own(bytes) => bytes.as_mut_ptr(),
        }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if let Self::Pinned(start) = self {
            *FREE.lock().unwrap_or_else(PoisonError::into_inner) = Pinned::Free(*start as usize);
        }
    }
}

/// Takes the pinned buffer. It is made once and stays until the process ends, when the driver may
/// be gone: it is memory of this library, which the driver has pinned.
fn take(place: Place) -> Option<*mut u8> {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    match std::mem::replace(&mut *free, Pinned::Taken) {
        Pinned::Free(start) => Some(start as *mut u8),
        Pinned::Unmade => make(place),
        Pinned::Taken => None,
    }
}

fn make(place: Place) -> Option<*mut u8> {
    let (len, access) = (PINNED as usize, libc::PROT_READ | libc::PROT_WRITE);
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory, which stays mapped. A child of this process does not get it, so the pages
    // that the driver has pinned stay those of this process.
    unsafe {
        let start = libc::mmap(std::ptr::null_mut(), len, access, kind, -1, 0);
        if start == libc::MAP_FAILED {
            return None;
        }
        libc::madvise(start, len, libc::MADV_DONTFORK);
        place.api.pin(place, start.cast(), len);
        Some(start.cast())
    }
}
