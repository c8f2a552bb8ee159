//! A process must store its bytes before it can notify others of them.

use super::{reading, settle, state};

/// Before a call of MPI. Calls on files see all bytes of this process; other calls may notify other
/// processes, so bytes of files in mode causal are stored first.
#[inline]
pub fn before_mpi(function: &str) {
    if function.starts_with("MPI_File") {
        reading::forget_all();
    }
    if !state::any_dirty() {
        return;
    }
    let on_files = function.starts_with("MPI_File");
    let about_the_end = matches!(function, "MPI_Finalize" | "MPI_Abort" | "MPI_Init");
    if on_files || about_the_end {
        settle::all();
    } else {
        settle::causal();
    }
}
