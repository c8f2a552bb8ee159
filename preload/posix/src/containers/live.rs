//! Live mappings: memory that programs share with a container's file and change by storing to it.
//! Its pages are pages of logs, so that stored bytes are in the file at once, for every process,
//! even if this process is killed.

use super::super::errno;
use super::super::next;
use super::areas::{self, Area, Live};
use super::open_file::State;
use super::table::OpenContainer;
use agg_core::blob::Placed;
use agg_core::{Error, Extent, Result};
use libc::{c_int, c_void};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};

fn failed(call: &str) -> Error {
    Error::os(call, &io::Error::last_os_error())
}

/// Maps `pages` of an open container from `offset` on; `flags` are those of `mmap`.
///
/// # Errors
/// The number that `mmap` reports.
pub(super) fn map(
    open: &'static OpenContainer,
    (address, len): (*mut c_void, usize),
    protection: c_int,
    flags: c_int,
    offset: u64,
) -> std::result::Result<*mut c_void, c_int> {
    let pages = areas::pages(0, len).end;
    if pages > isize::MAX as usize {
        return Err(libc::ENOMEM);
    }
    // Reserve addresses for the whole length. There is no file yet behind these pages.
    let nothing = nothing().map_err(|error| error.number())?;
    // SAFETY: the caller's address and flags; the file has no bytes.
    let made = unsafe { next::mmap64(address, pages, protection, flags, nothing.as_raw_fd(), 0) };
    if made == libc::MAP_FAILED {
        return Err(errno::get());
    }
    let start = made as usize;
    // The new mapping replaces any copies of ours at these addresses.
    super::forget_copies(start, pages);
    let mut live = Live { open, offset, protection, size: 0, placed: Vec::new() };
    let mapped = open.locked(|_, state| show(state, &(start..start + pages), &mut live));
    match mapped {
        Ok(()) => {
            areas::add(Area { pages: start..start + pages, live: Some(live) });
            // Somebody may have changed the size before it was known.
            renew(open.identity);
            Ok(made)
        }
        Err(error) => {
            // SAFETY: it was mapped just now, and there is no other reference to it.
            unsafe { next::munmap(made, pages) };
            Err(error)
        }
    }
}

