//! Stub.

use crate::entry::{Offset, Opaque, Target};
use agg_core::{Error, ErrorClass, Result};
use libc::{c_char, c_int};

/// Not supported yet.
///
/// # Safety
/// As MPI demands.
pub unsafe fn seek(_call: &Target, _offset: Offset, _whence: c_int) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}

/// Not supported yet.
///
/// # Safety
/// As MPI demands.
pub unsafe fn position(_call: &Target, _offset: *mut Offset) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}

/// Not supported yet.
///
/// # Safety
/// As MPI demands.
pub unsafe fn byte_offset(_call: &Target, _offset: Offset, _disp: *mut Offset) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}

/// Not supported yet.
///
/// # Safety
/// As MPI demands.
pub unsafe fn seek_shared(_call: &Target, _offset: Offset, _whence: c_int) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}

/// Not supported yet.
///
/// # Safety
/// As MPI demands.
pub unsafe fn position_shared(_call: &Target, _offset: *mut Offset) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}
