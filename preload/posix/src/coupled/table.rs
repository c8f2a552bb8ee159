//! The table of descriptors of coupled files, and the opens that they belong to.

use super::listing::Listings;
use super::missing::Missing;
use aggio_couple::Client;
use libc::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed,
    Ordering::Release,
};

/// The first descriptor number that cannot be in the table.
const LIMIT: usize = 65_536;
/// How many opens of coupled files a process can have at a time.
const MOST: usize = 4096;

/// The open coupled files of the process, which the host defines as its item `aggio_posix_coupled`.
/// Initially, all bytes are zero.
pub struct Coupled {
    /// One more than the place of its open in `opens`; 0 if there is none.
    entries: [AtomicU16; LIMIT],
    opens: [Open; MOST],
    /// Descriptors in the table, and one more than the highest ever added.
    count: AtomicUsize,
    end: AtomicUsize,
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
    pub const fn new() -> Self {
        Self {
            entries: [const { AtomicU16::new(0) }; LIMIT],
            opens: [const { Open::new() }; MOST],
            count: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            dies: AtomicBool::new(false),
            client: OnceLock::new(),
            forks: AtomicBool::new(false),
            pipe: AtomicU64::new(0),
            listings: Listings::new(),
        }
    }
}

unsafe extern "Rust" {
    #[link_name = "aggio_posix_coupled"]
    pub(super) safe static TABLE: Coupled;
}

/// One open, shared by duplicates of its descriptor.
pub(super) struct Open {
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
    /// Bytes that may be on other nodes only.
    pub(super) missing: Missing,
}

/// An open without any descriptor left in this process.
#[must_use = "the agent is to hear of it"]
pub(super) struct Ended {
    pub(super) handle: u64,
    pub(super) moved: u64,
    pub(super) writes: bool,
}

impl Open {
    const fn new() -> Self {
        Self {
            handle: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            references: AtomicUsize::new(0),
            writes: AtomicBool::new(false),
            step: AtomicBool::new(false),
            ahead: AtomicBool::new(false),
            told: AtomicU64::new(0),
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

/// Whether `fd` is open on a coupled file.
#[inline(always)]
pub fn has(fd: c_int) -> bool {
    any() && get(fd).is_some()
}

/// Whether any coupled file is open.
#[inline(always)]
pub fn any() -> bool {
    TABLE.count.load(Relaxed) != 0
}

/// Returns the open that `fd` belongs to.
pub(super) fn get(fd: c_int) -> Option<&'static Open> {
    let place = TABLE.entries.get(usize::try_from(fd).ok()?)?.load(Acquire);
    TABLE.opens.get(usize::from(place).checked_sub(1)?)
}

/// Returns all descriptors in the table.
pub(super) fn all() -> impl Iterator<Item = c_int> {
    (0..TABLE.end.load(Relaxed) as c_int).filter(|fd| get(*fd).is_some())
}

/// Whether the table has room for one more open.
pub(super) fn has_room() -> bool {
    TABLE.opens.iter().any(|open| open.references.load(Relaxed) == 0)
}

/// Adds `fd`, which is not in the table, as a new open. Returns false if there is no room.
pub(super) fn add(fd: c_int, handle: u64, writes: bool) -> bool {
    if usize::try_from(fd).is_ok_and(|fd| fd >= LIMIT) {
        return false;
    }
    let claim = |open: &Open| open.references.compare_exchange(0, 1, Acquire, Relaxed).is_ok();
    let Some(place) = TABLE.opens.iter().position(claim) else { return false };
    let open = &TABLE.opens[place];
    open.handle.store(handle, Relaxed);
    open.moved.store(0, Relaxed);
    open.writes.store(writes, Relaxed);
    open.step.store(false, Relaxed);
    open.ahead.store(false, Relaxed);
    open.told.store(0, Relaxed);
    open.missing.nothing();
    set(fd, place as u16 + 1);
    true
}

/// Makes `new` share the open of `fd`. Returns false if there is no room.
pub(super) fn share(fd: c_int, new: c_int) -> bool {
    let Some(open) = get(fd) else { return true };
    if usize::try_from(new).is_ok_and(|new| new >= LIMIT) {
        return false;
    }
    open.references.fetch_add(1, Relaxed);
    set(new, TABLE.entries[fd as usize].load(Acquire));
    true
}

fn set(fd: c_int, place: u16) {
    TABLE.end.fetch_max(fd as usize + 1, Relaxed);
    if TABLE.entries[fd as usize].swap(place, Release) == 0 {
        TABLE.count.fetch_add(1, Relaxed);
    }
}

/// Takes `fd` out of the table. Returns its open if this was the last descriptor of it.
pub(super) fn take(fd: c_int) -> Option<Ended> {
    let open = get(fd)?;
    let (handle, writes) = (open.handle(), open.writes());
    let ended = Ended { handle, moved: open.moved.load(Relaxed), writes };
    if TABLE.entries[fd as usize].swap(0, Acquire) == 0 {
        return None;
    }
    TABLE.count.fetch_sub(1, Relaxed);
    (open.references.fetch_sub(1, Release) == 1).then_some(ended)
}
