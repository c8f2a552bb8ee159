//! Which open of a coupled file a descriptor belongs to.

use super::listing::Listings;
use super::missing::Missing;
use aggio_couple::Client;
use libc::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed,
    Ordering::Release,
};

/// Descriptors from this number on cannot be open on a coupled file.
const LIMIT: usize = 65_536;
/// So many opens of coupled files a process may have at a time.
const MOST: usize = 4096;

/// What the process has open of coupled files, as the host's item
/// `aggio_posix_coupled`. All its bytes are zero.
pub struct Coupled {
    /// One more than the place of its open in `opens`; 0 if there is none.
    entries: [AtomicU16; LIMIT],
    opens: [Open; MOST],
    /// Descriptors in the table, and one more than the highest that ever was.
    count: AtomicUsize,
    end: AtomicUsize,
    /// The process dies: its end is not to look like one in order.
    pub(super) dies: AtomicBool,
    /// How the process reaches the agent.
    pub(super) client: OnceLock<Client>,
    /// The list of directories is held across a `fork` just now.
    pub(super) forks: AtomicBool,
    /// The pipe of such a `fork`: one more than the descriptor for reading in the upper half, than
    /// that for writing in the lower one; 0 if there is none.
    pub(super) pipe: AtomicU64,
    /// Directories whose end the program has reached.
    pub(super) listings: Listings,
}

impl Coupled {
    /// Nothing is open.
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

/// One open, which duplicates of its descriptor share.
pub(super) struct Open {
    /// By which the agent knows it.
    handle: AtomicU64,
    /// Bytes that the program has read.
    moved: AtomicU64,
    /// Descriptors in this process; 0 if the place is free.
    references: AtomicUsize,
    /// It is open for writing.
    writes: AtomicBool,
    /// Its records are read while it is written.
    step: AtomicBool,
    /// A stream of this library reads it ahead, and nobody knows how much of it the program has.
    ahead: AtomicBool,
    /// One more than the number of records that the program has seen last.
    told: AtomicU64,
    /// Its bytes that may be on other nodes only.
    pub(super) missing: Missing,
}

/// An open whose last descriptor in this process is gone.
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

    /// Records of the file are read while it is written.
    pub(super) fn set_step(&self) {
        self.step.store(true, Relaxed);
    }

    pub(super) fn is_read_ahead(&self) -> bool {
        self.ahead.load(Relaxed)
    }

    /// A stream of this library reads the file.
    pub(super) fn set_read_ahead(&self) {
        self.ahead.store(true, Relaxed);
    }

    pub(super) fn told(&self) -> u64 {
        self.told.load(Relaxed)
    }

    pub(super) fn set_told(&self, told: u64) {
        self.told.store(told, Relaxed);
    }

    /// The program has read so many bytes more.
    pub(super) fn add(&self, bytes: u64) {
        // A sum that two threads make at once may lack a part; it only tells little from much.
        let sum = self.moved.load(Relaxed).saturating_add(bytes);
        self.moved.store(sum, Relaxed);
    }

    /// The program has read at least so many bytes.
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

/// The open that `fd` belongs to.
pub(super) fn get(fd: c_int) -> Option<&'static Open> {
    let place = TABLE.entries.get(usize::try_from(fd).ok()?)?.load(Acquire);
    TABLE.opens.get(usize::from(place).checked_sub(1)?)
}

/// All descriptors in the table.
pub(super) fn all() -> impl Iterator<Item = c_int> {
    (0..TABLE.end.load(Relaxed) as c_int).filter(|fd| get(*fd).is_some())
}

/// Whether one more open can be followed.
pub(super) fn has_room() -> bool {
    TABLE.opens.iter().any(|open| open.references.load(Relaxed) == 0)
}

/// Says that `fd`, which is in no table, is a new open; whether there is room for it.
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

/// Says that `new` shares the open of `fd`; whether there is room for it.
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

/// Takes `fd` out of the table; its open, if that has ended by it.
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
