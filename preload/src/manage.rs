//! Size, mode, group, hints and consistency of an open file.

use crate::arguments::{Offset, Opaque};
use crate::entry::Target;
use crate::pointer::give;
use crate::{amode, config, info, mpi, progress};
use agg_core::diagnostics::Diagnostics;
use agg_core::{Error, ErrorClass, Result};
use libc::c_int;

/// `MPI_File_set_size`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn set_size(call: &Target, size: Offset) -> Result<()> {
    progress::wait(call.file.engine.set_size(size))
}

/// `MPI_File_preallocate`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn preallocate(call: &Target, size: Offset) -> Result<()> {
    progress::wait(call.file.engine.preallocate(size))
}

/// `MPI_File_get_size`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn get_size(call: &Target, size: *mut Offset) -> Result<()> {
    progress::wait(call.file.engine.settled())?;
    let bytes = Offset::try_from(call.file.engine.size()?).unwrap_or(Offset::MAX);
    // SAFETY: the caller's promise.
    unsafe { give(size, bytes) }
}

/// `MPI_File_get_group`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn get_group(call: &Target, group: Opaque) -> Result<()> {
    if group.is_null() {
        return Err(Error::new(ErrorClass::Arg, "the address for the group is null"));
    }
    // SAFETY: the file's group lives as long as the file; the union with nothing is a copy.
    let code = unsafe { mpi::Group_union(call.file.group, call.abi.handles.group_empty, group) };
    if code == 0 {
        return Ok(());
    }
    Err(Error::new(ErrorClass::Intern, format!("MPI_Group_union failed with code {code}")))
}

/// `MPI_File_get_amode`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn get_amode(call: &Target, out: *mut c_int) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { give(out, amode::to_mpi(call.abi.constants, call.file.engine.amode())) }
}

/// `MPI_File_set_info`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn set_info(call: &Target, info: usize) -> Result<()> {
    let mut complaints = Diagnostics::default();
    let (pairs, wrong) = split(info::pairs(call.abi, info));
    let set = progress::wait(call.file.engine.set_info(&pairs, &mut complaints));
    // Strictness is for the start of a program and for opens; here a bad hint is only told.
    let _ = complaints.report(config::get().settings.strict);
    wrong.and(set)
}

/// The value, or its default and the error: for errors that must not keep this rank from a
/// collective step.
pub fn split<T: Default>(value: Result<T>) -> (T, Result<()>) {
    match value {
        Ok(value) => (value, Ok(())),
        Err(error) => (T::default(), Err(error)),
    }
}

/// `MPI_File_get_info`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn get_info(call: &Target, out: Opaque) -> Result<()> {
    if out.is_null() {
        return Err(Error::new(ErrorClass::Arg, "the address for the info object is null"));
    }
    let pairs: Vec<(String, String)> = call
        .file
        .engine
        .info()
        .into_iter()
        .map(|hint| (hint.name.to_owned(), hint.value))
        .collect();
    // SAFETY: the caller's promise.
    unsafe { info::create(call.abi, &pairs, out) }
}

/// `MPI_File_set_atomicity`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn set_atomicity(call: &Target, flag: c_int) -> Result<()> {
    progress::wait(call.file.engine.set_atomicity(flag != 0))
}

/// `MPI_File_get_atomicity`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn get_atomicity(call: &Target, flag: *mut c_int) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { give(flag, c_int::from(call.file.engine.atomicity())) }
}

/// `MPI_File_sync`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn sync(call: &Target) -> Result<()> {
    progress::wait(call.file.engine.sync())
}
