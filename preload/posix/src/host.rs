//! State and settings that the host owns and supplies, of the process and of each thread.
//!
//! Descriptors, streams and memory belong to a process, and signal handlers and the C library's
//! callbacks carry no context. So each part of the state is one value of the whole process, which
//! the linker finds: a module that has state declares an item, here and in others, and the host
//! defines it, as it would define a `#[global_allocator]`. In the preload library these are hidden
//! symbols, and reaching one costs a load more than a static of this crate would; in the tests of
//! this crate they are those of `tests/calls.rs`.

use super::lock::Locked;
use super::mappings::Mappings;
use super::next::Slots;
use agg_core::Engine;
use agg_core::hints::Sources;
use agg_core::settings::Settings;
use aggio_formats::SetDriver;
use libc::{FILE, c_int};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize};
use std::sync::{Arc, OnceLock};

static PROCESS: Process = Process::new();

thread_local! {
    static THREAD: Thread = const { Thread::new() };
}

/// The settings of the environment.
pub struct Config {
    /// The switches.
    pub settings: Settings,
    /// Hints that do not come from the program.
    pub sources: Sources,
    /// Serves files of MPI-IO, and has the rules for containers.
    pub engine: Arc<Engine>,
    /// The driver of sets; `None` if names never stand for sets.
    pub sets: Option<SetDriver>,
}

/// Functions that the host provides to this crate.
pub struct Host {
    /// The settings of the environment, read at the first call; no call may be served during it.
    pub config: fn() -> &'static Config,
    /// At the end of the process, when all bytes are stored.
    pub at_exit: fn(),
}

/// Properties and counters of the process.
pub(crate) struct Flags {
    /// Rules exist. While this is false, every function goes straight on.
    pub(crate) active: AtomicBool,
    /// Containers are files to this process, and so are sets, unless the settings exclude them.
    pub(crate) containers: AtomicBool,
    /// The process exchanges files with others in memory.
    pub(crate) coupled: AtomicBool,
    /// Bytes of files may be staged.
    pub(crate) staged: AtomicBool,
    /// The process is about to end or to become another program: nothing is kept back any more.
    pub(crate) ending: AtomicBool,
    /// The process that owns the descriptors in the table; 0 until another process may share the
    /// memory.
    pub(crate) owner: AtomicU32,
    /// The process has a ring or a queue of requests: which files they are for cannot be seen.
    pub(crate) ring: AtomicBool,
    /// Files and containers with dirty bytes.
    pub(crate) dirty: AtomicUsize,
    /// Of these, those of mode causal.
    pub(crate) causal: AtomicUsize,
    /// Bytes of some file may have been read ahead.
    pub(crate) ahead: AtomicBool,
    /// The process has opened a file to write it.
    pub(crate) writes: AtomicBool,
    /// Other programs that it has started may have used the files that rules name.
    pub(crate) started_others: AtomicBool,
}

impl Flags {
    const fn new() -> Self {
        Self {
            active: AtomicBool::new(false),
            containers: AtomicBool::new(false),
            coupled: AtomicBool::new(false),
            staged: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            owner: AtomicU32::new(0),
            ring: AtomicBool::new(false),
            dirty: AtomicUsize::new(0),
            causal: AtomicUsize::new(0),
            ahead: AtomicBool::new(false),
            writes: AtomicBool::new(false),
            started_others: AtomicBool::new(false),
        }
    }
}

/// The state of a process that no module has for itself.
pub(crate) struct Process {
    host: OnceLock<Host>,
    pub(crate) next: Slots,
    pub(crate) flags: Flags,
    /// Files that are, or were, mapped.
    pub(crate) mappings: Mappings,
    /// Pages that could be read when it was tried last; 0 is none, as nothing is mapped there.
    pub(crate) readable: [AtomicUsize; 64],
    /// The table of functions of cookie streams; 0 as long as there is none.
    pub(crate) cookie: AtomicUsize,
    /// The list of files is held across `fork`.
    pub(crate) holding: AtomicBool,
    /// How many open containers have writes that wait.
    pub(crate) waiting: AtomicUsize,
    /// Holds of containers were passed on to a program that perhaps did not start.
    pub(crate) passes: AtomicBool,
    /// Some descriptor was marked as a set's, perhaps of one that MPI-IO reads.
    pub(crate) has_sets: AtomicBool,
    /// The descriptors with the locks of this process on containers.
    pub(crate) locks: Locked<LockFiles>,
    /// The streams that stand for the C library's own on descriptors 0, 1 and 2.
    pub(crate) streams: [StandardStream; 3],
}

/// Descriptors with locks of the process, by device and inode of the container.
pub(crate) type LockFiles = Vec<((u64, u64), c_int)>;

/// A standard stream of the C library that one of ours may stand for.
pub(crate) struct StandardStream {
    /// Ours, once it was needed.
    pub(crate) ours: AtomicPtr<FILE>,
    /// The C library's own, while ours stands for it.
    pub(crate) own: AtomicPtr<FILE>,
}

impl StandardStream {
    const fn new() -> Self {
        Self {
            ours: AtomicPtr::new(std::ptr::null_mut()),
            own: AtomicPtr::new(std::ptr::null_mut()),
        }
    }
}

impl Process {
    /// Nothing is served yet.
    const fn new() -> Self {
        Self {
            host: OnceLock::new(),
            next: Slots::new(),
            flags: Flags::new(),
            mappings: Mappings::new(),
            readable: [const { AtomicUsize::new(0) }; 64],
            cookie: AtomicUsize::new(0),
            holding: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            passes: AtomicBool::new(false),
            has_sets: AtomicBool::new(false),
            locks: Locked::new(Vec::new()),
            streams: [const { StandardStream::new() }; 3],
        }
    }
}

/// The state of a thread.
pub(crate) struct Thread {
    /// How often it has entered aggio.
    pub(crate) inside: Cell<u32>,
    /// It reads a set just now, unless a signal handler asks.
    pub(crate) reading: Cell<bool>,
    /// Its last `fork` made no child, or one that ended before the agent of coupled files knew it.
    pub(crate) child_lost: Cell<bool>,
}

impl Thread {
    /// Outside.
    const fn new() -> Self {
        Self { inside: Cell::new(0), reading: Cell::new(false), child_lost: Cell::new(false) }
    }
}

/// Takes the functions that the host provides. Comes before all else, and once.
pub fn install(host: Host) {
    PROCESS.host.get_or_init(|| host);
}

/// The functions that the host provides.
pub(crate) fn host() -> &'static Host {
    PROCESS.host.get().expect("the host installs its functions when it is loaded")
}

/// The process.
#[inline(always)]
pub(crate) fn process() -> &'static Process {
    &PROCESS
}

/// Lets `with` use the state of this thread.
#[inline(always)]
pub(crate) fn thread<T>(with: impl FnOnce(&Thread) -> T) -> T {
    THREAD.with(with)
}
