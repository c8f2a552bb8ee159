//! Start and end of MPI in the process.

use crate::abi::Abi;
use crate::entry::{Handle, Opaque};
use crate::symbols::forward;
use crate::{close, errhandler, mpi, transport};
use agg_core::log;
use libc::c_int;

/// `MPI_Init`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn init(abi: &Abi, argc: Opaque, argv: Opaque) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    let code = unsafe { forward::MPI_Init(argc, argv) };
    started(abi, code);
    code
}

/// `MPI_Init_thread`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn init_thread(
    abi: &Abi,
    argc: Opaque,
    argv: Opaque,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    let code = unsafe { forward::MPI_Init_thread(argc, argv, required, provided) };
    started(abi, code);
    code
}

/// Messages carry the rank in the world, which exists now.
fn started(abi: &Abi, code: c_int) {
    let mut rank: c_int = 0;
    // SAFETY: MPI was initialized by the program just now.
    if code == 0 && unsafe { mpi::Comm_rank(abi.handles.comm_world, &raw mut rank) } == 0 {
        log::set_rank(usize::try_from(rank).unwrap_or(0));
    }
}

/// `MPI_Finalize`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn finalize(_: &Abi) -> c_int {
    close::abandon_all();
    errhandler::forget_default();
    transport::forget();
    // SAFETY: nothing is passed.
    unsafe { forward::MPI_Finalize() }
}

/// `MPI_Session_finalize`. Without the world model this is where MPI ends.
///
/// # Safety
/// As MPI demands.
pub unsafe fn session_finalize(_: &Abi, session: Opaque) -> c_int {
    let mut world: c_int = 0;
    // SAFETY: may be called at any time.
    unsafe { mpi::Initialized(&raw mut world) };
    if world == 0 {
        close::abandon_all();
        errhandler::forget_default();
        transport::forget();
    }
    // SAFETY: the caller's argument, passed on.
    unsafe { forward::MPI_Session_finalize(session) }
}

/// `MPI_Abort`. What was written is in the operating system's hands already.
///
/// # Safety
/// As MPI demands.
pub unsafe fn abort(_: &Abi, comm: usize, code: c_int) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    unsafe { forward::MPI_Abort(Handle::from(comm), code) }
}
