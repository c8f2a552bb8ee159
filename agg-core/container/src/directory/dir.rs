//! A container's directory: every part is opened relative to it, by plain names, through no
//! symlink.

mod place;

use crate::directory::fd_range;
use crate::directory::part_names::log_id;
use crate::directory::staged_log::StagedLog;
use crate::directory::system::{c_name, c_path, open_at, stat_at};
use crate::errors::{damaged_at, failed};
use aggio_base::Result;
use aggio_base::caches;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// How long it waits, in milliseconds, each time it has met a file that is gone: 3 s in all.
const PAUSES: [u64; 9] = [0, 10, 40, 150, 300, 500, 500, 750, 750];

/// An open directory.
#[derive(Debug)]
pub(crate) struct Dir {
    file: File,
    path: PathBuf,
    /// Whether this computer may keep parts as they were before another one changed them.
    stale: OnceLock<bool>,
}

impl Dir {
    /// Opens the directory `path`; a symlink is not followed.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let name = c_path(path)?;
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let file = open_at(libc::AT_FDCWD, &name, flags, 0)
            .map_err(|error| failed("open", &error, path))?;
        Ok(Self { file, path: path.to_path_buf(), stale: OnceLock::new() })
    }

    /// Opens the directory `path`; symlinks are followed.
    pub(crate) fn open_following(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| failed("open", &error, path))?;
        Ok(Self { file, path: path.to_path_buf(), stale: OnceLock::new() })
    }

    /// Takes a directory that is open already; `path` is the name that it had.
    pub(crate) fn opened(file: File, path: &Path) -> Self {
        Self { file: fd_range::moved(file), path: path.to_path_buf(), stale: OnceLock::new() }
    }

    /// The path under which it was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory itself, for `fsync` and `fchmod`.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The same directory, which is called `path` now.
    pub(crate) fn called(self, path: &Path) -> Self {
        Self { path: path.to_path_buf(), ..self }
    }

    /// The path of a part, for messages.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a part that exists; refuses everything but regular files.
    pub(crate) fn part(&self, name: &str, writing: bool) -> Result<File> {
        let access = if writing { libc::O_RDWR } else { libc::O_RDONLY };
        let path = self.path_of(name);
        // Without O_NONBLOCK a FIFO of this name would block for ever. Looking at a part is no
        // access to the file, but only the owner may say so.
        let name_c = c_name(name)?;
        let open = |flags: i32| open_at(self.fd(), &name_c, access | libc::O_NONBLOCK | flags, 0);
        let file = open(libc::O_NOATIME).or_else(|error| match error.raw_os_error() {
            Some(libc::EPERM) => open(0),
            _ => Err(error),
        });
        let file = match file.map_err(|error| failed("open", &error, &path)) {
            // One that was drained meanwhile is no link any more.
            Err(error) if error.errno() == libc::ELOOP => {
                match StagedLog::open(self, name, access)? {
                    Some(file) => return Ok(file),
                    None if self.is_file(name)? => return self.part(name, writing),
                    None => return Err(error),
                }
            }
            other => other?,
        };
        let facts = file.metadata().map_err(|error| failed("fstat", &error, &path))?;
        if !facts.is_file() {
            return Err(damaged_at(&path, "it is not a regular file"));
        }
        if facts.nlink() > 1 {
            self.refuse_foreign_link(&facts, &path)?;
        }
        if self.may_be_stale() {
            caches::forget(file.as_raw_fd());
        }
        Ok(file)
    }

    /// Runs `look`, which opens and reads the part `name`, again as long as the file is gone.
    /// Another computer may have replaced the part: without coherent caches, this computer keeps
    /// the name of a removed file for a second or two.
    pub(crate) fn anew<T>(&self, name: &str, look: impl Fn() -> Result<T>) -> Result<T> {
        let name = c_name(name)?;
        let mut pauses = PAUSES.into_iter();
        loop {
            match look() {
                Err(error) if error.errno() == libc::ESTALE && self.may_be_stale() => {
                    let Some(pause) = pauses.next() else { return Err(error) };
                    caches::forget_name(self.fd(), &name);
                    std::thread::sleep(Duration::from_millis(pause));
                }
                looked => return looked,
            }
        }
    }

    /// Refuses a hard link that the owner of the directory made to a file of another user. It is no
    /// part: a process with more rights than the owner would change that file.
    fn refuse_foreign_link(&self, facts: &Metadata, path: &Path) -> Result<()> {
        let own = self.file.metadata().map_err(|error| failed("fstat", &error, &self.path))?;
        if own.uid() == facts.uid() {
            return Ok(());
        }
        let words = "it is a link to a file of somebody else";
        Err(damaged_at(path, words))
    }

    /// Whether this computer may keep parts as they were before another one changed them.
    pub(crate) fn may_be_stale(&self) -> bool {
        let ask = || {
            let device = self.file.metadata().map_or(0, |facts| facts.dev());
            caches::may_be_stale(self.fd(), device)
        };
        *self.stale.get_or_init(ask)
    }

    /// Makes a part that must not exist.
    pub(crate) fn new_part(&self, name: &str, mode: u32) -> Result<File> {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        let fail = |call: &str, error: io::Error| failed(call, &error, &self.path_of(name));
        let file =
            open_at(self.fd(), &c_name(name)?, flags, mode).map_err(|e| fail("create", e))?;
        let adopted = self.adopt(&file).map_err(|error| fail("fchown", error));
        // Report the original error.
        adopted.inspect_err(|_| drop(self.remove(name)))?;
        Ok(file)
    }

    /// Metadata of a file that this process makes here with `mode`. The directory must be one that
    /// it has made: the directory of another user has another owner than the file, and is refused.
    pub(crate) fn probe(&self, mode: u32) -> Result<Metadata> {
        let name = "probe";
        let fail = |call: &str, error: io::Error| failed(call, &error, &self.path_of(name));
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        let file = open_at(self.fd(), &c_name(name)?, flags, mode & 0o7777);
        let facts = file.and_then(|file| file.metadata()).map_err(|e| fail("create", e))?;
        self.remove(name)?;
        let own = self.file.metadata().map_err(|e| fail("fstat", e))?;
        if own.uid() == facts.uid() {
            return Ok(facts);
        }
        let error = io::Error::other("somebody else's directory has this name");
        Err(failed("mkdir", &error, &self.path))
    }

    /// Gives a new part the owner of the directory, as far as this process may: every user with
    /// access to the logical file must be able to read all of its parts.
    pub(crate) fn adopt(&self, file: &File) -> io::Result<()> {
        let (own, dir) = (file.metadata()?, self.file.metadata()?);
        if (own.uid(), own.gid()) == (dir.uid(), dir.gid()) {
            return Ok(());
        }
        for uid in [Some(dir.uid()), None] {
            match fchown(file, uid, Some(dir.gid())) {
                Err(error) if error.raw_os_error() == Some(libc::EPERM) => {}
                changed => return changed,
            }
        }
        // Like a file that this process makes in a directory of somebody else.
        Ok(())
    }

    /// The length of a part, `None` if there is no regular file of that name.
    pub(crate) fn length_of(&self, name: &str) -> Result<Option<u64>> {
        if self.may_be_stale() {
            caches::forget_name(self.fd(), &c_name(name)?);
        }
        let Some(stat) = self.stat(name)? else { return Ok(None) };
        match stat.st_mode & libc::S_IFMT {
            libc::S_IFREG => Ok(Some(stat.st_size as u64)),
            libc::S_IFLNK if log_id(name).is_some() => {
                // The container may have been copied with its links: the bytes of this log are not
                // here.
                let words = "it is a link that leads to no log of this container";
                Err(damaged_at(&self.path_of(name), words))
            }
            _ => Ok(None),
        }
    }

    fn is_file(&self, name: &str) -> Result<bool> {
        Ok(self.stat(name)?.is_some_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFREG))
    }

    /// Metadata of a part itself. No symlinks are followed but those of logs that wait elsewhere.
    pub(crate) fn stat(&self, name: &str) -> Result<Option<libc::stat>> {
        let is_link = |stat: &libc::stat| stat.st_mode & libc::S_IFMT == libc::S_IFLNK;
        let found = match stat_at(&self.file, &c_name(name)?) {
            Ok(stat) if is_link(&stat) => match StagedLog::stat(self, name)? {
                Some(stat) => Ok(stat),
                // It is a link to something else, or was drained meanwhile.
                None => stat_at(&self.file, &c_name(name)?),
            },
            found => found,
        };
        match found {
            Ok(stat) => Ok(Some(stat)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(failed("stat", &error, &self.path_of(name))),
        }
    }

    /// Renames a part; it replaces a part with the new name.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (a, b) = (c_name(from)?, c_name(to)?);
        // SAFETY: both names end with a zero byte.
        if unsafe { libc::renameat(self.fd(), a.as_ptr(), self.fd(), b.as_ptr()) } == 0 {
            return Ok(());
        }
        Err(failed("rename", &io::Error::last_os_error(), &self.path_of(to)))
    }

    /// Removes a part; there may be none.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        StagedLog::remove(self, name)?;
        match self.unlink(name, 0) {
            Err(error) if error.errno() == libc::ENOENT => Ok(()),
            done => done,
        }
    }

    /// The same of a file of any kind, also of an empty directory.
    pub(crate) fn remove_any(&self, name: &str) -> Result<()> {
        match self.remove(name) {
            Err(error) if error.errno() == libc::EISDIR => self.unlink(name, libc::AT_REMOVEDIR),
            done => done,
        }
    }

    fn unlink(&self, name: &str, flags: libc::c_int) -> Result<()> {
        let c = c_name(name)?;
        // SAFETY: the name ends with a zero byte.
        if unsafe { libc::unlinkat(self.fd(), c.as_ptr(), flags) } == 0 {
            return Ok(());
        }
        Err(failed("unlink", &io::Error::last_os_error(), &self.path_of(name)))
    }

    /// The names of all entries, sorted; names that are not UTF-8 cannot be parts and are left out.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let fail = |error: io::Error| failed("readdir", &error, &self.path);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.inside()).map_err(fail)? {
            let name = entry.map_err(fail)?.file_name();
            names.extend(OsStr::to_str(&name).map(str::to_owned));
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The ids of all logs, ascending.
    pub(crate) fn logs(&self) -> Result<Vec<u64>> {
        Ok(self.names()?.iter().filter_map(|name| log_id(name)).collect())
    }

    /// A path of the open directory itself, even if another one has its name now.
    pub(crate) fn inside(&self) -> PathBuf {
        let inside = PathBuf::from(format!("/proc/self/fd/{}", self.fd()));
        if inside.exists() { inside } else { self.path.clone() }
    }

    /// Makes names durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|error| failed("fsync", &error, &self.path))
    }

    fn fd(&self) -> libc::c_int {
        self.file.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_cannot_get_its_owner_is_an_error_and_leaves_nothing() {
        use crate::refused::{Refusal, refusing};
        let place = tempfile::tempdir().unwrap();
        if std::os::unix::fs::chown(place.path(), Some(65534), Some(65534)).is_err() {
            // Only root makes parts for others.
            return;
        }
        let dir = Dir::open(place.path()).unwrap();
        let refusals = Refusal::of_owners(libc::EDQUOT);
        let error = refusing(&refusals, || dir.new_part("order", 0o600).unwrap_err());
        assert!(error.errno() == libc::EDQUOT && error.to_string().contains("fchown"), "{error}");
        assert_eq!(dir.names().unwrap(), [] as [&str; 0]);
        assert_eq!(dir.new_part("order", 0o600).unwrap().metadata().unwrap().uid(), 65534);
    }

    #[test]
    fn symlinks_directories_and_pipes_are_no_parts() {
        let place = tempfile::tempdir().unwrap();
        let dir = Dir::open(place.path()).unwrap();
        std::fs::write(place.path().join("file"), b"x").unwrap();
        std::os::unix::fs::symlink("file", place.path().join("link")).unwrap();
        std::fs::create_dir(place.path().join("folder")).unwrap();
        let pipe = c_path(&place.path().join("pipe")).unwrap();
        // SAFETY: the path ends with a zero byte.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        assert!(dir.part("file", false).is_ok());
        for name in ["link", "folder", "pipe", "absent", "", ".", "..", "../x", "a/b"] {
            assert!(dir.part(name, false).is_err(), "{name}");
        }
        assert_eq!(dir.length_of("link").unwrap(), None);
    }
}
