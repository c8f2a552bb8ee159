//! The opens of coupled files, and which descriptors belong to them.

use super::listing::Listings;
use super::missing::Missing;
use crate::descriptors::{self, Kind, Object};
use aggio_couple::{Client, is_away};
use libc::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// How many opens of coupled files a process can have at a time.
const MOST: usize = 4096;

/// The open coupled files of the process. Initially, all bytes are zero.
pub(super) struct Coupled {
    opens: [OpenCoupled; MOST],
    /// The process is failing, so its generations are not complete at exit.
    pub(super) dies: AtomicBool,
    /// The connection to the agent.
    pub(super) client: OnceLock<Client>,
    /// The lock of the listings is held across a `fork` at present.
    pub(super) forks: AtomicBool,
    /// The pipe of such a `fork`: the upper half is one more than the descriptor for reading, the
    /// lower half one more than that for writing; 0 if there is none.
    pub(super) pipe: AtomicU64,
    /// The coupled files that `readdir` adds to directories.
    pub(super) listings: Listings,
}

impl Coupled {
    /// Makes an empty table.
    const fn new() -> Self {
        Self {
            opens: [const { OpenCoupled::new() }; MOST],
            dies: AtomicBool::new(false),
            client: OnceLock::new(),
            forks: AtomicBool::new(false),
            pipe: AtomicU64::new(0),
            listings: Listings::new(),
        }
    }
}

pub(super) static TABLE: Coupled = Coupled::new();

/// One open, shared by duplicates of its descriptor.
pub struct OpenCoupled {
    /// The agent's identifier of the open.
    handle: AtomicU64,
    /// Bytes that the program has read.
    moved: AtomicU64,
    /// Descriptors in this process; 0 if the slot is free.
    references: AtomicUsize,
    /// The file is open for writing.
    writes: AtomicBool,
    /// Records of the file are read while it is written.
    step: AtomicBool,
    /// A stream of this library reads ahead, so the bytes that the program has read are not known.
    ahead: AtomicBool,
    /// One more than the number of records that the program has seen last.
    told: AtomicU64,
    /// The end of the bytes of a file with records that are on this node and change no more.
    there: AtomicU64,
    /// Bytes that may be on other nodes only.
    pub(super) missing: Missing,
}

// SAFETY: no other type has the kind, and all opens are in a table that the host defines.
unsafe impl Object for OpenCoupled {
    const KIND: Kind = Kind::Coupled;

    fn references(&self) -> &AtomicUsize {
        &self.references
    }
}

/// An open without any descriptor left in this process.
#[must_use = "the agent is to hear of it"]
pub(super) struct Ended {
    pub(super) handle: u64,
    pub(super) moved: u64,
    pub(super) writes: bool,
}

impl OpenCoupled {
    const fn new() -> Self {
        Self {
            handle: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            references: AtomicUsize::new(0),
            writes: AtomicBool::new(false),
            step: AtomicBool::new(false),
            ahead: AtomicBool::new(false),
            told: AtomicU64::new(0),
            there: AtomicU64::new(0),
            missing: Missing::new(),
        }
    }

    pub(super) fn handle(&self) -> u64 {
        self.handle.load(Relaxed)
    }

    pub(super) fn set_handle(&self, handle: u64) {
        self.handle.store(handle, Relaxed);
    }

    pub(super) fn writes(&self) -> bool {
        self.writes.load(Relaxed)
    }

    pub(super) fn is_step(&self) -> bool {
        self.step.load(Relaxed)
    }

    /// Records that the records of the file are read while it is written.
    pub(super) fn set_step(&self) {
        self.step.store(true, Relaxed);
    }

    pub(super) fn is_read_ahead(&self) -> bool {
        self.ahead.load(Relaxed)
    }

    /// Records that a stream of this library reads the file.
    pub(super) fn set_read_ahead(&self) {
        self.ahead.store(true, Relaxed);
    }

    pub(super) fn told(&self) -> u64 {
        self.told.load(Relaxed)
    }

    pub(super) fn set_told(&self, told: u64) {
        self.told.store(told, Relaxed);
    }

    pub(super) fn there(&self) -> u64 {
        self.there.load(Relaxed)
    }

    pub(super) fn set_there(&self, there: u64) {
        self.there.store(there, Relaxed);
    }

    /// Adds `bytes` to the number of bytes that the program has read.
    pub(super) fn add(&self, bytes: u64) {
        // Concurrent additions may lose a part; the sum only distinguishes small from large.
        let sum = self.moved.load(Relaxed).saturating_add(bytes);
        self.moved.store(sum, Relaxed);
    }

    /// Records that the program has read at least `bytes` bytes.
    pub(super) fn raise(&self, bytes: u64) {
        self.moved.fetch_max(bytes, Relaxed);
    }
}

/// Whether any coupled file is open.
#[inline(always)]
pub fn any() -> bool {
    descriptors::any::<OpenCoupled>()
}

/// Returns the open that `fd` belongs to.
pub(super) fn get(fd: c_int) -> Option<&'static OpenCoupled> {
    descriptors::get(fd)
}

/// Returns all descriptors of coupled files, with their opens.
pub(super) fn all() -> impl Iterator<Item = (c_int, &'static OpenCoupled)> {
    descriptors::each()
}

/// Whether the table has room for one more open.
pub(super) fn has_room() -> bool {
    TABLE.opens.iter().any(|open| open.references.load(Relaxed) == 0)
}

/// Adds `fd`, which is not in the table, as a new open. Returns `None` if there is no room.
pub(super) fn add(fd: c_int, handle: u64, writes: bool) -> Option<&'static OpenCoupled> {
    let claim =
        |open: &&OpenCoupled| open.references.compare_exchange(0, 1, Acquire, Relaxed).is_ok();
    let open = TABLE.opens.iter().find(claim)?;
    open.handle.store(handle, Relaxed);
    open.moved.store(0, Relaxed);
    open.writes.store(writes, Relaxed);
    open.step.store(false, Relaxed);
    open.ahead.store(false, Relaxed);
    open.told.store(0, Relaxed);
    open.there.store(if is_away(handle) { 0 } else { u64::MAX }, Relaxed);
    open.missing.nothing();
    let is_known = descriptors::put(fd, open);
    // The claim ends.
    open.references.fetch_sub(1, Release);
    is_known.then_some(open)
}

/// Takes `fd` out of the table. Returns its open if this was the last descriptor of it.
pub(super) fn take(fd: c_int) -> Option<Ended> {
    let open = get(fd)?;
    let (handle, writes) = (open.handle(), open.writes());
    let ended = Ended { handle, moved: open.moved.load(Relaxed), writes };
    descriptors::take(fd, open)?.then_some(ended)
}
