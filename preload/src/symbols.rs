//! The exported MPI functions, made from the table of [`interposed`](crate::interposed).

use crate::arguments::{Argument, Count, FileHandle, Handle, Offset, Opaque};
use crate::data::Direction::{Read, Write};
use crate::data::Position::{Explicit, Individual, Ordered, Shared};
use crate::data::{Buffer, SplitPointer};
use crate::entry::{Access, KeepErrno, access};
use crate::forward;
use crate::interposed::interposed;
use crate::requests::{blocking, hooks, inquiry};
use crate::{
    close, data, datarep, delete, errhandler, errors, fortran, manage, mpi, open, pending, pointer,
    posix, process, requests, split, view,
};
use libc::{c_char, c_int};

macro_rules! table {
    ($(
        $kind:ident $name:ident $(=> $twin:ident)?
        ($target:ident; $($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:expr;
    )*) => {
        /// The names of all interposed functions, one a line; each is exported with the prefix `P`
        /// too. For tests and tools, which compare them with the symbols that the library exports.
        #[unsafe(no_mangle)]
        pub extern "C" fn aggio_interposed() -> *const c_char {
            concat!($(stringify!($name), "\n",)* "\0").as_ptr().cast()
        }

        $(row! { $kind $name $(=> $twin)? ($target; $($arg: $ty),*) [$($ret)?] $body })*
    };
}

/// The two exported names of one function.
macro_rules! twins {
    ($name:ident ($($arg:ident: $ty:ty),*) [$ret:ty] $inner:ident) => {
        // SAFETY: the signature is the one that MPI declares for this name.
        #[unsafe(export_name = stringify!($name))]
        unsafe extern "C" fn mpi($($arg: $ty),*) -> $ret {
            // SAFETY: the caller's arguments, passed on.
            unsafe { $inner($($arg),*) }
        }
        // SAFETY: as above, for the profiling name.
        #[unsafe(export_name = concat!("P", stringify!($name)))]
        unsafe extern "C" fn pmpi($($arg: $ty),*) -> $ret {
            // SAFETY: the caller's arguments, passed on.
            unsafe { $inner($($arg),*) }
        }
    };
}

macro_rules! row {
    (file $name:ident $($rest:tt)*) => { row! { @of_file $name [] $($rest)* } };
    (large $name:ident => $twin:ident $($rest:tt)*) => {
        row! { @of_file $name [errors::count_too_large,] $($rest)* }
    };
    (@of_file $name:ident [$($otherwise:tt)*] ($target:ident;
        $($arg:ident: $ty:ty),*) [] $body:expr) => {
        const _: () = {
            #[inline(always)]
            #[allow(clippy::too_many_arguments, reason = "MPI's signature")]
            unsafe fn inner(fh: FileHandle $(, $arg: $ty)*) -> c_int {
                match access(fh, stringify!($name)) {
                    // SAFETY: the caller's arguments, passed on.
                    Access::Foreign => unsafe {
                        forward::$name($($otherwise)* fh $(, $arg)*)
                    },
                    Access::Invalid => errors::invalid_handle(stringify!($name)).answer(),
                    Access::Ours($target) => {
                        let _errno = KeepErrno::new();
                        posix::before_mpi(stringify!($name));
                        let _inside = posix::Inside::enter();
                        $(let $arg = Argument::take($arg, $target.abi);)*
                        // SAFETY: the caller satisfies the requirements of MPI for these arguments.
                        let result = unsafe { $body };
                        $target.finish(result)
                    }
                }
            }
            twins! { $name (fh: FileHandle $(, $arg: $ty)*) [c_int] inner }
        };
    };
    (free $name:ident ($target:ident; $($arg:ident: $ty:ty),*) [] $body:expr) => {
        row! { free $name ($target; $($arg: $ty),*) [c_int] $body }
    };
    (free $name:ident ($target:ident; $($arg:ident: $ty:ty),*) [$ret:ty] $body:expr) => {
        const _: () = {
            #[inline(always)]
            #[allow(clippy::too_many_arguments, reason = "MPI's signature")]
            unsafe fn inner($($arg: $ty),*) -> $ret {
                let Some(abi) = crate::active::abi() else {
                    // SAFETY: the caller's arguments, passed on.
                    return unsafe { forward::$name($($arg),*) };
                };
                let _errno = KeepErrno::new();
                posix::before_mpi(stringify!($name));
                let _inside = posix::Inside::enter();
                let $target = abi;
                let _ = $target;
                $(let $arg = Argument::take($arg, abi);)*
                // SAFETY: the caller satisfies the requirements of MPI for these arguments.
                unsafe { $body }
            }
            twins! { $name ($($arg: $ty),*) [$ret] inner }
        };
    };
}

interposed!(table);
