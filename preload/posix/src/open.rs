//! Opening and closing.

use super::access::Access;
use super::facts::{identity_of, name_of};
use super::files::{self, Description, File};
use super::host::process;
use super::next;
use super::reason::Reason;
use super::state::{self, Inside};
use super::{
    containers, coupled, descriptors, dirty, errno, flush, reading, report, settle, spool, staged,
};
use crate::config;
use agg_core::driver::caches;
use agg_core::log;
use agg_core::log::Level;
use agg_core::rules::{Mode, Rule};
use libc::{c_char, c_int, mode_t};
use std::sync::atomic::Ordering::Relaxed;

/// File systems without files of programs.
const NOT_FILES: [&[u8]; 2] = [b"/proc/", b"/sys/"];

/// Before a file is opened or cut: writes out the buffered bytes, also those that killed processes
/// have left, which must not come after a truncation.
pub fn before() {
    if Inside::is() || state::is_guest() {
        return;
    }
    settle::all();
    let _errno = errno::Keep::new();
    reading::forget_all();
    let _inside = Inside::enter();
    if config::get().settings.keeps_back() {
        spool::recover();
    }
}

/// `open` and its kin: a coupled file, a container or set where the name means one or is to,
/// otherwise the file that `kernel` opens.
pub fn open(
    at: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
    kernel: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the program's name, which the C library reads as well.
    unsafe { coupled::before_name(path) };
    let ours = coupled::open(at, path, flags, mode);
    ours.or_else(|| containers::open(at, path, flags, mode)).unwrap_or_else(|| {
        if let Err(number) = staged::before_open(at, path, flags) {
            return errno::fail(number) as c_int;
        }
        before();
        adopt(kernel())
    })
}

/// `mkstemp` and its kin, the same way.
///
/// # Safety
/// `template` is a C string that may be changed.
pub unsafe fn make_temporary(
    template: *mut c_char,
    suffix: c_int,
    flags: c_int,
    kernel: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let ours = unsafe { coupled::make_temporary(template, suffix, flags) };
    // SAFETY: as above.
    let made = ours.or_else(|| unsafe { containers::make_temporary(template, suffix, flags) });
    made.unwrap_or_else(|| adopt(kernel()))
}

/// Takes `fd`, which the kernel has just opened, if a rule names its file; returns it.
pub fn adopt(fd: c_int) -> c_int {
    if (0..descriptors::LIMIT as c_int).contains(&fd) && !Inside::is() {
        let _errno = errno::Keep::new();
        take(fd);
    }
    fd
}

fn take(fd: c_int) {
    if descriptors::has(fd) {
        // It was closed where this library does not see it.
        let _ = forget(fd);
    }
    let _inside = Inside::enter();
    // SAFETY: plain numbers.
    let flags = unsafe { next::fcntl(fd, libc::F_GETFL, 0) };
    if flags < 0 || flags & (libc::O_PATH | libc::O_DIRECTORY) != 0 {
        return;
    }
    let Some(identity) = identity_of(fd) else { return };
    let Some(path) = name_of(fd).filter(|path| !NOT_FILES.iter().any(|no| path.starts_with(no)))
    else {
        return;
    };
    if flags & libc::O_ACCMODE != libc::O_RDONLY {
        state::note_writer();
    }
    let rules = &config::get().settings.posix;
    let mode = Rule::find(rules, &String::from_utf8_lossy(&path));
    if state::is_guest() {
        return;
    }
    files::registry(|registry| {
        let known = registry.find(identity);
        if (known.is_some() || mode.is_some()) && flags & libc::O_ACCMODE != libc::O_WRONLY {
            caches::renew(fd, identity[0]);
        }
        let file = match (known, mode) {
            (Some(file), _) => file,
            (None, Some(mode)) => registry.add(identity, path, mode),
            (None, None) => return,
        };
        let Some(_guard) = file.lock() else { return };
        // SAFETY: the lock is held.
        let held = unsafe { file.held() };
        held.descriptions += 1;
        let description = registry.describe(file, fd, flags & libc::O_ACCMODE);
        descriptors::set(fd, Some(description));
        let mapped = || process().mappings.has(identity).then_some(Reason::Mapped);
        let native = why_native(fd, flags, held.mode).or_else(mapped);
        tell_open(held, native);
        if let Some(reason) = native {
            flush::make_native(file, held, reason);
        }
    });
}

