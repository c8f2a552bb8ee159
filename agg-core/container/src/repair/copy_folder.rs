//! The parts of a resumable copy (`transfer/merge/journal.rs`), and the removal of a copy that was
//! interrupted at its start.

use crate::directory::Dir;
use crate::directory::user;
use crate::errors::failed;
use crate::output::{Cleared, try_lock};
use aggio_base::Result;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;

/// The copy.
pub(crate) const DATA: &str = "data";
/// The record of its finished windows.
pub(crate) const JOURNAL: &str = "journal";

/// Whether something is of this user.
pub(crate) fn is_own(facts: &Metadata) -> bool {
    facts.uid() == user()
}

/// Whether a file is of this user, and has one name.
pub(crate) fn is_only_own(file: &File) -> bool {
    file.metadata().is_ok_and(|facts| is_own(&facts) && facts.nlink() == 1)
}

/// Locks the journal. Returns `None` if another process works on the copy, or has finished it and
/// removed the journal.
pub(crate) fn locked(file: File) -> Option<File> {
    try_lock(&file).ok()?;
    is_only_own(&file).then_some(file)
}

/// Removes the directory of a copy.
pub(crate) fn remove(dir: &Dir) -> Result<()> {
    dir.remove(DATA)?;
    dir.remove(JOURNAL)?;
    std::fs::remove_dir(dir.path()).map_err(|error| failed("rmdir", &error, dir.path()))
}

/// Removes the directory of an unfinished copy that holds only the parts that a copy begins with,
/// unless another process works on it. Returns `None` if it holds anything else.
pub(crate) fn clear(dir: &Dir) -> Result<Option<Cleared>> {
    if !dir.names()?.iter().all(|name| name == DATA || name == JOURNAL) {
        return Ok(None);
    }
    let journal = dir.part(JOURNAL, true).ok();
    let is_free = journal.is_none_or(|file| locked(file).is_some());
    Ok(Some(if is_free { remove(dir).map(|()| Cleared::Removed)? } else { Cleared::Needed }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fresh_name;

    #[test]
    fn what_a_killed_process_has_begun_is_removed_unless_somebody_is_at_it() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(fresh_name().unwrap());
        std::fs::create_dir(&path).unwrap();
        let dir = Dir::open(&path).unwrap();
        let journal = dir.new_part(JOURNAL, 0o600).unwrap();
        dir.new_part(DATA, 0o600).unwrap();
        try_lock(&journal).unwrap();
        assert!(matches!(clear(&dir), Ok(Some(Cleared::Needed))));
        drop(journal);
        std::fs::write(path.join("notes"), "of a user").unwrap();
        assert!(matches!(clear(&dir), Ok(None)));
        std::fs::remove_file(path.join("notes")).unwrap();
        assert!(matches!(crate::repair::remains::clear(&path), Ok(Cleared::Removed)));
        assert!(!path.exists());
    }
}
