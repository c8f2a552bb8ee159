//! Reads, writes and positions of files that rules name.

use super::access::Access;
use super::files::{Description, File, Held};
use super::next;
use super::operations::Transfer;
use super::{descriptors, dirty, errno, flush, readable_memory, reading, settle};
use libc::{c_int, off64_t, ssize_t};
use std::sync::atomic::Ordering::Relaxed;

/// The most vectors of a write that is kept back.
const MOST_RUNS: usize = 16;

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

/// A write through `description`.
#[inline]
pub fn write(description: &'static Description, fd: c_int, transfer: &Transfer) -> ssize_t {
    let (single, straight) = (transfer.single(), is_straight(description));
    // A small write at the position may be kept back, so that nobody is told anything by it.
    if straight || single.is_none() || transfer.offset.is_some() {
        settle::causal();
    }
    let kernel = |position| transfer.write(fd, position);
    if straight {
        return kernel(None);
    }
    if transfer.flags != 0 {
        flush::settle(fd, None);
        return kernel(None);
    }
    let (one, several);
    let (runs, total) = match single {
        Some((data, len)) => {
            one = [(data.cast_const(), len)];
            (&one[..], len)
        }
        None => match gather(transfer) {
            Some((runs, used, total)) => {
                several = runs;
                (&several[..used], total)
            }
            // The kernel takes them, or says what is wrong.
            None => (&[][..], usize::MAX),
        },
    };
    // SAFETY: they are the memory of a write.
    unsafe {
        match transfer.offset {
            None => at_position(fd, runs, total, kernel),
            Some(offset) => at_offset(fd, runs, total, offset, || kernel(None)),
        }
    }
}

/// Whether the kernel does everything about this description, and has all bytes and the position.
#[inline]
fn is_straight(description: &Description) -> bool {
    description.file().is_none_or(|file| file.native.load(Relaxed) && !file.dirty.load(Relaxed))
}

/// The runs that a few vectors describe, how many, and how many bytes they have together; `None` if
/// they are too many or too large to be kept back, or wrong. They are copies, which the program
/// cannot change any more.
fn gather(transfer: &Transfer) -> Option<([Run; MOST_RUNS], usize, usize)> {
    let vectors = transfer.vectors().ok()?;
    if !(1..=MOST_RUNS).contains(&vectors.len()) {
        return None;
    }
    let (mut runs, mut total) = ([(std::ptr::null(), 0); MOST_RUNS], 0usize);
    for (run, vector) in runs.iter_mut().zip(vectors) {
        *run = (vector.iov_base.cast_const().cast(), vector.iov_len);
        total = total.checked_add(run.1).filter(|total| *total <= dirty::LARGE)?;
    }
    Some((runs, vectors.len(), total))
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
    let file = descriptors::get::<Description>(fd)?.file()?;
    // SAFETY: the caller's promise.
    let taken = total <= dirty::LARGE
        && all_readable(runs)
        && runs.iter().all(|run| unsafe { file.late.take(fd, run.0, run.1) });
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

/// A read through `description`.
#[inline]
pub fn read(description: &'static Description, fd: c_int, transfer: &Transfer) -> ssize_t {
    let kernel = |position| transfer.read(fd, position);
    if transfer.flags != 0 {
        flush::settle(fd, None);
        return kernel(None);
    }
    if let Some((data, len)) = transfer.single()
        && reading::may(description, data, len)
        // SAFETY: it is the memory of a read.
        && let Some(read) = unsafe { small_read(fd, data, len, transfer.offset) }
    {
        return read;
    }
    match transfer.offset {
        None => read_at_position(description, fd, kernel),
        Some(_) => flush::drained(fd).map_or_else(errno::fail, |()| kernel(None)),
    }
}

/// A small read at `offset`, or at the position, if it is one of several; `None`, and nothing has
/// happened, if not.
///
/// # Safety
/// `data` has room for `len` bytes.
unsafe fn small_read(
    fd: c_int,
    data: *mut u8,
    len: usize,
    offset: Option<off64_t>,
) -> Option<ssize_t> {
    let offset = offset.map(u64::try_from).transpose().ok()?;
    let mut access = Access::of(fd)?;
    let (file, description) = (access.file, access.description);
    let held = access.held();
    if file.native.load(Relaxed) || !reading::wanted(held) {
        return None;
    }
    if offset.is_none() && !track(description) {
        return None;
    }
    if let Err(error) = dirty::drain(file, held) {
        return Some(errno::fail(error));
    }
    let place = offset.unwrap_or_else(|| description.position());
    // SAFETY: the caller's promise.
    let read = unsafe { reading::read(held, fd, data, len, place) };
    if offset.is_none() && read > 0 {
        description.set_position(place + read as u64);
    }
    Some(read)
}

/// A read at the position: `kernel` does it, at the place given if the position is ours.
fn read_at_position(
    description: &Description,
    fd: c_int,
    kernel: impl FnOnce(Option<u64>) -> ssize_t,
) -> ssize_t {
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

/// `lseek`.
pub fn seek(fd: c_int, offset: off64_t, whence: c_int) -> off64_t {
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
