//! The spool file of this process, made when the first small write is kept back.

use super::errno::Keep;
use super::lock::Lock;
use super::state::Inside;
use crate::config;
use agg_core::log::{self, Level};
use agg_core::spool::{self, Change, Others, Slot, Spool, Storing};
use libc::c_int;
use std::cell::UnsafeCell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};

/// The spool of the process.
struct OwnSpool {
    lock: Lock,
    spool: UnsafeCell<Option<Spool>>,
    /// The spools of other processes, as long as there is no own one.
    others: UnsafeCell<Option<Others>>,
    /// The spool's descriptor; -1 as long as there is none.
    descriptor: AtomicI32,
    /// The lack of room has been reported to the user.
    told: AtomicBool,
}
// SAFETY: the spool is only touched with the lock.
unsafe impl Sync for OwnSpool {}

impl OwnSpool {
    /// None.
    const fn new() -> Self {
        Self {
            lock: Lock::new(),
            spool: UnsafeCell::new(None),
            others: UnsafeCell::new(None),
            descriptor: AtomicI32::new(-1),
            told: AtomicBool::new(false),
        }
    }
}

static OWN: OwnSpool = OwnSpool::new();

fn with<T>(work: impl FnOnce(&mut Option<Spool>) -> T) -> Option<T> {
    let _guard = OWN.lock.lock()?;
    // SAFETY: the lock is held.
    Some(work(unsafe { &mut *OWN.spool.get() }))
}

/// Room for so many bytes, the first of `rooms` that can be had, of the file that `fd` is open on,
/// of this name, device and inode; `None`, after a word to the user, if there is none.
pub fn slot(fd: c_int, path: &[u8], [device, inode]: [u64; 2], rooms: &[usize]) -> Option<Slot> {
    let (_inside, _errno) = (Inside::enter(), Keep::new());
    with(|own| {
        if own.is_none() {
            match Spool::create(Path::new(&config::get().settings.spool)) {
                Ok(spool) => {
                    OWN.descriptor.store(spool.descriptor(), Relaxed);
                    *own = Some(spool);
                }
                Err(error) => complain(&error.to_string()),
            }
        }
        let (own, identity) = (own.as_mut()?, [device, inode, spool::born(fd)]);
        let or_next = |found: std::io::Result<Slot>, room: &usize| {
            found.or_else(|_| own.slot(path, identity, *room))
        };
        let none = Err(std::io::Error::from_raw_os_error(libc::ENOSPC));
        rooms.iter().fold(none, or_next).map_err(|error| complain(&error.to_string())).ok()
    })?
}

/// Once a process: each file would say it in other words.
fn complain(what: &str) {
    if !OWN.told.swap(true, Relaxed) {
        agg_core::log!(Level::Warn, "small writes are not kept back: {what}");
    }
}

/// Before the bytes of a slot are written to their file, which `fd` is open on; `None` in a signal
/// handler that has interrupted the same of another file.
pub fn begin_storing(slot: Slot, fd: c_int) -> Option<Storing> {
    let _inside = Inside::enter();
    with(|own| own.as_mut().map(|own| own.begin_storing(slot, fd)))?
}

/// After they were written, if `stored`, or could not be.
pub fn end_storing(storing: Option<Storing>, fd: c_int, stored: bool) {
    let (_inside, _errno) = (Inside::enter(), Keep::new());
    if let Some(storing) = storing {
        with(|own| own.as_mut().map(|own| own.end_storing(&storing, fd, stored)));
    }
}

fn with_others<T>(work: impl FnOnce(&mut Others) -> T) -> Option<T> {
    let (_inside, _errno) = (Inside::enter(), Keep::new());
    with(|spool| match spool {
        Some(own) => work(own.others()),
        None => {
            let directory = || Others::new(Path::new(&config::get().settings.spool));
            // SAFETY: the lock is held.
            work(unsafe { &mut *OWN.others.get() }.get_or_insert_with(directory))
        }
    })
}

/// Whether other processes of this user may keep bytes of the file with this inode.
pub fn others_may_have(inode: u64) -> bool {
    with_others(|others| others.may_have(inode, false)).unwrap_or(false)
}

/// Announces a write to the file of `fd` if this process buffers no bytes of the file; `None` if
/// other processes buffer none of it either.
pub fn begin_change(identity: [u64; 2], fd: c_int) -> Option<Change> {
    with_others(
        |others| {
            if others.may_have(identity[1], true) { others.begin(identity, fd) } else { None }
        },
    )?
}

/// After that write.
pub fn end_change(change: Option<Change>, identity: [u64; 2], fd: c_int) {
    with_others(|others| match change {
        Some(change) => others.end(&change, fd),
        None => others.end_unannounced(identity, fd, true),
    });
}

/// Gives back a slot after its bytes were written to their file.
pub fn give_back(slot: Slot) {
    with(|own| {
        if let Some(own) = own {
            own.give_back(slot);
        }
    });
}

/// Whether `fd` is the spool's, which the program did not open.
#[inline]
pub fn is_descriptor(fd: c_int) -> bool {
    fd >= 0 && fd == OWN.descriptor.load(Relaxed)
}

/// The spool's descriptor, if there is one.
pub fn descriptor() -> Option<c_int> {
    Some(OWN.descriptor.load(Relaxed)).filter(|fd| *fd >= 0)
}

/// Removes the spool file; no byte is in it any more.
pub fn remove() {
    let (_inside, _errno) = (Inside::enter(), Keep::new());
    with(|own| {
        if let Some(spool) = own.take() {
            spool.remove();
            OWN.descriptor.store(-1, Relaxed);
        }
    });
}

/// In a child process: the spool is the parent's.
pub fn disown() {
    let _inside = Inside::enter();
    with(|own| {
        OWN.descriptor.store(-1, Relaxed);
        if let Some(spool) = own.take() {
            // SAFETY: files of the child have given up their slots.
            unsafe { spool.disown() };
        }
    });
}

/// Writes the bytes that killed processes of this user have left to their files.
pub fn recover() {
    let directory = Path::new(&config::get().settings.spool);
    for one in spool::recover(directory).unwrap_or_default() {
        let (path, bytes) = (one.path.display(), one.bytes);
        match one.error {
            None => {
                agg_core::log!(Level::Info, "{path}: {bytes} bytes of a killed process written");
            }
            Some(error) => {
                let text = format!("{}: left in {}", error, one.spool.display());
                log::once(Level::Error, &text);
            }
        }
    }
}
