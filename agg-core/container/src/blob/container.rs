//! An opened container, and how one is made.

use super::dir::{Dir, MANIFEST};
use super::hold::{Hold, hold};
use super::manifest::{FORMAT, Manifest, dir_mode, part_mode};
use super::read::Reader;
use super::write::Writer;
use super::{failed, names};
use crate::output::{fresh_beside, parent_of, rename_new};
use aggio_base::{Error, ErrorClass, Result};
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// How often a directory is made that others remove before there is anything in it.
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

/// What a container shares with its readers and writers.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) dir: Dir,
    /// Whether this process made it: then it may write whatever the mode says, as after `open`.
    made_here: bool,
    /// Whether the manifest and the directory's own name are durable.
    born: AtomicBool,
    /// What says that it is needed while it has no name of the user's.
    made_with: OnceLock<Option<Hold>>,
}

impl Shared {
    /// Makes the container itself durable, once.
    pub(crate) fn sync_birth(&self) -> Result<()> {
        if self.born.load(Ordering::Acquire) {
            return Ok(());
        }
        self.dir.sync()?;
        let parent = parent_of(self.dir.path());
        Dir::open_following(&parent)?.sync()?;
        self.born.store(true, Ordering::Release);
        Ok(())
    }
}

/// Whether `path` is a container: a directory, not a symlink to one, with a regular file of the
/// manifest's name that begins as a manifest does.
pub fn is_container(path: &Path) -> bool {
    let is_dir = std::fs::symlink_metadata(path).is_ok_and(|facts| facts.is_dir());
    is_dir && Dir::open(path).is_ok_and(|dir| begins(&dir).unwrap_or(false))
}

/// Whether there is a manifest that begins as one does.
fn begins(dir: &Dir) -> Result<bool> {
    dir.anew(MANIFEST, || {
        let mut bytes = [0; FORMAT.len() + 1];
        let file = dir.part(MANIFEST, false)?;
        let read = file.read_exact_at(&mut bytes, 0);
        read.map_err(|error| failed("read", &error, &dir.path_of(MANIFEST)))?;
        Ok(bytes.strip_suffix(b"\n").is_some_and(|line| line == FORMAT.as_bytes()))
    })
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
        // Who looks for remains learns by it that somebody is at work.
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
            let words = "it is not a container: there is no manifest in it";
            return Err(Error::new(ErrorClass::BadFile, words)
                .with_errno(libc::EINVAL)
                .with_path(&path.display().to_string()));
        }
        let shared = Shared {
            dir,
            made_here: false,
            born: AtomicBool::new(true),
            made_with: OnceLock::new(),
        };
        Ok(Container { shared: Arc::new(shared) })
    }

    /// Whether this computer may keep parts as they were before another one changed them.
    pub fn may_be_stale(&self) -> bool {
        self.shared.dir.may_be_stale()
    }

    /// A reader of what the container holds now.
    ///
    /// # Errors
    ///
    /// If a part is damaged or cannot be read.
    pub fn reader(&self) -> Result<Reader> {
        Reader::new(Arc::clone(&self.shared))
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

    /// Whether this very call made it: then the process may use it as it asked, whatever the mode
    /// says.
    pub fn was_made_here(&self) -> bool {
        self.shared.made_here
    }

    /// The directory that it is, which the container has open.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.shared.dir.file().as_fd()
    }

    /// The path under which it was opened.
    pub fn path(&self) -> &Path {
        self.shared.dir.path()
    }
}

/// Makes the directory under another name, fills it, and gives it its name in one step.
fn make(path: &Path, how: &Create) -> Result<Container> {
    let temporary = fresh_beside(path)?;
    let (dir, _until_it_has_its_name) = private(&temporary, path, how)?;
    if let Err(error) = rename_new(&temporary, path) {
        // The error of the attempt is what counts.
        let _ = names::remove_tree(&temporary);
        return Err(error);
    }
    Ok(made_here(dir.called(path)))
}

/// Makes the directory `hidden`, which errors call `shown`; nobody else reaches what is in it
/// before it is filled.
fn private(hidden: &Path, shown: &Path, how: &Create) -> Result<(Dir, Option<Hold>)> {
    let mut tries = 0;
    loop {
        match private_once(hidden, shown, how) {
            // Somebody who looked for remains has removed the empty directory; or there can be
            // none.
            Err(error) if error.errno() == libc::ENOENT && tries < TRIES => tries += 1,
            made => return made,
        }
    }
}

fn private_once(hidden: &Path, shown: &Path, how: &Create) -> Result<(Dir, Option<Hold>)> {
    let made = DirBuilder::new().mode(0o700).create(hidden);
    made.map_err(|error| failed("mkdir", &error, shown))?;
    let filled = Dir::open(hidden).and_then(|dir| fill(&dir, how).map(|hold| (dir, hold)));
    filled.inspect_err(|_| drop(names::remove_tree(hidden)))
}

/// A container that was made just now: its own directory, whatever has the name meanwhile.
fn made_here(dir: Dir) -> Container {
    let shared =
        Shared { dir, made_here: true, born: AtomicBool::new(false), made_with: OnceLock::new() };
    Container { shared: Arc::new(shared) }
}

/// Makes the parts; the first is what says that somebody is at work.
fn fill(dir: &Dir, how: &Create) -> Result<Option<Hold>> {
    let order = dir.new_part(super::dir::ORDER, 0o600)?;
    let made = hold(dir)?;
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
