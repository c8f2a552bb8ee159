//! `MPI_File_close`.

use crate::abi::Abi;
use crate::entry::{Access, FileHandle, access};
use crate::errors;
use crate::symbols::forward;
use agg_core::{Error, ErrorClass};
use libc::c_int;

/// `MPI_File_close`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn close(_abi: &'static Abi, fh: *mut FileHandle) -> c_int {
    const NAME: &str = "MPI_File_close";
    if fh.is_null() {
        let text = "the address of the file handle is null";
        return errors::raise(&Error::new(ErrorClass::Arg, text).with_operation(NAME));
    }
    // SAFETY: the caller passes the address of a handle.
    match access(unsafe { *fh }, NAME) {
        // SAFETY: the caller's argument, passed on.
        Access::Foreign => unsafe { forward::MPI_File_close(fh) },
        Access::Invalid => errors::invalid_handle(NAME),
        Access::Ours(_) => 0,
    }
}
