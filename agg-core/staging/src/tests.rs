//! Helpers for the tests of several modules.

use std::process::{Child, Command};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// A child has a copy of every descriptor, and of the locks that go with it, until it becomes
/// another program.
static FORKING: RwLock<()> = RwLock::new(());

/// No test starts a process as long as the result lives.
pub(crate) fn without_children() -> RwLockReadGuard<'static, ()> {
    FORKING.read().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a process while no test excludes that.
pub(crate) fn start(command: &mut Command) -> Child {
    let _alone = FORKING.write().unwrap_or_else(PoisonError::into_inner);
    command.spawn().unwrap()
}
