//! Opens and makes containers.

use crate::directory::{Dir, Stage, drain_all, remove_open, remove_tree};
use crate::errors::{failed, refused};
use crate::file::names;
use crate::format::{Manifest, begins, dir_mode, is_container, part_mode};
use crate::order::{Hold, hold};
use crate::output::{fresh_beside, rename_new};
use crate::reading::{Reader, Shared};
use crate::writing::Writer;
use aggio_base::{Error, ErrorClass, Result};
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most attempts to make a directory that other processes remove while it is empty.
const TRIES: u32 = 16;

/// How a container is made.
#[derive(Clone, Copy, Debug)]
pub struct Create {
    /// Permission bits of the logical file; the process's umask is taken off, as by `open`.
    pub mode: u32,
    /// Whether it is an error if there is something already.
    pub exclusive: bool,
    /// Whether every frame carries a checksum of its data.
    pub data_crc: bool,
}

/// An opened container.
#[derive(Debug)]
pub struct Container {
    pub(crate) shared: Arc<Shared>,
}

impl Container {
    /// Makes a container, or opens the one that is there unless `how` is exclusive.
    ///
    /// # Errors
    ///
    /// If `path` has something else, or cannot be made.
    pub fn create(path: &Path, how: &Create) -> Result<Container> {
        loop {
            match std::fs::symlink_metadata(path) {
                Ok(_) if how.exclusive => {
                    return Err(failed(
                        "create",
                        &io::Error::from_raw_os_error(libc::EEXIST),
                        path,
                    ));
                }
                Ok(_) => match Self::open(path) {
                    Err(error) if error.errno() == libc::ENOENT => {}
                    other => return other,
                },
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("lstat", &error, path)),
            }
            match make(path, how) {
                Err(error) if error.errno() == libc::EEXIST && !how.exclusive => {}
                other => return other,
            }
        }
    }

    /// Makes a container step by step under the name itself, which is hidden.
    pub(crate) fn make_hidden(hidden: &Path, how: &Create) -> Result<Container> {
        let (dir, hold) = private(hidden, hidden, how)?;
        let made = made_here(dir);
        // The hold shows other processes that the hidden directory is in use.
        let _ = made.shared.made_with.set(hold);
        Ok(made)
    }

    /// Opens a container.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is nothing, `EINVAL` if it is not a container.
    pub fn open(path: &Path) -> Result<Container> {
        let dir = Dir::open(path)?;
        if !is_container(path) {
            return Err(no_container(path));
        }
        Ok(of_others(dir))
    }

    /// Opens the container in a directory that is open already, even if another one has its name
    /// now; `path` is the name that it had.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not a container; otherwise the error of the system call.
    pub fn of_directory(directory: OwnedFd, path: &Path) -> Result<Container> {
        let dir = Dir::opened(directory.into(), path);
        if !begins(&dir)? {
            return Err(no_container(path));
        }
        Ok(of_others(dir))
    }

    /// Whether this computer may keep parts as they were before another one changed them.
    pub fn may_be_stale(&self) -> bool {
        self.shared.dir.may_be_stale()
    }

    /// Returns a reader of the current content.
    ///
    /// # Errors
    ///
    /// If a part is damaged or cannot be read.
    pub fn reader(&self) -> Result<Reader> {
        Reader::new(Arc::clone(&self.shared))
    }

    /// Lets logs of writers that are made from now on wait in the directory `place`, each until it
    /// has `limit` bytes, is synchronised or [drained](drain()), or there is no room.
    pub fn stage_logs(&self, place: &Path, limit: u64) {
        // The first call counts.
        let _ = self.shared.stage.set(Stage { place: place.to_path_buf(), limit });
    }

    /// A writer with a log of its own.
    ///
    /// # Errors
    ///
    /// `EACCES` if the file's mode does not let this process write, or the parts are not as they
    /// should.
    pub fn writer(&self) -> Result<Writer> {
        if !self.shared.made_here {
            self.may_write()?;
        }
        self.drop_set_ids_before_a_write()?;
        Writer::new(Arc::clone(&self.shared))
    }

    /// Whether this call made the container. The process then has the access that it requested,
    /// regardless of the mode.
    pub fn was_made_here(&self) -> bool {
        self.shared.made_here
    }

    /// The open directory of the container.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.shared.dir.file().as_fd()
    }

    /// The path under which it was opened.
    pub fn path(&self) -> &Path {
        self.shared.dir.path()
    }
}

impl Container {
    /// Says that the parts of the container are needed; `None` where there is nothing to lock.
    ///
    /// # Errors
    ///
    /// `ENOENT` if it is being removed.
    pub fn hold(&self) -> Result<Option<Hold>> {
        hold::hold(&self.shared.dir)
    }

