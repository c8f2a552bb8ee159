//! A directory beside files that has them for a moment, under their old or new names, while names
//! change in steps. The only name of a file is never removed there: the remains of a killed process
//! are put back.

use crate::errors::{failed, refused};
use crate::output::{Cleared, fresh_name, is_same, parent_of, rename_new, try_lock};
use aggio_base::{Error, ErrorClass, Result};
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const PREFIX: &str = ".aggio-aside-";

/// Such a directory, which goes with the value unless something is in it.
#[derive(Debug)]
pub struct Aside {
    path: PathBuf,
    /// Has the lock that marks the directory as in use.
    _folder: File,
}

/// Whether such directories have names like this one.
pub fn is_aside(name: &OsStr) -> bool {
    let digits = name.as_bytes().strip_prefix(PREFIX.as_bytes());
    digits.is_some_and(|all| all.len() == 32 && all.iter().all(u8::is_ascii_hexdigit))
}

impl Aside {
    /// Makes one beside `path`.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn make(path: &Path) -> Result<Self> {
        let own = parent_of(path).join(fresh_name()?.replace(".aggio-", PREFIX));
        let made = DirBuilder::new().mode(0o700).create(&own);
        made.map_err(|error| failed("mkdir", &error, &own))?;
        let folder = open(&own).inspect_err(|_| drop(std::fs::remove_dir(&own)))?;
        // Without the lock, `put_back` keeps a second name of a file unless its first one is back.
        let _ = try_lock(&folder);
        Ok(Self { path: own, _folder: folder })
    }

    /// The path of the entry `name` there.
    pub fn path_of(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // An error has named any file that is still in it.
        let _ = std::fs::remove_dir(&self.path);
    }
}

fn open(path: &Path) -> Result<File> {
    let mut how = OpenOptions::new();
    how.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_DIRECTORY);
    how.open(path).map_err(|error| failed("open", &error, path))
}

/// Gives the files in the directory `path`, which is an [`Aside`], their names back; removes second
/// names of files.
///
/// # Errors
/// If a name is taken, if nobody can know whether a second name is needed, or if the system
/// refuses: then the rest stays there.
pub fn put_back(path: &Path) -> Result<Cleared> {
    let folder = open(path)?;
    let locked = try_lock(&folder);
    if locked.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
        return Ok(Cleared::Needed);
    }
    // This directory, even if another one has its path now.
    let inside = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    let (mut back, mut kept) = (Vec::new(), Vec::new());
    let entries = std::fs::read_dir(&inside).map_err(|error| failed("readdir", &error, path))?;
    for entry in entries {
        let name = entry.map_err(|error| failed("readdir", &error, path))?.file_name();
        match restore(&inside.join(&name), &path.with_file_name(&name), locked.is_ok()) {
            Ok(true) => back.push(path.with_file_name(&name)),
            Ok(false) => {}
            Err(error) if error.errno() == libc::EEXIST => kept.push(path.join(&name)),
            Err(error) => return Err(error),
        }
    }
    if let Some(kept) = kept.first() {
        return Err(replaced(kept));
    }
    std::fs::remove_dir(path).map_err(|error| failed("rmdir", &error, path))?;
    Ok(if back.is_empty() { Cleared::Removed } else { Cleared::PutBack(back) })
}

/// Gives `from` the name `to` again and returns true, or removes it and returns false if the file
/// has another name.
fn restore(from: &Path, to: &Path, locked: bool) -> Result<bool> {
    let facts = from.symlink_metadata().map_err(|error| failed("stat", &error, from))?;
    let is_second = facts.is_file() && facts.nlink() > 1;
    if !is_second {
        return rename_new(from, to).map(|()| true);
    }
    if !locked && !to.symlink_metadata().is_ok_and(|there| is_same(&there, &facts)) {
        let words = "nobody knows whether somebody gives it this name just now, for nothing can be \
                     locked here: remove its other name yourself if nobody does";
        return Err(refused((ErrorClass::FileInUse, libc::ENOLCK), to, words));
    }
    std::fs::remove_file(from).map_err(|error| failed("unlink", &error, from))?;
    Ok(false)
}

/// The error for a file that cannot have its name back.
fn replaced(kept: &Path) -> Error {
    let words = "a killed process moved it here to replace it, and its name is taken; nothing is \
                 removed: give it another name, or remove it";
    refused((ErrorClass::FileExists, libc::EEXIST), kept, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused::{Refusal, refusing};

    /// The path of the directory that a killed process leaves.
    fn left(aside: Aside) -> PathBuf {
        let (path, folder) = (aside.path.clone(), aside._folder.try_clone().unwrap());
        std::mem::forget(aside);
        // The lock ends with the process.
        // SAFETY: the descriptor is open.
        assert_eq!(unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_UN) }, 0);
        path
    }

    #[test]
    fn the_only_name_of_a_file_is_put_back_or_told_and_a_second_one_goes() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        for name in ["file", "other"] {
            std::fs::write(path(name), name).unwrap();
        }
        let aside = Aside::make(&path("file")).unwrap();
        std::fs::rename(path("file"), aside.path_of("file")).unwrap();
        std::fs::hard_link(path("other"), aside.path_of("new")).unwrap();
        let hidden = aside.path.clone();
        assert!(is_aside(hidden.file_name().unwrap()) && !is_aside(OsStr::new(PREFIX)));
        assert_eq!(put_back(&hidden).unwrap(), Cleared::Needed);
        let hidden = left(aside);
        assert_eq!(put_back(&hidden).unwrap(), Cleared::PutBack(vec![path("file")]));
        assert!(!hidden.exists() && !path("new").exists());
        assert_eq!(std::fs::read(path("file")).unwrap(), b"file");
        let aside = Aside::make(&path("file")).unwrap();
        std::fs::rename(path("file"), aside.path_of("file")).unwrap();
        std::fs::write(path("file"), "newer").unwrap();
        let hidden = left(aside);
        for _ in 0..2 {
            let error = put_back(&hidden).unwrap_err().to_string();
            assert!(error.contains(&*hidden.join("file").to_string_lossy()), "{error}");
        }
        assert_eq!(std::fs::read(hidden.join("file")).unwrap(), b"file");
        assert_eq!(std::fs::read(path("file")).unwrap(), b"newer");
    }

    #[test]
    fn where_nothing_can_be_locked_a_second_name_stays_unless_the_file_has_its_new_one() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        std::fs::write(path("old"), "x").unwrap();
        let aside = Aside::make(&path("new")).unwrap();
        std::fs::hard_link(path("old"), aside.path_of("new")).unwrap();
        let hidden = left(aside);
        refusing(&Refusal::of_locks(libc::ENOSYS), || {
            assert_eq!(put_back(&hidden).unwrap_err().errno(), libc::ENOLCK);
            assert!(hidden.join("new").exists());
            std::fs::hard_link(path("old"), path("new")).unwrap();
            assert_eq!(put_back(&hidden).unwrap(), Cleared::Removed);
        });
        assert!(path("new").exists() && path("old").exists());
    }
}
