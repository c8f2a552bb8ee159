//! The real library's functions that this library calls itself, always by their `PMPI_` names, so
//! that profiling tools do not count internal traffic.
//!
//! Handles are passed as `usize`, which arrives as well in a function that takes a C int.

#![allow(non_snake_case, dead_code, reason = "the names are MPI's")]

use crate::arguments::Opaque;
use crate::missing::Missing;
use crate::resolve::Symbol;
use agg_core::{Error, ErrorClass, Result};
use libc::{c_char, c_int};
use std::ffi::CStr;

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
        /// The arguments satisfy the requirements of MPI.
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
    fn Info_get(info: usize, key: *const c_char, length: c_int, value: *mut c_char,
        flag: *mut c_int);
    fn Info_free(info: Opaque);

    fn Status_set_elements(status: Opaque, datatype: usize, count: c_int);
    fn Status_set_elements_x(status: Opaque, datatype: usize, count: i64);
    fn Status_set_elements_c(status: Opaque, datatype: usize, count: i64);
    fn Status_set_cancelled(status: Opaque, flag: c_int);

    fn Errhandler_free(errhandler: Opaque);
    fn Errhandler_f2c(errhandler: c_int) -> usize;
    fn Errhandler_fromint(errhandler: c_int) -> usize;

    fn Type_dup(datatype: usize, copy: Opaque);
    fn Type_free(datatype: Opaque);

    // The data path: datatypes, messages, requests, windows.
    fn Type_size(datatype: usize, size: *mut c_int);
    fn Type_size_x(datatype: usize, size: *mut i64);
    fn Type_get_extent(datatype: usize, lb: *mut i64, extent: *mut i64);
    fn Type_get_extent_x(datatype: usize, lb: *mut i64, extent: *mut i64);
    fn Type_get_envelope(datatype: usize, integers: *mut c_int, addresses: *mut c_int,
        datatypes: *mut c_int, combiner: *mut c_int);
    fn Type_get_envelope_c(datatype: usize, integers: *mut i64, addresses: *mut i64,
        counts: *mut i64, datatypes: *mut i64, combiner: *mut c_int);
    fn Type_get_contents(datatype: usize, max_integers: c_int, max_addresses: c_int,
        max_datatypes: c_int, integers: *mut c_int, addresses: *mut i64, datatypes: Opaque);
    fn Type_get_contents_c(datatype: usize, max_integers: i64, max_addresses: i64,
        max_counts: i64, max_datatypes: i64, integers: *mut c_int, addresses: *mut i64,
        counts: *mut i64, datatypes: Opaque);
    fn Type_get_name(datatype: usize, name: *mut c_char, length: *mut c_int);
    fn Type_commit(datatype: Opaque);
    fn Type_contiguous(count: c_int, datatype: usize, new: Opaque);
    fn Type_create_struct(count: c_int, lengths: *const c_int, displacements: *const i64,
        datatypes: Opaque, new: Opaque);
    fn Type_create_keyval(copy: Opaque, delete: Opaque, keyval: *mut c_int, extra: Opaque);
    fn Type_set_attr(datatype: usize, keyval: c_int, value: Opaque);
    fn Type_get_attr(datatype: usize, keyval: c_int, value: Opaque, found: *mut c_int);
    fn Type_delete_attr(datatype: usize, keyval: c_int);
    fn Comm_split(comm: usize, color: c_int, key: c_int, new: Opaque);
    fn Comm_create_group(comm: usize, group: usize, tag: c_int, new: Opaque);
    fn Comm_free(comm: Opaque);
    fn Comm_get_errhandler(comm: usize, handler: Opaque);
    fn Comm_set_errhandler(comm: usize, handler: usize);
    fn Comm_get_attr(comm: usize, keyval: c_int, value: Opaque, found: *mut c_int);
    fn Comm_set_attr(comm: usize, keyval: c_int, value: Opaque);
    fn Comm_delete_attr(comm: usize, keyval: c_int);
    fn Comm_create_keyval(copy: Opaque, delete: Opaque, keyval: *mut c_int, extra: Opaque);
    fn Group_incl(group: usize, count: c_int, ranks: *const c_int, new: Opaque);
    fn Get_processor_name(name: *mut c_char, length: *mut c_int);
    fn Allgather(send: Opaque, send_count: c_int, send_type: usize, receive: Opaque,
        receive_count: c_int, receive_type: usize, comm: usize);
    fn Send(buffer: Opaque, count: c_int, datatype: usize, to: c_int, tag: c_int, comm: usize);
    fn Isend(buffer: Opaque, count: c_int, datatype: usize, to: c_int, tag: c_int, comm: usize,
        request: Opaque);
    fn Issend(buffer: Opaque, count: c_int, datatype: usize, to: c_int, tag: c_int, comm: usize,
        request: Opaque);
    fn Irecv(buffer: Opaque, count: c_int, datatype: usize, from: c_int, tag: c_int, comm: usize,
        request: Opaque);
    fn Test(request: Opaque, flag: *mut c_int, status: Opaque);
    fn Get_elements(status: Opaque, datatype: usize, count: *mut c_int);
    fn Get_elements_x(status: Opaque, datatype: usize, count: *mut i64);
    fn Grequest_start(query: Opaque, free: Opaque, cancel: Opaque, extra: Opaque, request: Opaque);
    fn Grequest_complete(request: usize);
    fn Request_free(request: Opaque);
    fn Win_allocate(size: i64, unit: c_int, info: usize, comm: usize, base: Opaque, window: Opaque);
    fn Win_free(window: Opaque);
    fn Win_lock_all(assert: c_int, window: usize);
    fn Win_unlock_all(window: usize);
    fn Win_flush(rank: c_int, window: usize);
    fn Win_set_errhandler(window: usize, handler: usize);
    fn Fetch_and_op(origin: Opaque, result: Opaque, datatype: usize, rank: c_int,
        displacement: i64, op: usize, window: usize);
    fn Testall(count: c_int, requests: Opaque, flag: *mut c_int, statuses: Opaque);
    fn Testany(count: c_int, requests: Opaque, index: *mut c_int, flag: *mut c_int, status: Opaque);
    fn Testsome(count: c_int, requests: Opaque, completed: *mut c_int, indices: *mut c_int,
        statuses: Opaque);
    fn Request_get_status(request: usize, flag: *mut c_int, status: Opaque);
    fn Request_get_status_all(count: c_int, requests: Opaque, flag: *mut c_int, statuses: Opaque);
    fn Request_get_status_any(count: c_int, requests: Opaque, index: *mut c_int, flag: *mut c_int,
        status: Opaque);
    fn Request_get_status_some(count: c_int, requests: Opaque, completed: *mut c_int,
        indices: *mut c_int, statuses: Opaque);
    fn Irsend(buffer: Opaque, count: c_int, datatype: usize, to: c_int, tag: c_int, comm: usize,
        request: Opaque);
    fn Imrecv(buffer: Opaque, count: c_int, datatype: usize, message: Opaque, request: Opaque);
    fn Iprobe(from: c_int, tag: c_int, comm: usize, flag: *mut c_int, status: Opaque);
    fn Improbe(from: c_int, tag: c_int, comm: usize, flag: *mut c_int, message: Opaque,
        status: Opaque);
    fn Barrier(comm: usize);
}

/// Whether the real library has the function.
pub fn has(function: &Symbol) -> bool {
    function.address().is_some()
}

/// Turns the return code of a real function into a result.
///
/// # Errors
/// `Intern` with the library's text: internal calls are made such that they should not fail.
#[inline]
pub fn check(code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(failed(code)) }
}

#[cold]
fn failed(code: c_int) -> Error {
    // Larger than MPI_MAX_ERROR_STRING of every ABI.
    let mut text = [0u8; 1024];
    let mut length: c_int = 0;
    // SAFETY: both variables outlive the call.
    unsafe { Error_string(code, text.as_mut_ptr().cast(), &raw mut length) };
    let text = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy).unwrap_or_default();
    Error::new(ErrorClass::Intern, format!("the MPI library says: {text} (code {code})"))
}
