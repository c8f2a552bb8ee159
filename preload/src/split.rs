//! Split collective reads and writes.

use crate::arguments::Opaque;
use crate::data::{self, After, Buffer, Direction, Position, SplitPointer};
use crate::entry::Target;
use crate::handles::OpenFile;
use crate::pending::{Pending, less_work, more_work};
use crate::{progress, status};
use agg_core::Result;
use agg_core::file::SplitKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The split operations that have begun and not ended, in all files.
static ACTIVE: Splits = Splits(Mutex::new(Vec::new()));

/// The list of split operations.
struct Splits(Mutex<Vec<Active>>);

struct Active {
    file: Arc<OpenFile>,
    after: After,
}

/// Begins a split collective operation.
///
/// # Errors
/// `Io` if one is active already; errors in the other arguments are reported at the end.
///
/// # Safety
/// The buffer satisfies the requirements of MPI until the end of the operation.
pub unsafe fn begin(
    target: &Target,
    direction: Direction,
    position: Position,
    buffer: Buffer,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let prepared = unsafe { data::prepare(target, direction, position, true, buffer) };
    target.file.engine.begin_split(prepared.call)?;
    let active = Active { file: target.file.clone(), after: prepared.after };
    ACTIVE.locked().push(active);
    more_work(&ACTIVE);
    Ok(())
}

/// Ends the split collective operation of this kind and fills `status`.
///
/// # Errors
/// `Io` if no such operation is active; the error of the operation.
///
/// # Safety
/// `status` satisfies the requirements of MPI.
pub unsafe fn end(
    target: &Target,
    direction: Direction,
    pointer: SplitPointer,
    _buffer: Opaque,
    status: Opaque,
) -> Result<()> {
    let engine = &target.file.engine;
    let kind = SplitKind { direction, pointer };
    let mine = engine.split().active() == Some(kind);
    let mut outcome = progress::wait(engine.end_split(kind, target.function));
    if mine && let Some(active) = take(&target.file) {
        outcome = active.after.finish(outcome);
    }
    // SAFETY: the caller's promise.
    unsafe { status::set(target.abi, status, outcome.bytes) };
    outcome.result
}

fn take(file: &Arc<OpenFile>) -> Option<Active> {
    let mut active = ACTIVE.locked();
    let index = active.iter().position(|one| Arc::ptr_eq(&one.file, file))?;
    less_work();
    Some(active.swap_remove(index))
}

/// Forgets the split operation of a file that is being closed.
pub fn forget(file: &Arc<OpenFile>) {
    drop(take(file));
}

impl Splits {
    fn locked(&self) -> MutexGuard<'_, Vec<Active>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn files(&self) -> Vec<Arc<OpenFile>> {
        self.locked().iter().map(|one| one.file.clone()).collect()
    }
}

impl Pending for Splits {
    fn progress(&self) {
        self.may_need_turns();
    }

    fn needs_turns(&self) -> bool {
        self.files().iter().any(|file| file.engine.split().needs_progress())
    }

    /// Lets them proceed, and returns whether any may need this again.
    fn may_need_turns(&self) -> bool {
        // Each must be polled, so nothing may stop at the first that has work left.
        self.files().iter().filter(|file| file.engine.split().progress()).count() > 0
    }
}
