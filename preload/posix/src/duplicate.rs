//! Descriptors that share an open file.

use super::operations::OpenFile;
use super::{errno, next, open, served, standard, state};
use libc::c_int;

/// Lets `kernel` duplicate `fd`, and remembers that the new descriptor shares its open file.
pub fn duplicate(
    file: &'static dyn OpenFile,
    fd: c_int,
    mut kernel: impl FnMut() -> c_int,
) -> c_int {
    let new = file.duplicate(fd, &mut kernel);
    standard::after_change(new);
    new
}

/// `dup2` and `dup3`, which close `new` first.
pub fn replace(old: c_int, new: c_int, mut kernel: impl FnMut() -> c_int) -> c_int {
    if open::is_own(new) {
        return errno::fail(libc::EBADF) as c_int;
    }
    // SAFETY: plain numbers.
    let valid = || unsafe { next::fcntl(old, libc::F_GETFD, 0) } >= 0;
    if old == new || !valid() {
        return kernel();
    }
    standard::before_change(new);
    let closed = served::of(new).filter(|_| !state::is_guest()).map(|file| file.leave(new));
    let made = match served::of(old) {
        Some(file) => file.duplicate(old, &mut kernel),
        None => kernel(),
    };
    // `dup2` does not report errors of closing the old descriptor.
    let _ = closed.map(|left| left.tell());
    standard::after_change(new);
    made
}

/// `fcntl`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn control(
    file: &'static dyn OpenFile,
    fd: c_int,
    command: c_int,
    argument: usize,
) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    unsafe {
        match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
                duplicate(file, fd, || next::fcntl(fd, command, argument))
            }
            _ => file.control(fd, command, argument),
        }
    }
}
