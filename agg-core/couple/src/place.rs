//! The directory in which programs and their agent find each other: the user's alone.

use crate::fd::owned;
use aggio_base::{host, os};
use std::ffi::CString;
use std::fs::{DirBuilder, File, Metadata, TryLockError};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// An open directory that nobody but this user may enter.
#[derive(Debug)]
pub struct Place {
    directory: OwnedFd,
    path: PathBuf,
    host: String,
}

impl Place {
    /// The directory `path`, or the user's own place if that is empty; made if it is missing.
    ///
    /// # Errors
    /// It cannot be made, is no directory, or others own it or may enter it.
    pub fn open(path: &str) -> io::Result<Self> {
        let path = if path.is_empty() { own_place() } else { path.into() };
        let result = Self::make(&path);
        result.map_err(|error| {
            let text = format!("the directory of coupled files {}: {error}", path.display());
            io::Error::new(error.kind(), text)
        })
    }

    fn make(path: &Path) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let name = CString::new(path.as_os_str().as_encoded_bytes())?;
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let directory = owned(os::open(&name, flags, 0)?);
        check(&std::fs::metadata(format!("/proc/self/fd/{}", directory.as_raw_fd()))?)?;
        Ok(Self { directory, path: path.into(), host: host_name() })
    }

    /// The same directory, as a node of this name sees it.
    #[cfg(test)]
    pub(crate) fn on_host(self, host: &str) -> Self {
        Self { host: host.into(), ..self }
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name of this node.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Whether it is the place of a user who has named none, which other nodes do not see.
    pub(crate) fn is_own(&self) -> bool {
        self.path == own_place()
    }

    /// Whether agents of several nodes meet in it, and one of them owns a file.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn has_names(&self) -> io::Result<bool> {
        if self.is_own() {
            return Ok(false);
        }
        let is_name = |entry: &std::fs::DirEntry| entry.path().extension() == Some("name".as_ref());
        Ok(std::fs::read_dir(&self.path)?.flatten().any(|entry| is_name(&entry)))
    }

    /// A short name of a file in it that belongs to this node.
    pub(crate) fn file(&self, ending: &str) -> String {
        format!("/proc/self/fd/{}/{}.{ending}", self.directory.as_raw_fd(), self.host)
    }

    /// The name of a file of this node, below the name of the directory.
    pub fn visible(&self, ending: &str) -> PathBuf {
        self.path.join(format!("{}.{ending}", self.host))
    }

    /// Takes the lock of this name until the result is dropped; `None` if another process has it.
    pub(crate) fn lock(&self, ending: &str) -> io::Result<Option<OwnedFd>> {
        let name = CString::new(self.file(ending))?;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        loop {
            let file = File::from(owned(os::open(&name, flags, 0o600)?));
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {
                    continue;
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // Who had the lock may have removed the file meanwhile.
            let held = file.metadata()?;
            match std::fs::metadata(self.file(ending)) {
                Ok(named) if named.ino() == held.ino() => return Ok(Some(file.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes a file of this node, if it is there.
    pub(crate) fn remove(&self, ending: &str) {
        let _ = std::fs::remove_file(self.file(ending));
    }
}

/// The default directory of the user.
fn own_place() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(runtime) if runtime.is_absolute() && runtime.is_dir() => runtime.join("aggio"),
        _ => format!("/tmp/aggio-{}", user()).into(),
    }
}

/// The effective user.
pub(crate) fn user() -> u32 {
    // SAFETY: only numbers.
    unsafe { libc::geteuid() }
}

pub(crate) fn random() -> io::Result<u128> {
    let mut bytes = [0; 16];
    // SAFETY: the kernel writes at most the bytes of the array.
    match unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) } {
        16 => Ok(u128::from_le_bytes(bytes)),
        _ => Err(io::Error::last_os_error()),
    }
}

pub(crate) fn check(facts: &Metadata) -> io::Result<()> {
    let refuse = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    match (facts.uid(), facts.mode() & 0o077) {
        (owner, _) if owner != user() => refuse(format!("it belongs to user {owner}")),
        (_, 0) => Ok(()),
        (_, _) => {
            let mode = facts.mode() & 0o7777;
            refuse(format!("others may enter it (mode {mode:o}; 700 is needed)"))
        }
    }
}

/// The name of this node, as it can be part of the name of a file.
fn host_name() -> String {
    let name = String::from_utf8_lossy(&host::name()).replace(['/', '\u{fffd}'], "_");
    if name.is_empty() { "node".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_is_made_for_its_user_alone_and_others_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("place");
        let text = path.to_str().unwrap();
        let place = Place::open(text).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
        assert_eq!(place.path(), path);
        fs::set_permissions(&path, Permissions::from_mode(0o750)).unwrap();
        let error = Place::open(text).unwrap_err().to_string();
        assert!(error.contains(text) && error.contains("mode 750"), "{error}");
        fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink(scratch.path(), &path).unwrap();
        assert!(Place::open(text).is_err(), "a symbolic link");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        assert!(Place::open(text).is_err(), "a file");
    }

    #[test]
    fn a_lock_is_one_process_alone_and_survives_that_its_file_is_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let place = Place::open(scratch.path().join("p").to_str().unwrap()).unwrap();
        let lock = place.lock("lock").unwrap().expect("free");
        assert!(place.lock("lock").unwrap().is_none());
        place.remove("lock");
        let other = place.lock("lock").unwrap().expect("a new file");
        drop((lock, other));
        assert!(place.lock("lock").unwrap().is_some());
    }
}
