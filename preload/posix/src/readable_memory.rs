//! Whether the program's memory can be read or written. Where the kernel would return `EFAULT`, a
//! copy made here would kill the program.

use super::errno;
use super::host::process;
use agg_core::system;
use libc::{c_char, c_int, c_void};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The smallest pages that there are.
const PAGE: usize = 4096;
/// Ranges of more pages are tried by one request.
const FEW: usize = 4;
/// Ranges of more are tried every time.
const SOME: usize = 32;
/// `MADV_POPULATE_READ` and `MADV_POPULATE_WRITE` of Linux 5.14.
const READ: c_int = 22;
const WRITE: c_int = 23;

/// Where a page is remembered.
#[inline]
fn place_of(page: usize) -> &'static AtomicUsize {
    let places = &process().readable;
    &places[page % places.len()]
}

/// Forgets all pages, because the program changes its mappings.
pub fn forget() {
    process().readable.iter().for_each(|page| page.store(0, Relaxed));
}

/// Whether `len` bytes at `data` can be read.
#[inline]
pub fn readable(data: *const u8, len: usize) -> bool {
    let Some(last) = len.checked_sub(1) else { return true };
    let start = data as usize;
    let Some(end) = start.checked_add(last) else { return false };
    let (first, last) = (start / PAGE, end / PAGE);
    match last - first {
        0..FEW => (first..=last).all(page_readable),
        FEW..SOME => (first..=last).all(is_known) || populated_for_long(start, len),
        _ => populated(start, len, READ),
    }
}

/// As [`populated`], and the pages are known then.
fn populated_for_long(start: usize, len: usize) -> bool {
    let there = populated(start, len, READ);
    if there {
        (start / PAGE..=(start + len - 1) / PAGE).for_each(remember);
    }
    there
}

fn is_known(page: usize) -> bool {
    place_of(page).load(Relaxed) == page
}

fn remember(page: usize) {
    place_of(page).store(page, Relaxed);
}

#[inline]
fn page_readable(page: usize) -> bool {
    // Nothing is mapped in the first one, and the kernel takes its start for no address at all.
    page != 0 && (is_known(page) || try_page(page))
}

/// Asks the kernel for a change of the signal mask that does not exist: it reads the new mask
/// before it sees that.
#[cold]
fn try_page(page: usize) -> bool {
    let nothing = [usize::MAX, page * PAGE, 0, 8, 0, 0];
    // SAFETY: the kernel reads eight bytes, if it can, and changes nothing.
    let refused = unsafe { system::call(libc::SYS_rt_sigprocmask, nothing) };
    let there = refused != -(libc::EFAULT as isize);
    if there {
        remember(page);
    }
    there
}

/// Whether `len` bytes at `data` can be written.
pub fn writable(data: *const c_void, len: usize) -> bool {
    len == 0 || (!data.is_null() && populated(data as usize, len, WRITE))
}

/// Has the kernel make the pages of a range present, to be read or to be written.
fn populated(start: usize, len: usize, advice: c_int) -> bool {
    let Some(end) = start.checked_add(len) else { return false };
    let first = start / PAGE;
    match populate(first * PAGE, end - first * PAGE, advice) {
        0 => true,
        libc::EFAULT | libc::ENOMEM => false,
        // The mapping forbids it or is a device's, or the kernel does not support the request.
        libc::EINVAL if advice == READ => (first..=(end - 1) / PAGE).all(page_readable),
        libc::EINVAL => {
            let here = 0_u8;
            populate((&raw const here) as usize / PAGE * PAGE, PAGE, WRITE) != 0
        }
        _ => true,
    }
}

/// The error of the request, or 0.
fn populate(start: usize, len: usize, advice: c_int) -> c_int {
    let _errno = errno::Keep::new();
    // SAFETY: present pages keep their bytes.
    let done = unsafe { libc::madvise(start as *mut c_void, len, advice) };
    if done == 0 { 0 } else { errno::get() }
}

/// A text of the program, if it can be read as a whole.
///
/// # Safety
/// Nobody changes it meanwhile.
pub unsafe fn text<'a>(text: *const c_char) -> Option<&'a OsStr> {
    let start = text as usize;
    let mut len = 0usize;
    loop {
        let page = start.checked_add(len)? / PAGE;
        if !page_readable(page) {
            return None;
        }
        let end = (page + 1) * PAGE - start;
        // SAFETY: the page can be read.
        let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), end) };
        if let Some(zero) = bytes[len..].iter().position(|byte| *byte == 0) {
            return Some(OsStr::from_bytes(&bytes[..len + zero]));
        }
        len = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three pages, the middle one protected.
    fn pages() -> *mut u8 {
        // SAFETY: new memory, one page of it protected.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let both = libc::PROT_READ | libc::PROT_WRITE;
            let made = libc::mmap(std::ptr::null_mut(), 3 * PAGE, both, flags, -1, 0);
            assert_ne!(made, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(made.byte_add(PAGE), PAGE, libc::PROT_NONE), 0);
            made.cast()
        }
    }

    #[test]
    fn memory_that_is_not_there_can_neither_be_read_nor_written() {
        let memory = pages();
        let at = |offset: usize| memory.wrapping_add(offset);
        for _ in 0..2 {
            assert!(readable(at(0), PAGE) && readable(at(10), 0) && readable(at(2 * PAGE), 1));
            assert!(!readable(at(PAGE), 1) && !readable(at(PAGE - 1), 2));
            assert!(!readable(at(0), 2 * PAGE + 1) && !readable(at(0), 30 * PAGE));
            assert!(!readable(std::ptr::null(), 1) && !readable(at(0), usize::MAX));
        }
        assert!(writable(at(5).cast(), 100) && !writable(at(5).cast(), PAGE));
        assert!(!writable(std::ptr::null(), 1) && writable(std::ptr::null(), 0));
        // SAFETY: unmaps the memory that was mapped above.
        unsafe { libc::munmap(memory.cast(), 3 * PAGE) };
        forget();
        assert!(!readable(at(0), 1));
    }

    #[test]
    fn a_text_ends_before_memory_that_is_not_there() {
        let memory = pages();
        // SAFETY: inside the first page.
        unsafe {
            memory.add(PAGE - 3).copy_from(c"ab".as_ptr().cast(), 3);
            assert_eq!(text(memory.add(PAGE - 3).cast()), Some(OsStr::new("ab")));
            memory.add(PAGE - 1).write(b'c');
            assert_eq!(text(memory.add(PAGE - 3).cast()), None);
            libc::munmap(memory.cast(), 3 * PAGE);
        }
        forget();
    }
}
