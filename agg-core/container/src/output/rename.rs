//! Renaming in one step that never replaces, or that exchanges.

use crate::directory::c_path;
use crate::errors::failed;
use crate::output::{Aside, is_same};
use aggio_base::{Error, Result};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

fn rename_with(from: &Path, to: &Path, flags: u32) -> io::Result<()> {
    let c = |path: &Path| c_path(path).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL));
    let (a, b) = (c(from)?, c(to)?);
    let at = libc::AT_FDCWD;
    // SAFETY: both paths end with a zero byte.
    let result =
        unsafe { libc::syscall(libc::SYS_renameat2, at, a.as_ptr(), at, b.as_ptr(), flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether a file system has no such kind of renaming: NFS and most that FUSE serves.
fn is_refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP))
}

/// Gives `from` the name `to`, which nobody has.
///
/// # Errors
/// `EEXIST` if the name is taken; otherwise the error of the system call.
pub fn rename_new(from: &Path, to: &Path) -> Result<()> {
    match rename_with(from, to, libc::RENAME_NOREPLACE) {
        Ok(()) => Ok(()),
        Err(error) if is_refused(&error) => rename_plainly(from, to),
        Err(error) => Err(failed("renameat2", &error, to)),
    }
}

/// The same by calls that every file system has.
fn rename_plainly(from: &Path, to: &Path) -> Result<()> {
    let exists = || failed("rename", &io::Error::from_raw_os_error(libc::EEXIST), to);
    if std::fs::symlink_metadata(to).is_ok() {
        return Err(exists());
    }
    if std::fs::symlink_metadata(from).is_ok_and(|facts| facts.is_dir()) {
        // If the name is taken meanwhile, the call replaces nothing but an empty directory.
        return std::fs::rename(from, to).map_err(|error| match error.raw_os_error() {
            Some(libc::ENOTEMPTY | libc::ENOTDIR | libc::EEXIST) => exists(),
            _ => failed("rename", &error, to),
        });
    }
    // The call fails if the name is taken.
    match std::fs::hard_link(from, to) {
        Ok(()) => std::fs::remove_file(from).map_err(|error| failed("unlink", &error, from)),
        Err(error) if has_one_name(&error) => rename_over_own(from, to),
        Err(error) => Err(failed("link", &error, to)),
    }
}

/// Whether a file system, or a file, has one name only.
fn has_one_name(error: &io::Error) -> bool {
    let errnos = [libc::EPERM, libc::EMLINK, libc::ENOSYS, libc::EOPNOTSUPP];
    error.raw_os_error().is_some_and(|errno| errnos.contains(&errno))
}

/// Gives a file the name `to` of an empty one that nobody else can have made.
fn rename_over_own(from: &Path, to: &Path) -> Result<()> {
    let empty = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
    let empty = empty.map_err(|error| failed("create", &error, to))?;
    let own = empty.metadata().map_err(|error| failed("fstat", &error, to))?;
    let is_own = || {
        let found = std::fs::symlink_metadata(to);
        found.is_ok_and(|found| is_same(&found, &own) && found.len() == 0)
    };
    if !is_own() {
        return Err(failed("rename", &io::Error::from_raw_os_error(libc::EEXIST), to));
    }
    std::fs::rename(from, to).map_err(|error| {
        if is_own() {
            // Report the original error.
            let _ = std::fs::remove_file(to);
        }
        failed("rename", &error, to)
    })
}

/// Gives each of two the name of the other; where the file system cannot, in steps, between which
/// `to` is missing.
pub(crate) fn exchange(from: &Path, to: &Path) -> Result<()> {
    match rename_with(from, to, libc::RENAME_EXCHANGE) {
        Ok(()) => return Ok(()),
        Err(error) if is_refused(&error) => {}
        Err(error) => return Err(failed("renameat2", &error, to)),
    }
    let nameless = || failed("rename", &io::Error::from_raw_os_error(libc::EINVAL), to);
    let aside = Aside::make(to)?;
    let kept = aside.path_of(to.file_name().ok_or_else(nameless)?);
    std::fs::rename(to, &kept).map_err(|error| failed("rename", &error, to))?;
    if let Err(error) = rename_new(from, to) {
        // Report the original error.
        let back = rename_new(&kept, to);
        return Err(if back.is_ok() { error } else { left_at(&kept, &error) });
    }
    rename_new(&kept, from).map_err(|error| left_at(&kept, &error))
}

