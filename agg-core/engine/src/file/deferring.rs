//! The open files of an engine that accept deferred writes.

use super::File;
use aggio_store::driver::Drivers;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, Weak};

/// Open files of an engine that may defer, with their absolute names: the same file may be open
/// several times.
#[derive(Default)]
pub(crate) struct Deferring {
    files: Mutex<Vec<(Name, Weak<File>)>>,
    /// How many there are, about.
    count: AtomicUsize,
    /// Nodes could not reach each other.
    unreachable: AtomicBool,
}

/// The identity of a file: device and number if they are available, or the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    File(u64, u64),
    Path(String),
}

impl Name {
    pub(super) fn of(drivers: &Drivers, path: &str) -> Self {
        let path = drivers.absolute(path);
        let found = std::fs::metadata(drivers.path_of(&path));
        found.map_or(Self::Path(path), |found| Self::File(found.dev(), found.ino()))
    }
}

impl Deferring {
    /// Lets `change` change the list of files.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Vec<(Name, Weak<File>)>) -> T) -> T {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut files);
        self.count.store(files.len(), Ordering::Release);
        changed
    }

    /// Whether nodes could not reach each other: it is not tried again.
    pub(super) fn is_unreachable(&self) -> bool {
        self.unreachable.load(Ordering::Relaxed)
    }

    /// Nodes could not reach each other.
    pub(super) fn note_unreachable(&self) {
        self.unreachable.store(true, Ordering::Relaxed);
    }

    /// How many files may defer, about.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }
}
