//! Start and end of MPI in the process.

use crate::abi::Abi;
use crate::entry::{Handle, Opaque};
use crate::symbols::forward;
use libc::c_int;

/// `MPI_Init`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn init(_: &Abi, argc: Opaque, argv: Opaque) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    unsafe { forward::MPI_Init(argc, argv) }
}

/// `MPI_Init_thread`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn init_thread(
    _: &Abi,
    argc: Opaque,
    argv: Opaque,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    unsafe { forward::MPI_Init_thread(argc, argv, required, provided) }
}

/// `MPI_Finalize`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn finalize(_: &Abi) -> c_int {
    // SAFETY: nothing is passed.
    unsafe { forward::MPI_Finalize() }
}

/// `MPI_Session_finalize`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn session_finalize(_: &Abi, session: Opaque) -> c_int {
    // SAFETY: the caller's argument, passed on.
    unsafe { forward::MPI_Session_finalize(session) }
}

/// `MPI_Abort`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn abort(_: &Abi, comm: usize, code: c_int) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    unsafe { forward::MPI_Abort(Handle::from(comm), code) }
}
