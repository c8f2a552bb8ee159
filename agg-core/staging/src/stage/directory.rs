//! Stages in a directory that the user named: each is a private directory there.

use super::control::{Control, Identity};
use super::home::Files;
use super::places::Places;
use crate::spool::random;
use aggio_base::{Error, ErrorClass, Result, host};
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The files of a stage.
const HEAD: &str = "head";
const PLACES: &str = "places";
const BYTES: &str = "bytes";

/// How the names of directories that are no whole stage go on behind the user's number.
const NEW: &str = "new";
const GONE: &str = "gone";

/// How often others may remove a new directory before it is held.
const ATTEMPTS: u32 = 16;

/// The directory of the stages of a user.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    dir: PathBuf,
    user: u32,
}

/// A directory that this process holds, so that no other takes it for the remains of a killed one.
struct Held {
    dir: File,
    /// Whether it is locked; otherwise it is protected only by its age.
    is_sure: bool,
}

/// The kind of an entry in the directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A stage, of this machine or of another one, or one that was set aside.
    Stage(PathBuf),
    /// The remains of a process that was killed while it made or removed a stage.
    Remains(PathBuf),
}

impl Directory {
    /// The stages of this user in `dir`.
    pub(super) fn new(dir: &Path) -> Self {
        // SAFETY: asks for a number.
        Self { dir: dir.to_path_buf(), user: unsafe { libc::geteuid() } }
    }

    fn prefix(&self) -> String {
        format!("aggio-stage-{}-", self.user)
    }

    /// Where the stage of a file is.
    pub(super) fn place(&self, identity: &Identity) -> PathBuf {
        let Identity { device, inode, .. } = identity;
        self.dir.join(format!("{}{:016x}-{device:x}-{inode:x}", self.prefix(), host::machine()))
    }

    fn fresh(&self, what: &str) -> PathBuf {
        self.dir.join(format!("{}{what}-{:016x}{:016x}", self.prefix(), random(), random()))
    }

    /// Makes a stage for `target`, called `path`, unless another process is quicker; removes the
    /// remains of killed processes that were making others.
    pub(super) fn make(&self, target: &File, path: &Path) -> Result<()> {
        let (new, _held) = self.unfinished()?;
        let filled = self.fill(&new, target, path).and_then(|identity| {
            match std::fs::rename(&new, self.place(&identity)) {
                Err(error) if is_there(&error) => Ok(false),
                Err(error) => Err(named("rename", &new)(error)),
                Ok(()) => Ok(true),
            }
        });
        if !matches!(filled, Ok(true)) {
            remove(&new);
        }
        filled?;
        for one in self.list().unwrap_or_default() {
            if let Found::Remains(path) = one {
                self.clear(&path);
            }
        }
        Ok(())
    }

    /// A new directory, which nobody removes as long as this process holds it.
    fn unfinished(&self) -> Result<(PathBuf, Held)> {
        for _ in 0..ATTEMPTS {
            let new = self.fresh(NEW);
            DirBuilder::new().mode(0o700).create(&new).map_err(named("mkdir", &new))?;
            if let Some(held) = self.hold(&new).map_err(named("open", &new))? {
                return Ok((new, held));
            }
        }
        let text = "other processes remove each directory as soon as it is made";
        let error = Error::new(ErrorClass::FileInUse, text).with_errno(libc::EBUSY);
        Err(error.with_path(&self.dir.display().to_string()))
    }

