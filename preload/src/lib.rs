//! `libaggio.so`: serves the MPI-IO calls of an unmodified program with the engine of `agg-core`.
//!
//! ```text
//! interposed the table of interposed functions: one row each
//! symbols    the exported symbols: MPI_x and PMPI_x    forward  the real functions
//! entry      ours or the real library's? arguments in, result out
//! active     is this library switched on in this process?
//! resolve    where the real functions are         abi      constants of the MPI library
//! handles    our files as MPI_File values         errors   engine errors as MPI error codes
//! open ...   the functions themselves
//! device     buffers in the memory of graphics processors
//! sets       sets of netCDF files as one file
//! posix      programs without MPI: `open`, `write`, `fopen`, ...
//! ```
//!
//! When the library is loaded it looks up the functions behind it and whether `AGGIO_POSIX` is set,
//! in MPI programs asks PnetCDF for MPI-IO (`pnetcdf`), and does nothing else. The first MPI call
//! decides whether it serves the process; until then, and with `AGGIO=off`, every call goes
//! straight to the real library.

#![allow(
    unreachable_pub,
    reason = "`pub` marks what other modules use; the symbols are the interface"
)]

mod abi;
mod active;
mod amode;
mod arguments;
mod attached;
mod close;
mod config;
mod cxx;
mod data;
mod datarep;
mod datatypes;
mod delete;
mod device;
mod entry;
mod errhandler;
mod errors;
mod fortran;
mod forward;
mod handles;
mod hdf5;
mod info;
mod interposed;
mod invoke;
mod keyval;
mod manage;
mod missing;
mod mpi;
mod one_node;
mod open;
mod pending;
mod pnetcdf;
mod pointer;
mod posix;
mod process;
mod progress;
mod requests;
mod rescue;
mod reserve;
mod resolve;
mod room;
mod sets;
mod split;
mod status;
mod symbols;
mod transport;
mod unused;
mod view;
mod view_types;

/// Says that this MPI cannot be served; its own MPI-IO is used.
pub(crate) fn report_unknown_mpi(version: &str) {
    // The settings decide which ranks may log.
    let _ = config::get();
    let name = version.lines().next().unwrap_or("").trim();
    let text = format!("unknown MPI library \"{name}\": its own MPI-IO is used");
    agg_core::log::once(agg_core::log::Level::Warn, &text);
    active::switch_off();
}
