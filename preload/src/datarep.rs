//! Data representations: extents in the file, and user-defined ones.

use crate::abi::Abi;
use crate::entry::{Opaque, Target};
use crate::symbols::forward;
use agg_core::datatype::Datatype;
use agg_core::view::Representation;
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

/// The representation that a program names.
///
/// # Errors
/// `UnsupportedDatarep` if nobody registered the name.
pub fn named(name: &str) -> Result<Representation> {
    match name {
        "native" => Ok(Representation::Native),
        "internal" => Ok(Representation::Internal),
        "external32" => Ok(Representation::External32),
        _ => {
            let text = format!("no data representation is called {name:?}");
            Err(Error::new(ErrorClass::UnsupportedDatarep, text))
        }
    }
}

/// What a program calls a representation.
pub fn name_of(representation: &Representation) -> &str {
    match representation {
        Representation::Native => "native",
        Representation::Internal => "internal",
        Representation::External32 => "external32",
        Representation::User(name) => name,
    }
}

/// The etype and the filetype of a view, with the extents of the file's representation.
///
/// # Errors
/// `Type` for null types and types that cannot be decoded.
pub fn file_types(
    abi: &Abi,
    etype: usize,
    filetype: usize,
    representation: &Representation,
) -> Result<(Datatype, Datatype)> {
    let _ = representation;
    Ok((bytes(abi, etype)?, bytes(abi, filetype)?))
}

fn bytes(abi: &Abi, handle: usize) -> Result<Datatype> {
    if is_predefined(abi, handle) {
        return Ok(Datatype::bytes(1));
    }
    Err(Error::new(ErrorClass::UnsupportedOperation, "not supported yet"))
}

/// Whether MPI predefines the type, so that it needs neither commit nor free.
pub fn is_predefined(abi: &Abi, handle: usize) -> bool {
    handle == abi.handles.byte
}
