//! What killed processes have left: files that they had not finished in a container, and directories beside it that had
//! no name of the user's yet, or have none any more.

use super::dir::{Dir, log_id};
use super::hold;
use super::manifest::Manifest;
use super::names;
use super::{failed, is_container};
use crate::Result;
use std::ffi::OsStr;
use std::path::Path;

/// The name of a file alone in a hidden directory, in which nobody else can exchange it, until it gets the name that
/// it is to have.
pub const STAGED: &str = "staged";

/// What a name in a container tells of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remain {
    /// Written by whoever replaces the manifest, with others waiting: a manifest or an index.
    Unfinished,
    /// A file of the set that the container becomes, as long as somebody needs it.
    OfSet,
    /// An index that the manifest does not name.
    OldIndex,
    /// What a repair put aside, and which can be made anew from the logs.
    Aside,
    /// Bytes of a log that a repair put aside: its id, and where they began.
    Cut(u64, u64),
}

/// What the part `name` of a container with this manifest is, if it belongs to nothing.
pub(crate) fn kind(name: &str, manifest: Option<&Manifest>) -> Option<Remain> {
    if name.starts_with(".aggio-manifest.") || name.starts_with(".index.") {
        return Some(Remain::Unfinished);
    }
    if name.starts_with(".part.") {
        return Some(Remain::OfSet);
    }
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if name.strip_prefix("index.").is_some_and(is_number) {
        let named = |line: &super::manifest::IndexLine| line.name == name;
        let is_old = manifest.is_some_and(|manifest| !manifest.index.as_ref().is_some_and(named));
        return is_old.then_some(Remain::OldIndex);
    }
    let (_, original) = name.strip_prefix("backup.")?.split_once('.')?;
    match original.split_once(".from-") {
        Some((log, place)) => Some(Remain::Cut(log_id(log)?, place.parse().ok()?)),
        None => log_id(original).is_none().then_some(Remain::Aside),
    }
}

/// Whether what is called so is one that no user made: a container or, if it `is_file`, a file on its way, or a container
/// whose name was removed. Copies that a merge with `--resume` goes on with are not meant.
pub fn is_remain(name: &OsStr, is_file: bool) -> bool {
    if is_file {
        return names::is_unfinished(name);
    }
    (names::is_hidden(name) || names::is_removed(name)) && !names::is_kept_copy(name)
}

/// Removes `path`, of which [`is_remain`] is true, unless somebody needs it; whether it is gone.
///
/// # Errors
///
/// If it cannot be looked at or removed, or holds what is no part of a container.
pub fn clear(path: &Path) -> Result<bool> {
    if path.symlink_metadata().is_ok_and(|facts| facts.is_file()) {
        return crate::output::clear_unfinished(path);
    }
    let dir = Dir::open(path)?;
    let names = dir.names()?;
    if names == [STAGED] {
        dir.remove_any(STAGED)?;
    }
    if names.is_empty() || names == [STAGED] {
        // Whoever has made it just now makes another one.
        return std::fs::remove_dir(path).map(|()| true).map_err(|e| failed("rmdir", &e, path));
    }
    if !is_container(path) && !has_only_parts(&dir)? {
        let words = "it has the name of what a killed process leaves, and holds something else";
        return Err(super::damaged(words).with_path(&path.display().to_string()));
    }
    hold::unless_needed(&dir, || names::remove_tree(path))
}

fn has_only_parts(dir: &Dir) -> Result<bool> {
    let is_part = |name: &String| {
        let known = name == super::dir::MANIFEST || name == super::dir::ORDER || name == "probe";
        known || log_id(name).is_some() || name.starts_with("index.") || kind(name, None).is_some()
    };
    Ok(dir.names()?.iter().all(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_was_left() {
        let manifest = Manifest::new(0o600, true).unwrap();
        let of = |name| kind(name, Some(&manifest));
        assert_eq!(of(".aggio-manifest.0011"), Some(Remain::Unfinished));
        assert_eq!(of(".index.3.0011"), Some(Remain::Unfinished));
        assert_eq!(of(".part.0003"), Some(Remain::OfSet));
        assert_eq!(of("index.7"), Some(Remain::OldIndex));
        assert_eq!(of("backup.00aa.aggio-manifest"), Some(Remain::Aside));
        assert_eq!(of("backup.00aa.index.7"), Some(Remain::Aside));
        let cut = "backup.00aa.00000000000000ff.log.from-160";
        assert_eq!(of(cut), Some(Remain::Cut(255, 160)));
        for other in [
            "order",
            "00000000000000ff.log",
            ".nfs01",
            "notes",
            "index.x",
            "backup.00.00000000000000ff.log",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn what_somebody_needs_stays_and_what_is_no_part_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(".aggio-0123456789abcdef");
        let how = super::super::Create { mode: 0o644, exclusive: true, data_crc: true };
        let container = super::super::Container::make_hidden(&path, &how).unwrap();
        assert!(is_remain(path.file_name().unwrap(), false) && !clear(&path).unwrap());
        drop(container);
        assert!(clear(&path).unwrap() && !path.exists());
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("thesis.tex"), b"mine").unwrap();
        assert!(clear(&path).is_err() && path.join("thesis.tex").exists());
        std::fs::remove_file(path.join("thesis.tex")).unwrap();
        assert!(clear(&path).unwrap());
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
            assert!(clear(&path).unwrap() && !path.exists());
        }
        std::fs::create_dir_all(path.join(STAGED)).unwrap();
        std::fs::write(path.join("mine"), b"").unwrap();
        assert!(clear(&path).is_err() && path.join(STAGED).exists());
        std::fs::remove_file(path.join("mine")).unwrap();
        std::fs::write(path.join(STAGED).join("mine"), b"").unwrap();
        assert!(clear(&path).is_err() && path.join(STAGED).join("mine").exists());
    }
}
