//! Values of this library that MPI keeps with its own objects (attributes, MPI-4.1, 7.7) and drops
//! with them.

use crate::arguments::Opaque;
use crate::mpi;
use agg_core::Result;
use libc::c_int;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The kind of object that carries an attribute.
#[derive(Clone, Copy, Debug)]
pub enum Object {
    /// A communicator.
    Comm,
    /// A datatype.
    Type,
}

/// A key under which objects of one kind carry a value of type `T`.
///
/// The value is dropped when the object is freed or gets another one. A duplicate of the object
/// starts without it.
pub struct Key<T> {
    object: Object,
    /// MPI's number for the key, created at the first use.
    number: OnceLock<Result<c_int>>,
    /// Setting a value drops the one before, which another thread may be looking at.
    lock: Mutex<()>,
    value: PhantomData<fn() -> T>,
}

impl<T: Send + Sync + 'static> Key<T> {
    /// A key for objects of one kind; nothing is created yet.
    pub const fn new(object: Object) -> Self {
        Self { object, number: OnceLock::new(), lock: Mutex::new(()), value: PhantomData }
    }

    /// The result of `look` for the value that `handle` carries; `None` if there is none.
    ///
    /// `look` must not use the key, and the program must not free the object meanwhile.
    pub fn with<R>(&self, handle: usize, look: impl FnOnce(&T) -> R) -> Option<R> {
        let number = self.number().ok()?;
        let _guard = self.lock();
        let mut value: *const T = std::ptr::null();
        let (place, mut found): (Opaque, c_int) = ((&raw mut value).cast(), 0);
        // SAFETY: MPI stores a pointer and a flag.
        let code = unsafe {
            match self.object {
                Object::Comm => mpi::Comm_get_attr(handle, number, place, &raw mut found),
                Object::Type => mpi::Type_get_attr(handle, number, place, &raw mut found),
            }
        };
        // SAFETY: a found value is a box from `set`. It lives as long as the object, which the
        // program is using, and the lock keeps others from replacing it.
        (code == 0 && found != 0).then(|| look(unsafe { &*value }))
    }

    /// Lets `handle` carry `value`.
    ///
    /// # Errors
    /// The value, if MPI does not take it.
    pub fn set(&self, handle: usize, value: T) -> std::result::Result<(), T> {
        let Ok(number) = self.number() else { return Err(value) };
        let _guard = self.lock();
        let value = Box::into_raw(Box::new(value));
        // SAFETY: MPI keeps the pointer and gives it back to `delete`, once.
        let code = unsafe {
            match self.object {
                Object::Comm => mpi::Comm_set_attr(handle, number, value.cast()),
                Object::Type => mpi::Type_set_attr(handle, number, value.cast()),
            }
        };
        // SAFETY: MPI did not take the pointer.
        if code == 0 { Ok(()) } else { Err(*unsafe { Box::from_raw(value) }) }
    }

    /// Takes the value off `handle` and drops it.
    pub fn remove(&self, handle: usize) {
        let Ok(number) = self.number() else { return };
        let _guard = self.lock();
        // SAFETY: MPI gives the value back to `delete`; without one the call fails.
        unsafe {
            match self.object {
                Object::Comm => mpi::Comm_delete_attr(handle, number),
                Object::Type => mpi::Type_delete_attr(handle, number),
            }
        };
    }

    fn number(&self) -> Result<c_int> {
        let create = || {
            let mut number: c_int = 0;
            let (copy, delete): (Opaque, Opaque) = (not_copied as _, delete::<T> as _);
            let (place, extra) = (&raw mut number, std::ptr::null_mut());
            // SAFETY: both functions have the signatures that MPI declares for callbacks.
            mpi::check(unsafe {
                match self.object {
                    Object::Comm => mpi::Comm_create_keyval(copy, delete, place, extra),
                    Object::Type => mpi::Type_create_keyval(copy, delete, place, extra),
                }
            })?;
            Ok(number)
        };
        self.number.get_or_init(create).clone()
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Called for a duplicate of an object: it does not get the value.
unsafe extern "C" fn not_copied(
    _object: usize,
    _key: c_int,
    _extra: Opaque,
    _value: Opaque,
    _copy: Opaque,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: MPI passes the address of a flag.
    unsafe { *flag = 0 };
    0
}

/// Called when an object is freed or gets another value.
unsafe extern "C" fn delete<T>(
    _object: usize,
    _key: c_int,
    value: Opaque,
    _extra: Opaque,
) -> c_int {
    // SAFETY: the value is the box that `set` gave away, and MPI deletes it once.
    drop(unsafe { Box::from_raw(value.cast::<T>()) });
    0
}