/// A file without bytes: memory that shows it can only be looked at with SIGBUS.
fn nothing() -> Result<File> {
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(c"aggio-end-of-file".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(failed("memfd_create"));
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Has the pages show the file as it is now.
fn show(state: &mut State, pages: &Range<usize>, live: &mut Live) -> Result<()> {
    let writer = state.writer()?;
    let range = Extent::new(live.offset, pages.len() as u64);
    let page = areas::page_size() as u64;
    let placed = writer.place_pages(range, page)?;
    let size = writer.size()?;
    let shown = |parts: &[Placed]| parts.last().map_or(range.offset, |part| part.logical.end());
    let (before, now) = (shown(&live.placed), shown(&placed));
    for part in &placed {
        if let Some(new) = unmapped(part, &live.placed, page) {
            let first = pages.start + (new.logical.offset - range.offset) as usize;
            place(first, new.logical.len, live.protection, &*writer.part(new.log)?, new.place)?;
        }
    }
    let (first, end) = (now.next_multiple_of(page), before.next_multiple_of(page));
    if first < end {
        let at = pages.start + (first - range.offset) as usize;
        place(at, end - first, live.protection, &nothing()?, 0)?;
    }
    (live.placed, live.size) = (placed, size);
    Ok(())
}

/// The pages of `part` that are not among those which are mapped.
fn unmapped(part: &Placed, mapped: &[Placed], page: u64) -> Option<Placed> {
    let same = |old: &&Placed| {
        let starts = (old.logical.offset, old.log, old.place);
        starts == (part.logical.offset, part.log, part.place)
    };
    let end = mapped.iter().find(same).map_or(0, |old| old.logical.end().next_multiple_of(page));
    part.part(Extent::between(end.max(part.logical.offset), part.logical.end()))
}

/// Maps `len` bytes of a file from `offset` on at `address`, which is ours.
fn place(address: usize, len: u64, protection: c_int, file: &File, offset: u64) -> Result<()> {
    let (flags, len) = (libc::MAP_SHARED | libc::MAP_FIXED, areas::pages(0, len as usize).end);
    let (fd, offset) = (file.as_raw_fd(), offset as libc::off64_t);
    // SAFETY: the addresses belong to a mapping of this container.
    let made = unsafe { next::mmap64(address as *mut c_void, len, protection, flags, fd, offset) };
    if made == libc::MAP_FAILED { Err(failed("mmap")) } else { Ok(()) }
}

/// After a change of the size: maps the live mappings of the container with this identity anew.
pub(super) fn renew(identity: (u64, u64)) {
    if !areas::has_live_on(identity) {
        return;
    }
    let _errno = errno::Keep::new();
    let Some(_held) = areas::hold() else { return };
    for (pages, mut live) in areas::live_on(identity) {
        let open = live.open;
        let shown = open.alone(|_, state| {
            let same = state.size()? == live.size;
            if same { Ok(()) } else { show(state, &pages, &mut live) }
        });
        match shown {
            Ok(()) => areas::show(&pages, live),
            Err(error) => super::table::tell(open, error),
        }
    }
}

/// `munmap`, or a mapping in place of others: the pages of a range are something else from now on.
pub fn forget_copies(start: usize, len: usize) {
    for open in areas::forget(start, len) {
        if !open.has_descriptors() {
            let _errno = errno::Keep::new();
            if let Err(error) = open.finish() {
                super::table::tell(open, error);
            }
        }
    }
}

/// `msync`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn msync(address: *mut c_void, len: usize, flags: c_int) -> c_int {
    // SAFETY: the caller's arguments.
    let done = unsafe { next::msync(address, len, flags) };
    if done != 0 || flags & libc::MS_SYNC == 0 {
        return done;
    }
    let opens = areas::live_in(address as usize, len).into_iter().filter_map(|area| area.live);
    let synced = opens.map(|live| live.open.locked(|_, state| state.sync()));
    synced
        .fold(0, |done, synced| synced.map_or_else(|error| errno::fail(error) as c_int, |()| done))
}

/// `mprotect`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn protect(address: *mut c_void, len: usize, protection: c_int) -> c_int {
    if protection & libc::PROT_WRITE != 0 && areas::has_copies(address as usize, len) {
        return errno::fail(libc::EACCES) as c_int;
    }
    // SAFETY: the caller's arguments.
    let done = unsafe { next::mprotect(address, len, protection) };
    if done == 0 {
        areas::protect(address as usize, len, protection);
    }
    done
}

/// `mremap`: a live mapping is mapped anew with the other length; copies stay as they are.
///
/// # Safety
/// As the C library demands.
pub unsafe fn remap(
    address: *mut c_void,
    len: usize,
    new: usize,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    let refuse = |error| {
        errno::set(error);
        libc::MAP_FAILED
    };
    let range = areas::pages(address as usize, len);
    let mut areas = areas::live_in(range.start, len);
    if areas.is_empty() && !areas::has_copies(range.start, len) {
        // SAFETY: the caller's arguments.
        return unsafe { next::mremap(address, len, new, flags, to) };
    }
    let area = areas.pop().filter(|area| areas.is_empty() && area.pages == range);
    let Some(live) = area.and_then(|area| area.live) else { return refuse(libc::EINVAL) };
    let new_pages = areas::pages(0, new).end;
    if new_pages <= range.len() && flags & libc::MREMAP_FIXED == 0 {
        if new_pages < range.len() {
            let (rest, end) = (range.start + new_pages, range.len() - new_pages);
            forget_copies(rest, end);
            // SAFETY: the caller gives these pages up.
            unsafe { next::munmap(rest as *mut c_void, end) };
        }
        return address;
    }
    if flags != libc::MREMAP_MAYMOVE {
        return refuse(if flags == 0 { libc::ENOMEM } else { libc::EINVAL });
    }
    let nowhere = std::ptr::null_mut();
    match map(live.open, (nowhere, new), live.protection, libc::MAP_SHARED, live.offset) {
        Ok(made) => {
            forget_copies(range.start, len);
            // SAFETY: the caller gives the old addresses up.
            unsafe { next::munmap(address, len) };
            made
        }
        Err(error) => refuse(error),
    }
}
