//! The head of a stage: which file it belongs to, and which version of it.

use super::words::{Words, allocate};
use crate::spool::{self, Version};
use aggio_base::checksum::crc32c;
use aggio_base::{Error, ErrorClass, Extent, Result, host};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// The first bytes of the head: the kind of the file and its version.
const MAGIC: &[u8; 16] = b"aggio stage v1\n\0";
/// Bytes of the head. Those behind the first `FIXED` are words that change.
const HEAD: u64 = 3 * 4096;
const FIXED: usize = 2 * 4096;
/// Places in the head.
const SUM: usize = 16;
const NUMBERS: usize = 24;
const PATH: usize = 128;
/// Words that change.
const KNOWN: u64 = FIXED as u64;
const CHANGING: u64 = KNOWN + 8;
const UNTIL: u64 = KNOWN + 16;
const SHOWN: u64 = KNOWN + 24;
const LATEST: u64 = KNOWN + 32;
const GIVEN_UP: u64 = KNOWN + 40;
const PARTS: u64 = KNOWN + 48;

/// A process that was killed while it changed the file may have changed it so long after it began,
/// in nanoseconds.
const PATIENCE: u64 = 60_000_000_000;

/// The time of a change may be so much later than the end of the call that made it, in nanoseconds.
const COARSE: u64 = 2_000_000_000;

/// How the version of the file after a change is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Learn {
    /// From the server: a request.
    Surely,
    /// From the facts that this machine caches, which may be older: the end of the change is
    /// recorded as well.
    AtOnce,
}

/// A file, as the system identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
    born: u64,
}

impl Identity {
    /// The identity of the file that `file` is open on.
    pub(super) fn of(file: &File) -> Result<Self> {
        let facts = file.metadata().map_err(|error| Error::os("fstat", &error))?;
        let born = spool::born(file.as_raw_fd());
        Ok(Self { device: facts.dev(), inode: facts.ino(), born })
    }

    #[cfg(test)]
    pub(super) fn made_up(device: u64, inode: u64) -> Self {
        Self { device, inode, born: 0 }
    }
}

/// The head of a stage.
pub(super) struct Control {
    words: Words,
    pub(super) identity: Identity,
    /// The name of the file when the stage was made.
    pub(super) path: PathBuf,
    boot: [u64; 2],
    host: u64,
}

/// How an unused stage relates to its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// Only processes that used the stage have changed the file.
    Fits,
    /// Somebody else has changed it.
    Changed,
    /// It belongs to another file, which had the same number.
    Other,
    /// The system was started anew since: bytes of the stage may be missing.
    Restarted,
    /// Another machine has made it, and may be using it.
    Foreign,
}

