//! The steps of every exported function before and after its work: finding the owner of the handle,
//! and returning the result to the caller.

use crate::abi::Abi;
use crate::arguments::FileHandle;
use crate::handles::{self, OpenFile};
use crate::{active, errors};
use agg_core::Result;
use libc::c_int;
use std::sync::Arc;

/// The open file that a call concerns.
pub struct Target {
    /// Name of the function that was called, without the `P` of its profiling name.
    pub function: &'static str,
    /// The file.
    pub file: Arc<OpenFile>,
    /// The MPI of this process.
    pub abi: &'static Abi,
}

impl Target {
    /// Reports `result` through the file's error handler; the code for the caller.
    pub fn finish(&self, result: Result<()>) -> c_int {
        match result {
            Ok(()) => 0,
            Err(error) => errors::raise_on_file(&self.file, error.with_operation(self.function)),
        }
    }
}

/// The library that serves a file handle.
pub enum Access {
    /// This library does not manage it: the real library must see the call.
    Foreign,
    /// An open file of this library.
    Ours(Target),
    /// A handle that is null or closed.
    Invalid,
}

/// Determines the library that serves `handle` in a call of `function`.
#[inline]
pub fn access(handle: FileHandle, function: &'static str) -> Access {
    let Some(abi) = active::abi() else { return Access::Foreign };
    if handle == abi.handles.file_null || handle == 0 {
        return Access::Invalid;
    }
    match handles::find(handle) {
        handles::Found::Foreign => Access::Foreign,
        handles::Found::Closed => Access::Invalid,
        handles::Found::Open(file) => Access::Ours(Target { function, file, abi }),
    }
}

/// Restores `errno` when it goes out of scope: a successful MPI call does not change it.
pub struct KeepErrno(c_int);

impl KeepErrno {
    /// Remembers the current value.
    #[inline]
    pub fn new() -> Self {
        // SAFETY: the location is valid for the life of this thread.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for KeepErrno {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the location is valid for the life of this thread.
        unsafe { *libc::__errno_location() = self.0 }
    }
}
