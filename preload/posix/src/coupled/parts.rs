//! Files of other nodes that are present in parts: fetches the bytes of a read before the read, and
//! the whole file before a call that this library does not follow, such as `mmap`.
//!
//! Only descriptors for reading can lack bytes. If the bytes cannot be fetched before code outside
//! this library uses a descriptor, the descriptor is made unreadable, so that missing bytes are
//! never taken for zeros.

use super::table::{self, OpenCoupled};
use super::{agent, number};
use crate::lock::Guard;
use crate::state::{self, Inside};
use crate::{descriptors, errno, next};
use agg_core::Extent;
use agg_core::log;
use agg_core::log::Level;
use aggio_couple::Client;
use libc::{c_char, c_int};
use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes that a sequential reader fetches and waits for at a time, at least.
const TOGETHER: u64 = 1 << 20;

/// The unit of fetching, in bytes.
const UNIT: u64 = 4 << 10;

/// Whether descriptors for reading may lack bytes: files may be on other nodes, and no library is
/// loaded that reads without the C library.
pub(super) fn may_be_missing(client: &Client) -> bool {
    client.is_between_nodes() && !state::flags().ring.load(Relaxed) && !has_library_of_rings()
}

/// Whether a library is loaded that makes its own system calls for input and output.
fn has_library_of_rings() -> bool {
    unsafe extern "C" fn look(
        info: *mut libc::dl_phdr_info,
        _: usize,
        found: *mut libc::c_void,
    ) -> c_int {
        // SAFETY: the C library passes a record with a name that is a C string or null.
        let name = unsafe { (*info).dlpi_name };
        if name.is_null() {
            return 0;
        }
        // SAFETY: as above.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        let is_it = |library: &[u8]| name.windows(library.len()).any(|part| part == library);
        if is_it(b"/liburing") || is_it(b"/libaio") {
            // SAFETY: it is the caller's value.
            unsafe { found.cast::<bool>().write(true) };
        }
        0
    }
    let mut found = false;
    // SAFETY: the function only writes to the local value.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found
}

/// Records that a file that was opened for reading may lack bytes.
pub(super) fn begin(open: &OpenCoupled, client: &Client) {
    let is_whole = client.fetch(open.handle(), &[], 0);
    open.missing.set(!matches!(is_whole, Ok(true)));
}

/// Fetches `len` bytes at `at`, or at the position, before a read of them. In the second case, no
/// other thread moves the position with a read until the result is dropped.
pub(super) fn before_read(
    open: &'static OpenCoupled,
    fd: c_int,
    at: Option<i64>,
    len: u64,
) -> Result<Option<Guard<'static>>, c_int> {
    if !open.missing.any() {
        return Ok(None);
    }
    // A signal handler that interrupts a read goes on without the lock.
    let guard = if at.is_none() { open.missing.lock() } else { None };
    let keep = errno::Keep::new();
    let start = at.unwrap_or_else(|| position(fd));
    let fetched = match u64::try_from(start) {
        Ok(start) if len > 0 => fetch(open, Extent::new(start, len)),
        // The kernel returns the error, or reads nothing.
        _ => Ok(()),
    };
    drop(keep);
    fetched.map(|()| guard)
}

/// Returns the position of a descriptor.
pub(super) fn position(fd: c_int) -> i64 {
    // SAFETY: plain numbers.
    unsafe { next::lseek64(fd, 0, libc::SEEK_CUR) }
}

fn fetch(open: &OpenCoupled, extent: Extent) -> Result<(), c_int> {
    let missing = &open.missing;
    let ahead = missing.ahead_of(extent);
    let units = |extent: Extent| extent.offset / UNIT..extent.end().div_ceil(UNIT);
    if missing.has(&units(extent)) {
        return Ok(());
    }
    let together = if ahead > TOGETHER { extent.len.max(TOGETHER) } else { extent.len };
    let wanted = Extent::new(extent.offset, together);
    if told(|client| client.fetch(open.handle(), &[wanted], ahead))? {
        missing.nothing();
    }
    missing.have_come(units(wanted));
    Ok(())
}

