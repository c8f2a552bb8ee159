//! MPI datatypes as the engine's compact trees.
//!
//! ```text
//! contents    envelope and contents of any function family, any ABI
//! build       combiner and arguments -> tree
//! named       predefined handles -> basic elements
//! attribute   the tree is kept with the MPI type
//! ```

mod attribute;
mod build;
mod contents;
mod named;

use crate::abi::Abi;
use crate::transport::lonely;
use crate::{mpi, room};
use agg_core::datatype::{Basic, BasicKind, Datatype};
use agg_core::{Error, ErrorClass, Result};
use build::Builder;
use named::Named;
use std::sync::OnceLock;

/// In which representation a type's sizes and displacements are wanted.
///
/// Displacements that a program gave in bytes stay as they are; those in copies of a type are
/// scaled by its extent in the representation (MPI-4.1, 14.5.1).
pub enum Lens<'a> {
    /// As in memory; `native` and `internal` files.
    Native,
    /// As in an `external32` file.
    External32,
    /// As in a file of a user-defined representation: the extent of each predefined type.
    User(&'a dyn Fn(usize) -> Result<i64>),
}

impl Lens<'_> {
    fn is_native(&self) -> bool {
        matches!(self, Lens::Native)
    }

    /// The layout of a predefined type.
    fn named(&self, abi: &Abi, handle: usize) -> Result<Datatype> {
        match self {
            Lens::Native => Ok(named::layouts(abi, handle)?.native),
            Lens::External32 => Ok(named::layouts(abi, handle)?.external),
            Lens::User(extent) => user_element(*extent, handle),
        }
    }
}

/// One opaque element of the size in a file that the program's own function returns. Its other size
/// is the one in memory, so that bytes of a file can be converted to bytes of memory.
fn user_element(extent: &dyn Fn(usize) -> Result<i64>, handle: usize) -> Result<Datatype> {
    let invalid =
        |_| Error::new(ErrorClass::Conversion, "a data representation with an invalid extent");
    let in_file = u32::try_from(extent(handle)?).map_err(invalid)?;
    let in_memory = u32::try_from(named::size_of(handle)?).unwrap_or(u32::MAX);
    Ok(Datatype::basic(Basic::new(BasicKind::Opaque, in_file, in_memory)))
}

/// The tree of `handle`, as in memory.
///
/// # Errors
/// `Type` for the null handle and for types that cannot be decoded.
pub fn decode(abi: &Abi, handle: usize) -> Result<Datatype> {
    if let Some(known) = known(handle) {
        return Ok(known.native.clone());
    }
    if let Some(known) = predefined(abi, handle)? {
        return Ok(known.native);
    }
    if let Some(known) = attribute::native(handle) {
        return Ok(known);
    }
    let native = Builder::new(abi, &Lens::Native).build(handle)?;
    let said = named::size_of(handle)?;
    if native.size() != said {
        let text = format!("a datatype of {said} bytes was decoded to {}", native.size());
        return Err(Error::new(ErrorClass::Intern, text));
    }
    attribute::set_native(handle, native.clone());
    Ok(native)
}

/// The tree of `handle`, as in memory, if it may be used in communication.
///
/// # Errors
/// As [`decode`] and [`check_committed`].
pub fn decode_committed(abi: &Abi, handle: usize) -> Result<Datatype> {
    refuse_null(abi, handle)?;
    let usable = known(handle).map(|known| known.native.clone());
    if let Some(usable) = usable.or_else(|| attribute::committed(handle)) {
        return Ok(usable);
    }
    check_committed(abi, handle)?;
    decode(abi, handle)
}

/// The tree of `handle` in a file, as `lens` sees it.
///
/// # Errors
/// As [`decode`], and those of a user's extent function.
pub fn decode_for_file(abi: &Abi, handle: usize, lens: &Lens<'_>) -> Result<Datatype> {
    match lens {
        Lens::Native => decode(abi, handle),
        Lens::External32 => {
            if let Some(known) = predefined(abi, handle)? {
                return Ok(known.external);
            }
            if let Some(known) = attribute::external(handle) {
                return Ok(known);
            }
            let external = Builder::new(abi, lens).build(handle)?;
            attribute::set_external(handle, external.clone());
            Ok(external)
        }
        Lens::User(_) => {
            refuse_null(abi, handle)?;
            Builder::new(abi, lens).build(handle)
        }
    }
}

