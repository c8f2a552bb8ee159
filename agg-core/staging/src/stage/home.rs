//! Where stages are: directories of the user's alone in the directory that he named.

use super::control::{Control, Identity};
use super::places::Places;
use crate::spool::{host, random};
use aggio_base::{Error, ErrorClass, Result};
use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The files of a stage.
const HEAD: &str = "head";
const PLACES: &str = "places";
const BYTES: &str = "bytes";

/// What the name of a directory that is no whole stage has behind the user's number.
const NEW: &str = "new";
const GONE: &str = "gone";

/// The directory of the stages of a user.
#[derive(Clone, Debug)]
pub struct Home {
    dir: PathBuf,
    user: u32,
}

/// The open files of a stage.
pub(super) struct Files {
    pub(super) head: File,
    pub(super) places: File,
    pub(super) bytes: File,
}

/// What a name in the directory stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A stage, of this machine or of another one, or one that was set aside.
    Stage(PathBuf),
    /// What a killed process left of making or removing one.
    Remains(PathBuf),
}

impl Home {
    /// The stages of this user in `dir`.
    pub fn new(dir: &Path) -> Self {
        // SAFETY: asks for a number.
        Self { dir: dir.to_path_buf(), user: unsafe { libc::geteuid() } }
    }

    fn prefix(&self) -> String {
        format!("aggio-stage-{}-", self.user)
    }

    /// Where the stage of a file is.
    pub(super) fn place(&self, identity: &Identity) -> PathBuf {
        let Identity { device, inode, .. } = identity;
        self.dir.join(format!("{}{:016x}-{device:x}-{inode:x}", self.prefix(), host()))
    }

    fn fresh(&self, what: &str) -> PathBuf {
        self.dir.join(format!("{}{what}-{:016x}{:016x}", self.prefix(), random(), random()))
    }

    /// Makes a stage for `target`, called `path`, unless another process is quicker.
    pub(super) fn make(&self, target: &File, path: &Path) -> Result<()> {
        let new = self.fresh(NEW);
        let failed = |call: &str, error: &io::Error| {
            Error::os(call, error).with_path(&new.display().to_string())
        };
        DirBuilder::new().mode(0o700).create(&new).map_err(|error| failed("mkdir", &error))?;
        let filled = self.fill(&new, target, path).and_then(|identity| {
            match std::fs::rename(&new, self.place(&identity)) {
                Err(error) if is_there(&error) => Ok(false),
                Err(error) => Err(failed("rename", &error)),
                Ok(()) => Ok(true),
            }
        });
        if !matches!(filled, Ok(true)) {
            remove(&new);
        }
        filled.map(drop)
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
        Control::init(&make(HEAD)?, target, path)?;
        Identity::of(target)
    }

    /// Opens the stage in the directory `place`; `None` if there is none.
    ///
    /// # Errors
    /// `Access` if it is not the user's alone; what the system says.
    pub(super) fn open(&self, place: &Path) -> Result<Option<Files>> {
        match self.open_files(place) {
            Err(error) if error.class() == ErrorClass::NoSuchFile => Ok(None),
            result => result.map(Some),
        }
    }

    fn open_files(&self, place: &Path) -> Result<Files> {
        let named = |call: &str, error: &io::Error| {
            Error::os(call, error).with_path(&place.display().to_string())
        };
        let facts = place.symlink_metadata().map_err(|error| named("stat", &error))?;
        if !facts.is_dir() || facts.uid() != self.user || facts.mode() & 0o077 != 0 {
            let text = "it is not a directory of this user's alone";
            return Err(Error::new(ErrorClass::Access, text)
                .with_errno(libc::EACCES)
                .with_path(&place.display().to_string()));
        }
        let open = |name: &str| {
            let mut how = File::options();
            how.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
            how.open(place.join(name)).map_err(|error| named("open", &error))
        };
        Ok(Files { head: open(HEAD)?, places: open(PLACES)?, bytes: open(BYTES)? })
    }

    /// Opens the head of the stage in `place` once more.
    pub(super) fn open_head(place: &Path) -> io::Result<File> {
        File::options().read(true).write(true).open(place.join(HEAD))
    }

    /// Whether `head` is still that of the stage in `place`.
    pub(super) fn is_in_place(place: &Path, head: &File) -> bool {
        let number = |facts: std::fs::Metadata| (facts.dev(), facts.ino());
        let named = place.join(HEAD).symlink_metadata().map(number).ok();
        named.is_some() && named == head.metadata().map(number).ok()
    }

    /// Takes the name of a stage away from it; where it is now.
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

    /// What there is of this user's.
    ///
    /// # Errors
    /// What the system says.
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

    /// Removes what a killed process left of a stage, unless somebody may be at it.
    pub(super) fn clear(remains: &Path) -> bool {
        let old = |facts: std::fs::Metadata| {
            facts
                .modified()
                .ok()
                .and_then(|at| at.elapsed().ok())
                .is_some_and(|age| age.as_secs() > 60)
        };
        let is_old = remains.symlink_metadata().is_ok_and(|facts| facts.is_dir() && old(facts));
        if is_old {
            remove(remains);
        }
        is_old
    }
}

/// Removes the files of a stage and their directory; what is not ours there stays.
fn remove(dir: &Path) {
    for name in [HEAD, PLACES, BYTES] {
        let _ = std::fs::remove_file(dir.join(name));
    }
    let _ = std::fs::remove_dir(dir);
}

fn is_there(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EEXIST | libc::ENOTEMPTY))
}
