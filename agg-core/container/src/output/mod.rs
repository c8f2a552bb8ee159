//! Files that are made: private until they are complete, then given their name in one step.
//!
//! While it is written a file has no name (`O_TMPFILE`), so nobody else can open, replace or forge
//! it, and nothing is left of it if the process is killed. Where the file system has no such files
//! it has a name of 128 random bits, made with `O_EXCL`, which [`Unfinished`] removes when the
//! process is asked to end.

mod aside;
mod cleared;
mod fresh;
mod rename;
mod rights;
mod set_turn;
mod unfinished;
mod vacancy;

pub use aside::{Aside, is_aside, put_back};
pub use cleared::Cleared;
pub use fresh::{fresh_beside, fresh_name};
pub(crate) use rename::exchange;
pub use rename::rename_new;
pub use rights::{Source, kept_mode};
pub use set_turn::SetTurn;
pub use unfinished::Unfinished;
pub use vacancy::require_vacant;

use crate::directory::c_path;
use crate::errors::failed;
use aggio_base::Result;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A file that is being made.
#[derive(Debug)]
pub struct Output<'a> {
    file: File,
    to: PathBuf,
    /// The name that it has meanwhile, if the file system has no files without one.
    hidden: Option<PathBuf>,
    unfinished: &'a Unfinished,
    /// Whether it stays under the hidden name if it is not published.
    kept: bool,
}

/// The directory that has the name `path`.
pub(crate) fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

impl<'a> Output<'a> {
    /// A file that shall be called `to`, with the permissions `mode` less the umask, and no set-id
    /// bits. It is removed unless it is [published](Output::publish), also by
    /// [`Unfinished::remove_all`].
    ///
    /// # Errors
    /// If `to` cannot be the name of a file, or no file can be made in its directory.
    pub fn create(to: &Path, mode: u32, unfinished: &'a Unfinished) -> Result<Self> {
        if to.file_name().is_none() || to.as_os_str().as_bytes().ends_with(b"/") {
            return Err(failed("create", &io::Error::from_raw_os_error(libc::EISDIR), to));
        }
        let mode = mode & 0o777;
        let mut how = OpenOptions::new();
        how.read(true).write(true).mode(mode).custom_flags(libc::O_TMPFILE);
        match how.open(parent_of(to)) {
            Ok(file) if link_to(&file).symlink_metadata().is_ok() => {
                lock(&file);
                Ok(Self { file, to: to.into(), hidden: None, unfinished, kept: false })
            }
            _ => Self::create_hidden(to, mode, unfinished),
        }
    }

    /// The same where the file system has no files without a name.
    fn create_hidden(to: &Path, mode: u32, unfinished: &'a Unfinished) -> Result<Self> {
        let hidden = fresh_beside(to)?;
        let mut how = OpenOptions::new();
        how.read(true).write(true).create_new(true).mode(mode).custom_flags(libc::O_NOFOLLOW);
        let make = || how.open(&hidden).map_err(|error| failed("create", &error, to));
        let file = unfinished.add(&hidden, make)?;
        lock(&file);
        Ok(Self { file, to: to.into(), hidden: Some(hidden), unfinished, kept: false })
    }

    /// A file that has the name `hidden`, where nobody else can put one, and keeps it until it is
    /// published.
    pub(crate) fn kept(file: File, hidden: PathBuf, to: &Path, unfinished: &'a Unfinished) -> Self {
        Self { file, to: to.into(), hidden: Some(hidden), unfinished, kept: true }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The name that it shall have.
    pub fn path(&self) -> &Path {
        &self.to
    }

    /// Gives it the permissions `mode` of its source, with only the set-id bits that [`kept_mode`]
    /// lets it keep.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn set_mode(&self, mode: u32, source: Source) -> Result<()> {
        let own = self.file.metadata().map_err(|error| failed("fstat", &error, &self.to))?;
        let mode = Permissions::from_mode(kept_mode(mode, source, &own));
        self.file.set_permissions(mode).map_err(|error| failed("fchmod", &error, &self.to))
    }

