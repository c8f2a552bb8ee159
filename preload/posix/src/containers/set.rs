//! Sets of netCDF files as files of ordinary programs: beside containers, one more thing that a
//! descriptor may stand for.
//!
//! No byte of a set can be changed, but one that was made here becomes a container that can. Its
//! facts are those of its first file, with the size of the one that it stands for.

use super::super::host::thread;
use super::aside::aside;
use crate::{config, sets};
use agg_core::blob::Attributes;
use agg_core::log::{self, Level};
use agg_core::{Error, ErrorClass, Result};
use aggio_formats::files::Folder;
use aggio_formats::set_driver::{Free, refusal};
use aggio_formats::{Logical, Options, Set};
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Distinguishes the number of the one file from that of its first, which is another file: programs
/// that compare files by their numbers would take both for the same.
const ANOTHER: u64 = 1 << 63;

/// The set that a name stands for.
pub(super) struct Named {
    set: Set,
    folder: Folder,
    path: PathBuf,
    first: Metadata,
}

/// An open set.
pub(super) struct OpenSet {
    named: Named,
    /// `None` in a child that must open it again.
    file: Option<Logical>,
}

/// The set that `path`, an absolute name, stands for, if it is to be shown.
///
/// # Errors
/// The system's error for the files that may be one.
pub(super) fn find(path: &Path) -> Result<Option<Named>> {
    let Some(text) = path.to_str() else { return Ok(None) };
    let Some((set, folder)) = sets::find(text).map_err(told)? else { return Ok(None) };
    let place = folder.path.join(set.first());
    // If the first file is missing, use the metadata of the directory: opening the set reports the
    // missing file.
    let first = place.metadata().or_else(|_| folder.path.metadata());
    let first = first.map_err(|why| Error::os("stat", &why))?;
    Ok(Some(Named { set, folder, path: path.to_owned(), first }))
}

/// Logs an error once if it is more than a refusal, because the program receives only its number.
fn told(error: Error) -> Error {
    if error.errno() == libc::EIO {
        log::once_on_any_rank(Level::Error, &error.to_string());
    }
    error
}

/// The attributes that differ between two states of a file.
fn state(facts: &Metadata) -> (u64, u64, u64, i64, i64) {
    (facts.dev(), facts.ino(), facts.size(), facts.mtime(), facts.mtime_nsec())
}

fn moment(seconds: i64, nanoseconds: i64) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second =
        if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    let part = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0));
    second.and_then(|second| second.checked_add(part)).unwrap_or(UNIX_EPOCH)
}

impl Named {
    /// Device and inode of its first file.
    pub(super) fn identity(&self) -> (u64, u64) {
        (self.first.dev(), self.first.ino())
    }

    fn place(&self) -> PathBuf {
        self.folder.path.join(self.set.first())
    }

    /// That it cannot be changed.
    pub(super) fn refusal(&self) -> Error {
        refusal(&self.path.display().to_string(), &self.folder.shown(&self.set.first()))
    }

    /// Makes a container of it, to be changed; an empty one unless it `keeps` the bytes.
    ///
    /// # Errors
    /// `EROFS` unless a rule says that files of this name are sets; if it cannot be read, or the
    /// container not be stored.
    pub(super) fn change(&self, keeps: bool) -> Result<PathBuf> {
        let path = self.path.to_str().ok_or_else(|| self.refusal())?;
        config::sets()?.change(config::drivers(), path, keeps).map_err(told)?;
        Ok(self.path.clone())
    }

    /// The name that stands for it.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// # Errors
    /// `EROFS` unless a rule says that files of this name are sets.
    pub(super) fn must_be_ours(&self) -> Result<()> {
        if self.is_ours() { Ok(()) } else { Err(self.refusal()) }
    }

    /// Whether a rule says that files of this name are sets.
    pub(super) fn is_ours(&self) -> bool {
        self.path.to_str().is_some_and(config::remakes)
    }