fn told<T>(ask: impl FnOnce(&Client) -> std::io::Result<T>) -> Result<T, c_int> {
    let _inside = Inside::enter();
    agent::client().and_then(ask).map_err(|error| number(&error))
}

/// Fetches all bytes that are missing.
///
/// # Errors
/// The `errno` of the agent's error.
pub(super) fn fetch_all(open: &OpenCoupled) -> Result<(), c_int> {
    if open.missing.any() {
        let _errno = errno::Keep::new();
        told(|client| client.fetch(open.handle(), &[Extent::new(0, u64::MAX)], 0))?;
        open.missing.nothing();
    }
    Ok(())
}

/// As [`fetch_all`], before code outside this library reads `fd`. On failure, replaces `fd` and its
/// duplicates with descriptors that cannot be read.
pub(super) fn complete(open: &'static OpenCoupled, fd: c_int) {
    let Err(error) = fetch_all(open) else { return };
    let _errno = errno::Keep::new();
    let error = std::io::Error::from_raw_os_error(error);
    let text = "it cannot be read any more: bytes of it are missing";
    log!(Level::Error, "descriptor {fd} of a coupled file: {text}: {error}");
    // SAFETY: a C string, and plain numbers; only this function uses the new descriptor.
    unsafe {
        let nothing = next::open64(c"/dev/null".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC, 0);
        for fd in descriptors::of(open) {
            let flags = next::fcntl(fd, libc::F_GETFD, 0);
            let keeps = if flags & libc::FD_CLOEXEC != 0 { libc::O_CLOEXEC } else { 0 };
            let words = [nothing, fd, keeps].map(|word| word as usize);
            let replaced =
                agg_core::system::call(libc::SYS_dup3, [words[0], words[1], words[2], 0, 0, 0]);
            if nothing == -1 || replaced < 0 {
                next::close(fd);
            }
        }
        next::close(nothing);
    }
}

/// Fetches all bytes that are missing in descriptors that a new program would inherit.
pub fn complete_inherited() {
    each(|open, fd| {
        // SAFETY: plain numbers.
        let flags = unsafe { next::fcntl(fd, libc::F_GETFD, 0) };
        if flags >= 0 && flags & libc::FD_CLOEXEC == 0 {
            complete(open, fd);
        }
    });
}

/// Fetches all bytes that are missing in any descriptor.
pub fn complete_everything() {
    each(complete);
}

fn each(mut with: impl FnMut(&'static OpenCoupled, c_int)) {
    if table::any() && !Inside::is() && !state::is_guest() {
        table::all().for_each(|(fd, open)| with(open, fd));
    }
}

/// Called before a name is opened that may be one of a descriptor, such as `/proc/self/fd/3`.
///
/// # Safety
/// `path` is a C string or null.
pub unsafe fn before_name(path: *const c_char) {
    if !table::any() || path.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    if is_of_descriptor(unsafe { CStr::from_ptr(path) }.to_bytes()) {
        complete_everything();
    }
}

fn is_of_descriptor(name: &[u8]) -> bool {
    let has_number = |name: &[u8]| name.windows(4).any(|part| part == b"/fd/");
    let is_standard = name.starts_with(b"/dev/std");
    is_standard || (name.starts_with(b"/proc/") || name.starts_with(b"/dev/")) && has_number(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_descriptors_are_told_from_those_of_other_files_of_the_system() {
        for name in ["/proc/self/fd/3", "/proc/17/task/18/fd/3", "/dev/fd/3", "/dev/stdin"] {
            assert!(is_of_descriptor(name.as_bytes()), "{name}");
        }
        for name in ["/proc/meminfo", "/proc/self/maps", "/dev/null", "/dev/urandom", "/x/fd/3"] {
            assert!(!is_of_descriptor(name.as_bytes()), "{name}");
        }
    }
}
