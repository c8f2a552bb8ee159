//! Reads, writes and positions.

use super::access::Access;
use super::files::{Description, File, Held};
use super::next;
use super::{coupled, descriptors, dirty, errno, readable_memory, reading, settle};
use libc::{c_int, c_void, iovec, off64_t, size_t, ssize_t};
use std::sync::atomic::Ordering::Relaxed;

/// The most vectors that the kernel takes.
const VECTORS: c_int = 1024;

/// A run of the program's memory.
type Run = (*const u8, usize);

/// How a write is completed.
enum Verdict {
    /// It was kept back.
    Kept,
    /// It failed with this error number.
    Failed(c_int),
    /// The kernel is to do it, at this position if the description's is ours.
    Kernel(Option<u64>),
}

/// `write`.
///
/// # Safety
/// As the C library demands.
#[inline]
pub unsafe fn write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t {
    let straight = |_: &Description| {
        settle::causal();
        // SAFETY: the caller's arguments, passed on.
        unsafe { next::write(fd, data, len) }
    };
    let Some(description) = descriptors::get(fd) else {
        settle::causal();
        // SAFETY: the caller's arguments, passed on.
        return unsafe { next::write(fd, data, len) };
    };
    if is_straight(description) {
        return straight(description);
    }
    // SAFETY: the caller's promise about its data.
    unsafe {
        at_position(fd, &[(data.cast(), len)], len, |position| match position {
            Some(position) => next::pwrite64(fd, data, len, position as i64),
            None => next::write(fd, data, len),
        })
    }
}

/// `writev`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn writev(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
    settle::causal();
    let managed = descriptors::get(fd).is_some_and(|description| !is_straight(description));
    // SAFETY: the caller's promise about its vectors.
    let gathered = if managed { unsafe { gather(vectors, count) } } else { None };
    let Some((runs, used, total)) = gathered else {
        settle::settle(fd, None);
        // SAFETY: the caller's arguments, passed on.
        return at_once(fd, || unsafe { next::writev(fd, vectors, count) });
    };
    // SAFETY: the caller's promise about its data.
    unsafe {
        at_position(fd, &runs[..used], total, |position| match position {
            Some(position) => next::pwritev64(fd, vectors, count, position as i64),
            None => next::writev(fd, vectors, count),
        })
    }
}

/// `pwrite`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn pwrite(fd: c_int, data: *const c_void, len: size_t, offset: off64_t) -> ssize_t {
    // SAFETY: the caller's promise about its data.
    unsafe {
        at_offset(fd, &[(data.cast(), len)], len, offset, || next::pwrite64(fd, data, len, offset))
    }
}

/// `pwritev`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn pwritev(fd: c_int, vectors: *const iovec, count: c_int, offset: off64_t) -> ssize_t {
    // SAFETY: the caller's promise about its vectors and their data.
    unsafe {
        let kernel = || next::pwritev64(fd, vectors, count, offset);
        match gather(vectors, count) {
            Some((runs, used, total)) => at_offset(fd, &runs[..used], total, offset, kernel),
            None => match settle::drained(fd) {
                Ok(()) => at_once(fd, kernel),
                Err(error) => errno::fail(error),
            },
        }
    }
}

/// A write that is not buffered.
fn at_once(fd: c_int, kernel: impl FnOnce() -> ssize_t) -> ssize_t {
    match descriptors::get(fd).and_then(|description| Some((description.file()?, description))) {
        Some((file, description)) => dirty::at_once(file, description, kernel),
        None => kernel(),
    }
}

/// Whether the kernel does everything about this description, and has all bytes and the position.
#[inline]
fn is_straight(description: &Description) -> bool {
    description.file().is_none_or(|file| file.native.load(Relaxed) && !file.dirty.load(Relaxed))
}

/// The runs that a few vectors describe, how many, and how many bytes they have together; `None` if
/// they are too many or too large to be kept back, or wrong.
///
/// # Safety
/// `vectors` points to `count` vectors.
unsafe fn gather(vectors: *const iovec, count: c_int) -> Option<([Run; 16], usize, usize)> {
    let mut runs = [(std::ptr::null(), 0); 16];
    if !(1..=VECTORS.min(16)).contains(&count)
        || !readable_memory::readable(vectors.cast(), count as usize * size_of::<iovec>())
    {
        return None;
    }
    let mut total = 0usize;
    for (index, run) in runs.iter_mut().take(count as usize).enumerate() {
        // SAFETY: the caller's promise.
        let vector = unsafe { *vectors.add(index) };
        *run = (vector.iov_base.cast_const().cast(), vector.iov_len);
        total = total.checked_add(vector.iov_len).filter(|total| *total <= dirty::LARGE)?;
    }
    Some((runs, count as usize, total))
}

/// Whether all of it can be read; if not, the kernel says so.
#[inline]
fn all_readable(runs: &[Run]) -> bool {
    runs.iter().all(|run| readable_memory::readable(run.0, run.1))
}

