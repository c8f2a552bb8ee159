//! File pointers: seeking and asking.

use crate::arguments::Offset;
use crate::entry::Target;
use crate::progress;
use agg_core::file::Whence;
use agg_core::{Error, ErrorClass, Result};
use libc::c_int;

fn whence(call: &Target, whence: c_int) -> Result<Whence> {
    let c = call.abi.constants;
    match whence {
        w if w == c.seek_set => Ok(Whence::Start),
        w if w == c.seek_cur => Ok(Whence::Current),
        w if w == c.seek_end => Ok(Whence::End),
        _ => Err(Error::new(ErrorClass::Arg, format!("whence {whence} is none of MPI's"))),
    }
}

/// Stores `value` for the caller.
///
/// # Safety
/// `out` is null or valid.
pub unsafe fn give<T>(out: *mut T, value: T) -> Result<()> {
    if out.is_null() {
        return Err(Error::new(ErrorClass::Arg, "the address for the result is null"));
    }
    // SAFETY: valid by the caller's promise.
    unsafe { *out = value };
    Ok(())
}

/// `MPI_File_seek`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn seek(call: &Target, offset: Offset, from: c_int) -> Result<()> {
    let whence = whence(call, from)?;
    if whence == Whence::End {
        progress::wait(call.file.engine.settled())?;
    }
    call.file.engine.seek(offset, whence)
}

/// `MPI_File_get_position`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn position(call: &Target, offset: *mut Offset) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { give(offset, call.file.engine.position()?) }
}

/// `MPI_File_get_byte_offset`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn byte_offset(call: &Target, offset: Offset, disp: *mut Offset) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { give(disp, call.file.engine.byte_offset(offset)?) }
}

/// `MPI_File_seek_shared`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn seek_shared(call: &Target, offset: Offset, from: c_int) -> Result<()> {
    // An impossible offset takes a wrong whence into the agreement of all ranks.
    let (offset, from, wrong) = match whence(call, from) {
        Ok(whence) => (offset, whence, None),
        Err(error) => (-1, Whence::Start, Some(error)),
    };
    let done = progress::wait(call.file.engine.seek_shared(offset, from));
    wrong.map_or(done, Err)
}

/// `MPI_File_get_position_shared`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn position_shared(call: &Target, offset: *mut Offset) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { give(offset, call.file.engine.position_shared()?) }
}
