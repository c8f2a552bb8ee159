//! The datatypes of a view, as MPI handles that stay valid when the program frees its own.

use crate::abi::Abi;
use crate::arguments::Opaque;
use crate::{datatypes, mpi};
use agg_core::{Error, ErrorClass, Result};

/// The MPI datatypes of a file's view, kept for `MPI_File_get_view`.
#[derive(Debug)]
pub struct Types {
    pub(crate) etype: Kept,
    pub(crate) filetype: Kept,
}

/// A datatype that stays valid when the program frees its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    handle: usize,
    /// Whether it is a copy of ours, to be freed.
    copied: bool,
}

impl Types {
    /// Those of a file that has just been opened.
    pub fn bytes(abi: &Abi) -> Self {
        let byte = Kept { handle: abi.handles.byte, copied: false };
        Self { etype: byte, filetype: byte }
    }

    pub(crate) fn keep(abi: &Abi, etype: usize, filetype: usize) -> Result<Self> {
        let etype = Kept::of(abi, etype)?;
        match Kept::of(abi, filetype) {
            Ok(filetype) => Ok(Self { etype, filetype }),
            Err(error) => {
                etype.free(abi);
                Err(error)
            }
        }
    }

    /// Frees the copied types.
    pub fn free(&mut self, abi: &Abi) {
        self.etype.free(abi);
        self.filetype.free(abi);
        *self = Self::bytes(abi);
    }
}

impl Kept {
    fn of(abi: &Abi, handle: usize) -> Result<Self> {
        if datatypes::is_predefined(abi, handle) {
            return Ok(Self { handle, copied: false });
        }
        Ok(Self { handle: duplicate(abi, handle)?, copied: true })
    }

    fn free(self, abi: &Abi) {
        if !self.copied {
            return;
        }
        let mut room = 0usize;
        let place: Opaque = (&raw mut room).cast();
        // SAFETY: the type is a copy of ours; the variable has room for a handle of any ABI.
        unsafe {
            abi.store(place, 0, self.handle);
            mpi::Type_free(place);
        }
    }

    /// A handle for the caller: a copy that it frees, or a predefined type as it is.
    pub(crate) fn give(self, abi: &Abi, out: Opaque) -> Result<()> {
        if out.is_null() {
            return Err(Error::new(ErrorClass::Arg, "the address for a datatype is null"));
        }
        let handle = if self.copied { duplicate(abi, self.handle)? } else { self.handle };
        // SAFETY: the caller gives room for a handle.
        unsafe { abi.store(out, 0, handle) };
        Ok(())
    }
}

fn duplicate(abi: &Abi, handle: usize) -> Result<usize> {
    let mut room = 0usize;
    let place: Opaque = (&raw mut room).cast();
    // SAFETY: a live datatype, and room for a handle of any ABI.
    let code = unsafe { mpi::Type_dup(handle, place) };
    if code != 0 {
        return Err(Error::new(ErrorClass::Type, format!("MPI_Type_dup failed with code {code}")));
    }
    // SAFETY: just stored.
    Ok(unsafe { abi.load(place, 0) })
}
