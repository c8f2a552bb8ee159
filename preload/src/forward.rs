//! The real functions behind the interposed ones, called with the arguments of the interposed ones.

#![allow(non_snake_case, dead_code, reason = "the names are MPI's; not all are called")]

use crate::arguments::{Count, FileHandle, Handle, Narrow, Offset, Opaque};
use crate::interposed::interposed;
use crate::missing::Missing;
use crate::resolve::Symbol;
use libc::{c_char, c_int};

macro_rules! table {
    ($(
        $kind:ident $name:ident $(=> $twin:ident)?
        ($target:ident; $($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:expr;
    )*) => {
        $(forward! { $kind $name $(=> $twin)? ($($arg: $ty),*) [$($ret)?] })*
    };
}

macro_rules! forward {
    (file $name:ident ($($arg:ident: $ty:ty),*) []) => {
        forward! { free $name (fh: FileHandle $(, $arg: $ty)*) [c_int] }
    };
    (free $name:ident ($($arg:ident: $ty:ty),*) []) => {
        forward! { free $name ($($arg: $ty),*) [c_int] }
    };
    (free $name:ident ($($arg:ident: $ty:ty),*) [$ret:ty]) => {
        /// Calls the real function of this name.
        ///
        /// # Safety
        /// The arguments satisfy the requirements of MPI.
        #[allow(clippy::too_many_arguments, reason = "MPI's signature")]
        pub unsafe fn $name($($arg: $ty),*) -> $ret {
            static SLOT: Symbol = Symbol::new(concat!("P", stringify!($name), "\0"));
            match SLOT.address() {
                // SAFETY: the real function has the signature that MPI declares.
                Some(address) => unsafe {
                    let real: unsafe extern "C" fn($($ty),*) -> $ret = std::mem::transmute(address);
                    real($($arg),*)
                },
                None => Missing::missing(stringify!($name)),
            }
        }
    };
    (large $name:ident => $twin:ident ($($arg:ident: $ty:ty),*) []) => {
        /// Calls the real function of this name, or its int twin if there is none; `too_large`
        /// reports a count that does not fit the twin.
        ///
        /// # Safety
        /// The arguments satisfy the requirements of MPI.
        #[allow(clippy::too_many_arguments, reason = "MPI's signature")]
        pub unsafe fn $name(
            too_large: fn(&str) -> c_int,
            fh: FileHandle
            $(, $arg: $ty)*
        ) -> c_int {
            static SLOT: Symbol = Symbol::new(concat!("P", stringify!($name), "\0"));
            if let Some(address) = SLOT.address() {
                // SAFETY: the real function has the signature that MPI declares.
                return unsafe {
                    let real: unsafe extern "C" fn(FileHandle $(, $ty)*) -> c_int =
                        std::mem::transmute(address);
                    real(fh $(, $arg)*)
                };
            }
            let narrow = || Some(($(Narrow::narrow($arg)?,)*));
            match narrow() {
                // SAFETY: the same arguments for a function of the same meaning.
                Some(($($arg,)*)) => unsafe { $twin(fh $(, $arg)*) },
                None => too_large(stringify!($name)),
            }
        }
    };
}

interposed!(table);
