//! Bytes that were written and are not in the kernel yet.

use super::files::{self, Description, File, Held};
use super::next;
use super::reason::Reason;
use super::state::Inside;
use super::{descriptors, errno, flush, spool, state};
use agg_core::file_systems;
use agg_core::log::{self, Level};
use agg_core::spool::layout::{PIECES, SLOT_DATA};
use agg_core::spool::{Ask, Slot, stored};
use libc::c_int;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Writes of more bytes than this are never kept back: copying them costs more than it saves.
pub const LARGE: usize = 8 * 1024;
/// Small writes in a row before one is kept back.
const STREAK: usize = 1;

/// Whether a write of `len` bytes through `description` is to be kept back. The file is locked.
#[inline]
pub fn wanted(file: &'static File, held: &mut Held, description: &Description, len: usize) -> bool {
    if len == 0 || len > LARGE {
        held.streak = 0;
        return false;
    }
    held.streak += 1;
    (held.streak > STREAK || others_keep(file))
        && !file.native.load(Relaxed)
        && description.writable.load(Relaxed)
        && !state::ending()
        && (held.buffer.slot.is_some() || find_room(file, held, description))
}

/// Whether other processes buffer bytes of the file. If so, buffer the next write too, which
/// announces it: a process that finds their bytes can then attribute the change.
#[cold]
fn others_keep(file: &'static File) -> bool {
    !file.native.load(Relaxed) && spool::others_may_have(file.identity[1].load(Relaxed))
}

/// Performs a write at once, and announces it to the processes that buffer bytes of the file.
#[inline]
pub fn at_once(
    file: &'static File,
    description: &Description,
    kernel: impl FnOnce() -> isize,
) -> isize {
    if file.native.load(Relaxed) {
        return kernel();
    }
    let identity = [file.identity[0].load(Relaxed), file.identity[1].load(Relaxed)];
    let fd = description.descriptor.load(Relaxed);
    let change = spool::begin_change(identity, fd);
    let written = kernel();
    spool::end_change(change, identity, fd);
    written
}

/// Gets a slot for the file, under the name that it has now.
#[cold]
fn find_room(file: &'static File, held: &mut Held, description: &Description) -> bool {
    let fd = description.descriptor.load(Relaxed);
    let identity = [file.identity[0].load(Relaxed), file.identity[1].load(Relaxed)];
    match super::facts::name_of(fd) {
        Some(path) => held.path = path,
        None => {
            flush::make_native(file, held, Reason::NoPath);
            return false;
        }
    }
    held.buffer.slot = spool::slot(fd, &held.path, identity, &[SLOT_DATA]);
    (held.buffer.count, held.buffer.used) = (0, 0);
    if held.buffer.slot.is_none() {
        flush::make_native(file, held, Reason::NoSpool);
    }
    held.buffer.slot.is_some()
}

/// Makes room for `len` bytes at `offset`; writes out the buffered bytes if necessary.
///
/// # Errors
/// The kernel's error number. The buffered bytes stay, and no more may be added.
#[inline]
pub fn make_room(
    file: &'static File,
    held: &mut Held,
    offset: u64,
    len: usize,
) -> Result<(), c_int> {
    let continues = held.buffer.count > 0 && offset == held.buffer.end;
    let fits = held.buffer.used + len <= SLOT_DATA
        && (continues || held.buffer.count == 0 || (held.scattered && held.buffer.count < PIECES));
    if fits { Ok(()) } else { drain(file, held) }
}