    /// Removes its files, even if another file has its name by now.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn discard(&self) -> Result<()> {
        self.set.remove().map_err(|why| Error::os("unlink", &why))
    }

    /// Renames it; `free` removes the previous file of the new name.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn rename(&self, to: &Path, free: &Free<'_>) -> Result<()> {
        let (Some(path), Some(to)) = (self.path.to_str(), to.to_str()) else {
            return Err(self.refusal());
        };
        config::sets()?.rename(path, to, free)
    }

    /// Calls `act` for each of its files, to change attributes that the system records.
    ///
    /// # Errors
    /// `EROFS` unless a rule says that files of its name are sets; the error of `act`.
    pub(super) fn each_file(&self, act: impl Fn(&Path) -> std::io::Result<()>) -> Result<()> {
        self.must_be_ours()?;
        let told = |why| Error::os("change", &why).with_path(&self.path.display().to_string());
        self.set.files().try_for_each(|name| act(&self.folder.path.join(name))).map_err(told)
    }

    /// Removes its files.
    ///
    /// # Errors
    /// `EROFS` unless a rule says that files of this name are sets; the system's error.
    pub(super) fn remove(&self) -> Result<()> {
        let path = self.path.to_str().ok_or_else(|| self.refusal())?;
        config::sets()?.remove(config::drivers(), path)
    }

    /// The file with the permissions that decide about changes of the set; `None` if it cannot be
    /// changed.
    pub(super) fn guard(&self) -> Option<PathBuf> {
        self.is_ours().then(|| self.place())
    }

    fn logical(&self) -> Result<Logical> {
        sets::open_with(&self.set, Options::default().cache).map_err(told)
    }

    /// Opens it.
    ///
    /// # Errors
    /// If a file is missing, damaged, or does not belong to the others; a line names it.
    pub(super) fn open(self) -> Result<OpenSet> {
        let file = Some(self.logical()?);
        Ok(OpenSet { named: self, file })
    }

    /// The attributes that `access` needs: only mode and owner are valid.
    pub(super) fn permissions(&self) -> Attributes {
        self.attributes(0)
    }

    fn attributes(&self, size: u64) -> Attributes {
        let facts = &self.first;
        let inode = if self.set.first() == self.set.name() { 0 } else { ANOTHER };
        Attributes {
            size,
            mode: facts.mode() & 0o7777,
            uid: facts.uid(),
            gid: facts.gid(),
            atime: moment(facts.atime(), facts.atime_nsec()),
            mtime: moment(facts.mtime(), facts.mtime_nsec()),
            ctime: moment(facts.ctime(), facts.ctime_nsec()),
            generation: 0,
            sealed: true,
            inode: facts.ino() ^ inode,
            blocks: size.div_ceil(512),
        }
    }
}

impl OpenSet {
    /// # Errors
    /// As [`Named::open`]; if it is another set by now.
    fn file(&mut self) -> Result<&Logical> {
        match self.file {
            Some(ref file) => Ok(file),
            ref mut none => {
                let now = self.named.place().metadata();
                if now.is_ok_and(|now| state(&now) == state(&self.named.first)) {
                    return Ok(none.insert(self.named.logical()?));
                }
                let why = "the set has changed since it was opened";
                let path = self.named.path.display().to_string();
                Err(told(Error::new(ErrorClass::Io, why).with_path(&path).with_errno(libc::EIO)))
            }
        }
    }

    /// Bytes of the file.
    ///
    /// # Errors
    /// As [`Named::open`].
    pub(super) fn size(&mut self) -> Result<u64> {
        Ok(self.file()?.size())
    }

    /// Fills a buffer from `offset` on; less only at the end of the file.
    ///
    /// # Errors
    /// If a file of the set cannot be read, which a line names; `EDEADLK` in a signal handler that
    /// interrupted such a call.
    pub(super) fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let file = self.file()?;
        if thread(|thread| thread.reading.replace(true)) {
            let words = "a signal handler reads a set while one is read";
            return Err(Error::new(ErrorClass::Io, words).with_errno(libc::EDEADLK));
        }
        let read = file.read_at(buffer, offset);
        thread(|thread| thread.reading.set(false));
        read.map_err(|why| told(sets::told(&why)))
    }

    /// The result of `stat`.
    ///
    /// # Errors
    /// As [`Named::open`].
    pub(super) fn attributes(&mut self) -> Result<Attributes> {
        let size = self.size()?;
        Ok(self.named.attributes(size))
    }

    /// That it cannot be changed.
    pub(super) fn refusal(&self) -> Error {
        self.named.refusal()
    }

    /// A descriptor of its first file that carries locks.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn lock_file(&self) -> Result<File> {
        let opened = File::open(self.named.place()).and_then(aside);
        opened.map_err(|why| Error::os("open", &why))
    }

    /// In a child after `fork` during a read: leaks the open file, which is in an unknown state.
    pub(super) fn abandon(&mut self) {
        std::mem::forget(self.file.take());
    }
}
