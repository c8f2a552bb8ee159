//! What the host owns and supplies: the state of the process and of each thread, and the settings.
//!
//! Descriptors, streams and memory belong to a process, and signal handlers and the C library's
//! callbacks carry no context. So there is one value of the whole process, which the linker finds: the
//! host defines the three items declared here, as it would define a `#[global_allocator]`. In the
//! preload library they are hidden symbols, so that reaching them costs what a static of this crate
//! would; in the tests of this crate they are those of `tests.rs`.

use super::containers::{self, table};
use super::{Config, descriptors, files, mappings, next, reach, spool, state, wide};
use std::cell::Cell;
use std::sync::atomic::AtomicBool;

unsafe extern "Rust" {
    #[link_name = "aggio_posix_process"]
    safe static PROCESS: Process;
    #[link_name = "aggio_posix_tables"]
    safe static TABLES: Tables;
    #[link_name = "aggio_posix_thread"]
    safe fn this_thread() -> *const Thread;
}

/// What the host does for this crate.
pub struct Host {
    /// What the environment says; read at the first call, in which nothing may be served.
    pub config: fn() -> &'static Config,
    /// At the end of the process, when all bytes are stored.
    pub at_exit: fn(),
}

/// The state of a process, as the host's item `aggio_posix_process`.
pub struct Process {
    pub(crate) host: Host,
    pub(crate) next: next::Slots,
    pub(crate) flags: state::Flags,
    pub(crate) files: files::Shared,
    pub(crate) mappings: mappings::Mappings,
    pub(crate) readable: reach::Known,
    pub(crate) spool: spool::Own,
    pub(crate) cookie: wide::Cookie,
    /// The list of files is held across `fork`.
    pub(crate) holding: AtomicBool,
    pub(crate) containers: containers::Shared,
}

impl Process {
    /// Nothing is served yet.
    pub const fn new(host: Host) -> Self {
        Self {
            host,
            next: next::Slots::new(),
            flags: state::Flags::new(),
            files: files::Shared::new(),
            mappings: mappings::Mappings::new(),
            readable: reach::Known::new(),
            spool: spool::Own::new(),
            cookie: wide::Cookie::new(),
            holding: AtomicBool::new(false),
            containers: containers::Shared::new(),
        }
    }
}

/// What descriptors are open on, as the host's item `aggio_posix_tables`. All its bytes are zero, so
/// that it takes no room in a file, nor in memory before it is used.
pub struct Tables {
    pub(crate) files: descriptors::Table,
    pub(crate) containers: table::Table,
}

impl Tables {
    /// Nothing.
    pub const fn new() -> Self {
        Self { files: descriptors::Table::new(), containers: table::Table::new() }
    }
}

impl Default for Tables {
    fn default() -> Self {
        Self::new()
    }
}

/// The state of a thread, to which the host's function `aggio_posix_thread` points.
#[derive(Default)]
pub struct Thread {
    /// How often it has entered aggio.
    pub(crate) inside: Cell<u32>,
    /// It reads a set just now, unless a signal handler asks.
    pub(crate) reading: Cell<bool>,
}

impl Thread {
    /// Outside.
    pub const fn new() -> Self {
        Self { inside: Cell::new(0), reading: Cell::new(false) }
    }
}

/// The process.
#[inline(always)]
pub(crate) fn process() -> &'static Process {
    &PROCESS
}

/// The tables of the process.
#[inline(always)]
pub(crate) fn tables() -> &'static Tables {
    &TABLES
}

/// Lets `with` use the state of this thread.
#[inline(always)]
pub(crate) fn thread<T>(with: impl FnOnce(&Thread) -> T) -> T {
    // SAFETY: the host's value lives as long as the thread.
    with(unsafe { &*this_thread() })
}