/// Keeps `len` bytes at `data` for `offset`; there is [room](make_room).
///
/// # Safety
/// `data` points to `len` bytes.
#[inline]
pub unsafe fn keep(
    file: &'static File,
    held: &mut Held,
    description: &'static Description,
    (data, len): (*const u8, usize),
    offset: u64,
) {
    let Some(slot) = held.buffer.slot else { return };
    // SAFETY: the caller's promise, and that there is room.
    unsafe { std::ptr::copy_nonoverlapping(data, slot.data().add(held.buffer.used), len) };
    if held.buffer.count == 0 {
        know_version(slot, held, description);
    }
    if held.buffer.count > 0 && offset == held.buffer.end {
        slot.extend(held.buffer.count - 1, len);
    } else {
        slot.push(held.buffer.count, offset, len, held.buffer.used);
        held.buffer.count += 1;
    }
    held.ahead.forget();
    held.buffer.used += len;
    held.buffer.end = offset + len as u64;
    held.buffer.writer = Some(description);
    if !file.dirty.load(Relaxed) {
        files::mark(file, held, true);
    }
}

/// Records the version of the file that bytes buffered from now on belong to. Other processes
/// announce their changes to a slot whether it has bytes or not.
#[cold]
fn know_version(slot: Slot, held: &mut Held, description: &Description) {
    let fd = description.descriptor.load(Relaxed);
    slot.belong_to_file(fd, *held.buffer.ask.get_or_insert_with(|| who_knows(fd)));
}

/// Where to ask for the version of the file of `fd` that the last write has made: the kernel
/// reports old times of a FUSE file until it asks the server.
fn who_knows(fd: c_int) -> Ask {
    let (_inside, _errno) = (Inside::enter(), errno::Keep::new());
    match file_systems::magic(fd) {
        Some(file_systems::FUSE) | None => Ask::Server,
        Some(_) => Ask::Machine,
    }
}

/// Writes everything that is kept into the kernel.
///
/// # Errors
/// The kernel's error number; everything is kept still.
pub fn drain(file: &'static File, held: &mut Held) -> Result<(), c_int> {
    let (Some(slot), Some(writer)) = (held.buffer.slot, held.buffer.writer) else { return Ok(()) };
    if held.buffer.count == 0 {
        return Ok(());
    }
    let keep = errno::Keep::new();
    let fd = writer.descriptor.load(Relaxed);
    let storing = spool::begin_storing(slot, fd);
    let requests = write_pieces(fd, slot, held.buffer.count);
    spool::end_storing(storing, fd, requests.is_ok());
    let requests = requests?;
    if log::enabled(Level::Trace) {
        let (_inside, path) = (Inside::enter(), String::from_utf8_lossy(&held.path));
        let (count, bytes) = (held.buffer.count, held.buffer.used);
        log::write(
            Level::Trace,
            format_args!("{path}: {count} kept pieces, {bytes} bytes, by {requests} requests"),
        );
    }
    drop(keep);
    if held.buffer.count > 8 {
        held.scattered = requests * 2 <= held.buffer.count;
    }
    held.counts.drains += requests as u64;
    empty(file, held);
    Ok(())
}

/// Discards the buffered bytes: they are in the kernel, or lost.
pub fn empty(file: &'static File, held: &mut Held) {
    if let Some(slot) = held.buffer.slot {
        slot.empty();
    }
    (held.buffer.count, held.buffer.used) = (0, 0);
    files::mark(file, held, false);
}

/// Discards buffered bytes that can never be stored, and reports the loss to the user.
#[cold]
pub fn lose(file: &'static File, held: &mut Held, error: c_int) {
    let Some(slot) = held.buffer.slot else { return };
    let _inside = state::Inside::enter();
    let (offset, ..) = slot.piece(0);
    let (path, bytes) = (String::from_utf8_lossy(&held.path), held.buffer.used);
    let cause = std::io::Error::from_raw_os_error(error);
    agg_core::log::write(
        agg_core::log::Level::Error,
        format_args!("{path}: {bytes} bytes from byte {offset} on are not stored: {cause}"),
    );
    held.counts.lost += bytes as u64;
    empty(file, held);
}

