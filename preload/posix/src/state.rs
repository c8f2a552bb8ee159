//! Whether there is anything to do in this process, and whether a call comes from aggio itself.

use super::host::{process, thread};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

/// What the process is, and what it has done.
pub(crate) struct Flags {
    /// Rules exist. While this is false, every function goes straight on.
    active: AtomicBool,
    /// Containers are files to this process, and so are sets, unless the settings exclude them.
    containers: AtomicBool,
    /// The process is about to end or to become another program: nothing is kept back any more.
    ending: AtomicBool,
    /// The process whose descriptors the table describes; 0 until somebody may be another.
    owner: AtomicU32,
    /// The process has a ring or a queue of requests: which files they are for cannot be seen.
    pub(crate) ring: AtomicBool,
    /// Files and containers with dirty bytes.
    pub(crate) dirty: AtomicUsize,
    /// Of these, those of mode causal.
    pub(crate) causal: AtomicUsize,
    /// Bytes of some file may have been read ahead.
    pub(crate) ahead: AtomicBool,
    /// The process has opened a file to write it.
    writes: AtomicBool,
    /// Other programs that it has started may have used the files that rules name.
    started_others: AtomicBool,
}

impl Flags {
    pub(crate) const fn new() -> Self {
        Self {
            active: AtomicBool::new(false),
            containers: AtomicBool::new(false),
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

/// The flags of the process.
#[inline(always)]
pub(crate) fn flags() -> &'static Flags {
    &process().flags
}

/// There are rules, or containers are files to this process, if they are to be: from now on calls are
/// served.
pub fn start(containers: bool) {
    process().next.resolve();
    flags().containers.store(containers, Relaxed);
    flags().active.store(true, Relaxed);
}

/// Remembers that the program opened a file to write it.
pub fn note_writer() {
    flags().writes.store(true, Relaxed);
}

/// Whether the program opened a file to write it.
pub fn has_written() -> bool {
    flags().writes.load(Relaxed)
}

/// Remembers that the program started another process.
pub fn note_child() {
    flags().started_others.store(true, Relaxed);
}

/// Whether the program started another process.
pub fn has_started_others() -> bool {
    flags().started_others.load(Relaxed)
}

/// Whether any file of mode causal has bytes that are not in the kernel.
#[inline(always)]
pub fn any_causal() -> bool {
    flags().causal.load(Relaxed) != 0
}

/// Whether there are rules.
#[inline(always)]
pub fn active() -> bool {
    flags().active.load(Relaxed)
}

/// Whether containers are files to this process.
#[inline(always)]
pub fn has_containers() -> bool {
    flags().containers.load(Relaxed)
}

/// Whether any file has bytes that are not in the kernel.
#[inline(always)]
pub fn any_dirty() -> bool {
    flags().dirty.load(Relaxed) != 0
}

/// In a child after `fork`: what is dirty is the parent's.
pub fn forget_dirty() {
    flags().dirty.store(0, Relaxed);
    flags().causal.store(0, Relaxed);
}

/// From now on nothing is kept back.
pub fn end() {
    flags().ending.store(true, Relaxed);
}

/// Whether the process ends.
#[inline]
pub fn ending() -> bool {
    flags().ending.load(Relaxed)
}

/// Remembers whose descriptors the table describes, because from now on a child may share memory
/// but not descriptors.
pub fn own_table() {
    // SAFETY: asks for a number.
    flags().owner.store(unsafe { libc::getpid() } as u32, Relaxed);
}

/// In a child with memory of its own: the table is its own, too.
pub fn forget_owner() {
    flags().owner.store(0, Relaxed);
}

/// Whether this is a child that shares its parent's memory (`vfork`): the table is not its own.
pub fn is_guest() -> bool {
    let owner = flags().owner.load(Relaxed);
    // SAFETY: asks for a number.
    owner != 0 && owner != unsafe { libc::getpid() } as u32
}

/// Says that this thread is inside aggio, whose own files are nobody else's affair.
pub struct Inside(());

impl Inside {
    /// From now on, until it goes out of scope.
    #[inline]
    pub fn enter() -> Self {
        thread(|thread| thread.inside.set(thread.inside.get() + 1));
        Self(())
    }

    /// Whether this thread is inside.
    #[inline]
    pub fn is() -> bool {
        thread(|thread| thread.inside.get() != 0)
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        thread(|thread| thread.inside.set(thread.inside.get() - 1));
    }
}
