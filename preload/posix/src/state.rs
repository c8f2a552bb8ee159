//! Whether there is anything to do in this process, and whether a call comes from aggio itself.

use super::host::{Flags, process, thread};
use std::sync::atomic::Ordering::Relaxed;

/// The flags of the process.
#[inline(always)]
pub(crate) fn flags() -> &'static Flags {
    &process().flags
}

/// There are rules, containers are files to this process, or it exchanges files with others: from
/// now on calls are served.
pub fn start(containers: bool, coupled: bool) {
    process().next.resolve();
    flags().containers.store(containers, Relaxed);
    flags().coupled.store(coupled, Relaxed);
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

/// Whether the process exchanges files with others in memory.
#[inline(always)]
pub fn has_coupled() -> bool {
    flags().coupled.load(Relaxed)
}

/// Whether MPI programs stage writes of files that the process looks at.
#[inline(always)]
pub(crate) fn has_stages() -> bool {
    flags().staged.load(Relaxed)
}

/// Whether any file has bytes that are not in the kernel.
#[inline(always)]
pub fn any_dirty() -> bool {
    flags().dirty.load(Relaxed) != 0
}

/// In a child after `fork`: forgets the dirty bytes, which are the parent's.
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

/// Records the process that owns the descriptors in the table, because from now on a child may
/// share memory but not descriptors.
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

/// Marks this thread as inside aggio, which does not serve calls on its own files.
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
