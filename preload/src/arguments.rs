//! Types of the arguments of MPI functions, and how they become values of this crate.

use crate::abi::Abi;
use libc::c_int;
use std::ffi::c_void;

/// `MPI_Offset`.
pub type Offset = i64;

/// A value of `MPI_File`, which is pointer-sized in every ABI.
pub type FileHandle = usize;

/// The type of an argument that only travels through: buffers, statuses, function pointers.
pub type Opaque = *mut c_void;

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
    /// The type that the delegate receives.
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