/// Whether MPI predefines the type, so that it needs neither commit nor free.
pub fn is_predefined(abi: &Abi, handle: usize) -> bool {
    named::is_known(abi, handle)
        || contents::envelope(abi, handle).is_ok_and(|envelope| envelope.combiner.is_predefined())
}

/// Checks that `handle` may be used in communication.
///
/// MPI has no question for this, but sending to nobody is refused for a type that is not committed.
///
/// # Errors
/// `Type` if it is null or not committed.
pub fn check_committed(abi: &Abi, handle: usize) -> Result<()> {
    refuse_null(abi, handle)?;
    if known(handle).is_some() || attribute::is_committed(handle) {
        return Ok(());
    }
    if is_predefined(abi, handle) {
        return Ok(());
    }
    let (nobody, comm) = (abi.constants.proc_null, lonely::communicator()?);
    let mut nothing = 0u64;
    // SAFETY: bytes sent to `MPI_PROC_NULL` are not read. (Some libraries do not look at the type
    // if the count is zero.)
    let sent =
        unsafe { mpi::check(mpi::Send((&raw mut nothing).cast(), 1, handle, nobody, 0, comm)) };
    sent.map_err(|_| Error::new(ErrorClass::Type, "the datatype is not committed"))?;
    attribute::set_committed(handle);
    Ok(())
}

fn refuse_null(abi: &Abi, handle: usize) -> Result<()> {
    if handle == abi.handles.datatype_null || handle == 0 {
        return Err(Error::new(ErrorClass::Type, "the datatype is MPI_DATATYPE_NULL"));
    }
    Ok(())
}

/// Layouts of predefined types, which carry no attribute; the first empty place ends the list. The
/// few types that a program uses are found faster here than in a table, and without a lock.
static PREDEFINED: [OnceLock<(usize, Named)>; 128] = [const { OnceLock::new() }; 128];

/// The layouts of `handle`, if they are known already.
fn known(handle: usize) -> Option<&'static Named> {
    let mut list = PREDEFINED.iter().map_while(OnceLock::get);
    list.find(|(one, _)| *one == handle).map(|(_, layouts)| layouts)
}

/// The layouts of `handle` if it is a predefined type of the table.
///
/// # Errors
/// `Type` for the null handle.
fn predefined(abi: &Abi, handle: usize) -> Result<Option<Named>> {
    refuse_null(abi, handle)?;
    if let Some(known) = known(handle) {
        return Ok(Some(known.clone()));
    }
    if !named::is_known(abi, handle) {
        return Ok(None);
    }
    let layouts = named::layouts(abi, handle)?;
    // Places that other threads fill at the same time are passed over; a full list stays as it is.
    let _ =
        PREDEFINED.iter().find(|place| place.get_or_init(|| (handle, layouts.clone())).0 == handle);
    Ok(Some(layouts))
}

/// `tree` with the bounds that the library reports for `handle`.
fn bounded(handle: usize, tree: Datatype) -> Result<Datatype> {
    let (mut lb, mut extent) = (0i64, 0i64);
    // SAFETY: both variables outlive the call.
    unsafe {
        if mpi::has(&mpi::symbol::Type_get_extent_x) {
            mpi::check(mpi::Type_get_extent_x(handle, &raw mut lb, &raw mut extent))?;
        } else {
            mpi::check(mpi::Type_get_extent(handle, &raw mut lb, &raw mut extent))?;
        }
    }
    if (lb, extent) == (tree.lb(), tree.extent()) { Ok(tree) } else { tree.resized(lb, extent) }
}

/// Releases one reference to a derived type.
fn free(abi: &Abi, handle: usize) {
    // SAFETY: the handle was given to us as a new reference. A failure leaks it, no more.
    let _ = room::with_handle(abi, handle, |place| unsafe { mpi::check(mpi::Type_free(place)) });
}

/// The error for contents that contradict themselves.
fn malformed() -> Error {
    Error::new(ErrorClass::Type, "a datatype whose contents cannot be understood")
}
