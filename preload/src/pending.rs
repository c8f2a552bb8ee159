//! Pending operations: threads of the program advance them whenever they call this library.
//!
//! Each kind of operation has a list of its own ([`Pending`]). Waiting functions, and hooks before
//! calls of the program, use only this trait.

use std::ptr::addr_eq;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The operations of one kind that have begun and not ended.
pub trait Pending: Sync {
    /// Lets every operation proceed as far as it can without waiting.
    fn progress(&self);

    /// Whether any proceeds only in calls of the program.
    fn needs_turns(&self) -> bool;

    /// Whether any does so, or may do so later.
    fn may_need_turns(&self) -> bool;
}

/// Operations of all kinds that are pending or hold an error; 0 almost always, and then a hook
/// passes its call straight on.
static WORK: AtomicUsize = AtomicUsize::new(0);

/// The lists of kinds that have been used: nonblocking and split operations.
static LISTS: [OnceLock<&'static dyn Pending>; 2] = [OnceLock::new(), OnceLock::new()];

fn lists() -> impl Iterator<Item = &'static dyn Pending> {
    LISTS.iter().filter_map(OnceLock::get).copied()
}

/// Whether any hook has anything to do.
#[inline]
pub fn any_work() -> bool {
    WORK.load(Ordering::Relaxed) != 0
}

/// Makes hooks look for work: an operation of this list has begun.
pub fn more_work(list: &'static dyn Pending) {
    let is_known = LISTS.iter().any(|slot| addr_eq(*slot.get_or_init(|| list), list));
    debug_assert!(is_known, "there is a slot for each kind of operation");
    WORK.fetch_add(1, Ordering::AcqRel);
}

/// Takes back one [`more_work`].
pub fn less_work() {
    WORK.fetch_sub(1, Ordering::AcqRel);
}

/// Lets every pending operation proceed as far as it can without waiting.
pub fn progress() {
    if any_work() {
        lists().for_each(Pending::progress);
    }
}

/// Whether anything proceeds only in calls of the program.
pub fn needs_turns() -> bool {
    any_work() && lists().any(Pending::needs_turns)
}

/// Whether anything does so, or may do so later.
pub fn may_need_turns() -> bool {
    lists().any(Pending::may_need_turns)
}