/// Writes the pieces; neighbours together. The number of requests.
fn write_pieces(fd: c_int, slot: Slot, count: usize) -> Result<usize, c_int> {
    if count == 1 {
        let (offset, len, place) = slot.piece(0);
        write_all(fd, slot, offset, len, place)?;
        return Ok(1);
    }
    let mut order = [0u16; PIECES];
    let order = &mut order[..count];
    for (index, place) in order.iter_mut().enumerate() {
        *place = index as u16;
    }
    stored::sort(order, |index| {
        let (offset, len, _) = slot.piece(usize::from(index));
        (offset, len as u64)
    });
    let mut requests = 0;
    let mut from = 0;
    while from < count {
        let mut to = from + 1;
        let end = |index: u16| {
            let (offset, len, _) = slot.piece(usize::from(index));
            offset + len as u64
        };
        while to < count && end(order[to - 1]) == slot.piece(usize::from(order[to])).0 {
            to += 1;
        }
        write_run(fd, slot, &order[from..to])?;
        slot.head().stored.store(to as u32, Release);
        requests += 1;
        from = to;
    }
    Ok(requests)
}

/// Writes pieces that lie side by side in the file.
fn write_run(fd: c_int, slot: Slot, run: &[u16]) -> Result<(), c_int> {
    let mut vectors =
        [const { libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 } }; PIECES];
    let mut total = 0;
    for (vector, index) in vectors.iter_mut().zip(run) {
        let (_, len, place) = slot.piece(usize::from(*index));
        // SAFETY: the piece is inside the data of the slot.
        *vector = libc::iovec { iov_base: unsafe { slot.data().add(place) }.cast(), iov_len: len };
        total += len;
    }
    let offset = slot.piece(usize::from(run[0])).0;
    // SAFETY: the vectors describe memory of the slot.
    let written =
        unsafe { next::pwritev64(fd, vectors.as_ptr(), run.len() as c_int, offset as i64) };
    if written == total as isize {
        return Ok(());
    }
    // Interrupted, cut short or failed: one by one, which shows why.
    for index in run {
        let (offset, len, place) = slot.piece(usize::from(*index));
        write_all(fd, slot, offset, len, place)?;
    }
    Ok(())
}

fn write_all(fd: c_int, slot: Slot, offset: u64, len: usize, place: usize) -> Result<(), c_int> {
    let mut done = 0;
    while done < len {
        // SAFETY: the piece is inside the data of the slot.
        let written = unsafe {
            let data = slot.data().add(place + done);
            next::pwrite64(fd, data.cast(), len - done, (offset + done as u64) as i64)
        };
        match written {
            1.. => done += written as usize,
            0 => return Err(libc::EIO),
            _ if errno::get() == libc::EINTR => {}
            _ => return Err(errno::get()),
        }
    }
    Ok(())
}

/// Chooses another descriptor for a description that loses `fd`.
pub fn change_descriptor(description: &'static Description, fd: c_int) {
    if description.descriptor.load(Relaxed) == fd
        && let Some(other) = descriptors::of(description).next()
    {
        description.descriptor.store(other, Relaxed);
    }
}

/// Carries out the writes of signal handlers that wait. The file is locked.
#[cold]
pub fn carry_out(file: &'static File, held: &mut Held) {
    let _errno = errno::Keep::new();
    if let Err(error) = drain(file, held) {
        held.error = error;
    }
    let mut done = 0;
    loop {
        let used = file.late.used();
        if done == used {
            if file.late.is_done(used) {
                return;
            }
            continue;
        }
        let (fd, bytes) = file.late.entry(done);
        done += 8 + bytes.len();
        let Some(description) = descriptors::get::<Description>(fd) else { continue };
        let tracked = description.tracked.load(Relaxed);
        // SAFETY: the pointer and length describe the bytes.
        let written = unsafe {
            if tracked {
                let position = description.position();
                next::pwrite64(fd, bytes.as_ptr().cast(), bytes.len(), position as i64)
            } else {
                next::write(fd, bytes.as_ptr().cast(), bytes.len())
            }
        };
        if written != bytes.len() as isize {
            held.error = if written < 0 { errno::get() } else { libc::EIO };
        }
        if tracked && written > 0 {
            description.set_position(description.position() + written as u64);
        }
    }
}
