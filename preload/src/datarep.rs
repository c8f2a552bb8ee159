//! Data representations: extents in the file, and user-defined ones.

use crate::abi::Abi;
use crate::entry::{Opaque, Target};
use crate::symbols::forward;
use agg_core::{Error, ErrorClass, Result};
use libc::{c_char, c_int};

/// The extent of `datatype` in the file.
///
/// # Safety
/// `extent` is a valid address.
pub unsafe fn type_extent(_call: &Target, _datatype: usize, _extent: *mut i64) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}

/// Registers a data representation whose conversion functions take int counts.
///
/// # Safety
/// As MPI demands.
pub unsafe fn register(
    _abi: &'static Abi,
    name: *const c_char,
    read: Opaque,
    write: Opaque,
    extent: Opaque,
    state: Opaque,
) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    unsafe { forward::MPI_Register_datarep(name, read, write, extent, state) }
}

/// Registers a data representation whose conversion functions take large counts.
///
/// # Safety
/// As MPI demands.
pub unsafe fn register_c(
    _abi: &'static Abi,
    name: *const c_char,
    read: Opaque,
    write: Opaque,
    extent: Opaque,
    state: Opaque,
) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    unsafe { forward::MPI_Register_datarep_c(name, read, write, extent, state) }
}