/// The error that says where a file is that could not have its name back.
fn left_at(kept: &Path, error: &Error) -> Error {
    let words = format!("{error}; what is replaced is called {} now", kept.display());
    Error::new(error.class(), words).with_errno(error.errno())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::container::Container;
    use crate::format::manifest::is_container;
    use crate::output::Cleared;
    use crate::refused::{RENAME, Refusal, refusing};
    use crate::repair::remains::clear;

    fn container(path: &Path) {
        let how = crate::file::container::Create { mode: 0o644, exclusive: true, data_crc: true };
        drop(Container::create(path, &how).unwrap());
    }

    fn names(place: &Path) -> Vec<std::ffi::OsString> {
        let entries = std::fs::read_dir(place).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_cannot_be_exchanged_at_once_is_exchanged_in_steps_or_stays() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        container(&from);
        std::fs::write(&to, "old").unwrap();
        let both =
            |of: &Path| std::fs::read(of).unwrap() == b"old" && names(place.path()).len() == 2;
        let refused = Refusal::of_renaming();
        let with = |call| [refused[0], Refusal::of(call, libc::EIO)];
        refusing(&with(RENAME), || exchange(&from, &to).unwrap_err());
        assert!(is_container(&from) && both(&to));
        refusing(&refused, || exchange(&place.path().join("none"), &to).unwrap_err());
        assert!(is_container(&from) && both(&to));
        refusing(&refused, || exchange(&from, &to).unwrap());
        assert!(is_container(&to) && both(&from));
        refusing(&refused, || exchange(&to, &from).unwrap());
        // The last step fails: its file is nowhere else, and the error says where.
        let error = refusing(&with(libc::SYS_linkat), || exchange(&from, &to).unwrap_err());
        let kept = names(place.path()).remove(0);
        let kept = place.path().join(kept).join("to");
        assert!(error.to_string().contains(&*kept.to_string_lossy()), "{error}");
        assert!(is_container(&to) && std::fs::read(&kept).unwrap() == b"old");
    }

    #[test]
    fn nobody_removes_what_a_process_that_was_killed_while_it_exchanged_has_put_aside() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        // A process that is killed after the first step, and one that is killed after the second.
        for second in [false, true] {
            container(&from);
            std::fs::write(&to, "old").unwrap();
            let aside = Aside::make(&to).unwrap();
            let kept = aside.path_of("to");
            std::fs::rename(&to, &kept).unwrap();
            if second {
                std::fs::rename(&from, &to).unwrap();
            }
            drop(aside);
            let hidden = kept.parent().unwrap();
            assert!(crate::repair::remains::is_remain(hidden.file_name().unwrap(), false));
            if second {
                assert_eq!(clear(hidden).unwrap_err().errno(), libc::EEXIST);
                assert_eq!(std::fs::read(&kept).unwrap(), b"old");
                assert!(is_container(&to));
            } else {
                assert_eq!(clear(hidden).unwrap(), Cleared::PutBack(vec![to.clone()]));
                assert_eq!(std::fs::read(&to).unwrap(), b"old");
                assert_eq!(names(place.path()), ["from", "to"]);
                std::fs::remove_file(&to).unwrap();
                crate::file::names::remove(&from).unwrap();
            }
        }
    }

    #[test]
    fn a_file_gets_a_name_that_nobody_has_also_where_it_can_have_only_one() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        for errno in [libc::EPERM, libc::EOPNOTSUPP] {
            let link = [libc::SYS_linkat, libc::SYS_renameat2].map(|call| Refusal::of(call, errno));
            let calls = [link[0], Refusal { errno: libc::EINVAL, ..link[1] }];
            refusing(&calls, || {
                std::fs::write(&from, "new").unwrap();
                rename_new(&from, &to).unwrap();
                assert_eq!(std::fs::read(&to).unwrap(), b"new");
                assert_eq!(names(place.path()), ["to"]);
                std::fs::write(&from, "other").unwrap();
                assert_eq!(rename_new(&from, &to).unwrap_err().errno(), libc::EEXIST);
                assert_eq!(rename_over_own(&from, &to).unwrap_err().errno(), libc::EEXIST);
                assert_eq!(std::fs::read(&to).unwrap(), b"new");
                std::fs::remove_file(&to).unwrap();
            });
            let fails = Refusal::of(RENAME, libc::EIO);
            refusing(&[calls[0], calls[1], fails], || {
                assert_eq!(rename_new(&from, &to).unwrap_err().errno(), libc::EIO);
            });
            assert_eq!(names(place.path()), ["from"]);
        }
    }
}
