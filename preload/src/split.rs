//! Split collective reads and writes.

use crate::data::{self, After, Buffer, Direction, Position, SplitPointer};
use crate::entry::{Opaque, Target};
use crate::handles::OpenFile;
use crate::{progress, requests, status};
use agg_core::Result;
use agg_core::file::SplitKind;
use std::sync::{Arc, Mutex, PoisonError};

/// The split operations that have begun and not ended, in all files.
static ACTIVE: Mutex<Vec<Active>> = Mutex::new(Vec::new());

struct Active {
    file: Arc<OpenFile>,
    after: After,
}

/// Begins a split collective operation.
///
/// # Errors
/// `Io` if one is active already; what is wrong with the other arguments comes at the end.
///
/// # Safety
/// The buffer is what MPI demands of it, until the operation's end.
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
    ACTIVE.lock().unwrap_or_else(PoisonError::into_inner).push(active);
    requests::more_work();
    Ok(())
}

/// Ends the split collective operation of this kind and fills `status`.
///
/// # Errors
/// `Io` if no such operation is active; what the operation came to.
///
/// # Safety
/// `status` is what MPI demands of it.
pub unsafe fn end(
    target: &Target,
    direction: Direction,
    pointer: SplitPointer,
    _buffer: Opaque,
    status: Opaque,
) -> Result<()> {
    let engine = &target.file.engine;
    let kind = SplitKind { direction, pointer };
    let mine = engine.active_split() == Some(kind);
    let mut outcome = progress::wait(engine.end_split(kind, target.function));
    if mine && let Some(active) = take(&target.file) {
        outcome = active.after.finish(outcome);
    }
    // SAFETY: the caller's promise.
    unsafe { status::set(target.abi, status, outcome.bytes) };
    outcome.result
}

fn take(file: &Arc<OpenFile>) -> Option<Active> {
    let mut active = ACTIVE.lock().unwrap_or_else(PoisonError::into_inner);
    let index = active.iter().position(|one| Arc::ptr_eq(&one.file, file))?;
    requests::less_work();
    Some(active.swap_remove(index))
}

/// Forgets the split operation of a file that is being closed.
pub fn forget(file: &Arc<OpenFile>) {
    drop(take(file));
}

fn files() -> Vec<Arc<OpenFile>> {
    let active = ACTIVE.lock().unwrap_or_else(PoisonError::into_inner);
    active.iter().map(|one| one.file.clone()).collect()
}

/// Whether any split operation proceeds only when a thread of the program comes by.
pub fn needs_turns() -> bool {
    files().iter().any(|file| file.engine.needs_progress())
}

/// Lets the active split operations proceed as far as they can without waiting. Whether any may
/// need this again.
pub fn progress() -> bool {
    // Each must be polled, so nothing may stop at the first that has work left.
    files().iter().filter(|file| file.engine.progress()).count() > 0
}
