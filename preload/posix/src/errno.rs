//! `errno` of this thread.

use libc::c_int;

/// Its value.
#[inline]
pub fn get() -> c_int {
    // SAFETY: the location is valid for the life of this thread.
    unsafe { *libc::__errno_location() }
}

/// Gives it a value.
#[inline]
pub fn set(value: c_int) {
    // SAFETY: the location is valid for the life of this thread.
    unsafe { *libc::__errno_location() = value }
}

/// Sets `errno` and returns -1, the result of functions that fail.
#[cold]
pub fn fail(value: c_int) -> isize {
    set(value);
    -1
}

/// Restores it when it goes out of scope.
pub struct Keep(c_int);

impl Keep {
    /// Remembers the value now.
    #[inline]
    pub fn new() -> Self {
        Self(get())
    }
}

impl Drop for Keep {
    #[inline]
    fn drop(&mut self) {
        set(self.0);
    }
}
