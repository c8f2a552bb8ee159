//! The standard streams while their descriptors are open on containers.
//!
//! The C library's own streams write to the kernel where nobody can stand before it. While
//! descriptor 0, 1 or 2 is a container's, the variables `stdin`, `stdout` and `stderr` point to
//! streams of ours.

use super::host::{StandardStream, process};
use super::{containers, descriptors, errno, stdio};
use libc::{FILE, c_int};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

unsafe extern "C" {
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
}

fn pair_of(fd: c_int) -> Option<&'static StandardStream> {
    process().streams.get(usize::try_from(fd).ok()?)
}

/// The C library's variable for a descriptor.
fn variable(fd: c_int) -> *mut *mut FILE {
    match fd {
        0 => &raw mut stdin,
        1 => &raw mut stdout,
        _ => &raw mut stderr,
    }
}

/// The stream that `stdin` is.
pub fn input() -> *mut FILE {
    // SAFETY: the C library's own variable.
    unsafe { stdin }
}

/// The stream that `stdout` is.
pub fn output() -> *mut FILE {
    // SAFETY: the C library's own variable.
    unsafe { stdout }
}

/// Before another file gets the number `fd`: flushes our stream, because its bytes belong to the
/// previous file.
pub fn before_change(fd: c_int) {
    let Some(pair) = pair_of(fd) else { return };
    if !pair.own.load(Relaxed).is_null() {
        // SAFETY: our stream, which is never closed.
        unsafe { libc::fflush(pair.ours.load(Relaxed)) };
    }
}

/// After the number `fd` was given to another file: the variable points to the stream that can
/// serve it.
pub fn after_change(fd: c_int) {
    let Some(pair) = pair_of(fd) else { return };
    let own = pair.own.load(Relaxed);
    match (descriptors::get::<containers::OpenContainer>(fd), own.is_null()) {
        (Some(open), true) => replace(open, fd, pair),
        (None, false) => {
            // SAFETY: the C library's own variable gets the value back that it had.
            unsafe { *variable(fd) = own };
            pair.own.store(null_mut(), Relaxed);
        }
        _ => {}
    }
}

fn replace(open: &'static containers::OpenContainer, fd: c_int, pair: &StandardStream) {
    let _errno = errno::Keep::new();
    if pair.ours.load(Relaxed).is_null() {
        let mode = if fd == 0 { c"r" } else { c"w" };
        // SAFETY: the mode is a C string.
        let made = unsafe { stdio::on_descriptor(open, fd, mode.as_ptr()) };
        if made.is_null() {
            return;
        }
        if fd == 2 {
            // SAFETY: the stream was made just now; it is to keep nothing back.
            unsafe { libc::setvbuf(made, null_mut(), libc::_IONBF, 0) };
        }
        pair.ours.store(made, Relaxed);
    }
    // SAFETY: the C library's own variable; both streams live as long as the process.
    unsafe {
        pair.own.store(*variable(fd), Relaxed);
        *variable(fd) = pair.ours.load(Relaxed);
    }
}
