//! The real library's functions that this library calls itself, always by their `PMPI_` names, so
//! that profiling tools do not count internal traffic.
//!
//! Handles are passed as `usize`, which arrives as well in a function that takes a C int.

#![allow(non_snake_case, dead_code, reason = "the names are MPI's")]

use crate::entry::{Missing, Opaque};
use crate::resolve::Symbol;
use libc::{c_char, c_int};

macro_rules! real {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;)*) => { $(
        real! { @one $name ($($arg: $ty),*) [$($ret)?] }
    )* };
    (@one $name:ident ($($arg:ident: $ty:ty),*) []) => {
        real! { @one $name ($($arg: $ty),*) [c_int] }
    };
    (@one $name:ident ($($arg:ident: $ty:ty),*) [$ret:ty]) => {
        /// Calls the real function of this name, which returns an MPI error code.
        ///
        /// # Safety
        /// The arguments are what MPI demands of them.
        #[allow(clippy::too_many_arguments, reason = "MPI's signature")]
        pub unsafe fn $name($($arg: $ty),*) -> $ret {
            match symbol::$name.address() {
                // SAFETY: the real function has the signature that MPI declares.
                Some(address) => unsafe {
                    let real: unsafe extern "C" fn($($ty),*) -> $ret = std::mem::transmute(address);
                    real($($arg),*)
                },
                None => Missing::missing(concat!("MPI_", stringify!($name))),
            }
        }
    };
}

macro_rules! table {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;)*) => {
        real! { $(fn $name($($arg: $ty),*) $(-> $ret)?;)* }

        /// Where each function is; for functions that not every library has.
        #[allow(non_upper_case_globals, reason = "the names are MPI's")]
        pub mod symbol {
            use super::Symbol;
            $(
                /// The slot of the function of this name.
                pub static $name: Symbol =
                    Symbol::new(concat!("PMPI_", stringify!($name), "\0"));
            )*
        }
    };
}

table! {
    fn Initialized(flag: *mut c_int);
    fn Finalized(flag: *mut c_int);
    fn Query_thread(provided: *mut c_int);
    fn Abort(comm: usize, code: c_int);
    fn Error_class(code: c_int, class: *mut c_int);
    fn Error_string(code: c_int, text: *mut c_char, length: *mut c_int);
    fn Add_error_code(class: c_int, code: *mut c_int);
    fn Add_error_string(code: c_int, text: *const c_char);

    fn Comm_rank(comm: usize, rank: *mut c_int);
    fn Comm_size(comm: usize, size: *mut c_int);
    fn Comm_test_inter(comm: usize, flag: *mut c_int);
    fn Comm_compare(a: usize, b: usize, result: *mut c_int);
    fn Comm_group(comm: usize, group: Opaque);
    fn Group_union(a: usize, b: usize, group: Opaque);
    fn Group_free(group: Opaque);

    fn Info_create(info: Opaque);
    fn Info_set(info: usize, key: *const c_char, value: *const c_char);
    fn Info_get_nkeys(info: usize, count: *mut c_int);
    fn Info_get_nthkey(info: usize, n: c_int, key: *mut c_char);
    fn Info_get_valuelen(info: usize, key: *const c_char, length: *mut c_int, flag: *mut c_int);
    fn Info_get(info: usize, key: *const c_char, length: c_int, value: *mut c_char, flag: *mut c_int);
    fn Info_free(info: Opaque);

    fn Status_set_elements(status: Opaque, datatype: usize, count: c_int);
    fn Status_set_elements_x(status: Opaque, datatype: usize, count: i64);
    fn Status_set_elements_c(status: Opaque, datatype: usize, count: i64);
    fn Status_set_cancelled(status: Opaque, flag: c_int);

    fn Errhandler_free(errhandler: Opaque);
    fn Errhandler_f2c(errhandler: c_int) -> usize;

    fn Type_dup(datatype: usize, copy: Opaque);
    fn Type_free(datatype: Opaque);
}
