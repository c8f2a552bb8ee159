//! `MPI_File_set_view` and `MPI_File_get_view`.

use crate::arguments::{Offset, Opaque};
use crate::config;
use crate::entry::Target;
use crate::manage::split;
use crate::pointer::give;
use crate::view_types::Types;
use crate::{datarep, info, progress};
use agg_core::diagnostics::Diagnostics;
use agg_core::file::Displacement;
use agg_core::view::{Representation, View};
use agg_core::{Error, ErrorClass, Result};
use libc::c_char;
use std::ffi::CStr;
use std::sync::PoisonError;

/// `MPI_File_set_view`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn set_view(
    call: &Target,
    disp: Offset,
    etype: usize,
    filetype: usize,
    datarep: *const c_char,
    info: usize,
) -> Result<()> {
    let current = disp == Offset::from(call.abi.constants.displacement_current);
    let (displacement, disp) =
        if current { (Displacement::Current, 0) } else { (Displacement::OfView, disp) };
    // SAFETY: the caller's promise about `datarep`.
    let representation = unsafe { representation(datarep) };
    let (pairs, wrong_info) = split(info::pairs(call.abi, info));
    let built = wrong_info.and(representation).and_then(|representation| {
        let view = build(call, disp, etype, filetype, representation)?;
        Ok((view, Types::keep(call.abi, etype, filetype)?))
    });
    let (view, kept) = match built {
        Ok((view, kept)) => (Ok(view), Some(kept)),
        Err(error) => (Err(error), None),
    };
    let mut complaints = Diagnostics::default();
    let set = call.file.engine.set_view(view, displacement, &pairs, &mut complaints);
    let _ = complaints.report(config::get().settings.strict);
    let set = progress::wait(set);
    let Some(mut kept) = kept else { return set };
    if set.is_ok() {
        // Then `kept` holds the types of the old view, which are freed.
        let mut types = call.file.types.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *types, &mut kept);
    }
    kept.free(call.abi);
    set
}

/// The view that the arguments describe, in terms of bytes.
fn build(
    call: &Target,
    disp: Offset,
    etype: usize,
    filetype: usize,
    representation: Representation,
) -> Result<View> {
    let disp = u64::try_from(disp)
        .map_err(|_| Error::new(ErrorClass::Arg, format!("the displacement {disp} is negative")))?;
    let (etype, filetype) = datarep::file_types(call.abi, etype, filetype, &representation)?;
    View::new(disp, etype, filetype, representation, call.file.engine.amode().is_writable())
}

/// The data representation that a C string names.
unsafe fn representation(name: *const c_char) -> Result<Representation> {
    if name.is_null() {
        return Err(Error::new(ErrorClass::Arg, "the data representation is null"));
    }
    // SAFETY: a C string by the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    datarep::named(&name)
}

/// `MPI_File_get_view`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn get_view(
    call: &Target,
    disp: *mut Offset,
    etype: Opaque,
    filetype: Opaque,
    datarep: *mut c_char,
) -> Result<()> {
    let view = call.file.engine.view();
    let start = Offset::try_from(view.displacement()).unwrap_or(Offset::MAX);
    // SAFETY: the caller's promise.
    unsafe { give(disp, start)? };
    {
        let types = call.file.types.lock().unwrap_or_else(PoisonError::into_inner);
        types.etype.give(call.abi, etype)?;
        types.filetype.give(call.abi, filetype)?;
    }
    let name = datarep::name_of(view.representation());
    let limit = usize::try_from(call.abi.constants.max_datarep_string).unwrap_or(1) - 1;
    let bytes = &name.as_bytes()[..name.len().min(limit)];
    if datarep.is_null() {
        return Err(Error::new(ErrorClass::Arg, "the address for the representation is null"));
    }
    // SAFETY: the caller gives room for MPI_MAX_DATAREP_STRING characters.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), datarep, bytes.len());
        *datarep.add(bytes.len()) = 0;
    }
    Ok(())
}