/// A write at the position of the description.
///
/// # Safety
/// `runs` describe memory that can be read.
#[inline]
unsafe fn at_position(
    fd: c_int,
    runs: &[Run],
    total: usize,
    kernel: impl FnOnce(Option<u64>) -> ssize_t,
) -> ssize_t {
    let Some(mut access) = Access::of(fd) else {
        // SAFETY: the caller's promise.
        return unsafe { interrupting(fd, runs, total) }.unwrap_or_else(|| kernel(None));
    };
    let (file, description) = (access.file, access.description);
    // SAFETY: the caller's promise.
    let verdict = unsafe { place(file, access.held(), description, runs, total) };
    match verdict {
        Verdict::Kept => total as ssize_t,
        Verdict::Failed(error) => errno::fail(error),
        Verdict::Kernel(position) => {
            let written = dirty::at_once(file, description, || kernel(position));
            if let (Some(position), 1..) = (position, written) {
                description.set_position(position + written as u64);
            }
            written
        }
    }
}

/// A write of a signal handler that has interrupted this thread at the same file.
///
/// # Safety
/// `runs` describe memory that can be read.
#[cold]
unsafe fn interrupting(fd: c_int, runs: &[Run], total: usize) -> Option<ssize_t> {
    let file = descriptors::get(fd)?.file()?;
    // SAFETY: the caller's promise.
    let taken =
        all_readable(runs) && runs.iter().all(|run| unsafe { file.late.take(fd, run.0, run.1) });
    taken.then_some(total as ssize_t)
}

/// Keeps a write at the position back, or prepares the kernel for it.
///
/// # Safety
/// `runs` describe memory that can be read.
#[inline]
unsafe fn place(
    file: &'static File,
    held: &mut Held,
    description: &'static Description,
    runs: &[Run],
    total: usize,
) -> Verdict {
    if held.error != 0 {
        return Verdict::Failed(held.take_error());
    }
    if !dirty::wanted(file, held, description, total) || !all_readable(runs) || !track(description)
    {
        return prepare(file, held, description);
    }
    let position = description.position();
    if let Err(error) = dirty::make_room(file, held, position, total) {
        return Verdict::Failed(error);
    }
    // SAFETY: the caller's promise.
    unsafe { keep_runs(file, held, description, runs, position) };
    description.set_position(position + total as u64);
    Verdict::Kept
}

/// Makes the position ours; whether it is known.
#[inline]
fn track(description: &Description) -> bool {
    if description.tracked.load(Relaxed) {
        return true;
    }
    let fd = description.descriptor.load(Relaxed);
    // SAFETY: plain numbers.
    let position = unsafe { next::lseek64(fd, 0, libc::SEEK_CUR) };
    if let Ok(position) = u64::try_from(position) {
        description.set_position(position);
        description.tracked.store(true, Relaxed);
    }
    position >= 0
}

fn prepare(file: &'static File, held: &mut Held, description: &Description) -> Verdict {
    held.ahead.forget();
    match dirty::drain(file, held) {
        Ok(()) => {
            let tracked = description.tracked.load(Relaxed);
            Verdict::Kernel(tracked.then(|| description.position()))
        }
        Err(error) => Verdict::Failed(error),
    }
}

/// # Safety
/// `runs` describe memory that can be read, and there is room.
#[inline]
unsafe fn keep_runs(
    file: &'static File,
    held: &mut Held,
    description: &'static Description,
    runs: &[Run],
    offset: u64,
) {
    let mut offset = offset;
    for run in runs.iter().filter(|run| run.1 > 0) {
        // SAFETY: the caller's promise.
        unsafe { dirty::keep(file, held, description, *run, offset) };
        offset += run.1 as u64;
        held.counts.kept_bytes += run.1 as u64;
    }
    held.counts.kept += 1;
}

/// A write somewhere else than at the position.
///
/// # Safety
/// `runs` describe memory that can be read.
unsafe fn at_offset(
    fd: c_int,
    runs: &[Run],
    total: usize,
    offset: off64_t,
    kernel: impl FnOnce() -> ssize_t,
) -> ssize_t {
    settle::causal();
    let Some(description) = descriptors::get(fd) else { return kernel() };
    if is_straight(description) {
        return kernel();
    }
    let Some(mut access) = Access::of(fd) else { return kernel() };
    let (file, description) = (access.file, access.description);
    let held = access.held();
    if held.error != 0 {
        return errno::fail(held.take_error());
    }
    // Leave positions far away to the kernel: they may exceed the size of the largest file.
    let near = (0..=held.accepted.max(1 << 30) as i64).contains(&offset);
    if near && dirty::wanted(file, held, description, total) && all_readable(runs) {
        if let Err(error) = dirty::make_room(file, held, offset as u64, total) {
            return errno::fail(error);
        }
        // SAFETY: the caller's promise.
        unsafe { keep_runs(file, held, description, runs, offset as u64) };
        return total as ssize_t;
    }
    held.ahead.forget();
    match dirty::drain(file, held) {
        Ok(()) => {
            let written = dirty::at_once(file, description, kernel);
            if written > 0 {
                held.accepted = held.accepted.max(offset as u64);
            }
            written
        }
        Err(error) => errno::fail(error),
    }
}

