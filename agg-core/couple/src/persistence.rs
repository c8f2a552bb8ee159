//! How generations are stored on disk.

use crate::areas::copy_into;
use crate::fd::owned;
use crate::registry::Area;
use aggio_base::os;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Job {
    /// Store these bytes under this name.
    Store(Area, OwnedFd, Vec<u8>),
    /// Remove this name.
    Remove(Vec<u8>),
}

/// What has become of it.
#[derive(Debug)]
pub(crate) enum Done {
    /// Bytes of this memory were stored under this name, or not.
    Stored(Area, Vec<u8>, io::Result<()>),
    /// This name was removed, or not.
    Removed(Vec<u8>, io::Result<()>),
}

/// Stores or removes.
pub(crate) fn carry_out(job: Job) -> Done {
    match job {
        Job::Store(area, file, path) => {
            let stored = store(&file, &path);
            Done::Stored(area, path, stored)
        }
        Job::Remove(path) => {
            let removed = remove(&path);
            Done::Removed(path, removed)
        }
    }
}

fn remove(path: &[u8]) -> io::Result<()> {
    match std::fs::remove_file(OsStr::from_bytes(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes a file beside the name, and gives it the name when it is complete and durable.
fn store(file: &OwnedFd, path: &[u8]) -> io::Result<()> {
    let mode = os::fstat(file.as_raw_fd())?.st_mode & 0o777;
    let temporary = beside(path)?;
    let name = CString::new(temporary.as_bytes())?;
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    let target = File::from(owned(os::open(&name, flags, 0o600)?));
    let result = copy_into(file.as_raw_fd(), target.as_raw_fd()).and_then(|()| {
        target.set_permissions(Permissions::from_mode(mode))?;
        os::fsync(target.as_raw_fd())?;
        std::fs::rename(&temporary, OsStr::from_bytes(path))
    });
    let result = result.and_then(|()| make_name_durable(path));
    result.inspect_err(|_| {
        let _ = std::fs::remove_file(&temporary);
    })
}

/// Makes what was renamed to `path` survive a crash of the system.
fn make_name_durable(path: &[u8]) -> io::Result<()> {
    let directory = Path::new(OsStr::from_bytes(path)).parent().unwrap_or(Path::new("/"));
    match File::open(directory)?.sync_all() {
        // The file system keeps no directories.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        result => result,
    }
}

/// A name in the same directory that nobody can guess.
fn beside(path: &[u8]) -> io::Result<OsString> {
    let path = Path::new(OsStr::from_bytes(path));
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".aggio-{:032x}", crate::place::random()?));
    Ok(path.with_file_name(name).into_os_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn bytes(text: &str) -> OwnedFd {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(text.as_bytes(), 5000).unwrap();
        file.set_permissions(std::fs::Permissions::from_mode(0o640)).unwrap();
        file.into()
    }

    #[test]
    fn generations_are_stored_one_over_the_other_and_nothing_else_is_left() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("f");
        let name = || path.as_os_str().as_bytes().to_vec();
        for (area, text) in [(1, "one"), (2, "two")] {
            let done = carry_out(Job::Store(area, bytes(text), name()));
            assert!(matches!(done, Done::Stored(number, _, Ok(())) if number == area));
        }
        let found = std::fs::read(&path).unwrap();
        assert_eq!((found.len(), &found[5000..]), (5003, &b"two"[..]));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1);
        for _ in 0..2 {
            assert!(matches!(carry_out(Job::Remove(name())), Done::Removed(_, Ok(()))));
        }
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_error_is_told_and_leaves_nothing() {
        let path = b"/no/such/directory/f".to_vec();
        let Done::Stored(7, _, Err(error)) = carry_out(Job::Store(7, bytes("x"), path)) else {
            panic!("it is stored")
        };
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().as_os_str().as_bytes().to_vec();
        let done = carry_out(Job::Remove(directory.clone()));
        assert!(matches!(done, Done::Removed(path, Err(_)) if path == directory));
    }
}
