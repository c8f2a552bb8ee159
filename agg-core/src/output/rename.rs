//! Renaming in one step that never replaces, or that exchanges.

use super::{failed, fresh_beside};
use crate::Result;
use crate::blob::c_path;
use std::io;
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
/// `EEXIST` if something has the name; what the system says.
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
        // Of what appears meanwhile, a directory replaces nothing but an empty directory.
        return std::fs::rename(from, to).map_err(|error| match error.raw_os_error() {
            Some(libc::ENOTEMPTY | libc::ENOTDIR | libc::EEXIST) => exists(),
            _ => failed("rename", &error, to),
        });
    }
    // A second name is never given to what has that name already.
    std::fs::hard_link(from, to).map_err(|error| failed("link", &error, to))?;
    std::fs::remove_file(from).map_err(|error| failed("unlink", &error, from))
}

/// Gives each of two the name of the other; where the file system cannot, in steps, between which
/// `to` is missing.
pub(crate) fn exchange(from: &Path, to: &Path) -> Result<()> {
    match rename_with(from, to, libc::RENAME_EXCHANGE) {
        Ok(()) => return Ok(()),
        Err(error) if is_refused(&error) => {}
        Err(error) => return Err(failed("renameat2", &error, to)),
    }
    let aside = fresh_beside(to)?;
    std::fs::rename(to, &aside).map_err(|error| failed("rename", &error, to))?;
    if let Err(error) = std::fs::rename(from, to) {
        // The error of the attempt is what counts.
        let _ = std::fs::rename(&aside, to);
        return Err(failed("rename", &error, to));
    }
    std::fs::rename(&aside, from).map_err(|error| failed("rename", &error, from))
}