    /// Holds an unfinished directory of this user's, unless somebody else does or has removed it.
    fn hold(&self, unfinished: &Path) -> io::Result<Option<Held>> {
        let mut how = File::options();
        how.read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW);
        let dir = match how.open(unfinished) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        if dir.metadata()?.uid() != self.user {
            return Err(io::Error::from_raw_os_error(libc::EACCES));
        }
        let is_sure = match dir.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => return Ok(None),
            // Network file systems may have no such locks for directories.
            Err(TryLockError::Error(_)) => false,
        };
        // It may have been removed before it was locked.
        let there = unfinished.symlink_metadata().is_ok_and(|facts| is_same(&facts, &dir));
        Ok(there.then_some(Held { dir, is_sure }))
    }

    fn fill(&self, new: &Path, target: &File, path: &Path) -> Result<Identity> {
        let make = |name: &str| {
            let mut how = File::options();
            how.read(true).write(true).create_new(true).mode(0o600);
            let made = how.custom_flags(libc::O_NOFOLLOW).open(new.join(name));
            made.map_err(|error| Error::os("open", &error))
        };
        let places = make(PLACES)?;
        Places::init(&places).map_err(|error| Error::os("fallocate", &error))?;
        make(BYTES)?;
        let head = make(HEAD)?;
        Control::init(&head, target, path)?;
        Control::open(&head)?.note(target);
        Identity::of(target)
    }

    /// Opens the stage in the directory `place`; `None` if there is none.
    ///
    /// # Errors
    /// `Access` if it is not private to the user; otherwise the error of the system call.
    pub(super) fn open(&self, place: &Path) -> Result<Option<Files>> {
        match self.open_files(place) {
            Err(error) if error.class() == ErrorClass::NoSuchFile => Ok(None),
            result => result.map(Some),
        }
    }

    fn open_files(&self, place: &Path) -> Result<Files> {
        let facts = place.symlink_metadata().map_err(named("stat", place))?;
        if !facts.is_dir() || facts.uid() != self.user || facts.mode() & 0o077 != 0 {
            let text = "it is not a directory of this user's alone";
            return Err(Error::new(ErrorClass::Access, text)
                .with_errno(libc::EACCES)
                .with_path(&place.display().to_string()));
        }
        let open = |name: &str| {
            let mut how = File::options();
            how.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
            how.open(place.join(name)).map_err(named("open", place))
        };
        let (head, draining, places) = (open(HEAD)?, open(HEAD)?, open(PLACES)?);
        Ok(Files { head, draining, places, bytes: open(BYTES)?, claim: None })
    }

    /// Whether there may be a stage in `place`.
    pub(super) fn has(place: &Path) -> bool {
        !place.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Whether `head` is still that of the stage in `place`.
    pub(super) fn is_in_place(place: &Path, head: &File) -> bool {
        place.join(HEAD).symlink_metadata().is_ok_and(|facts| is_same(&facts, head))
    }

    /// Renames a stage to set it aside; returns its new path.
    pub(super) fn set_aside(place: &Path) -> Result<PathBuf> {
        let mut name = place.as_os_str().to_owned();
        name.push(format!("-aside-{:016x}", random()));
        let failed = |error| Error::os("rename", &error).with_path(&place.display().to_string());
        std::fs::rename(place, &name).map_err(failed)?;
        Ok(name.into())
    }

    /// Removes the stage in `place`, in which nothing is left.
    pub(super) fn remove(&self, place: &Path) {
        let gone = self.fresh(GONE);
        if std::fs::rename(place, &gone).is_ok() {
            remove(&gone);
        }
    }

    /// All entries of this user.
    ///
    /// # Errors
    /// The error of the system call.
    pub(super) fn list(&self) -> io::Result<Vec<Found>> {
        let mut all = Vec::new();
        let prefix = self.prefix();
        for entry in std::fs::read_dir(&self.dir)? {
            let path = entry?.path();
            let rest = path.file_name().and_then(OsStr::to_str);
            let Some(rest) = rest.and_then(|name| name.strip_prefix(&prefix)) else { continue };
            let is = |what: &str| rest.strip_prefix(what).is_some_and(|rest| rest.starts_with('-'));
            let is_whole = !is(NEW) && !is(GONE);
            all.push(if is_whole { Found::Stage(path) } else { Found::Remains(path) });
        }
        Ok(all)
    }

    /// Removes the remains of a stage, unless a process may be using them.
    pub(super) fn clear(&self, remains: &Path) -> bool {
        let held = self.hold(remains).ok().flatten();
        let is_left = held.is_some_and(|held| held.is_sure || held.is_old());
        if is_left {
            remove(remains);
        }
        is_left
    }
}

impl Held {
    /// Whether it has not changed for a minute.
    fn is_old(&self) -> bool {
        let changed = self.dir.metadata().and_then(|facts| facts.modified());
        let age = changed.ok().and_then(|at| at.elapsed().ok());
        age.is_some_and(|age| age.as_secs() > 60)
    }
}

fn is_same(facts: &Metadata, file: &File) -> bool {
    file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (facts.dev(), facts.ino()))
}

/// An error of a call, with the path that it is about.
fn named(call: &'static str, path: &Path) -> impl Fn(io::Error) -> Error {
    let path = path.display().to_string();
    move |error| Error::os(call, &error).with_path(&path)
}

/// Removes the files of a stage and their directory; other files there stay.
fn remove(dir: &Path) {
    for name in [HEAD, PLACES, BYTES] {
        let _ = std::fs::remove_file(dir.join(name));
    }
    let _ = std::fs::remove_dir(dir);
}

fn is_there(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EEXIST | libc::ENOTEMPTY))
}
