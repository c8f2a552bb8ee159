//! `MPI_File_delete`.

use crate::abi::Abi;
use crate::entry::Handle;
use crate::symbols::forward;
use libc::{c_char, c_int};

/// `MPI_File_delete`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn delete(_abi: &'static Abi, name: *const c_char, info: usize) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    unsafe { forward::MPI_File_delete(name, Handle::from(info)) }
}
