//! Generations that move to directories because there is no memory for more: orders to threads,
//! and their errors.

use super::Agent;
use crate::folder::{Folder, Refused};
use crate::protocol::Reply;
use crate::registry::{Area, Directory, Options, Registry};
use aggio_base::log;
use aggio_base::log::Level;
use aggio_config::settings::couple::Full;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long until a directory that was full is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// The directories that rules name.
#[derive(Debug, Default)]
pub(super) struct Folders {
    open: BTreeMap<Directory, Folder>,
    /// Those of which was said that they are full.
    told: BTreeSet<Directory>,
    /// When full ones are tried again.
    pub(super) again: Option<Instant>,
}

impl Folders {
    fn open(&mut self, directory: &Directory) -> io::Result<&Folder> {
        if !self.open.contains_key(directory) {
            self.open.insert(directory.clone(), Folder::open(directory)?);
        }
        self.open.get(directory).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The number of an error.
fn number(error: &io::Error) -> i32 {
    let refused = error.get_ref().and_then(|inner| inner.downcast_ref::<Refused>());
    let number = refused.map(|refused| refused.number);
    number.or_else(|| error.raw_os_error()).unwrap_or(libc::EIO)
}

impl Agent {
    /// What is said of an open for writing under a rule with a directory that cannot be used.
    pub(super) fn refused_folder(&mut self, options: &Options) -> Option<Reply> {
        let error = self.folders.open(options.spill.as_ref()?).err()?;
        Some(self.refused(&error))
    }

    pub(super) fn refused(&self, error: &io::Error) -> Reply {
        log!(Level::Error, "agent: {error}");
        Reply::Failed(number(error), error.to_string())
    }

    /// Lets a thread write the bytes of a generation to a directory.
    pub(super) fn move_out(&mut self, area: Area, directory: &Directory) {
        let from = self.areas.open(area, true, false, false);
        let ordered = from.and_then(|from| {
            let folder = self.folders.open(directory)?.try_clone()?;
            self.aside.take(area, from, folder)
        });
        if let Err(error) = ordered {
            self.has_moved(area, Err(error));
        }
    }

    /// A thread has written the bytes of a generation to its directory, or could not.
    pub(super) fn has_moved(&mut self, area: Area, result: io::Result<OwnedFd>) {
        let last = self.registry.next_number_of_all();
        match result.and_then(|file| self.areas.replace(area, file, last)) {
            Ok(()) => {
                if let Some(hosted) = self.peers.as_mut().and_then(|all| all.hosted.get_mut(&area))
                {
                    hosted.is_elsewhere();
                }
                self.registry.moved(area, Ok(()));
            }
            Err(error) => {
                self.tell_full(area, &error);
                self.registry.moved(area, Err(number(&error)));
                self.folders.again = Some(Instant::now() + AGAIN);
            }
        }
        self.settle();
    }

    fn tell_full(&mut self, area: Area, error: &io::Error) {
        let Some(generation) = self.registry.generations.get(&area) else { return };
        let Some(name) = self.registry.names.get(&generation.path) else { return };
        let Some(directory) = &name.options.spill else { return };
        if !self.folders.told.insert(directory.clone()) {
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

    /// Lets generations move that will have to when the next ones begin; false if none was looked
    /// for.
    pub(super) fn move_ahead(&mut self) -> bool {
        let Some(path) = self.registry.grown() else { return false };
        self.measure_for(&path);
        self.registry.move_ahead(&path);
        true
    }

    /// Frees the memory of generations that have moved when nobody has it open any more.
    pub(super) fn free_left(&mut self) {
        let opens = &self.registry.opens;
        let is_open =
            |area: Area, before: u64| opens.range(..before).any(|(_, open)| open.area == area);
        for remains in self.areas.left(is_open) {
            self.spares.release(remains);
        }
    }

    /// Lets directories that were full take generations again, if a writer waits.
    pub(super) fn try_folders_again(&mut self) {
        if self.folders.again.is_some_and(|again| again <= Instant::now()) {
            self.folders.again = None;
            if self.registry.try_directories_again() {
                self.settle();
            }
        }
        let full: BTreeSet<&Directory> =
            self.registry.full_directories().map(|(directory, _)| directory).collect();
        // What is full again is told again, unless that was a try.
        if full.is_empty() && self.folders.again.is_none() && !self.is_moving() {
            self.folders.told.clear();
        }
    }

    fn is_moving(&self) -> bool {
        self.registry.is_moving()
    }
}

/// The directories that are full, and the errors that said so.
pub(super) fn full(registry: &Registry) -> impl Iterator<Item = (&Directory, io::Error)> {
    let full = registry.full_directories();
    full.map(|(directory, number)| (directory, io::Error::from_raw_os_error(number)))
}
