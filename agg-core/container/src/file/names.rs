//! Containers by their names: removing and renaming them as files are.

use crate::directory::{Dir, random, remove_open, remove_tree};
use crate::errors::{damaged_at, failed};
use crate::format::is_container;
use crate::order::hold;
use crate::output;
use crate::output::{exchange, is_aside, parent_of, rename_new};
use aggio_base::Result;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Whether a name is one that containers have temporarily or after a crash, and that users do not
/// see.
pub fn is_hidden(name: &OsStr) -> bool {
    let Some(rest) = name.as_bytes().strip_prefix(b".aggio-") else { return false };
    // The first are made anew, the second are copies that a merge goes on with.
    is_number(rest.strip_prefix(b"merge-").unwrap_or(rest)) || is_removed(name) || is_aside(name)
}

/// Whether it is a random number of ours.
fn is_number(digits: &[u8]) -> bool {
    let is_ours = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    matches!(digits.len(), 16 | 32) && digits.iter().all(is_ours)
}

/// Whether it is the number of a process and a count, as older versions named removed containers.
fn is_of_process(text: &[u8]) -> bool {
    let is_decimal = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let mut parts = text.split(|byte| *byte == b'-');
    parts.by_ref().take(2).filter(|part| is_decimal(part)).count() == 2 && parts.next().is_none()
}

/// Whether a name is one of those that files and containers have while they are made.
pub(crate) fn is_unfinished(name: &OsStr) -> bool {
    name.as_bytes().strip_prefix(b".aggio-").is_some_and(is_number)
}

/// Whether a name belongs to an unfinished copy that a merge with `--resume` can continue.
pub fn is_kept_copy(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".aggio-merge-") && is_hidden(name)
}

/// Whether a name is one of those that containers have since theirs was removed, as long as
/// somebody has them open.
pub fn is_removed(name: &OsStr) -> bool {
    let older = name.as_bytes().strip_prefix(b".aggio-removed-");
    is_random_of_removed(name) || older.is_some_and(is_of_process)
}

/// Whether no user can have thought of such a name of a removed container.
pub(crate) fn is_random_of_removed(name: &OsStr) -> bool {
    name.as_bytes().strip_prefix(b".aggio-gone-").is_some_and(is_number)
}

/// Removes a container with a hidden name, unless a process has it open; returns whether it is
/// gone. The last process to close it removes it.
pub(crate) fn discard(hidden: &Path) -> Result<bool> {
    hold::unless_needed(&Dir::open(hidden)?, || remove_tree(hidden))
}

/// Removes `dir`, which had the name `path` and which no process needs, unless it was renamed
/// meanwhile: the process that was making it may have finished it. Returns whether it is gone.
pub(crate) fn remove_unless_renamed(dir: &Dir, path: &Path) -> Result<bool> {
    match hide(dir, path) {
        Ok(()) => remove_open(dir).map(|()| true),
        Err(error) if matches!(error.errno(), libc::ENOENT | libc::EBUSY) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Ends a hold that this process has inherited, a descriptor that `close` closes, on the container
/// `path`. The last process to do so removes a container that has lost its name.
///
/// # Errors
///
/// If it cannot be removed.
pub fn end_inherited(path: &Path, close: impl FnOnce()) -> Result<()> {
    close();
    match path.file_name() {
        Some(name) if is_removed(name) && is_container(path) => discard(path).map(drop),
        _ => Ok(()),
    }
}

/// Whether nothing has this name.
pub(crate) fn is_gone(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_err_and(|why| why.kind() == io::ErrorKind::NotFound)
}

/// A name beside `path` for a container that loses its own. It is unused and cannot be guessed.
pub(crate) fn removed_beside(path: &Path) -> Result<PathBuf> {
    let name = format!(".aggio-gone-{:016x}{:016x}", random()?, random()?);
    Ok(parent_of(path).join(name))
}

/// Removes a container as `unlink` removes a file: its name is gone at once, and its parts when
/// nobody has it [open](crate::order::hold::Hold) any more.
///
/// # Errors
///
/// If there is none, or it cannot be removed.
pub fn remove(path: &Path) -> Result<()> {
    let dir = Dir::open(path)?;
    if !is_container(path) {
        return Err(damaged_at(path, "it is not a container"));
    }
    hide(&dir, path)?;
    hold::unless_needed(&dir, || remove_open(&dir)).map(drop)
}

/// Gives `dir` a hidden name instead of its own.
fn hide(dir: &Dir, path: &Path) -> Result<()> {
    let own = dir.file().metadata().map_err(|error| failed("fstat", &error, path))?;
    let hidden = removed_beside(path)?;
    rename_new(path, &hidden)?;
    // Another process that removes the directory may have moved it already.
    let is_moved = || is_gone(&hidden) && dir.path_now().file_name().is_none_or(is_removed);
    if is_same(&hidden, &own) || is_moved() || !dir.has_name() {
        return Ok(());
    }
    // Something else had got the name meanwhile.
    rename_new(&hidden, path)?;
    Err(failed("unlink", &io::Error::from_raw_os_error(libc::EBUSY), path))
}

/// Renames a container as `rename` renames a file: a file or container named `to` is replaced at
/// once.
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
    // The replaced file or container has the old name now.
    if is_blob {
        return remove(from);
    }
    std::fs::remove_file(from).map_err(|error| failed("unlink", &error, from))
}

fn is_same(path: &Path, facts: &std::fs::Metadata) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|own| output::is_same(&own, facts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fresh_beside;

    #[test]
    fn names_that_last_a_moment_are_hidden_and_names_of_files_are_not() {
        let fresh = fresh_beside(Path::new("run/out.nc")).unwrap();
        let fresh = fresh.file_name().unwrap();
        let kept = fresh.to_str().unwrap().replace(".aggio-", ".aggio-merge-");
        let gone = removed_beside(Path::new("run/out.nc")).unwrap();
        let ours = [".aggio-0123456789abcdef", ".aggio-removed-12-0", &kept];
        let ours = ours.into_iter().map(OsStr::new).chain([fresh, gone.file_name().unwrap()]);
        for name in ours {
            assert!(is_hidden(name), "{}", name.display());
        }
        for name in [
            "out.nc",
            ".aggio-",
            ".aggio-gone",
            ".aggio-manifest.7",
            ".aggio-notes",
            ".aggio-gone-out.nc",
            ".aggio-gone-2024",
            ".aggio-removed-",
            ".aggio-removed-files",
            ".aggio-removed-12",
            ".aggio-removed-12-",
            ".aggio-removed-12-0-1",
            ".aggio-unfolding-out.nc",
            ".aggio-0123456789ABCDEF",
        ] {
            let name = OsStr::new(name);
            assert!(!is_hidden(name) && !is_removed(name), "{}", name.display());
        }
    }
}
