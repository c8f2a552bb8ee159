//! Files that rules name: how their descriptors come and go, and what they do with calls.

use super::access::Access;
use super::cookie::{Meaning, cookie_stream, meaning};
use super::facts::{identity_of, name_of};
use super::files::{self, Description, File};
use super::host::process;
use super::next::{self, Functions};
use super::operations::{Call, Left, Mapping, OpenFile, Transfer};
use super::reason::Reason;
use super::state::{self, Inside};
use super::{data, descriptors, dirty, flush, reading, report, spool};
use crate::config;
use agg_core::driver::caches;
use agg_core::log;
use agg_core::log::Level;
use agg_core::rules::{Mode, Rule};
use libc::{FILE, c_char, c_int, c_void, off64_t, ssize_t};
use std::sync::atomic::Ordering::Relaxed;

/// File systems without files of programs.
const NOT_FILES: [&[u8]; 2] = [b"/proc/", b"/sys/"];

/// Takes `fd`, which the kernel has just opened, if a rule names its file.
pub fn adopt(fd: c_int) {
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
        descriptors::put(fd, description);
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

/// Takes `fd` out of the table before it is closed, or when it is not `open` any more.
///
/// # Errors
/// The error that `close` returns to the program: bytes that could not be stored.
fn forget(fd: c_int, open: bool) -> Result<(), c_int> {
    let mut owed = Ok(());
    files::registry(|registry| {
        let Some(mut access) = Access::of(fd) else { return };
        let (file, description) = (access.file, access.description);
        let held = access.held();
        owed = if open { dirty::drain(file, held) } else { Err(libc::EBADF) };
        if owed.is_ok() && held.error != 0 {
            owed = Err(held.take_error());
        }
        if descriptors::take(fd, description) != Some(true) {
            dirty::change_descriptor(description, fd);
            if description.tracked.load(Relaxed) && file.native.load(Relaxed) {
                flush::sync_position(description);
            }
            return;
        }
        if file.dirty.load(Relaxed)
            && held.buffer.writer.is_some_and(|writer| std::ptr::eq(writer, description))
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
        if let Some(slot) = held.buffer.slot.take() {
            spool::give_back(slot);
        }
    }
}

/// `fsync` and `fdatasync`: also return the error of an earlier write that could not be stored.
///
/// # Errors
/// Those of that write, or if bytes cannot be written out.
fn synced(fd: c_int, kernel: impl FnOnce() -> c_int) -> Result<c_int, c_int> {
    let owed = Access::of(fd).map_or(0, |mut access| access.held().take_error());
    flush::drained(fd)?;
    let done = kernel();
    if owed == 0 { Ok(done) } else { Err(owed) }
}

impl OpenFile for Description {
    #[inline]
    fn read(&'static self, fd: c_int, transfer: &Transfer) -> ssize_t {
        data::read(self, fd, transfer)
    }

    #[inline]
    fn write(&'static self, fd: c_int, transfer: &Transfer) -> ssize_t {
        data::write(self, fd, transfer)
    }

    fn seek(&'static self, fd: c_int, offset: off64_t, whence: c_int) -> off64_t {
        data::seek(fd, offset, whence)
    }

    unsafe fn call(&'static self, fd: c_int, call: &Call) -> c_int {
        // SAFETY: the caller's promise.
        let kernel = || unsafe { call.kernel(fd) };
        let result = match call {
            Call::SyncAll => Ok(kernel()),
            Call::LockRange { .. } => {
                flush::settle(fd, None);
                Ok(kernel())
            }
            Call::Device { .. } => {
                if !call.is_harmless() {
                    flush::settle(fd, Some(Reason::Control));
                }
                Ok(kernel())
            }
            Call::Sync | Call::SyncData => {
                reading::forget(fd);
                synced(fd, kernel)
            }
            // They change the file, or others' bytes are to be seen after them.
            Call::SetSize(_)
            | Call::Allocate { .. }
            | Call::Reserve { .. }
            | Call::Advise { .. }
            | Call::Lock(_) => {
                reading::forget(fd);
                flush::drained(fd).map(|()| kernel())
            }
            _ => flush::drained(fd).map(|()| kernel()),
        };
        call.told(result)
    }

    unsafe fn map(&'static self, fd: c_int, mapping: &Mapping) -> *mut c_void {
        flush::demote(fd, Reason::Mapped);
        // SAFETY: the caller's promise.
        unsafe { mapping.kernel(fd) }
    }

    unsafe fn stream(
        &'static self,
        fd: c_int,
        mode: *const c_char,
        functions: Functions,
    ) -> *mut FILE {
        // SAFETY: the caller's promise about `mode`; plain numbers.
        let (meaning, flags) = unsafe { (meaning(mode), next::fcntl(fd, libc::F_GETFL, 0)) };
        let ours = match meaning {
            Some(Meaning { flags: wanted, special: false }) if Meaning::allows(flags, wanted) => {
                // SAFETY: the caller's promise.
                unsafe { cookie_stream(fd, mode, functions) }
            }
            _ => None,
        };
        // Otherwise, also with another C library, its own stream will do.
        ours.unwrap_or_else(|| {
            flush::demote(fd, Reason::Stream);
            // SAFETY: the caller's arguments, passed on.
            unsafe { next::fdopen(fd, mode) }
        })
    }

    fn duplicate(&'static self, fd: c_int, kernel: &mut dyn FnMut() -> c_int) -> c_int {
        if state::is_guest() {
            flush::demote(fd, Reason::Vfork);
            return kernel();
        }
        // With the list no other thread closes the last descriptor meanwhile.
        let made = files::registry(|_| {
            let access = Access::of(fd)?;
            let new = kernel();
            if new >= 0 {
                descriptors::put(new, access.description);
            }
            Some(new)
        });
        let new = made.flatten().unwrap_or_else(kernel);
        if (0..=2).contains(&new) {
            flush::demote(new, Reason::StandardStream);
        }
        new
    }

    fn leave(&'static self, fd: c_int) -> Left {
        Left::Done(forget(fd, true))
    }

    fn vanish(&'static self, fd: c_int) {
        let _ = forget(fd, false);
    }

    fn settle(&'static self, fd: c_int, reason: Option<Reason>) {
        flush::settle(fd, reason);
    }

    fn demote(&'static self, fd: c_int, reason: Reason) {
        flush::demote(fd, reason);
    }

    fn before_move(&'static self, fd: c_int, _from: bool) -> Result<bool, c_int> {
        flush::settle(fd, Some(Reason::Sendfile));
        Ok(true)
    }
}
