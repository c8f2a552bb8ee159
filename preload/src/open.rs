//! `MPI_File_open`.

use crate::abi::Abi;
use crate::entry::{FileHandle, Handle};
use crate::symbols::forward;
use libc::{c_char, c_int};

/// `MPI_File_open`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn open(
    _abi: &'static Abi,
    comm: usize,
    name: *const c_char,
    amode: c_int,
    info: usize,
    fh: *mut FileHandle,
) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    unsafe { forward::MPI_File_open(Handle::from(comm), name, amode, Handle::from(info), fh) }
}
