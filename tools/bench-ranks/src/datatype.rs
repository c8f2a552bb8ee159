//! MPI datatypes made of layouts.

use crate::file::check;
use aggio_patterns::{Dimension, Layout};
use mpi::ffi::*;
use std::mem::MaybeUninit;
use std::os::raw::c_int;

/// A committed datatype, freed with its value.
pub(crate) struct Datatype {
    handle: MPI_Datatype,
}

impl Drop for Datatype {
    fn drop(&mut self) {
        // SAFETY: the handle was made by a constructor and is freed once.
        unsafe { MPI_Type_free(&mut self.handle) };
    }
}

/// A count for MPI-3 functions.
pub(crate) fn count(number: u64) -> Result<c_int, String> {
    number.try_into().map_err(|_| format!("{number} is too much for one MPI call"))
}

/// Runs a constructor that stores a handle.
fn make(
    what: &str,
    constructor: impl FnOnce(*mut MPI_Datatype) -> c_int,
) -> Result<Datatype, String> {
    let mut handle = MaybeUninit::uninit();
    check(what, constructor(handle.as_mut_ptr()))?;
    // SAFETY: the constructor succeeded and has stored the handle.
    Ok(Datatype { handle: unsafe { handle.assume_init() } })
}

impl Datatype {
    pub(crate) fn handle(&self) -> MPI_Datatype {
        self.handle
    }

    /// The datatype of `layout`, committed.
    pub(crate) fn new(layout: &Layout) -> Result<Self, String> {
        Self::build(layout)?.commit()
    }

    /// The datatype of `layout` with `extent` bytes from one to the next, committed.
    pub(crate) fn with_extent(layout: &Layout, extent: u64) -> Result<Self, String> {
        let datatype = Self::build(layout)?;
        let resized = make("MPI_Type_create_resized", |handle| {
            // SAFETY: the old type is valid during the call.
            unsafe { MPI_Type_create_resized(datatype.handle, 0, extent as MPI_Aint, handle) }
        })?;
        resized.commit()
    }

    fn commit(mut self) -> Result<Self, String> {
        // SAFETY: the handle is a datatype.
        check("MPI_Type_commit", unsafe { MPI_Type_commit(&mut self.handle) })?;
        Ok(self)
    }

    fn build(layout: &Layout) -> Result<Self, String> {
        match layout {
            Layout::Contiguous { bytes } => Self::bytes(*bytes),
            Layout::Strided { block, stride, count: blocks } => {
                let (blocks, block) = (count(*blocks)?, count(*block)?);
                make("MPI_Type_create_hvector", |handle| {
                    // SAFETY: the byte type is predefined.
                    unsafe {
                        MPI_Type_create_hvector(
                            blocks,
                            block,
                            *stride as MPI_Aint,
                            RSMPI_UINT8_T,
                            handle,
                        )
                    }
                })
            }
            Layout::Subarray { dimensions, element } => Self::subarray(dimensions, *element),
            Layout::List(pieces) => {
                let lens = pieces.iter().map(|p| count(p.len)).collect::<Result<Vec<_>, _>>()?;
                let offsets: Vec<_> = pieces.iter().map(|p| p.offset as MPI_Aint).collect();
                let entries = count(pieces.len() as u64)?;
                make("MPI_Type_create_hindexed", |handle| {
                    // SAFETY: both arrays have `entries` entries; the byte type is predefined.
                    unsafe {
                        MPI_Type_create_hindexed(
                            entries,
                            lens.as_ptr(),
                            offsets.as_ptr(),
                            RSMPI_UINT8_T,
                            handle,
                        )
                    }
                })
            }
            Layout::Sequence(parts) => Self::structure(parts),
        }
    }

    fn bytes(bytes: u64) -> Result<Self, String> {
        let bytes = count(bytes)?;
        // SAFETY: the byte type is predefined.
        make("MPI_Type_contiguous", |handle| unsafe {
            MPI_Type_contiguous(bytes, RSMPI_UINT8_T, handle)
        })
    }

    fn subarray(dimensions: &[Dimension], element: u64) -> Result<Self, String> {
        let element = Self::bytes(element)?;
        let all = |take: fn(&Dimension) -> u64| {
            dimensions.iter().map(|d| count(take(d))).collect::<Result<Vec<_>, _>>()
        };
        let (sizes, parts, starts) = (all(|d| d.size)?, all(|d| d.part)?, all(|d| d.start)?);
        make("MPI_Type_create_subarray", |handle| {
            // SAFETY: the three arrays have one entry a dimension; the element type is valid.
            unsafe {
                MPI_Type_create_subarray(
                    sizes.len() as c_int,
                    sizes.as_ptr(),
                    parts.as_ptr(),
                    starts.as_ptr(),
                    MPI_ORDER_C as c_int,
                    element.handle,
                    handle,
                )
            }
        })
    }

    fn structure(parts: &[(u64, Layout)]) -> Result<Self, String> {
        let types =
            parts.iter().map(|(_, part)| Self::build(part)).collect::<Result<Vec<_>, _>>()?;
        let handles: Vec<_> = types.iter().map(Self::handle).collect();
        let offsets: Vec<_> = parts.iter().map(|(offset, _)| *offset as MPI_Aint).collect();
        let (entries, ones) = (count(parts.len() as u64)?, vec![1; parts.len()]);
        make("MPI_Type_create_struct", |handle| {
            // SAFETY: the three arrays have `entries` entries; the types are valid.
            unsafe {
                MPI_Type_create_struct(
                    entries,
                    ones.as_ptr(),
                    offsets.as_ptr(),
                    handles.as_ptr(),
                    handle,
                )
            }
        })
    }
}
