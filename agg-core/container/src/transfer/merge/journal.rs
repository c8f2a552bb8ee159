//! The journal of an unfinished copy: its finished windows, recorded for a run that resumes it.
//!
//! Copy and journal are in a directory with a random name that belongs to the user and that only
//! the user can enter. The journal identifies the target's name, the container and its state,
//! hashed with a key that is written nowhere else; a later run finds the directory by that. A copy
//! to the same name of any other container or state is of no use and is removed.

use crate::directory::{Dir, random};
use crate::errors::{failed, refused};
use crate::file::{Container, is_hidden, parts};
use crate::format::Manifest;
use crate::output::{Unfinished, fresh_name, parent_of, rename_new, try_lock};
use crate::reading::Reader;
use crate::repair::{DATA, JOURNAL, is_only_own, is_own, locked, remove};
use crate::transfer::merge::windows::WINDOW;
use aggio_base::checksum::{crc32c, crc32c_append};
use aggio_base::keyed::{Key, digest};
use aggio_base::{Error, ErrorClass, Result};
use std::fmt::Write as _;
use std::fs::{DirBuilder, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Windows that become durable together, before they count as done.
const TOGETHER: usize = 32;
/// Bytes of the first line.
const HEAD: usize = 139;
/// How it begins.
const BEGIN: &str = "aggio merge 2 key ";
/// Bytes of a window's entry.
const ENTRY: usize = 8;

/// The entry of a copied window with this checksum; never zeros.
fn entry(window: u64, crc: u32) -> [u8; ENTRY] {
    let check = crc32c_append(crc32c(&window.to_le_bytes()), &crc.to_le_bytes());
    (u64::from(crc) | u64::from(check) << 32).to_le_bytes()
}

/// The journal, which is locked.
pub(crate) struct Journal {
    dir: Dir,
    /// A line that identifies the copy, then an [entry] for each window.
    file: File,
    /// Windows that are copied and may not be durable.
    waiting: Mutex<Vec<(u64, u32)>>,
    /// The first failure to make windows durable: the kernel reports it once, and not for which
    /// windows. Locked while windows are made durable.
    lost: Mutex<Option<Error>>,
    /// Whether an earlier run began the copy.
    goes_on: bool,
}

/// The identity of a copy: its target and its source.
struct Subject {
    target: Vec<u8>,
    container: Vec<u8>,
    size: u64,
}

impl Subject {
    fn of(container: &Container, reader: &Reader, to: &Path) -> Result<Self> {
        let dir = &container.shared.dir;
        let mut text = Manifest::load(dir)?.to_text();
        for name in parts(dir)? {
            let Some(stat) = dir.stat(&name)? else { continue };
            let times = (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec);
            let _ = writeln!(text, "{name} {} {} {times:?}", stat.st_ino, stat.st_size);
        }
        let target = to.file_name().unwrap_or_default().as_bytes().to_vec();
        Ok(Self { target, container: text.into_bytes(), size: reader.size() })
    }

    /// The first line of the journal, and the length of the part that identifies the target.
    fn head(&self, key: Key) -> (String, usize) {
        let of = |bytes: &[u8]| digest(key, bytes);
        let [first, second] = key;
        let name = format!("{}{first:016x}{second:016x} for {:016x}", BEGIN, of(&self.target));
        let rest = format!(
            " of {:016x} size {:016x} windows {WINDOW:016x}\n",
            of(&self.container),
            self.size
        );
        let len = name.len();
        (name + &rest, len)
    }
}

/// A directory that may hold a copy.
enum Found {
    /// A copy to resume.
    Same(Journal, File),
    /// A copy to this name of another source.
    Other(Dir),
    /// A directory of another user, or one that is not of a merge.
    Foreign,
}

/// Whether something is of this user, and nobody else may touch it.
fn is_private(facts: &Metadata) -> bool {
    is_own(facts) && facts.mode() & 0o077 == 0
}

/// A part of a directory that nobody else may enter, if it is of this user and nowhere else.
fn own_part(dir: &Dir, name: &str) -> Option<File> {
    dir.part(name, true).ok().filter(is_only_own)
}

fn look(path: &Path, subject: &Subject) -> Option<Found> {
    let dir = Dir::open(path).ok()?;
    if !is_private(&dir.file().metadata().ok()?) {
        return None;
    }
    let file = locked(dir.part(JOURNAL, true).ok()?)?;
    let mut head = [0; HEAD];
    file.read_exact_at(&mut head, 0).ok()?;
    let text = std::str::from_utf8(&head).ok()?;
    let digits = text.strip_prefix(BEGIN)?.get(..32)?;
    let number = |range| u64::from_str_radix(digits.get(range)?, 16).ok();
    let (wanted, len) = subject.head([number(0..16)?, number(16..32)?]);
    if text.get(..len)? != wanted.get(..len)? {
        return Some(Found::Foreign);
    }
    let data = own_part(&dir, DATA);
    let whole = data.filter(|data| data.metadata().is_ok_and(|of| of.len() == subject.size));
    // Keep directories with other files: their owner may need them.
    let is_plain = dir.names().ok()?.iter().all(|name| name == DATA || name == JOURNAL);
    Some(match whole {
        Some(data) if text == wanted => Found::Same(
            Journal { dir, file, waiting: Mutex::default(), lost: Mutex::default(), goes_on: true },
            data,
        ),
        _ if is_plain => Found::Other(dir),
        _ => Found::Foreign,
    })
}

impl Journal {
    /// Opens the journal of an unfinished copy to `to`, or makes a new one. Also returns the copy
    /// and its path.
    pub(crate) fn open(
        container: &Container,
        reader: &Reader,
        to: &Path,
        unfinished: &Unfinished,
    ) -> Result<(Self, File, PathBuf)> {
        let subject = Subject::of(container, reader, to)?;
        let folder = parent_of(to);
        let entries = std::fs::read_dir(&folder);
        for entry in entries.map_err(|error| failed("readdir", &error, &folder))? {
            let name = entry.map_err(|error| failed("readdir", &error, &folder))?.file_name();
            if !is_hidden(&name) || !name.as_bytes().starts_with(b".aggio-merge-") {
                continue;
            }
            match look(&folder.join(&name), &subject).unwrap_or(Found::Foreign) {
                Found::Same(journal, data) => {
                    let hidden = journal.dir.path_of(DATA);
                    return Ok((journal, data, hidden));
                }
                Found::Other(dir) => remove(&dir)?,
                Found::Foreign => {}
            }
        }
        Self::begin(&folder, &subject, unfinished)
    }

    /// Makes a new journal. Its directory gets the name of a resumable copy once the first line is
    /// written: without it a later run could neither find nor remove the copy.
    fn begin(
        folder: &Path,
        subject: &Subject,
        unfinished: &Unfinished,
    ) -> Result<(Self, File, PathBuf)> {
        let name = fresh_name()?;
        let kept = folder.join(name.replace(".aggio-", ".aggio-merge-"));
        let path = folder.join(name);
        unfinished.add(&path, || {
            let made = DirBuilder::new().mode(0o700).create(&path);
            made.map_err(|error| failed("mkdir", &error, &path))
        })?;
        let filled = Dir::open(&path).and_then(|dir| Self::fill(&dir, subject));
        let mut named = Ok(());
        unfinished.forget(&path, || {
            if filled.is_ok() {
                named = rename_new(&path, &kept);
            }
            if filled.is_err() || named.is_err() {
                // Report the original error.
                let _ = crate::directory::removal::remove_tree(&path);
            }
        });
        let (data, file) = named.and(filled)?;
        let dir = Dir::open(&kept)?;
        let hidden = dir.path_of(DATA);
        let (waiting, lost) = (Mutex::default(), Mutex::default());
        Ok((Self { dir, file, waiting, lost, goes_on: false }, data, hidden))
    }

    /// The copy, and the journal, which is locked.
    fn fill(dir: &Dir, subject: &Subject) -> Result<(File, File)> {
        let (data, file) = (dir.new_part(DATA, 0o600)?, dir.new_part(JOURNAL, 0o600)?);
        let fail = |error: io::Error| failed("write", &error, &dir.path_of(JOURNAL));
        let own = dir.file().metadata().map_err(fail)?;
        let part = file.metadata().map_err(fail)?;
        if !is_private(&own) || !is_private(&part) {
            let words = "a copy that goes on needs a file system with owners and permissions";
            let kind = (ErrorClass::UnsupportedOperation, libc::EOPNOTSUPP);
            return Err(refused(kind, dir.path(), words));
        }
        try_lock(&file).map_err(fail)?;
        data.set_len(subject.size).map_err(fail)?;
        let (head, _) = subject.head([random()?, random()?]);
        debug_assert_eq!(head.len(), HEAD);
        file.write_all_at(head.as_bytes(), 0).map_err(fail)?;
        Ok((data, file))
    }

    /// Whether an earlier run began the copy.
    pub(crate) fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// The checksum of a window that is copied.
    pub(crate) fn done(&self, window: u64) -> Option<u32> {
        let mut found = [0; ENTRY];
        self.file.read_exact_at(&mut found, place_of(window)).ok()?;
        let crc = u64::from_le_bytes(found) as u32;
        (found == entry(window, crc)).then_some(crc)
    }

    /// A window of `data` with this checksum is copied; it counts as done from the time on when
    /// it is durable.
    pub(crate) fn set_done(&self, window: u64, crc: u32, data: &File) -> Result<()> {
        let is_due = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.push((window, crc));
            waiting.len() >= TOGETHER
        };
        if is_due { self.settle(data) } else { Ok(()) }
    }

    /// Makes windows that are copied durable, and says so; one thread at a time, and none after a
    /// failure.
    pub(crate) fn settle(&self, data: &File) -> Result<()> {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = &*lost {
            return Err(error.clone());
        }
        let windows = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *waiting)
        };
        let path = || self.dir.path_of(JOURNAL);
        data.sync_data().map_err(|error| {
            let error = failed("fdatasync", &error, &path());
            *lost = Some(error.clone());
            error
        })?;
        windows.into_iter().try_for_each(|(window, crc)| {
            let noted = self.file.write_all_at(&entry(window, crc), place_of(window));
            noted.map_err(|error| failed("pwrite", &error, &path()))
        })
    }

    /// Removes it, when the copy has its name.
    pub(crate) fn remove(self) -> Result<()> {
        remove(&self.dir)
    }
}

