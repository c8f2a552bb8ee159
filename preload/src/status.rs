//! Fills `MPI_Status` objects through the real library, which defines their layout.

use crate::abi::Abi;
use crate::arguments::Opaque;
use crate::mpi;

/// Stores in the status that `bytes` bytes were moved.
///
/// The field `MPI_ERROR` is left alone: only calls that complete several requests set it.
///
/// # Safety
/// `status` is a status object or the ABI's `MPI_STATUS_IGNORE`.
pub unsafe fn set(abi: &Abi, status: Opaque, bytes: u64) {
    if abi.ignores_status(status) || status.is_null() {
        return;
    }
    let count = i64::try_from(bytes).unwrap_or(i64::MAX);
    let byte = abi.handles.byte;
    // SAFETY: the status is valid by the caller's promise, the type is predefined.
    unsafe {
        if mpi::symbol::Status_set_elements_x.address().is_some() {
            mpi::Status_set_elements_x(status, byte, count);
        } else if mpi::symbol::Status_set_elements_c.address().is_some() {
            mpi::Status_set_elements_c(status, byte, count);
        } else {
            let count = libc::c_int::try_from(count).unwrap_or(libc::c_int::MAX);
            mpi::Status_set_elements(status, byte, count);
        }
        mpi::Status_set_cancelled(status, 0);
    }
}
