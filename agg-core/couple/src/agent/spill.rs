//! Directories to which generations move because there is no memory for more, and their errors.

use crate::protocol::Reply;
use crate::registry::{Area, Directory, Options, Registry};
use crate::spill_directory::{Folder, Refused};
use aggio_base::log;
use aggio_base::log::Level;
use aggio_config::settings::couple::Full;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

/// How long until a directory that was full is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// The directories that rules name.
#[derive(Debug, Default)]
pub(super) struct Folders {
    open: BTreeMap<Directory, Folder>,
    /// Those that were reported as full.
    told: BTreeSet<Directory>,
    /// When full ones are tried again.
    again: Option<Instant>,
}

impl Folders {
    /// Whether the directory of a rule can be used, if it has one.
    ///
    /// # Errors
    /// It cannot.
    pub(super) fn check(&mut self, options: &Options) -> io::Result<()> {
        options.spill.as_ref().map_or(Ok(()), |directory| self.open(directory).map(drop))
    }

    pub(super) fn open(&mut self, directory: &Directory) -> io::Result<&Folder> {
        if !self.open.contains_key(directory) {
            self.open.insert(directory.clone(), Folder::open(directory)?);
        }
        self.open.get(directory).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// A generation could not move to its directory.
    pub(super) fn has_refused(&mut self, area: Area, error: &io::Error, registry: &mut Registry) {
        self.tell_full(area, error, registry);
        registry.files.not_moved(area, number(error));
        self.again = Some(Instant::now() + AGAIN);
    }

    fn tell_full(&mut self, area: Area, error: &io::Error, registry: &Registry) {
        let Some(generation) = registry.files.generations.get(&area) else { return };
        let Some(name) = registry.files.names.get(&generation.path) else { return };
        let Some(directory) = &name.options.spill else { return };
        if !self.told.insert(directory.clone()) {
            return;
        }
        let path = String::from_utf8_lossy(&generation.path);
        let then = match name.options.full {
            Full::Wait => "writers wait until readers are done with others",
            Full::Drop => "the oldest ones that nobody has read are given up",
        };
        log!(
            Level::Warn,
            "agent: {path}: generation {} cannot move to {directory}: {error}; {then}",
            generation.number
        );
    }

    /// When full directories are tried again.
    pub(super) fn next(&self) -> Option<Instant> {
        self.again
    }

    /// Lets directories that were full take generations again, if a writer waits; whether some do.
    pub(super) fn try_again(&mut self, registry: &mut Registry) -> bool {
        let is_due = self.again.take_if(|again| *again <= Instant::now()).is_some();
        is_due && registry.files.room.try_directories_again()
    }

    /// A directory that is full again is told again, unless that was a try.
    pub(super) fn forget_told(&mut self, registry: &Registry) {
        let is_full = registry.files.room.full_directories().next().is_some();
        if !is_full && self.again.is_none() && !registry.files.generations.is_moving() {
            self.told.clear();
        }
    }
}

/// The number of an error.
pub(super) fn number(error: &io::Error) -> i32 {
    let refused = error.get_ref().and_then(|inner| inner.downcast_ref::<Refused>());
    let number = refused.map(|refused| refused.number);
    number.or_else(|| error.raw_os_error()).unwrap_or(libc::EIO)
}

/// The answer to a request under a rule with a directory that cannot be used.
pub(super) fn refused(error: &io::Error) -> Reply {
    log!(Level::Error, "agent: {error}");
    Reply::Failed(number(error), error.to_string())
}

/// The directories that are full, and the errors that said so.
pub(super) fn full(registry: &Registry) -> impl Iterator<Item = (&Directory, io::Error)> {
    let full = registry.files.room.full_directories();
    full.map(|(directory, number)| (directory, io::Error::from_raw_os_error(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_missing_refuses_and_one_that_is_full_is_tried_again() {
        let (mut folders, mut registry) = (Folders::default(), Registry::behind(0));
        assert!(folders.check(&Options::default()).is_ok(), "no directory is needed");
        let options = Options { spill: Some("/no/such/directory".into()), ..Options::default() };
        let error = folders.check(&options).unwrap_err();
        assert!(matches!(refused(&error), Reply::Failed(libc::ENOENT, _)));
        assert!(!folders.try_again(&mut registry) && folders.next().is_none());
        let error = io::Error::from_raw_os_error(libc::ENOSPC);
        folders.has_refused(1, &error, &mut registry);
        assert!(folders.next().is_some_and(|again| again > Instant::now()));
        folders.again = Some(Instant::now());
        assert!(!folders.try_again(&mut registry), "no directory is full");
        assert!(folders.next().is_none());
    }
}
