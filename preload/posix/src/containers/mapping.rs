//! Containers in memory: copies for read-only mappings, and live mappings for writable ones.

use super::super::errno;
use super::super::next;
use super::areas::{self, Area};
use super::live;
use super::table::OpenContainer;
use crate::operations::{Mapping, not_mapped};
use libc::c_void;

/// The largest mapping that is copied into memory.
const MOST_MAPPED: usize = 1 << 32;

/// `mmap`: read-only mappings are copies in memory.
///
/// # Safety
/// As the C library demands.
pub(super) unsafe fn map(open: &'static OpenContainer, mapping: &Mapping) -> *mut c_void {
    let Mapping { address, len, protection, flags, offset } = *mapping;
    let fail = not_mapped;
    let shared = mapping.is_shared();
    let writes = shared && protection & libc::PROT_WRITE != 0;
    if open.may_read().is_err() || writes && open.may_write().is_err() {
        return fail(libc::EACCES);
    }
    let Some(start) =
        u64::try_from(offset).ok().filter(|at| at.is_multiple_of(areas::page_size() as u64))
    else {
        return fail(libc::EINVAL);
    };
    // If the descriptor may write, the mapping has to show bytes that are written in other ways.
    if shared && len > 0 && open.may_write().is_ok() {
        match live::map(open, (address, len), protection, flags, start) {
            Ok(made) => return made,
            Err(error) if writes => return fail(error),
            Err(_) => {}
        }
    }
    if len == 0 || len > MOST_MAPPED {
        return fail(if len == 0 { libc::EINVAL } else { libc::ENOMEM });
    }
    let anonymous = flags & !libc::MAP_TYPE | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let writable = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the caller's address and length, without a file.
    let made = unsafe { next::mmap64(address, len, writable, anonymous, -1, 0) };
    if made == libc::MAP_FAILED {
        return made;
    }
    // SAFETY: so many bytes were mapped just now.
    let bytes = unsafe { std::slice::from_raw_parts_mut(made.cast::<u8>(), len) };
    let filled = open.locked(|_, state| state.source()?.read_at(bytes, start));
    // SAFETY: the mapping is ours until it is returned.
    let ready = unsafe { libc::mprotect(made, len, protection) };
    match filled {
        Ok(_) if ready == 0 => {
            if shared {
                areas::add(Area { pages: areas::pages(made as usize, len), live: None });
            }
            made
        }
        _ => {
            let error = filled.err().unwrap_or_else(errno::get);
            // SAFETY: as above.
            unsafe { libc::munmap(made, len) };
            fail(error)
        }
    }
}
