//! Directories of the user's choice for generations that have no memory: files there have no names,
//! so that nobody else opens them, and nothing is left when the agent ends in any way.

use crate::areas::copy;
use crate::fd::{checked, owned};
use crate::place::{random, user};
use aggio_base::os;
use std::ffi::CString;
use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// Begins the name of a file on a file system without `O_TMPFILE`, until the file is unlinked; the
/// names of open descriptors show it later.
const NAME: &str = "aggio-coupled";

/// An open directory that nobody but this user and the system can have made.
#[derive(Debug)]
pub(crate) struct Folder(OwnedFd);

impl From<OwnedFd> for Folder {
    fn from(directory: OwnedFd) -> Self {
        Self(directory)
    }
}

impl AsRawFd for Folder {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Folder {
    /// The directory `path`.
    ///
    /// # Errors
    /// It is missing, no directory but a link, or another user's; nobody may write there.
    pub(crate) fn open(path: &str) -> io::Result<Self> {
        Self::open_checked(path).map_err(|error| refusal(path, &error))
    }

    fn open_checked(path: &str) -> io::Result<Self> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let folder = Self(owned(os::open(&CString::new(path)?, flags, 0)?));
        check(&folder.facts()?)?;
        // Whether files can be made there is known when one was.
        folder.file().map(|_| folder)
    }

    fn facts(&self) -> io::Result<Metadata> {
        fs::metadata(self.at(""))
    }

    /// A nameless file.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn file(&self) -> io::Result<OwnedFd> {
        let how = libc::O_RDWR | libc::O_CLOEXEC;
        let made = self.open_at(c".", how | libc::O_TMPFILE);
        match made.as_ref().err().and_then(io::Error::raw_os_error) {
            // The file system has no such files.
            Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT | libc::EINVAL) => {
                let name = format!("{NAME}-{:032x}", random()?);
                let flags = how | libc::O_CREAT | libc::O_EXCL;
                let made = self.open_at(&CString::new(name.as_str())?, flags)?;
                fs::remove_file(self.at(&name)).map(|()| made)
            }
            _ => made,
        }
    }

    /// The name of a file in it, by which this process finds it wherever the directory moves.
    pub(crate) fn at(&self, name: &str) -> String {
        format!("/proc/self/fd/{}/{name}", self.0.as_raw_fd())
    }

    pub(crate) fn open_at(&self, name: &std::ffi::CStr, flags: i32) -> io::Result<OwnedFd> {
        // SAFETY: the name is a terminated string.
        checked(unsafe { libc::openat(self.0.as_raw_fd(), name.as_ptr(), flags, 0o600) })
    }

    /// Duplicates the directory, for another thread.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// A nameless file with the bytes of a file in memory, which the disk has as well, and the
    /// memory of the computer no more. It is like the other one to who looks at it.
    ///
    /// # Errors
    /// There is no room; what else the system says.
    pub(crate) fn take(&self, from: &OwnedFd) -> io::Result<OwnedFd> {
        let facts = os::fstat(from.as_raw_fd())?;
        let held = 512 * facts.st_blocks.unsigned_abs();
        if self.free()?.is_some_and(|free| free < held) {
            // It would take time to find that out.
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        let to = File::from(self.file()?);
        let fd = to.as_raw_fd();
        copy(from.as_raw_fd(), fd)?;
        to.set_permissions(Permissions::from_mode(facts.st_mode & 0o777))?;
        // What cannot be written is known now, while the memory is there.
        os::fsync(fd)?;
        // Only memory would be lost.
        let _ = os::drop_pages(fd);
        os::reopen(fd, libc::O_RDONLY).map(owned)
    }

    /// Bytes that are free there, if the file system tells.
    fn free(&self) -> io::Result<Option<u64>> {
        let facts = os::fstatfs(self.0.as_raw_fd())?;
        let unit = u64::try_from(facts.f_frsize).unwrap_or(0);
        Ok((facts.f_blocks > 0).then(|| facts.f_bavail.saturating_mul(unit)))
    }
}

/// Makes the error for a directory that cannot be used.
pub(crate) fn refusal(path: &str, error: &io::Error) -> io::Error {
    let text = format!("the directory {path}, which is to have coupled files: {error}");
    Refused::of(error.raw_os_error().unwrap_or(libc::EACCES), text)
}

/// Refuses a directory whose owner is neither this user nor the system.
fn check(facts: &Metadata) -> io::Result<()> {
    match facts.uid() {
        0 => Ok(()),
        owner if owner == user() => Ok(()),
        owner => {
            let text = format!("it belongs to user {owner}");
            Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
        }
    }
}

/// An error with a number and a text of its own.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) number: i32,
    text: String,
}

impl Refused {
    fn of(number: i32, text: String) -> io::Error {
        io::Error::new(io::Error::from_raw_os_error(number).kind(), Self { number, text })
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, symlink};

    fn refused(path: &std::path::Path) -> (i32, String) {
        let error = Folder::open(path.to_str().unwrap()).unwrap_err();
        let number = error.get_ref().unwrap().downcast_ref::<Refused>().unwrap().number;
        (number, error.to_string())
    }

    #[test]
    fn a_directory_of_this_user_or_the_system_is_used_and_others_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("place");
        assert_eq!(refused(&path).0, libc::ENOENT, "it is not made");
        fs::write(&path, "").unwrap();
        assert_eq!(refused(&path).0, libc::ENOTDIR);
        fs::remove_file(&path).unwrap();
        symlink(scratch.path(), &path).unwrap();
        let (number, text) = refused(&path);
        assert!(number == libc::ENOTDIR && text.contains(path.to_str().unwrap()), "{text}");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(Folder::open(path.to_str().unwrap()).is_ok());
        assert!(Folder::open("/tmp").is_ok() && Folder::open("/proc").is_err());
        if user() != 0 {
            fs::set_permissions(&path, Permissions::from_mode(0o500)).unwrap();
            assert_eq!(refused(&path).0, libc::EACCES);
            return;
        }
        std::os::unix::fs::chown(&path, Some(1234), None).unwrap();
        let (number, text) = refused(&path);
        assert!(number == libc::EACCES && text.contains("it belongs to user 1234"), "{text}");
    }

    #[test]
    fn files_have_the_bytes_and_no_names() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Folder::open(scratch.path().to_str().unwrap()).unwrap();
        let memory = owned(os::memory_file(c"test").unwrap());
        let memory = File::from(memory);
        memory.set_permissions(Permissions::from_mode(0o640)).unwrap();
        memory.write_all_at(b"end", 1 << 20).unwrap();
        let taken = File::from(folder.take(&memory.try_clone().unwrap().into()).unwrap());
        let (one, other) = (memory.metadata().unwrap(), taken.metadata().unwrap());
        assert_eq!((one.mode(), one.len()), (other.mode(), other.len()));
        assert_eq!(one.modified().unwrap(), other.modified().unwrap());
        assert!(other.blocks() * 512 <= 64 << 10, "holes are holes");
        let mut bytes = vec![1; (1 << 20) + 3];
        taken.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes.ends_with(b"\0\0end") && bytes.iter().filter(|b| **b != 0).count() == 3);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}
