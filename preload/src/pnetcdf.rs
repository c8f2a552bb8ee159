//! `PNETCDF_HINTS`: asks PnetCDF, which has an I/O layer of its own, for MPI-IO.

use agg_core::settings::{self, pnetcdf};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Once;

/// When this library is loaded: only a program that has MPI already is asked. One that loads MPI
/// later is asked when it starts MPI.
pub fn at_load() {
    // SAFETY: the name is a C string; RTLD_NEXT needs no handle.
    let mpi = unsafe { libc::dlsym(libc::RTLD_NEXT, c"PMPI_Comm_rank".as_ptr()) };
    if !mpi.is_null() {
        ask_for_mpi_io();
    }
}

/// Appends the request for MPI-IO to `PNETCDF_HINTS`, once, unless a switch or a setting of the
/// user forbids it.
pub fn ask_for_mpi_io() {
    static ASKED: Once = Once::new();
    ASKED.call_once(|| {
        if !pnetcdf::is_asked_for(&settings::process_variable) {
            return;
        }
        let hints = std::env::var_os(pnetcdf::VARIABLE).unwrap_or_default();
        if let Some(hints) = pnetcdf::with_mpi_io(hints.as_bytes()) {
            // SAFETY: while the program is loaded it has one thread; and a program that starts MPI
            // does nothing to its environment meanwhile, which MPI libraries change there, too.
            unsafe { std::env::set_var(pnetcdf::VARIABLE, OsString::from_vec(hints)) };
        }
    });
}
