//! Stub.

use crate::entry::{Offset, Opaque, Target};
use agg_core::{Error, ErrorClass, Result};
use libc::{c_char, c_int};

/// Not supported yet.
///
/// # Safety
/// As MPI demands.
pub unsafe fn set_size(_call: &Target, _size: Offset) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}

/// Not supported yet.
///
/// # Safety
/// As MPI demands.
pub unsafe fn preallocate(_call: &Target, _size: Offset) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}

/// Not supported yet.
///
/// # Safety
/// As MPI demands.
pub unsafe fn get_size(_call: &Target, _size: *mut Offset) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}

/// Not supported yet.
///
/// # Safety
/// As MPI demands.
pub unsafe fn get_group(_call: &Target, _group: Opaque) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}

/// Not supported yet.
///
/// # Safety
/// As MPI demands.
pub unsafe fn get_amode(_call: &Target, _amode: *mut c_int) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}

/// Not supported yet.
///
/// # Safety
/// As MPI demands.
pub unsafe fn set_info(_call: &Target, _info: usize) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}

/// Not supported yet.
///
/// # Safety
/// As MPI demands.
pub unsafe fn get_info(_call: &Target, _info: Opaque) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}

/// Not supported yet.
///
/// # Safety
/// As MPI demands.
pub unsafe fn set_atomicity(_call: &Target, _flag: c_int) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}

/// Not supported yet.
///
/// # Safety
/// As MPI demands.
pub unsafe fn get_atomicity(_call: &Target, _flag: *mut c_int) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}

/// Not supported yet.
///
/// # Safety
/// As MPI demands.
pub unsafe fn sync(_call: &Target) -> Result<()> {
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}