/// Where the entry of a window is.
fn place_of(window: u64) -> u64 {
    HEAD as u64 + window * ENTRY as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused::{Refusal, refusing};
    use crate::tests::how;

    /// The journal of a copy that was begun, and the copy.
    fn begun(place: &Path) -> (Journal, File) {
        let container = Container::create(&place.join("c"), &how()).unwrap();
        let writer = container.writer().unwrap();
        writer.write_at(&[7; 100], 0).unwrap();
        writer.close().unwrap();
        let reader = container.reader().unwrap();
        let (journal, data, _) =
            Journal::open(&container, &reader, &place.join("to"), &Unfinished::new()).unwrap();
        (journal, data)
    }

    #[test]
    fn a_copy_that_could_not_be_begun_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let container = Container::create(&place.path().join("c"), &how()).unwrap();
        container.writer().unwrap().close().unwrap();
        let reader = container.reader().unwrap();
        for call in [libc::SYS_pwrite64, libc::SYS_renameat2] {
            let fails = [Refusal::of(call, libc::EIO)];
            let to = place.path().join("to");
            let open = || Journal::open(&container, &reader, &to, &Unfinished::new()).map(drop);
            assert_eq!(refusing(&fails, open).unwrap_err().errno(), libc::EIO);
            assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn after_a_failure_to_make_windows_durable_none_counts_as_done() {
        let place = tempfile::tempdir().unwrap();
        let (journal, data) = begun(place.path());
        journal.set_done(1, 77, &data).unwrap();
        journal.settle(&data).unwrap();
        journal.set_done(2, 77, &data).unwrap();
        let fails = [Refusal::of(libc::SYS_fdatasync, libc::EIO)];
        let error = refusing(&fails, || journal.settle(&data).unwrap_err());
        assert_eq!(error.errno(), libc::EIO);
        // The kernel reports a failure once; later calls succeed.
        journal.set_done(3, 77, &data).unwrap();
        assert_eq!(journal.settle(&data).unwrap_err().errno(), libc::EIO);
        assert_eq!([1, 2, 3].map(|window| journal.done(window)), [Some(77), None, None]);
    }

    #[test]
    fn a_journal_that_was_removed_before_its_lock_was_free_is_none() {
        let place = tempfile::tempdir().unwrap();
        let (journal, _) = begun(place.path());
        let other = journal.dir.part(JOURNAL, true).unwrap();
        assert!(locked(other.try_clone().unwrap()).is_none(), "somebody is at it");
        journal.remove().unwrap();
        assert!(locked(other).is_none(), "it was removed meanwhile");
    }
}
