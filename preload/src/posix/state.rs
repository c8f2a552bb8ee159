//! Whether there is anything to do in this process, and whether a call comes from aggio itself.

use agg_core::settings::sets::SetRule;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Rules exist. While this is false, every function goes straight on.
static ACTIVE: AtomicBool = AtomicBool::new(false);
/// Containers are files to this process, and so are sets, unless the settings exclude them.
static CONTAINERS: AtomicBool = AtomicBool::new(false);
/// The process is about to end or to become another program: nothing is kept back any more.
static ENDING: AtomicBool = AtomicBool::new(false);
/// The process whose descriptors the table describes; 0 until somebody may be another.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// The process has a ring or a queue of requests: which files they are for cannot be seen.
pub static RING: AtomicBool = AtomicBool::new(false);
/// Files and containers with dirty bytes.
pub static DIRTY: AtomicUsize = AtomicUsize::new(0);
/// Of these, those of mode causal.
pub static CAUSAL: AtomicUsize = AtomicUsize::new(0);
/// Bytes of some file may have been read ahead.
pub static AHEAD: AtomicBool = AtomicBool::new(false);

thread_local! {
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// Whether there are rules.
#[inline(always)]
pub fn active() -> bool {
    ACTIVE.load(Relaxed)
}

/// Whether containers are files to this process.
#[inline(always)]
pub fn has_containers() -> bool {
    CONTAINERS.load(Relaxed)
}

/// Whether any file has bytes that are not in the kernel.
#[inline(always)]
pub fn any_dirty() -> bool {
    DIRTY.load(Relaxed) != 0
}

/// In a child after `fork`: what is dirty is the parent's.
pub fn forget_dirty() {
    DIRTY.store(0, Relaxed);
    CAUSAL.store(0, Relaxed);
}

/// From now on nothing is kept back.
pub fn end() {
    ENDING.store(true, Relaxed);
}

/// Whether the process ends.
#[inline]
pub fn ending() -> bool {
    ENDING.load(Relaxed)
}

/// Remembers whose descriptors the table describes, because from now on a child may share memory
/// but not descriptors.
pub fn own_table() {
    // SAFETY: asks for a number.
    OWNER.store(unsafe { libc::getpid() } as u32, Relaxed);
}

/// In a child with memory of its own: the table is its own, too.
pub fn forget_owner() {
    OWNER.store(0, Relaxed);
}

/// Whether this is a child that shares its parent's memory (`vfork`): the table is not its own.
pub fn is_guest() -> bool {
    let owner = OWNER.load(Relaxed);
    // SAFETY: asks for a number.
    owner != 0 && owner != unsafe { libc::getpid() } as u32
}

/// Says that this thread is inside aggio, whose own files are nobody else's affair.
pub struct Inside(());

impl Inside {
    /// From now on, until it goes out of scope.
    #[inline]
    pub fn enter() -> Self {
        INSIDE.with(|depth| depth.set(depth.get() + 1));
        Self(())
    }

    /// Whether this thread is inside.
    #[inline]
    pub fn is() -> bool {
        INSIDE.with(|depth| depth.get() != 0)
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        INSIDE.with(|depth| depth.set(depth.get() - 1));
    }
}

/// When the library is loaded: looks whether there are rules, and whether this is an MPI program.
extern "C" fn loaded() {
    super::symbols::resolve();
    be_strict();
    if !is_privileged() {
        crate::pnetcdf::at_load();
    }
    let rules = is_set(c"AGGIO_POSIX");
    let containers = is_set(c"AGGIO_BLOB") || shows_sets();
    if (rules || containers) && !crate::config::is_plainly_off() && !is_privileged() {
        super::process::listen_for_fork();
        CONTAINERS.store(containers, Relaxed);
        ACTIVE.store(true, Relaxed);
        if containers {
            super::environment::remember();
            super::containers::attach();
        }
    }
}

/// Ends a process whose settings are wrong, if the user wants that.
fn be_strict() {
    if is_set(c"AGGIO_STRICT") && !crate::config::is_plainly_off() && !is_privileged() {
        crate::config::get();
    }
}

/// When the library is unloaded at the end of the process.
extern "C" fn unloaded() {
    if active() {
        super::process::at_exit();
    }
    crate::close::report_all();
}

fn is_set(name: &std::ffi::CStr) -> bool {
    // SAFETY: the name is a C string; the value is a C string if there is one.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        !value.is_null() && *value != 0
    }
}

/// Whether the user asks for sets; where nobody does, only those see them who see containers.
fn shows_sets() -> bool {
    is_set(c"AGGIO_SETS")
        && agg_core::settings::process_variable("AGGIO_SETS")
            .is_some_and(|text| SetRule::shows_any(&text))
}

/// Whether the process has rights that its user has not.
fn is_privileged() -> bool {
    // SAFETY: asks for a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static LOADED: extern "C" fn() = loaded;
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".fini_array"))]
static UNLOADED: extern "C" fn() = unloaded;
