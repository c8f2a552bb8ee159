//! Room for handles and statuses that the real library stores; their sizes differ between ABIs.

use crate::abi::Abi;
use crate::arguments::Opaque;
use agg_core::Result;

/// Calls `fill` with room for one handle and returns the handle that it stored.
///
/// # Errors
/// Those of `fill`.
pub fn new_handle(abi: &Abi, fill: impl FnOnce(Opaque) -> Result<()>) -> Result<usize> {
    with_handle(abi, 0, fill)
}

/// Calls `change` with the address of a variable that holds `handle`, for functions that free or
/// complete a handle; returns the value of the variable afterwards.
///
/// # Errors
/// Those of `change`.
pub fn with_handle(
    abi: &Abi,
    handle: usize,
    change: impl FnOnce(Opaque) -> Result<()>,
) -> Result<usize> {
    let mut variable = 0usize;
    let place: Opaque = (&raw mut variable).cast();
    // SAFETY: the variable has room for a handle of any ABI.
    unsafe { abi.store(place, 0, handle) };
    change(place)?;
    // SAFETY: it still holds a handle.
    Ok(unsafe { abi.load(place, 0) })
}

/// Room for an `MPI_Status` of any ABI; the largest has 32 bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub struct Status([u64; 8]);

impl Status {
    /// Zeroed room.
    pub fn new() -> Self {
        Self([0; 8])
    }

    /// Its address, for the real library.
    pub fn place(&mut self) -> Opaque {
        (&raw mut self.0).cast()
    }
}
