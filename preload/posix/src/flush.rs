//! Bytes and positions of files go into the kernel, before anybody else looks.

use super::access::Access;
use super::files::{self, Description, File, Held};
use super::next;
use super::reason::Reason;
use super::{descriptors, dirty, errno, spool, state};
use agg_core::rules::Mode;
use libc::c_int;
use std::sync::atomic::Ordering::Relaxed;

/// Puts the position of a description into the kernel. The file is locked.
pub fn sync_position(description: &Description) {
    if description.tracked.swap(false, Relaxed) {
        let _errno = errno::Keep::new();
        let (fd, position) = (description.descriptor.load(Relaxed), description.position());
        // SAFETY: plain numbers.
        unsafe { next::lseek64(fd, position as i64, libc::SEEK_SET) };
    }
}

/// Puts the positions of all descriptions of a file into the kernel. The file is locked.
pub fn sync_positions(file: &File) {
    for (_, description) in descriptors::each::<Description>() {
        if description.file().is_some_and(|other| std::ptr::eq(other, file)) {
            sync_position(description);
        }
    }
}

/// Writes out the buffered bytes. If this fails, the next write, sync or close returns the error.
pub fn drain_quietly(file: &'static File, held: &mut Held) {
    if let Err(error) = dirty::drain(file, held) {
        held.error = error;
    }
}

/// From now on the kernel does everything about this file. The file is locked.
#[cold]
pub fn make_native(file: &'static File, held: &mut Held, reason: Reason) {
    held.counts.reasons[reason as usize] += 1;
    held.ahead.forget();
    if file.native.swap(true, Relaxed) {
        return;
    }
    drain_quietly(file, held);
    sync_positions(file);
    give_back(held);
}

/// Gives back the slot of a file without buffered bytes.
pub fn give_back(held: &mut Held) {
    if held.buffer.count == 0
        && let Some(slot) = held.buffer.slot.take()
    {
        spool::give_back(slot);
    }
}

/// Leaves the file of `fd` to the kernel for good.
#[cold]
pub fn demote(fd: c_int, reason: Reason) {
    if let Some(mut access) = Access::of(fd) {
        let file = access.file;
        make_native(file, access.held(), reason);
    }
}

/// Puts bytes and position of `fd` into the kernel, for one call that it does itself.
pub fn settle(fd: c_int, reason: Option<Reason>) {
    if let Some(mut access) = Access::of(fd) {
        let (file, description) = (access.file, access.description);
        if let Some(reason) = reason {
            access.held().counts.reasons[reason as usize] += 1;
        }
        access.held().ahead.forget();
        drain_quietly(file, access.held());
        sync_position(description);
    }
}

/// Writes out the buffered bytes of the file of `fd`.
///
/// # Errors
/// The kernel's error number.
pub fn drained(fd: c_int) -> Result<(), c_int> {
    let Some(description) = descriptors::get::<Description>(fd) else { return Ok(()) };
    if description.file().is_none_or(|file| !file.dirty.load(Relaxed)) {
        return Ok(());
    }
    let Some(mut access) = Access::of(fd) else { return Ok(()) };
    let file = access.file;
    dirty::drain(file, access.held())
}

/// Calls `with` for every open file, locked.
pub fn each(mut with: impl FnMut(&'static File, &mut Held)) {
    files::registry(|registry| {
        for file in &registry.files {
            if let Some(_guard) = file.lock() {
                // SAFETY: the lock is held.
                with(file, unsafe { file.held() });
                if !file.late.is_empty() {
                    // SAFETY: as above.
                    dirty::carry_out(file, unsafe { file.held() });
                }
            }
        }
    });
}

/// As [`each`], at the end of the process: includes files that this thread was using when a signal
/// handler interrupted it. The interrupted call does not go on, and the buffered bytes are complete
/// at every moment.
pub fn each_at_the_end(mut with: impl FnMut(&'static File, &mut Held)) {
    files::registry_anyway(|registry| {
        for file in &registry.files {
            let _guard = file.lock();
            // SAFETY: the lock is held, or this thread holds it and does not go on.
            let held = unsafe { file.held() };
            dirty::carry_out(file, held);
            with(file, held);
        }
    });
}

#[cold]
fn drain_each(which: impl Fn(&Held) -> bool) {
    // Inside, the lock of a file may be held, and the list comes first.
    if state::Inside::is() {
        return;
    }
    each(|file, held| {
        if which(held) {
            drain_quietly(file, held);
        }
    });
}

/// Writes out everything that is kept.
pub fn all() {
    drain_each(|_| true);
}

/// Writes out the buffered bytes of files in mode causal.
pub fn causal() {
    drain_each(|held| held.mode == Mode::Causal);
}
