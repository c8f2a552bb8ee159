//! Remains of killed processes: unfinished files in a container, and directories beside it that
//! have no name of the user's, yet or any more.

use crate::directory::{Dir, log_id};
use crate::errors::{damaged_at, failed, refused};
use crate::file::names;
use crate::format::{Manifest, is_container};
use crate::order::{Need, hold};
use crate::output::{Cleared, rename_new};
use crate::repair::copy_folder;
use aggio_base::{Error, ErrorClass, Result};
use std::ffi::OsStr;
use std::path::Path;

/// The name of a file alone in a hidden directory, in which nobody else can exchange it, until it
/// gets the name that it is to have.
pub const STAGED: &str = "staged";

/// The kind of a leftover file in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remain {
    /// An unfinished manifest or index. Its writer held the lock on the manifest.
    Unfinished,
    /// A file of the set that the container becomes, or a log on its way into the container, as
    /// long as somebody needs it.
    OfSet,
    /// An index that the manifest does not name.
    OldIndex,
    /// A file that a repair put aside and that can be made anew from the logs.
    Aside,
    /// Bytes of a log that a repair put aside: its id, and where they began.
    Cut(u64, u64),
}

/// The kind of the file `name` in a container with this manifest; `None` if it is no leftover.
pub(crate) fn kind(name: &str, manifest: Option<&Manifest>) -> Option<Remain> {
    if name.starts_with(".aggio-manifest.") || name.starts_with(".index.") {
        return Some(Remain::Unfinished);
    }
    if name.starts_with(".part.") || name.starts_with(crate::directory::staged_log::DRAINED) {
        return Some(Remain::OfSet);
    }
    if is_index(name) {
        let named = |line: &crate::format::manifest::IndexLine| line.name == name;
        let is_old = manifest.is_some_and(|manifest| !manifest.index.as_ref().is_some_and(named));
        return is_old.then_some(Remain::OldIndex);
    }
    let (digits, original) = name.strip_prefix("backup.")?.split_once('.')?;
    if digits.len() != 16 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    match original.split_once(".from-") {
        Some((log, place)) => Some(Remain::Cut(log_id(log)?, place.parse().ok()?)),
        None => log_id(original).is_none().then_some(Remain::Aside),
    }
}

/// Whether no user chose this name: it is that of an unfinished container, of an unfinished file if
/// it `is_file`, or of a removed container. Copies that a merge with `--resume` can continue do not
/// count.
pub fn is_remain(name: &OsStr, is_file: bool) -> bool {
    if is_file {
        return names::is_unfinished(name);
    }
    (names::is_hidden(name) || names::is_removed(name)) && !names::is_kept_copy(name)
}

/// Removes `path`, for which [`is_remain`] is true, unless a process needs it. A file that a killed
/// process had put aside gets its name back.
///
/// # Errors
///
/// If it cannot be inspected or removed, or holds anything but parts of a container; if nobody can
/// know whether a process needs it. It stays as it is then.
pub fn clear(path: &Path) -> Result<Cleared> {
    if path.symlink_metadata().is_ok_and(|facts| facts.is_file()) {
        return crate::output::clear_unfinished(path).map(Cleared::removed);
    }
    if path.file_name().is_some_and(crate::output::is_aside) {
        return crate::output::put_back(path);
    }
    let dir = Dir::open(path)?;
    let names = dir.names()?;
    if names == [STAGED] {
        dir.remove_any(STAGED)?;
    }
    if names.is_empty() || names == [STAGED] {
        // A process that has just made it makes another one.
        let removed = std::fs::remove_dir(path);
        return removed.map(|()| Cleared::Removed).map_err(|e| failed("rmdir", &e, path));
    }
    if let Some(cleared) = copy_folder::clear(&dir)? {
        return Ok(cleared);
    }
    if !is_container(path) && !has_only_parts(&dir)? {
        let words = "it has the name of what a killed process leaves, and holds something else";
        return Err(damaged_at(path, words));
    }
    match hold::need(&dir)? {
        Need::Some => Ok(Cleared::Needed),
        Need::None(_until_it_is_gone) => {
            names::remove_unless_renamed(&dir, path).map(Cleared::removed)
        }
        Need::Unknown(error) => Err(unknown(&error, path)),
    }
}

/// The error for a container that may be in use, because its locks fail.
fn unknown(error: &Error, path: &Path) -> Error {
    let words = format!("nobody knows whether somebody has it open, for its locks fail ({error})");
    let words = words + ": remove it yourself if nobody has";
    refused((ErrorClass::FileInUse, error.errno()), path, words)
}

