//! What every exported function does before and after its work: who is responsible for the handle,
//! how the arguments become values of this crate, and what the caller gets back.

use crate::abi::Abi;
use crate::handles::{self, OpenFile};
use crate::{active, errors};
use agg_core::Result;
use libc::c_int;
use std::ffi::c_void;
use std::sync::Arc;

/// `MPI_Offset`.
pub type Offset = i64;

/// A value of `MPI_File`, which is pointer-sized in every ABI.
pub type FileHandle = usize;

/// Any other MPI handle as it arrives in a register: a pointer, or a C int below undefined bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Handle(usize);

/// `MPI_Count` of the large-count functions; a type of its own because only counts are narrowed
/// when such a call falls back to its int twin.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Count(i64);

impl From<usize> for Handle {
    fn from(handle: usize) -> Handle {
        Handle(handle)
    }
}

impl From<Count> for i64 {
    fn from(count: Count) -> i64 {
        count.0
    }
}

/// How an argument of the C interface becomes a value for a delegate.
pub trait Argument {
    /// What the delegate receives.
    type Value;

    /// The value that this argument stands for under `abi`.
    fn take(self, abi: &Abi) -> Self::Value;
}

/// The argument of the int twin that stands for an argument of a large-count function.
pub trait Narrow {
    /// The type in the twin.
    type Narrow;

    /// The twin's value, `None` if it does not fit.
    fn narrow(self) -> Option<Self::Narrow>;
}

impl Argument for Handle {
    type Value = usize;

    fn take(self, abi: &Abi) -> usize {
        abi.normalise(self.0)
    }
}

impl Argument for Count {
    type Value = i64;

    fn take(self, _: &Abi) -> i64 {
        self.0
    }
}

impl Narrow for Count {
    type Narrow = c_int;

    fn narrow(self) -> Option<c_int> {
        c_int::try_from(self.0).ok()
    }
}

impl Narrow for Handle {
    type Narrow = Handle;

    fn narrow(self) -> Option<Handle> {
        Some(self)
    }
}

macro_rules! plain {
    ($($ty:ty),*) => { $(
        impl Argument for $ty {
            type Value = $ty;
            fn take(self, _: &Abi) -> $ty { self }
        }
        impl Narrow for $ty {
            type Narrow = $ty;
            fn narrow(self) -> Option<$ty> { Some(self) }
        }
    )* };
}
plain!(c_int, i64, usize);

impl<T> Argument for *mut T {
    type Value = *mut T;

    fn take(self, _: &Abi) -> *mut T {
        self
    }
}

impl<T> Argument for *const T {
    type Value = *const T;

    fn take(self, _: &Abi) -> *const T {
        self
    }
}

impl<T> Narrow for *mut T {
    type Narrow = *mut T;

    fn narrow(self) -> Option<*mut T> {
        Some(self)
    }
}

impl<T> Narrow for *const T {
    type Narrow = *const T;

    fn narrow(self) -> Option<*const T> {
        Some(self)
    }
}

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

/// Who is responsible for a file handle.
pub enum Access {
    /// This library does not manage it: the real library must see the call.
    Foreign,
    /// An open file of this library.
    Ours(Target),
    /// A handle that is null or closed.
    Invalid,
}

/// Finds out who is responsible for `handle` in a call of `function`.
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

/// What a call returns when the real library has no such function.
pub trait Missing {
    /// The value that tells the caller.
    fn missing(name: &str) -> Self;
}

impl Missing for c_int {
    fn missing(name: &str) -> c_int {
        errors::missing_function(name)
    }
}

impl Missing for usize {
    fn missing(name: &str) -> usize {
        errors::missing_function(name);
        crate::abi::get().map_or(0, |abi| abi.handles.file_null)
    }
}

/// The type of an argument that only travels through: buffers, statuses, function pointers.
pub type Opaque = *mut c_void;
