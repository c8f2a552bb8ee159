//! A library that the program has loaded.

use libc::c_void;
use std::ffi::CStr;

/// A loaded library. It stays open, so its functions stay where they are.
#[derive(Clone, Copy)]
pub(super) struct Library(*mut c_void);

impl Library {
    /// The library behind a handle of `dlopen` that is not closed.
    pub(super) fn new(handle: *mut c_void) -> Self {
        Self(handle)
    }

    /// The address of a function.
    pub(super) fn function(self, name: &CStr) -> Option<usize> {
        // SAFETY: the handle is open, the name a C string.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address as usize)
    }
}