/// Whether `path` is a container, or the rest of one, that has lost its name, and not a directory
/// that a user named like that.
pub fn is_nameless(path: &Path) -> bool {
    let Some(name) = path.file_name().filter(|name| names::is_removed(name)) else { return false };
    let Ok(dir) = Dir::open(path) else { return false };
    let is_empty = || dir.names().is_ok_and(|names| names.is_empty());
    is_container(path)
        || has_only_parts(&dir).unwrap_or(false)
            && (names::is_random_of_removed(name) || !is_empty())
}

fn has_only_parts(dir: &Dir) -> Result<bool> {
    let is_part = |name: &String| {
        let known = name == crate::directory::part_names::MANIFEST
            || name == crate::directory::part_names::ORDER
            || name == "probe";
        known || log_id(name).is_some() || is_index(name) || kind(name, None).is_some()
    };
    Ok(dir.names()?.iter().all(is_part))
}

/// Whether an index has such a name.
fn is_index(name: &str) -> bool {
    let digits = name.strip_prefix("index.").unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Moves containers that have lost their names, and that are still open, from a directory that is
/// to be removed to the one above. Returns whether nothing else is in it. A directory that only has
/// such a name belongs to a user. A container that its last process removes meanwhile does not
/// count.
///
/// # Errors
///
/// If it cannot be read, or one cannot be moved.
pub fn lift_removed(directory: &Path) -> Result<bool> {
    let dir = Dir::open(directory)?;
    let fail = |error| failed("readdir", &error, directory);
    let mut removed = Vec::new();
    for entry in std::fs::read_dir(dir.inside()).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if is_nameless(&path) {
            removed.push(path);
        } else if !names::is_gone(&path) {
            return Ok(false);
        }
    }
    for path in &removed {
        // Move containers that are in use or cannot be removed.
        if matches!(clear(path), Ok(Cleared::Removed)) {
            continue;
        }
        match rename_new(path, &names::removed_beside(directory)?) {
            Err(_) if names::is_gone(path) => {}
            moved => moved?,
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused::{Refusal, refusing};

    #[test]
    fn names_tell_what_was_left() {
        let manifest = Manifest::new(0o600, true).unwrap();
        let of = |name| kind(name, Some(&manifest));
        assert_eq!(of(".aggio-manifest.0011"), Some(Remain::Unfinished));
        assert_eq!(of(".index.3.0011"), Some(Remain::Unfinished));
        assert_eq!(of(".part.0003"), Some(Remain::OfSet));
        assert_eq!(of("index.7"), Some(Remain::OldIndex));
        assert_eq!(of("backup.00000000000000aa.aggio-manifest"), Some(Remain::Aside));
        assert_eq!(of("backup.00000000000000aa.index.7"), Some(Remain::Aside));
        let cut = "backup.00000000000000aa.00000000000000ff.log.from-160";
        assert_eq!(of(cut), Some(Remain::Cut(255, 160)));
        for other in [
            "order",
            "00000000000000ff.log",
            ".nfs01",
            "notes",
            "index.x",
            "backup.00000000000000aa.00000000000000ff.log",
            "backup.2024.tar",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn what_somebody_needs_stays_and_what_is_no_part_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(".aggio-0123456789abcdef");
        let how = crate::file::container::Create { mode: 0o644, exclusive: true, data_crc: true };
        let container = crate::file::container::Container::make_hidden(&path, &how).unwrap();
        assert!(is_remain(path.file_name().unwrap(), false));
        assert_eq!(clear(&path).unwrap(), Cleared::Needed);
        drop(container);
        assert_eq!(clear(&path).unwrap(), Cleared::Removed);
        assert!(!path.exists());
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("thesis.tex"), b"mine").unwrap();
        assert!(clear(&path).is_err() && path.join("thesis.tex").exists());
        for name in ["index.html", "backup.2024.tar", "index."] {
            std::fs::rename(path.join("thesis.tex"), path.join(name)).unwrap();
            assert!(clear(&path).is_err() && path.join(name).exists(), "{name}");
            std::fs::rename(path.join(name), path.join("thesis.tex")).unwrap();
        }
        std::fs::remove_file(path.join("thesis.tex")).unwrap();
        assert_eq!(clear(&path).unwrap(), Cleared::Removed);
    }

    #[test]
    fn where_locks_fail_nothing_is_removed_that_somebody_may_need() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("c");
        let how = crate::file::container::Create { mode: 0o644, exclusive: true, data_crc: true };
        for errno in [libc::ENOLCK, libc::ENOSYS, libc::EINVAL] {
            let container = crate::file::container::Container::create(&path, &how).unwrap();
            let hold = container.hold().unwrap().unwrap();
            let hidden = refusing(&Refusal::of_locks(errno), || {
                crate::file::names::remove(&path).unwrap();
                let hidden = container.removed().unwrap();
                let error = clear(&hidden).unwrap_err();
                assert!(error.errno() == errno && error.to_string().contains("nobody knows"));
                hidden
            });
            assert!(container.reader().unwrap().size() == 0 && !path.exists());
            let mut entries = std::fs::read_dir(place.path()).unwrap();
            assert_eq!(entries.next().unwrap().unwrap().path(), hidden);
            container.release(hold).unwrap();
            assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn what_got_its_name_while_it_was_looked_at_stays() {
        let place = tempfile::tempdir().unwrap();
        let (hidden, path) = (place.path().join(".aggio-0123456789abcdef"), place.path().join("c"));
        let how = crate::file::container::Create { mode: 0o644, exclusive: true, data_crc: true };
        drop(crate::file::container::Container::make_hidden(&hidden, &how).unwrap());
        let dir = Dir::open(&hidden).unwrap();
        std::fs::rename(&hidden, &path).unwrap();
        assert!(!names::remove_unless_renamed(&dir, &hidden).unwrap());
        std::fs::create_dir(&hidden).unwrap();
        assert!(!names::remove_unless_renamed(&dir, &hidden).unwrap());
        assert!(is_container(&path) && hidden.exists());
        assert!(names::remove_unless_renamed(&dir, &path).unwrap() && !path.exists());
    }

    #[test]
    fn what_was_staged_and_got_no_name_is_removed_and_with_something_beside_it_is_not() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(".aggio-0123456789abcdef");
        let makes: [fn(&Path); 3] = [
            |staged| std::fs::create_dir(staged).unwrap(),
            |staged| std::fs::write(staged, b"").unwrap(),
            |staged| std::os::unix::fs::symlink("/etc/passwd", staged).unwrap(),
        ];
        for make in makes {
            std::fs::create_dir(&path).unwrap();
            make(&path.join(STAGED));
            assert_eq!(clear(&path).unwrap(), Cleared::Removed);
            assert!(!path.exists());
        }
        std::fs::create_dir_all(path.join(STAGED)).unwrap();
        std::fs::write(path.join("mine"), b"").unwrap();
        assert!(clear(&path).is_err() && path.join(STAGED).exists());
        std::fs::remove_file(path.join("mine")).unwrap();
        std::fs::write(path.join(STAGED).join("mine"), b"").unwrap();
        assert!(clear(&path).is_err() && path.join(STAGED).join("mine").exists());
    }

    #[test]
    fn directories_of_users_are_not_lifted_and_nothing_in_them_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let (directory, path) = (place.path().join("d"), place.path().join("d/c"));
        let mine = directory.join(".aggio-gone-mine");
        let how = crate::file::container::Create { mode: 0o644, exclusive: true, data_crc: true };
        std::fs::create_dir_all(&mine).unwrap();
        assert!(!lift_removed(&directory).unwrap(), "an empty one of the user's");
        for name in ["thesis", "index.html"] {
            std::fs::write(mine.join(name), "mine").unwrap();
            assert!(!lift_removed(&directory).unwrap());
            assert_eq!(std::fs::read(mine.join(name)).unwrap(), b"mine");
            std::fs::remove_file(mine.join(name)).unwrap();
        }
        // Beside it a container that somebody has open, and one that nobody has.
        let container = crate::file::container::Container::create(&path, &how).unwrap();
        let hold = container.hold().unwrap().unwrap();
        crate::file::names::remove(&path).unwrap();
        let unneeded = directory.join(".aggio-gone-0123456789abcdef");
        drop(crate::file::container::Container::create(&unneeded, &how).unwrap());
        assert!(!lift_removed(&directory).unwrap() && container.removed().unwrap().exists());
        std::fs::remove_dir(&mine).unwrap();
        assert!(lift_removed(&directory).unwrap());
        std::fs::remove_dir(&directory).unwrap();
        assert_eq!(container.removed().unwrap().parent(), Some(place.path()));
        container.release(hold).unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_can_be_removed_while_the_last_user_closes_what_was_in_it() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("d");
        let how = crate::file::container::Create { mode: 0o644, exclusive: true, data_crc: true };
        for round in 0..300 {
            std::fs::create_dir(&directory).unwrap();
            let path = directory.join("c");
            let container = crate::file::container::Container::create(&path, &how).unwrap();
            let hold = container.hold().unwrap().unwrap();
            crate::file::names::remove(&path).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| container.release(hold).unwrap());
                while let Err(why) = std::fs::remove_dir(&directory) {
                    assert_eq!(why.kind(), std::io::ErrorKind::DirectoryNotEmpty);
                    assert!(lift_removed(&directory).unwrap(), "round {round}");
                }
            });
            assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "round {round}");
        }
    }
}
