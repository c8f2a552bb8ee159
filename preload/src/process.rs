//! Start and end of MPI in the process.

use crate::abi::Abi;
use crate::arguments::{Handle, Opaque};
use crate::forward;
use crate::keyval::{Key, Object};
use crate::{attached, close, config, mpi, pnetcdf, requests, rescue, transport, unused};
use agg_core::log;
use libc::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// `MPI_Init`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn init(abi: &Abi, argc: Opaque, argv: Opaque) -> c_int {
    pnetcdf::ask_for_mpi_io();
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
    pnetcdf::ask_for_mpi_io();
    // SAFETY: the caller's arguments, passed on.
    let code = unsafe { forward::MPI_Init_thread(argc, argv, required, provided) };
    started(abi, code);
    code
}

/// Messages carry the rank in the world, which exists now. The library is notified of the end of
/// MPI.
fn started(abi: &Abi, code: c_int) {
    if code == 0 {
        aggio_posix::coupled::mpi_runs(true);
        ENDS_WITH_SELF.store(listen_for_end(abi), Ordering::Relaxed);
    }
    let mut rank: c_int = 0;
    // SAFETY: MPI was initialized by the program just now.
    if code == 0 && unsafe { mpi::Comm_rank(abi.handles.comm_world, &raw mut rank) } == 0 {
        log::set_rank(usize::try_from(rank).unwrap_or(0));
    }
}

/// [`end`] is called by an attribute of `MPI_COMM_SELF`.
static ENDS_WITH_SELF: AtomicBool = AtomicBool::new(false);

/// An attribute: deleting it ends this library's part.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        end();
    }
}

/// Gives `MPI_COMM_SELF` the attribute [`End`] and returns whether that worked.
///
/// `MPI_Finalize` first deletes the attributes of `MPI_COMM_SELF`, the newest first (MPI-4.1,
/// 11.2.4). Programs use their own to close files: HDF5 does. Set while MPI starts, ours is the
/// last, so those files are still there.
fn listen_for_end(abi: &Abi) -> bool {
    static KEY: Key<End> = Key::new(Object::Comm);
    // If MPI refuses the value, do not run its destructor.
    KEY.set(abi.handles.comm_self, End).map_err(std::mem::forget).is_ok()
}

/// Gives back all that is still held while MPI may be called for the last time.
fn end() {
    aggio_posix::coupled::mpi_runs(false);
    requests::end_all();
    close::abandon_all();
    unused::tell_after_mpi();
    close::tell_no_sets();
    config::get().engine.workers().dismiss();
    attached::forget_default();
    transport::forget();
}

/// `MPI_Finalize`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn finalize(_: &Abi) -> c_int {
    if !ENDS_WITH_SELF.swap(false, Ordering::Relaxed) {
        end();
    }
    // SAFETY: nothing is passed.
    unsafe { forward::MPI_Finalize() }
}

/// Sessions that are open.
static SESSIONS: AtomicUsize = AtomicUsize::new(0);

/// `MPI_Session_init`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn session_init(_: &Abi, info: usize, errhandler: usize, session: Opaque) -> c_int {
    let (info, errhandler) = (Handle::from(info), Handle::from(errhandler));
    // SAFETY: the caller's arguments, passed on.
    let code = unsafe { forward::MPI_Session_init(info, errhandler, session) };
    if code == 0 {
        SESSIONS.fetch_add(1, Ordering::Relaxed);
    }
    code
}

/// `MPI_Session_finalize`. Without the world model MPI ends with the last session.
///
/// # Safety
/// As MPI demands.
pub unsafe fn session_finalize(_: &Abi, session: Opaque) -> c_int {
    let mut world: c_int = 0;
    // SAFETY: may be called at any time.
    unsafe { mpi::Initialized(&raw mut world) };
    let one_less = |open: usize| Some(open.saturating_sub(1));
    let open = SESSIONS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
    if world == 0 && open.is_ok_and(|open| open <= 1) {
        end();
    }
    // SAFETY: the caller's argument, passed on.
    unsafe { forward::MPI_Session_finalize(session) }
}

/// `MPI_Abort`. Makes sure first that the operating system has all written bytes.
///
/// # Safety
/// As MPI demands.
pub unsafe fn abort(_: &Abi, comm: usize, code: c_int) -> c_int {
    aggio_posix::coupled::died();
    rescue::all();
    rescue::report();
    close::tell_no_sets();
    // SAFETY: the caller's arguments, passed on.
    unsafe { forward::MPI_Abort(Handle::from(comm), code) }
}
