//! A descriptor of ours with its file locked; writes that came in the middle are carried out with
//! the lock.

use super::descriptors;
use super::dirty;
use super::files::{Description, File, Held};
use super::lock::Guard;
use libc::c_int;

/// A description and its file, locked.
pub struct Access {
    /// The description.
    pub description: &'static Description,
    /// Its file.
    pub file: &'static File,
    _guard: Guard<'static>,
}

impl Access {
    /// The description of `fd` and its file, locked; `None` if it is not one of ours.
    #[inline]
    pub fn of(fd: c_int) -> Option<Self> {
        loop {
            let description = descriptors::get::<Description>(fd)?;
            let file = description.file()?;
            let guard = file.lock()?;
            let same = |other: &'static Description| std::ptr::eq(other, description);
            if descriptors::get(fd).is_some_and(same)
                && description.file().is_some_and(|other| std::ptr::eq(other, file))
            {
                return Some(Self { description, file, _guard: guard });
            }
        }
    }

    /// The data that the lock protects.
    #[inline]
    pub fn held(&mut self) -> &mut Held {
        // SAFETY: the lock is held as long as this value lives.
        unsafe { self.file.held() }
    }
}

impl Drop for Access {
    #[inline]
    fn drop(&mut self) {
        if !self.file.late.is_empty() {
            // SAFETY: the lock is held until the guard goes.
            dirty::carry_out(self.file, unsafe { self.file.held() });
        }
    }
}
