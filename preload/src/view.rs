//! Stub.

use crate::entry::{Offset, Opaque, Target};
use agg_core::{Error, ErrorClass, Result};
use libc::{c_char, c_int};

/// Not supported yet.
///
/// # Safety
/// As MPI demands.
pub unsafe fn set_view(
    _call: &Target,
    _disp: Offset,
    _etype: usize,
    _filetype: usize,
    _datarep: *const c_char,
    _info: usize,
) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}

/// Not supported yet.
///
/// # Safety
/// As MPI demands.
pub unsafe fn get_view(
    _call: &Target,
    _disp: *mut Offset,
    _etype: Opaque,
    _filetype: Opaque,
    _datarep: *mut c_char,
) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}