impl Control {
    /// Writes the head of a new stage for the file `target`, called `path`.
    pub(super) fn init(head: &File, target: &File, path: &Path) -> Result<()> {
        let identity = Identity::of(target)?;
        let name = path.as_os_str().as_bytes();
        if name.len() > FIXED - PATH {
            return Err(Error::new(ErrorClass::BadFile, "the name of the file is too long"));
        }
        let boot = host::boot_number();
        let Identity { device, inode, born } = identity;
        let numbers = [device, inode, born, boot[0], boot[1], host::machine(), name.len() as u64];
        let mut bytes = vec![0; FIXED];
        bytes[..16].copy_from_slice(MAGIC);
        for (place, number) in bytes[NUMBERS..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes[PATH..PATH + name.len()].copy_from_slice(name);
        let sum = u64::from(crc32c(&bytes[NUMBERS..])).to_le_bytes();
        bytes[SUM..NUMBERS].copy_from_slice(&sum);
        let written = head.write_all_at(&bytes, 0).and_then(|()| {
            aggio_base::os::ftruncate(head.as_raw_fd(), HEAD)?;
            allocate(head, Extent::new(0, HEAD))
        });
        written.map_err(|error| Error::os("pwrite", &error))
    }

    /// Whether the stage with this head was given up: no process may begin to use it.
    pub(super) fn is_given_up(head: &File) -> bool {
        let mut word = [0; 8];
        head.read_exact_at(&mut word, GIVEN_UP).is_err() || word != [0; 8]
    }

    /// Records the memory that belongs to the stage with this head.
    pub(super) fn set_parts(head: &File, parts: [&File; 2]) -> std::io::Result<()> {
        head.write_all_at(&numbers_of(parts)?, PARTS)
    }

    /// Whether `parts` belong to the stage with this head.
    pub(super) fn has_parts(head: &File, parts: [&File; 2]) -> bool {
        let mut found = [0; 16];
        head.read_exact_at(&mut found, PARTS).is_ok()
            && numbers_of(parts).is_ok_and(|numbers| numbers == found)
    }

    /// The numbers of the memory that belongs to the stage with this head.
    pub(super) fn parts(head: &File) -> Option<[u64; 2]> {
        let mut found = [0; 16];
        head.read_exact_at(&mut found, PARTS).ok()?;
        let number = |at: usize| found[at..].first_chunk().map(|one| u64::from_le_bytes(*one));
        Some([number(0)?, number(8)?])
    }

    /// Gives up the stage with this head.
    pub(super) fn give_up(head: &File) -> std::io::Result<()> {
        head.write_all_at(&1u64.to_le_bytes(), GIVEN_UP)
    }

    /// Reads a head.
    ///
    /// # Errors
    /// `Io` if it is damaged; otherwise the error of the system call.
    pub(super) fn open(head: &File) -> Result<Self> {
        let damaged = || Error::new(ErrorClass::Io, "the head of the stage is damaged");
        let mut bytes = vec![0; FIXED];
        head.read_exact_at(&mut bytes, 0).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => damaged(),
            _ => Error::os("pread", &error),
        })?;
        let number =
            |at: usize| bytes[at..].first_chunk().map_or(0, |number| u64::from_le_bytes(*number));
        let sum = u64::from(crc32c(&bytes[NUMBERS..]));
        let whole = head.metadata().is_ok_and(|facts| facts.len() == HEAD);
        if &bytes[..16] != MAGIC || number(SUM) != sum || !whole {
            return Err(damaged());
        }
        let [device, inode, born, boot0, boot1, host, len] =
            std::array::from_fn(|at| number(NUMBERS + 8 * at));
        let name = bytes.get(PATH..PATH + len as usize).ok_or_else(damaged)?;
        let words = Words::map(head, Extent::new(0, HEAD));
        Ok(Self {
            words: words.map_err(|error| Error::os("mmap", &error))?,
            identity: Identity { device, inode, born },
            path: Path::new(std::ffi::OsStr::from_bytes(name)).to_path_buf(),
            boot: [boot0, boot1],
            host,
        })
    }

    /// Records the present version of `target`, as its server has it, as the known one.
    pub(super) fn note(&self, target: &File) {
        self.take(Version::now(target.as_raw_fd()), target);
    }

    /// Records `version` of `target` as the known one.
    fn take(&self, version: Version, target: &File) {
        let known = self.words.word(KNOWN);
        let mut stamp = version.stamp();
        // Of two threads that do this at the same time, the one that looked first may store last.
        for _ in 0..16 {
            if known.swap(stamp, AcqRel) == stamp {
                return;
            }
            stamp = Version::known(target.as_raw_fd()).stamp();
        }
    }

    /// Begins a change of the file by this process, which ends when the returned value is dropped.
    pub(super) fn change<'a>(&'a self, target: &'a File, learn: Learn) -> Change<'a> {
        self.go_on();
        self.words.word(CHANGING).fetch_add(1, AcqRel);
        Change { control: self, target, learn }
    }

    /// Extends the time of a change that takes long.
    pub(super) fn go_on(&self) {
        self.words.word(UNTIL).fetch_max(spool::now().saturating_add(PATIENCE), AcqRel);
    }

    /// Records the end of a change that the cached facts of this machine may not show.
    fn remember(&self, target: &File) {
        self.take(Version::known(target.as_raw_fd()), target);
        let latest = spool::now().saturating_add(COARSE);
        self.words.word(LATEST).fetch_max(latest, AcqRel);
    }

    /// Records that a program looks at the file with system calls from now on.
    pub(super) fn show(&self) {
        self.words.word(SHOWN).store(1, Release);
    }

    /// Whether a program does.
    pub(super) fn is_shown(&self) -> bool {
        self.words.word(SHOWN).load(Acquire) != 0
    }

    /// Records that no process uses the stage, and so none is changing the file.
    pub(super) fn rest(&self, target: &File) {
        self.words.word(CHANGING).store(0, Release);
        self.note(target);
    }

    /// How the stage, which no process uses, relates to the file `target` as its server has it.
    pub(super) fn fit(&self, target: &File) -> Result<Fit> {
        if self.boot != host::boot_number() {
            let here = self.host == host::machine();
            return Ok(if here { Fit::Restarted } else { Fit::Foreign });
        }
        if Identity::of(target)? != self.identity {
            return Ok(Fit::Other);
        }
        let now = Version::now(target.as_raw_fd());
        let same = now.stamp() == self.words.word(KNOWN).load(Acquire);
        let was_changing = self.words.word(CHANGING).load(Acquire) > 0;
        let is_before = |place: u64| now.ctime <= self.words.word(place).load(Acquire);
        let by_them = was_changing && is_before(UNTIL) || is_before(LATEST);
        Ok(if same || by_them { Fit::Fits } else { Fit::Changed })
    }
}

