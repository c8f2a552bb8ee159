//! Containers by their names: removing and renaming them as files are.

use super::dir::{Dir, c_path, random};
use super::{damaged, failed, is_container};
use crate::Result;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The directory that has the name `path`.
pub(crate) fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// A name in the same directory that nobody else uses.
pub(crate) fn hidden_beside(path: &Path, number: u64) -> PathBuf {
    let mut name = OsString::from(".aggio-");
    name.push(format!("{number:016x}"));
    parent_of(path).join(name)
}

/// Whether a name is one that containers have for a moment, or after a crash, and that nobody is shown.
pub fn is_hidden(name: &OsStr) -> bool {
    let Some(rest) = name.as_bytes().strip_prefix(b".aggio-") else { return false };
    let digits = rest.len() == 16 && rest.iter().all(u8::is_ascii_hexdigit);
    // Of a set that becomes a container, and of one that is removed: see `hidden_for`.
    digits || rest.starts_with(b"unfolding-") || rest.starts_with(b"gone-")
}

/// The hidden name in the same directory under which `what` is kept of what is called `path`, so that whoever comes after
/// a crash finds it; one that nobody else uses if there is no such name.
pub(crate) fn hidden_for(path: &Path, what: &str) -> Result<PathBuf> {
    /// Names of files are not longer, almost everywhere.
    const LONGEST: usize = 255;
    let mut name = OsString::from(format!(".aggio-{what}-"));
    name.push(path.file_name().unwrap_or_default());
    if name.len() > LONGEST {
        return Ok(hidden_beside(path, random()?));
    }
    Ok(parent_of(path).join(name))
}

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
pub(crate) fn rename_new(from: &Path, to: &Path) -> Result<()> {
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

/// Gives each of two the name of the other; where the file system cannot, in steps, between which `to` is missing.
fn exchange(from: &Path, to: &Path) -> Result<()> {
    match rename_with(from, to, libc::RENAME_EXCHANGE) {
        Ok(()) => return Ok(()),
        Err(error) if is_refused(&error) => {}
        Err(error) => return Err(failed("renameat2", &error, to)),
    }
    let aside = hidden_beside(to, random()?);
    std::fs::rename(to, &aside).map_err(|error| failed("rename", &error, to))?;
    if let Err(error) = std::fs::rename(from, to) {
        // The error of the attempt is what counts.
        let _ = std::fs::rename(&aside, to);
        return Err(failed("rename", &error, to));
    }
    std::fs::rename(&aside, from).map_err(|error| failed("rename", &error, from))
}

/// Removes a container's directory: all files in it, and no directory below it. Several may do so at the same time.
pub(crate) fn remove_tree(path: &Path) -> Result<()> {
    let dir = Dir::open(path)?;
    for name in dir.names()? {
        dir.remove(&name)?;
    }
    let own = dir.file().metadata().map_err(|error| failed("fstat", &error, path))?;
    match std::fs::remove_dir(path) {
        // Somebody else has removed it, and may have given its name to another one.
        Err(_) if !is_same(path, &own) => Ok(()),
        removed => removed.map_err(|error| failed("rmdir", &error, path)),
    }
}

/// Takes the name of a container that is to go away; returns the hidden one that it has now.
fn put_away(path: &Path) -> Result<PathBuf> {
    let mut hidden = hidden_for(path, "gone")?;
    for _ in 0..2 {
        match std::fs::rename(path, &hidden) {
            Ok(()) => return Ok(hidden),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTEMPTY | libc::EEXIST)) => {}
            Err(error) => return Err(failed("rename", &error, path)),
        }
        // What is there was killed while it was removed; what cannot be removed stays.
        if remove_tree(&hidden).is_err() {
            break;
        }
    }
    hidden = hidden_beside(path, random()?);
    std::fs::rename(path, &hidden).map_err(|error| failed("rename", &error, path))?;
    Ok(hidden)
}

/// Removes a container as `unlink` removes a file: it is gone at once, and then its parts are removed.
/// Unlike with a file, who still reads it loses the logs that are not open at that moment.
///
/// # Errors
///
/// If there is none, or it cannot be removed.
pub fn remove(path: &Path) -> Result<()> {
    Dir::open(path)?;
    if !is_container(path) {
        return Err(damaged("it is not a container").with_path(&path.display().to_string()));
    }
    remove_tree(&put_away(path)?)
}

/// Gives a container another name, as `rename` does with a file: what has that name is replaced at once.
///
/// # Errors
///
/// If `from` is not a container, or `to` is a directory that is not a container.
pub fn rename(from: &Path, to: &Path) -> Result<()> {
    if !is_container(from) {
        let missing = std::fs::symlink_metadata(from).is_err();
        let errno = if missing { libc::ENOENT } else { libc::EINVAL };
        return Err(failed("rename", &io::Error::from_raw_os_error(errno), from));
    }
    let Ok(facts) = std::fs::symlink_metadata(to) else { return rename_new(from, to) };
    if is_same(from, &facts) {
        return Ok(());
    }
    let is_blob = is_container(to);
    if facts.is_dir() && !is_blob {
        return Err(failed("rename", &io::Error::from_raw_os_error(libc::EISDIR), to));
    }
    exchange(from, to)?;
    // What was replaced has the old name now.
    if is_blob {
        return remove(from);
    }
    std::fs::remove_file(from).map_err(|error| failed("unlink", &error, from))
}

fn is_same(path: &Path, facts: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::symlink_metadata(path)
        .is_ok_and(|own| (own.dev(), own.ino()) == (facts.dev(), facts.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_last_a_moment_are_hidden_and_names_of_files_are_not() {
        let path = Path::new("run/out.nc");
        let names = [hidden_beside(path, 7), hidden_for(path, "gone").unwrap()];
        let twice = hidden_for(&names[0], "unfolding").unwrap();
        for name in names.iter().chain([&twice]) {
            assert!(is_hidden(name.file_name().unwrap()), "{}", name.display());
        }
        for name in ["out.nc", ".aggio-", ".aggio-gone", ".aggio-manifest.7", ".aggio-seven"] {
            assert!(!is_hidden(OsStr::new(name)), "{name}");
        }
    }
}