/// Logs how a file is served (`AGGIO_LOG=debug`).
fn tell_open(held: &files::Held, native: Option<Reason>) {
    let (path, mode) = (String::from_utf8_lossy(&held.path), held.mode.name());
    match native.map(|reason| Reason::TEXTS[reason as usize]) {
        Some(why) => log!(Level::Debug, "{path}: opened, mode {mode}, left to the kernel: {why}"),
        None => log!(Level::Debug, "{path}: opened, mode {mode}"),
    }
}

/// Why writes to a file opened like this are not buffered.
fn why_native(fd: c_int, flags: c_int, mode: Mode) -> Option<Reason> {
    let special = libc::O_APPEND | libc::O_DIRECT | libc::O_SYNC | libc::O_DSYNC;
    match (mode, flags & special, fd) {
        (Mode::Posix, ..) => Some(Reason::ModePosix),
        (_, 1.., _) => Some(Reason::Flags),
        (_, _, 0..=2) => Some(Reason::StandardStream),
        _ if state::flags().ring.load(Relaxed) => Some(Reason::Ring),
        _ => None,
    }
}

/// `close`.
pub fn close(fd: c_int) -> c_int {
    // SAFETY: a plain number.
    let kernel = || unsafe { next::close(fd) };
    if spool::is_descriptor(fd) || containers::is_own(fd) || coupled::is_own(fd) {
        return errno::fail(libc::EBADF) as c_int;
    }
    if coupled::has(fd) && !state::is_guest() {
        return coupled::close(fd, kernel);
    }
    if !descriptors::has(fd) || state::is_guest() {
        return kernel();
    }
    let owed = forget(fd);
    let closed = kernel();
    match owed {
        Err(error) if closed == 0 => errno::fail(error) as c_int,
        _ => closed,
    }
}

/// Takes `fd` out of the table before it is closed.
///
/// # Errors
/// The error that `close` returns to the program: bytes that could not be stored.
pub fn forget(fd: c_int) -> Result<(), c_int> {
    let mut owed = Ok(());
    files::registry(|registry| {
        let Some(mut access) = Access::of(fd) else { return };
        let (file, description) = (access.file, access.description);
        let held = access.held();
        let last = description.references.fetch_sub(1, Relaxed) == 1;
        owed = dirty::drain(file, held);
        if owed.is_ok() && held.error != 0 {
            owed = Err(held.take_error());
        }
        descriptors::set(fd, None);
        if !last {
            if description.tracked.load(Relaxed) && file.native.load(Relaxed) {
                flush::sync_position(description);
            }
            dirty::change_descriptor(description, fd);
            return;
        }
        if file.dirty.load(Relaxed)
            && held.writer.is_some_and(|writer| std::ptr::eq(writer, description))
        {
            dirty::lose(file, held, owed.err().unwrap_or(libc::EIO));
        }
        end(registry, file, description);
    });
    owed
}

/// A description without descriptors ends, and its file with the last one.
fn end(registry: &mut files::Registry, file: &'static File, description: &'static Description) {
    if registry.forget(description, file) {
        // SAFETY: the caller holds the lock.
        let held = unsafe { file.held() };
        report::tell_news(held);
        if let Some(slot) = held.slot.take() {
            spool::give_back(slot);
        }
    }
}

/// Takes all descriptors of a range out of the table before they are closed.
pub fn forget_range(first: u32, last: u32) {
    if state::is_guest() {
        return;
    }
    for fd in descriptors::all() {
        if (first..=last).contains(&(fd as u32)) {
            let _ = forget(fd);
        }
    }
    containers::forget_range(first, last);
}

/// `close_range` without the spool's descriptor.
pub fn close_range(first: u32, last: u32, flags: c_int) -> c_int {
    const CLOEXEC: c_int = 4;
    // SAFETY: plain numbers.
    let kernel = |first, last| unsafe { next::close_range(first, last, flags) };
    if first > last {
        return kernel(first, last);
    }
    if flags & CLOEXEC != 0 {
        let done = kernel(first, last);
        containers::inherit_all();
        return done;
    }
    forget_range(first, last);
    let left = coupled::leave(first, last);
    let mut kept = containers::own_among(first, last);
    kept.extend(coupled::own_among(first, last));
    kept.extend(spool::descriptor().map(|fd| fd as u32).filter(|fd| (first..=last).contains(fd)));
    kept.sort_unstable();
    let (mut from, mut result) = (first, 0);
    for fd in kept {
        if fd > from {
            result = kernel(from, fd - 1).min(result);
        }
        from = fd + 1;
    }
    let result = if from <= last { kernel(from, last).min(result) } else { result };
    left.tell();
    result
}