/// The numbers of two files in memory.
fn numbers_of(files: [&File; 2]) -> std::io::Result<[u8; 16]> {
    let mut numbers = [0; 16];
    for (place, file) in numbers.chunks_exact_mut(8).zip(files) {
        place.copy_from_slice(&file.metadata()?.ino().to_le_bytes());
    }
    Ok(numbers)
}

/// A change of the file by this process.
pub(super) struct Change<'a> {
    control: &'a Control,
    target: &'a File,
    learn: Learn,
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        match self.learn {
            Learn::Surely => self.control.note(self.target),
            Learn::AtOnce => self.control.remember(self.target),
        }
        self.control.words.word(CHANGING).fetch_sub(1, AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> (tempfile::TempDir, File, File) {
        let dir = tempfile::tempdir().unwrap();
        let make = |name| {
            let mut how = File::options();
            how.create(true)
                .truncate(false)
                .read(true)
                .write(true)
                .open(dir.path().join(name))
                .unwrap()
        };
        let (head, target) = (make("head"), make("target"));
        target.write_all_at(b"before", 0).unwrap();
        Control::init(&head, &target, Path::new("/a/b")).unwrap();
        Control::open(&head).unwrap().note(&target);
        (dir, head, target)
    }

    #[test]
    fn a_file_that_nobody_else_has_changed_fits() {
        let (_dir, head, target) = files();
        let control = Control::open(&head).unwrap();
        assert_eq!((control.path.to_str(), control.fit(&target)), (Some("/a/b"), Ok(Fit::Fits)));
        drop({
            let change = control.change(&target, Learn::Surely);
            target.write_all_at(b"by us", 0).unwrap();
            change
        });
        assert_eq!(control.fit(&target), Ok(Fit::Fits));
        target.write_all_at(b"a longer text by another one", 0).unwrap();
        assert_eq!(control.fit(&target), Ok(Fit::Changed));
        control.rest(&target);
        assert_eq!(control.fit(&target), Ok(Fit::Fits));
    }

    #[test]
    fn who_was_killed_while_it_changed_the_file_may_have_changed_it() {
        let (_dir, head, target) = files();
        let control = Control::open(&head).unwrap();
        let change = control.change(&target, Learn::Surely);
        std::mem::forget(change);
        target.write_all_at(b"the last words of a killed process", 0).unwrap();
        assert_eq!(Control::open(&head).unwrap().fit(&target), Ok(Fit::Fits));
        // Long afterwards.
        control.words.word(UNTIL).store(1, Release);
        assert_eq!(control.fit(&target), Ok(Fit::Changed));
    }

    #[test]
    fn a_change_that_shows_a_little_later_is_no_stranger_s() {
        let (_dir, head, target) = files();
        let control = Control::open(&head).unwrap();
        drop(control.change(&target, Learn::AtOnce));
        // As a client of a server does that has the bytes of a call still to send.
        target.write_all_at(b"sent later", 0).unwrap();
        assert_eq!(control.fit(&target), Ok(Fit::Fits));
        control.words.word(LATEST).store(1, Release);
        assert_eq!(control.fit(&target), Ok(Fit::Changed));
    }

    #[test]
    fn a_change_that_takes_long_is_one_until_it_ends() {
        let (_dir, head, target) = files();
        let control = Control::open(&head).unwrap();
        let change = control.change(&target, Learn::Surely);
        control.words.word(UNTIL).store(1, Release);
        control.go_on();
        target.write_all_at(b"in the second minute", 0).unwrap();
        std::mem::forget(change);
        assert_eq!(control.fit(&target), Ok(Fit::Fits));
    }

    #[test]
    fn another_file_of_the_same_name_does_not_fit() {
        let (dir, head, _) = files();
        let other = File::create(dir.path().join("other")).unwrap();
        assert_eq!(Control::open(&head).unwrap().fit(&other), Ok(Fit::Other));
    }

    #[test]
    fn a_head_with_any_byte_changed_or_missing_is_damaged() {
        let (_dir, head, _) = files();
        let mut bytes = vec![0; FIXED];
        head.read_exact_at(&mut bytes, 0).unwrap();
        for at in (0..PATH + 8).chain([FIXED - 1]) {
            head.write_all_at(&[bytes[at] ^ 0x40], at as u64).unwrap();
            let error = Control::open(&head).err().map(|error| error.class());
            assert_eq!(error, Some(ErrorClass::Io), "byte {at}");
            head.write_all_at(&bytes[at..=at], at as u64).unwrap();
        }
        for len in [0, 15, 4096, HEAD - 1] {
            head.set_len(len).unwrap();
            assert!(Control::open(&head).is_err_and(|error| error.class() == ErrorClass::Io));
        }
    }
}