/// `read`.
///
/// # Safety
/// As the C library demands.
#[inline]
pub unsafe fn read(fd: c_int, data: *mut c_void, len: size_t) -> ssize_t {
    let small =
        descriptors::get(fd).is_some_and(|description| reading::may(description, data.cast(), len));
    // SAFETY: the caller's promise about its data.
    if small && let Some(read) = unsafe { small_read(fd, data.cast(), len) } {
        return read;
    }
    // SAFETY: the caller's arguments, passed on.
    read_at_position(fd, |position| unsafe {
        match position {
            Some(position) => next::pread64(fd, data, len, position as i64),
            None => next::read(fd, data, len),
        }
    })
}

/// A small read at the position, if it is one of several; `None`, and nothing has happened, if not.
///
/// # Safety
/// `data` has room for `len` bytes.
unsafe fn small_read(fd: c_int, data: *mut u8, len: usize) -> Option<ssize_t> {
    let mut access = Access::of(fd)?;
    let (file, description) = (access.file, access.description);
    let held = access.held();
    if !reading::wanted(held) || file.native.load(Relaxed) || !track(description) {
        return None;
    }
    if let Err(error) = dirty::drain(file, held) {
        return Some(errno::fail(error));
    }
    let position = description.position();
    // SAFETY: the caller's promise.
    let read = unsafe { reading::read(held, fd, data, len, position) };
    if read > 0 {
        description.set_position(position + read as u64);
    }
    Some(read)
}

/// `pread`.
///
/// # Safety
/// As the C library demands.
pub unsafe fn pread(fd: c_int, data: *mut c_void, len: size_t, offset: off64_t) -> ssize_t {
    let small =
        descriptors::get(fd).is_some_and(|description| reading::may(description, data.cast(), len));
    if small
        && let Ok(place) = u64::try_from(offset)
        && let Some(mut access) = Access::of(fd)
        && !access.file.native.load(Relaxed)
        && reading::wanted(access.held())
    {
        let file = access.file;
        return match dirty::drain(file, access.held()) {
            // SAFETY: the caller's promise about its data.
            Ok(()) => unsafe { reading::read(access.held(), fd, data.cast(), len, place) },
            Err(error) => errno::fail(error),
        };
    }
    // SAFETY: the caller's arguments, passed on.
    read_at_offset(fd, || unsafe { next::pread64(fd, data, len, offset) })
}

/// A read at the position: `kernel` does it, at the place given if the position is ours.
pub fn read_at_position(fd: c_int, kernel: impl FnOnce(Option<u64>) -> ssize_t) -> ssize_t {
    let Some(description) = descriptors::get(fd) else { return kernel(None) };
    let clean = description.file().is_none_or(|file| !file.dirty.load(Relaxed));
    if clean && !description.tracked.load(Relaxed) {
        return kernel(None);
    }
    let Some(mut access) = Access::of(fd) else { return kernel(None) };
    let (file, description) = (access.file, access.description);
    let held = access.held();
    if let Err(error) = dirty::drain(file, held) {
        return errno::fail(error);
    }
    let position = description.tracked.load(Relaxed).then(|| description.position());
    let read = kernel(position);
    if let (Some(position), 1..) = (position, read) {
        description.set_position(position + read as u64);
    }
    read
}

/// A read somewhere else than at the position.
pub fn read_at_offset(fd: c_int, kernel: impl FnOnce() -> ssize_t) -> ssize_t {
    match settle::drained(fd) {
        Ok(()) => kernel(),
        Err(error) => errno::fail(error),
    }
}

/// `lseek`.
pub fn seek(fd: c_int, offset: off64_t, whence: c_int) -> off64_t {
    if matches!(whence, libc::SEEK_DATA | libc::SEEK_HOLE) {
        coupled::complete(fd);
    }
    // SAFETY: plain numbers.
    let kernel = |offset, whence| unsafe { next::lseek64(fd, offset, whence) };
    let Some(mut access) = Access::of(fd) else { return kernel(offset, whence) };
    let (file, description) = (access.file, access.description);
    let tracked = description.tracked.load(Relaxed);
    let held = access.held();
    let position = match whence {
        libc::SEEK_CUR if tracked && offset == 0 => description.position() as i64,
        libc::SEEK_SET if tracked && (0..=held.accepted as i64).contains(&offset) => offset,
        libc::SEEK_SET => kernel(offset, whence),
        libc::SEEK_CUR => {
            if tracked && kernel(description.position() as i64, libc::SEEK_SET) < 0 {
                return -1;
            }
            kernel(offset, whence)
        }
        _ => match dirty::drain(file, held) {
            Ok(()) => kernel(offset, whence),
            Err(error) => return errno::fail(error) as off64_t,
        },
    };
    if let Ok(position) = u64::try_from(position) {
        held.accepted = held.accepted.max(position);
        if tracked {
            description.set_position(position);
        }
    }
    position
}
