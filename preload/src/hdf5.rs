//! Files of HDF5: their writes do not wait, but ranks set views without waiting for each other.
//! HDF5 has one rank read, alone, a chunk that another has written, and meets in collective calls
//! of the file at other times than other libraries do; and it sets two views for each chunk.

use agg_core::hints::{Hints, Switch};
use libc::{c_int, c_void};
use std::ffi::CStr;
use std::ptr::null_mut;

/// Callers that are looked at, the nearest first.
const CALLERS: usize = 32;

/// Whether it is worth looking whether HDF5 calls: its writes would wait, or its library is in
/// sight.
pub fn may_be_calling(hints: &Hints) -> bool {
    // SAFETY: a terminated string; the symbol is only looked for.
    let found = || unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"H5Pset_fapl_mpio".as_ptr()) };
    hints.aggio_defer == Switch::Enable || !found().is_null()
}

/// Whether HDF5 is among the callers of this function. It is known by the name of its library;
/// linked into a program without one, by the names of its functions if the program exports them.
pub fn is_calling() -> bool {
    let mut frames: [*mut c_void; CALLERS] = [null_mut(); CALLERS];
    // SAFETY: the array has room for so many addresses.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), CALLERS as c_int) };
    frames.iter().take(usize::try_from(count).unwrap_or(0)).any(|frame| is_in_hdf5(*frame))
}

fn is_in_hdf5(address: *mut c_void) -> bool {
    // SAFETY: all bits zero are a record.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the record outlives the call, which only compares the address.
    if unsafe { libc::dladdr(address, &raw mut found) } == 0 {
        return false;
    }
    // SAFETY: C strings that live as long as the object is loaded, which is being executed.
    let text = |name: *const libc::c_char| unsafe {
        (!name.is_null()).then(|| CStr::from_ptr(name).to_bytes())
    };
    let object = text(found.dli_fname).unwrap_or_default();
    let file = object.rsplit(|byte| *byte == b'/').next().unwrap_or(object);
    let function = text(found.dli_sname).unwrap_or_default();
    file.starts_with(b"libhdf5") || function.starts_with(b"H5F")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_program_without_hdf5_does_not_count() {
        assert!(!super::is_calling());
    }
}