    /// Gives it its name, durably. An ordinary file of that name is replaced if `replace` is set.
    ///
    /// # Errors
    /// `EEXIST` if the name belongs to something that must not be replaced; otherwise the error of
    /// the system call. The file does not exist then.
    pub fn publish(mut self, replace: bool) -> Result<()> {
        require_vacant(&self.to, replace)?;
        let unfinished = self.unfinished;
        unfinished.undisturbed(|| self.name(replace))?;
        let folder = parent_of(&self.to);
        let stored = File::open(&folder).and_then(|folder| folder.sync_all());
        stored.map_err(|error| failed("fsync", &error, &folder))
    }

    fn name(&mut self, replace: bool) -> Result<()> {
        if self.hidden.is_none() {
            if !replace {
                return link(&self.file, &self.to);
            }
            let hidden = fresh_beside(&self.to)?;
            link(&self.file, &hidden)?;
            self.hidden = Some(hidden);
        }
        let Some(hidden) = &self.hidden else { return Ok(()) };
        if replace {
            let renamed = std::fs::rename(hidden, &self.to);
            renamed.map_err(|error| failed("rename", &error, &self.to))?;
        } else {
            rename_new(hidden, &self.to)?;
        }
        let found = self.to.symlink_metadata();
        let found = found.map_err(|error| failed("stat", &error, &self.to))?;
        let own = self.file.metadata().map_err(|error| failed("fstat", &error, &self.to))?;
        // Another file of this user was published by another command since.
        if is_same(&own, &found) || found.is_file() && found.uid() == own.uid() {
            return Ok(());
        }
        let words = "somebody else gave the name to another file meanwhile";
        Err(failed("rename", &io::Error::other(words), &self.to))
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        let Some(hidden) = self.hidden.as_ref().filter(|_| !self.kept) else { return };
        // After success there is none; after a failure, report that failure.
        self.unfinished.forget(hidden, || drop(std::fs::remove_file(hidden)));
    }
}

/// Locks a file for as long as it is being made, so that [`clear_unfinished`] keeps it. Without
/// locks on the file system nothing is cleared there.
fn lock(file: &File) -> bool {
    try_lock(file).is_ok()
}

/// Locks a file unless another process has it locked.
pub(crate) fn try_lock(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Removes the unfinished file `path`, which has a hidden name, unless a process is making it;
/// returns whether it is gone.
///
/// # Errors
/// If it is not an ordinary file, or cannot be opened or removed.
pub fn clear_unfinished(path: &Path) -> Result<bool> {
    /// Between its creation and its lock a file is empty.
    const JUST_MADE: std::time::Duration = std::time::Duration::from_secs(60);
    let mut how = OpenOptions::new();
    how.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = how.open(path).map_err(|error| failed("open", &error, path))?;
    let facts = file.metadata().map_err(|error| failed("fstat", &error, path))?;
    if !facts.is_file() {
        return Err(failed("open", &io::Error::from_raw_os_error(libc::EINVAL), path));
    }
    let age = facts.modified().ok().and_then(|at| at.elapsed().ok());
    let is_new = facts.len() == 0 && age.is_none_or(|age| age < JUST_MADE);
    if is_new || !lock(&file) {
        return Ok(false);
    }
    std::fs::remove_file(path).map_err(|error| failed("unlink", &error, path))?;
    Ok(true)
}

/// Whether two descriptions are of one file.
pub(crate) fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// The path of a file without a name.
fn link_to(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Gives a file without a name one that nobody has.
fn link(file: &File, to: &Path) -> Result<()> {
    let (from, name) = (c_path(&link_to(file))?, c_path(to)?);
    let (at, flags) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
    // SAFETY: both paths end with a zero byte.
    if unsafe { libc::linkat(at, from.as_ptr(), at, name.as_ptr(), flags) } == 0 {
        return Ok(());
    }
    Err(failed("link", &io::Error::last_os_error(), to))
}

#[cfg(test)]
mod tests;
