//! The hidden names that a process must remove if it is asked to end.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Hidden names of this process. Its signal handling calls [`remove_all`](Unfinished::remove_all).
#[derive(Debug, Default)]
pub struct Unfinished(Mutex<Vec<PathBuf>>);

impl Unfinished {
    /// None yet.
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn names(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        // A panic under this lock leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes something that has the name `path` from then on.
    pub(crate) fn add<T, E>(
        &self,
        path: &Path,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let mut names = self.names();
        let made = make()?;
        names.push(path.into());
        Ok(made)
    }

    /// Does something that [`remove_all`](Unfinished::remove_all) must not come between.
    pub(crate) fn undisturbed<T>(&self, act: impl FnOnce() -> T) -> T {
        let _names = self.names();
        act()
    }

    /// Takes the name `path` away by `remove`.
    pub(crate) fn forget(&self, path: &Path, remove: impl FnOnce()) {
        let mut names = self.names();
        remove();
        names.retain(|name| name != path);
    }

    /// Removes everything; nothing can be made or published afterwards: the caller ends the
    /// process.
    pub fn remove_all(&self) {
        let names = self.names();
        for path in names.iter() {
            let is_tree = path.symlink_metadata().is_ok_and(|facts| facts.is_dir());
            // A thread of ours may make another part meanwhile.
            for _ in 0..100 {
                let removed = match is_tree {
                    true => crate::directory::removal::remove_tree(path).is_ok(),
                    false => std::fs::remove_file(path).is_ok(),
                };
                if removed || path.symlink_metadata().is_err() {
                    break;
                }
            }
        }
        // Never released: a thread that waits for the lock would make something anew.
        std::mem::forget(names);
    }
}
