//! What containers and sets do with the calls of the program on their descriptors.

use super::super::cookie::{Meaning, cookie_stream, meaning};
use super::super::errno;
use super::super::next::{self, Functions};
use super::super::operations::{Call, Left, Mapping, OpenFile, Transfer};
use super::table::OpenContainer;
use super::{change, data, facts, locks, mapping, open, placeholder, told};
use libc::{FILE, c_char, c_int, c_void, off64_t, ssize_t};

impl OpenFile for OpenContainer {
    fn read(&'static self, fd: c_int, transfer: &Transfer) -> ssize_t {
        told(data::read(self, fd, transfer))
    }

    fn write(&'static self, fd: c_int, transfer: &Transfer) -> ssize_t {
        told(data::write(self, fd, transfer))
    }

    fn seek(&'static self, fd: c_int, offset: off64_t, whence: c_int) -> off64_t {
        data::seek(self, fd, offset, whence)
    }

    unsafe fn call(&'static self, fd: c_int, call: &Call) -> c_int {
        // SAFETY: the caller's promise.
        let done = unsafe {
            match *call {
                Call::Facts(to) => facts::of_open(self).map(|facts| facts.stat(to)),
                Call::SetSize(size) => change::set_size(self, size),
                Call::Allocate { mode, offset, len } => change::allocate(self, mode, offset, len),
                Call::Reserve { offset, len } => change::allocate(self, 0, offset, len),
                Call::Advise { .. } => Ok(()),
                // The kernel says that it cannot.
                Call::ReadAhead { .. } => return call.kernel(fd),
                Call::Sync | Call::SyncData | Call::SyncRange { .. } => change::synchronise(self),
                Call::SyncAll => {
                    // The system may have bytes of the container that other processes wrote.
                    next::sync();
                    change::synchronise(self)
                }
                Call::Lock(operation) => return call.told(locks::flock(self, fd, operation)),
                Call::LockRange { command, len } => {
                    return call.told(locks::lockf(self, fd, command, len));
                }
                Call::Device { request, argument } => {
                    return call.told(change::ioctl(self, fd, request, argument));
                }
                Call::Mode(mode) => change::change_mode(self, mode),
                Call::Owner { user, group } => change::change_owner(self, user, group),
                Call::Times(times) => change::change_times(self, times),
                Call::CoarseTimes(times) => change::change_times_coarsely(self, times),
                Call::Attribute { .. } => Err(libc::EOPNOTSUPP),
            }
        };
        call.told(done.map(|()| 0))
    }

    unsafe fn control(&'static self, fd: c_int, command: c_int, argument: usize) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { open::control(self, fd, command, argument) }
            .unwrap_or_else(|error| errno::fail(error) as c_int)
    }

    unsafe fn map(&'static self, _fd: c_int, mapping: &Mapping) -> *mut c_void {
        // SAFETY: the caller's promise.
        unsafe { mapping::map(self, mapping) }
    }

    unsafe fn stream(
        &'static self,
        fd: c_int,
        mode: *const c_char,
        functions: Functions,
    ) -> *mut FILE {
        // SAFETY: the caller's promise.
        let meaning = unsafe { meaning(mode) };
        let Some(Meaning { flags, .. }) =
            meaning.filter(|meaning| Meaning::allows(self.flags, meaning.flags))
        else {
            errno::set(libc::EINVAL);
            return std::ptr::null_mut();
        };
        if flags & libc::O_APPEND != 0 {
            placeholder::set_status(fd, placeholder::status(fd) | libc::O_APPEND);
        }
        // SAFETY: the caller's promise.
        unsafe { cookie_stream(fd, mode, functions) }.unwrap_or_else(|| {
            errno::set(libc::ENOTSUP);
            std::ptr::null_mut()
        })
    }

    fn duplicate(&'static self, fd: c_int, kernel: &mut dyn FnMut() -> c_int) -> c_int {
        open::duplicated(self, fd, kernel())
    }

    fn leave(&'static self, fd: c_int) -> Left {
        Left::Done(open::forget(fd))
    }

    fn before_move(&'static self, _fd: c_int, _from: bool) -> Result<bool, c_int> {
        Ok(false)
    }
}
