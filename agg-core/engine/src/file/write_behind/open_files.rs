//! The open files of an engine, where writes of any of them may be buffered.

use super::WriteBehind;
use aggio_comm::transport::Identity;
use aggio_store::driver::Drivers;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// Handles of an engine with their absolute names: the same file may be open several times.
#[derive(Default)]
pub(crate) struct OpenFiles {
    all: Mutex<Vec<(Name, Weak<WriteBehind>)>>,
    /// How many there are, about.
    count: AtomicUsize,
    /// Nodes could not reach each other.
    unreachable: AtomicBool,
}

/// The identity of a file: device and number if they are available, or the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::file) enum Name {
    File(u64, u64),
    Path(String),
}

impl Name {
    /// The identity of the file that `path` leads to now.
    pub(in crate::file) fn of(drivers: &Drivers, path: &str) -> Self {
        let path = drivers.absolute(path);
        let found = std::fs::metadata(drivers.path_of(&path));
        found.map_or(Self::Path(path), |found| Self::File(found.dev(), found.ino()))
    }
}

impl OpenFiles {
    /// Lets `change` change the list of files.
    fn change<T>(&self, change: impl FnOnce(&mut Vec<(Name, Weak<WriteBehind>)>) -> T) -> T {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut all);
        self.count.store(all.len(), Ordering::Release);
        changed
    }

    /// Whether nodes could not reach each other: it is not tried again.
    pub(in crate::file) fn is_unreachable(&self) -> bool {
        self.unreachable.load(Ordering::Relaxed)
    }

    /// Nodes could not reach each other.
    pub(in crate::file) fn note_unreachable(&self) {
        self.unreachable.store(true, Ordering::Relaxed);
    }

    /// Whether writes of any file are buffered.
    pub(in crate::file) fn somebody_buffers(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Handles of the process `played` for the file `name`.
    pub(in crate::file) fn of(&self, name: &Name, played: usize) -> Vec<Arc<WriteBehind>> {
        self.change(|all| {
            all.retain(|(_, handle)| handle.strong_count() > 0);
            let same = all.iter().filter(|(other, _)| other == name);
            let is_here = |other: &Arc<WriteBehind>| other.handle.played == played;
            same.filter_map(|(_, handle)| handle.upgrade()).filter(is_here).collect()
        })
    }
}

/// The place of one open file among the others.
pub(in crate::file) struct Handle {
    open_files: Arc<OpenFiles>,
    drivers: Arc<Drivers>,
    /// The file's name in any working directory.
    place: String,
    /// The process that its rank plays.
    played: usize,
    /// Made when it is first needed.
    name: OnceLock<Name>,
}

impl Handle {
    /// That of the file `place` in the process `played`.
    pub(in crate::file) fn new(
        open_files: Arc<OpenFiles>,
        drivers: Arc<Drivers>,
        place: String,
        played: usize,
    ) -> Self {
        Self { open_files, drivers, place, played, name: OnceLock::new() }
    }

    /// Whether writes of any file are buffered.
    pub(super) fn somebody_buffers(&self) -> bool {
        self.open_files.somebody_buffers()
    }

    /// How many handles there are, about.
    pub(super) fn count(&self) -> usize {
        self.open_files.count.load(Ordering::Acquire)
    }

    /// Adds the handle of `own`.
    pub(super) fn announce(
        &self,
        own: &Arc<WriteBehind>,
        identity: impl FnOnce() -> Option<Identity>,
    ) {
        let name = self.name(identity).clone();
        self.open_files.change(|all| all.push((name, Arc::downgrade(own))));
    }

    /// Removes the handle of `own`.
    pub(super) fn withdraw(&self, own: &WriteBehind) {
        self.open_files.change(|all| {
            all.retain(|(_, handle)| !std::ptr::eq(handle.as_ptr(), own));
        });
    }

    /// Other handles of the process for the same file as `own`.
    pub(super) fn others(
        &self,
        own: &WriteBehind,
        identity: impl FnOnce() -> Option<Identity>,
    ) -> Vec<Arc<WriteBehind>> {
        let mut same = self.open_files.of(self.name(identity), self.played);
        same.retain(|other| !std::ptr::eq(&**other, own));
        same
    }

    /// The identity of the open file, even if its name now leads to another file.
    fn name(&self, identity: impl FnOnce() -> Option<Identity>) -> &Name {
        self.name.get_or_init(|| match identity() {
            Some(Identity { device, inode }) => Name::File(device, inode),
            None => Name::of(&self.drivers, &self.place),
        })
    }
}