    /// Where the container is since somebody removed its name, if its name is one that removed
    /// containers have.
    pub fn removed(&self) -> Option<PathBuf> {
        let path = self.path_now()?;
        names::is_removed(path.file_name()?).then_some(path)
    }

    /// The current path of the container, even if it was renamed.
    pub fn path_now(&self) -> Option<PathBuf> {
        self.shared.dir.told_path()
    }

    /// Releases a hold. The last process to do so removes a container that has lost its name.
    ///
    /// # Errors
    ///
    /// If it cannot be removed.
    pub fn release(&self, hold: Hold) -> Result<()> {
        drop(hold);
        let dir = &self.shared.dir;
        if self.removed().is_none() || !dir.has_name() {
            return Ok(());
        }
        hold::unless_needed(dir, || remove_open(dir)).map(drop)
    }
}

/// Moves the logs of the container `path` that wait in a directory of this node, and that nobody
/// writes, into the container. Returns how many there were.
///
/// # Errors
///
/// `EBUSY` if somebody writes one, after all others were moved; if one cannot be read, or not be
/// stored. Logs that were not moved stay where they are and are found there.
pub fn drain(path: &Path) -> Result<usize> {
    drain_all(&Container::open(path)?.shared.dir)
}

fn no_container(path: &Path) -> Error {
    let words = "it is not a container: there is no manifest in it";
    refused((ErrorClass::BadFile, libc::EINVAL), path, words)
}

/// A container that was there.
fn of_others(dir: Dir) -> Container {
    Container { shared: Arc::new(Shared::new(dir, false)) }
}

/// Makes the directory under another name, fills it, and gives it its name in one step.
fn make(path: &Path, how: &Create) -> Result<Container> {
    let temporary = fresh_beside(path)?;
    let (dir, _until_it_has_its_name) = private(&temporary, path, how)?;
    if let Err(error) = rename_new(&temporary, path) {
        // Report the original error.
        let _ = remove_tree(&temporary);
        return Err(error);
    }
    Ok(made_here(dir.called(path)))
}

/// Makes and fills the directory `hidden`, which errors call `shown`. No other user can reach its
/// content before it is filled.
fn private(hidden: &Path, shown: &Path, how: &Create) -> Result<(Dir, Option<Hold>)> {
    let mut tries = 0;
    loop {
        match private_once(hidden, shown, how) {
            // Another process that removes remains has removed the empty directory, or no directory
            // can be made.
            Err(error) if error.errno() == libc::ENOENT && tries < TRIES => tries += 1,
            made => return made,
        }
    }
}

fn private_once(hidden: &Path, shown: &Path, how: &Create) -> Result<(Dir, Option<Hold>)> {
    let made = DirBuilder::new().mode(0o700).create(hidden);
    made.map_err(|error| failed("mkdir", &error, shown))?;
    let filled = Dir::open(hidden).and_then(|dir| fill(&dir, how).map(|hold| (dir, hold)));
    filled.inspect_err(|_| drop(remove_tree(hidden)))
}

/// A container that was just made. It uses its own directory, even if another one takes the name.
fn made_here(dir: Dir) -> Container {
    Container { shared: Arc::new(Shared::new(dir, true)) }
}

/// Makes the parts. The first one carries the lock that marks the container as in use.
fn fill(dir: &Dir, how: &Create) -> Result<Option<Hold>> {
    let order = dir.new_part(crate::directory::part_names::ORDER, 0o600)?;
    let made = hold::hold(dir)?;
    let mode = granted(dir, how.mode)?;
    Manifest::new(mode, how.data_crc)?.store(dir)?;
    let fail = |error: io::Error| failed("fchmod", &error, dir.path());
    order.set_permissions(Permissions::from_mode(part_mode(mode))).map_err(fail)?;
    dir.file().set_permissions(Permissions::from_mode(dir_mode(mode))).map_err(fail)?;
    Ok(made)
}

/// The permissions that a file made with `mode` gets here; the umask cannot be asked for.
fn granted(dir: &Dir, mode: u32) -> Result<u32> {
    Ok(dir.probe(mode)?.permissions().mode() & 0o7777)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_directory_that_was_removed_gets_no_container() {
        let place = tempfile::tempdir().unwrap();
        let removed = place.path().join("removed");
        std::fs::create_dir(&removed).unwrap();
        let open = std::fs::File::open(&removed).unwrap();
        std::fs::remove_dir(&removed).unwrap();
        let path = format!("/proc/self/fd/{}/c", open.as_raw_fd());
        let how = Create { mode: 0o644, exclusive: false, data_crc: true };
        let error = Container::create(Path::new(&path), &how).unwrap_err();
        assert_eq!(error.errno(), libc::ENOENT);
    }
}
