//! A process must store its bytes before it can notify others of them.

use super::reason::Reason;
use super::{reading, settle, state};
use libc::c_int;

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

/// Before a call that writes to `fd` in a way of its own.
pub fn before_telling(fd: c_int) {
    settle::causal();
    settle::settle(fd, None);
}

/// Before the C library writes to `fd` at the kernel's position.
pub fn before_printing(fd: c_int) {
    settle::causal();
    settle::settle(fd, Some(Reason::Formatted));
}
