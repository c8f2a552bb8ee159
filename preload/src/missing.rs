//! The result of a call if the MPI library of the process lacks the function.

use crate::abi;
use agg_core::log::{self, Level};
use libc::c_int;

/// The result of a call if the real library has no such function.
pub trait Missing {
    /// The value that reports the missing function.
    fn missing(name: &str) -> Self;
}

impl Missing for c_int {
    fn missing(name: &str) -> c_int {
        missing_function(name)
    }
}

impl Missing for usize {
    fn missing(name: &str) -> usize {
        missing_function(name);
        abi::get().map_or(0, |abi| abi.handles.file_null)
    }
}

/// Says that the MPI library lacks a function; the code for the caller.
#[cold]
pub fn missing_function(name: &str) -> c_int {
    log::once(Level::Error, &format!("the MPI library of this process has no function P{name}"));
    abi::get().map_or(1, |abi| abi.constants.err_intern)
}
