//! Decoded types, kept with the MPI type itself: an attribute that the library deletes with it.

use crate::mpi;
use agg_core::Result;
use agg_core::datatype::Datatype;
use libc::c_int;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// What the attribute holds.
struct Cached {
    native: Datatype,
    /// Decoded when it is first asked for.
    external: OnceLock<Datatype>,
    /// The type was seen committed; commitment never ends.
    committed: AtomicBool,
}

/// The attribute's key; created at the first use.
fn keyval() -> Result<c_int> {
    static KEYVAL: OnceLock<Result<c_int>> = OnceLock::new();
    KEYVAL
        .get_or_init(|| {
            let mut keyval: c_int = 0;
            // SAFETY: both functions have the signatures that MPI declares for callbacks.
            unsafe {
                mpi::check(mpi::Type_create_keyval(
                    not_copied as *mut c_void,
                    delete as *mut c_void,
                    &raw mut keyval,
                    std::ptr::null_mut(),
                ))?;
            }
            Ok(keyval)
        })
        .clone()
}

/// A duplicate of a type starts without the attribute.
unsafe extern "C" fn not_copied(
    _datatype: usize,
    _keyval: c_int,
    _extra: *mut c_void,
    _value: *mut c_void,
    _copy: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: MPI passes the address of a flag.
    unsafe { *flag = 0 };
    0
}

unsafe extern "C" fn delete(
    _datatype: usize,
    _keyval: c_int,
    value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    // SAFETY: the value is the box that `set` gave away, and MPI deletes it once.
    drop(unsafe { Box::from_raw(value.cast::<Cached>()) });
    0
}

/// Two threads may decode one type at the same time, and the second attribute deletes the first.
fn lock() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lookup(handle: usize) -> Option<&'static Cached> {
    let keyval = keyval().ok()?;
    let mut value: *mut Cached = std::ptr::null_mut();
    let mut found: c_int = 0;
    // SAFETY: MPI stores a pointer and a flag.
    let asked = unsafe {
        mpi::check(mpi::Type_get_attr(handle, keyval, (&raw mut value).cast(), &raw mut found))
    };
    // SAFETY: a found value is a box that lives as long as the type; callers only look at it
    // while the program may use the type, and copy what they need.
    (asked.is_ok() && found != 0).then(|| unsafe { &*value })
}

/// The layout in memory, if the type was decoded before.
pub(super) fn native(handle: usize) -> Option<Datatype> {
    let _guard = lock();
    lookup(handle).map(|cached| cached.native.clone())
}

/// The layout in an `external32` file, if it was decoded before.
pub(super) fn external(handle: usize) -> Option<Datatype> {
    let _guard = lock();
    lookup(handle).and_then(|cached| cached.external.get().cloned())
}

/// Keeps the layout in an `external32` file, if that in memory is kept already.
pub(super) fn set_external(handle: usize, external: Datatype) {
    let _guard = lock();
    if let Some(cached) = lookup(handle) {
        // Another thread may have decoded the same.
        let _ = cached.external.set(external);
    }
}

/// Whether `handle` is known to be committed.
pub(super) fn is_committed(handle: usize) -> bool {
    let _guard = lock();
    lookup(handle).is_some_and(|cached| cached.committed.load(Ordering::Relaxed))
}

/// Remembers that `handle` is committed.
pub(super) fn set_committed(handle: usize) {
    let _guard = lock();
    if let Some(cached) = lookup(handle) {
        cached.committed.store(true, Ordering::Relaxed);
    }
}

/// Keeps the layout in memory with the type. Without success the type is decoded again next time.
pub(super) fn set_native(handle: usize, native: Datatype) {
    let _guard = lock();
    let Ok(keyval) = keyval() else { return };
    let cached = Cached { native, external: OnceLock::new(), committed: AtomicBool::new(false) };
    let value = Box::into_raw(Box::new(cached));
    // SAFETY: the library keeps the pointer and gives it back to `delete`.
    if unsafe { mpi::check(mpi::Type_set_attr(handle, keyval, value.cast())) }.is_err() {
        // SAFETY: the library did not take the value.
        drop(unsafe { Box::from_raw(value) });
    }
}
