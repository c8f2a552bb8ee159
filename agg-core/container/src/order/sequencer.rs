//! The sequencer, in the file `order`: the counter that orders the frames of all writers, and the
//! size of the file as they see it. Mapped where possible; otherwise read and written under a lock.

use crate::directory::{Dir, ORDER};
use crate::errors::failed;
use aggio_base::os::{self, Mapping};
use aggio_base::{Extent, Result};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// The words of the file.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Word {
    /// The next sequence number.
    Next = 0,
    /// The size of the logical file.
    Size = 1,
    /// Number of truncations begun and ended: odd while one is under way.
    Truncations = 2,
    /// 1 while the other words are right.
    Ready = 3,
    /// Frames that were completely written: grows with each, before the write returns.
    Done = 4,
    /// Number of growths begun and ended: odd while one is under way.
    Growths = 5,
    /// 1 while there is a writer that cannot map the words. Such a writer maintains neither `Size`
    /// nor `Done`, because each change would cost two requests.
    Uncounted = 6,
    /// Number of times that the size was begun and ended to be looked up in the logs.
    Counts = 7,
    /// 1 once somebody has mapped bytes of the file to change them in memory.
    Mapped = 8,
}

/// Bytes of the file.
const BYTES: usize = 128;

/// The bytes on which locks stand for something.
#[derive(Clone, Copy, Debug)]
enum Byte {
    /// Shared by all writers.
    Presence = 0,
    /// Held while a process changes the size in a way that others must wait for.
    Turn = 8,
    /// Held while a word changes, where the file cannot be mapped.
    Words = 16,
    /// Held while a process replaces the manifest by one that follows from it.
    Manifest = 24,
    /// Shared by all processes that have the container open where it may become a set of files.
    Open = 32,
    /// Shared by all processes that need the parts, even after the container has lost its name.
    Parts = 40,
}

/// Sequence numbers, and the state of the file when they were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The first number.
    pub(crate) first: u64,
    /// Growths before.
    pub(crate) growths: u64,
    /// Whether bytes of the file may be changed in memory.
    pub(crate) mapped: bool,
}

/// The open file.
#[derive(Debug)]
pub(crate) struct Sequencer {
    file: File,
    path: PathBuf,
    mapping: Option<Words>,
}

/// The mapped words.
#[derive(Debug)]
struct Words(Mapping);

impl Words {
    fn map(file: &File) -> io::Result<Self> {
        Mapping::new(file.as_raw_fd(), Extent::new(0, BYTES as u64), true).map(Self)
    }

    fn word(&self, word: Word) -> &AtomicU64 {
        let word = self.0.place(word as u64 * 8).cast_const().cast::<AtomicU64>();
        // SAFETY: the mapping has BYTES bytes, is aligned to a page and lives as long as `self`;
        // all accesses in this process are atomic.
        unsafe { &*word }
    }
}

impl Sequencer {
    /// Opens the file of `dir`, which is made if there is none.
    pub(crate) fn open(dir: &Dir, mode: u32, map: bool) -> Result<Self> {
        let file = loop {
            match dir.part(ORDER, true) {
                Err(error) if error.errno() == libc::ENOENT => {}
                other => break other?,
            }
            match dir.new_part(ORDER, mode) {
                Err(error) if error.errno() == libc::EEXIST => {}
                other => break other?,
            }
        };
        let path = dir.path_of(ORDER);
        let fail = |call: &str, error: io::Error| failed(call, &error, &path);
        if file.metadata().map_err(|error| fail("fstat", error))?.len() < BYTES as u64 {
            file.set_len(BYTES as u64).map_err(|error| fail("ftruncate", error))?;
        }
        let mapping = if map { Words::map(&file).ok() } else { None };
        Ok(Self { file, path, mapping })
    }

    /// Opens the file of `dir`, which is there, to look at its words.
    pub(crate) fn watch(dir: &Dir) -> Result<Self> {
        let file = dir.part(ORDER, true)?;
        let path = dir.path_of(ORDER);
        let len = file.metadata().map_err(|error| failed("fstat", &error, &path))?.len();
        let mapping = Words::map(&file).ok().filter(|_| len >= BYTES as u64);
        Ok(Self { file, path, mapping })
    }

    /// The file, which is open already, for its locks only.
    pub(crate) fn of(file: File, path: PathBuf) -> Self {
        Self { file, path, mapping: None }
    }

    /// The file again; locks on it stay.
    pub(crate) fn into_file(self) -> File {
        self.file
    }

    /// Whether somebody writes. Nothing is locked for it.
    pub(crate) fn is_used(&self) -> Result<bool> {
        self.is_locked(Byte::Presence)
    }

    fn is_locked(&self, byte: Byte) -> Result<bool> {
        let free = os::ofd_would_lock(self.file.as_raw_fd(), libc::F_WRLCK, byte as i64, 1);
        free.map(|free| !free).map_err(|error| self.fail("fcntl(F_OFD_GETLK)", &error))
    }

    /// Whether this description keeps `Size` and `Done`.
    pub(crate) fn is_counting(&self) -> bool {
        self.mapping.is_some()
    }

    /// Whether all writers do, so that the words are valid.
    pub(crate) fn is_counted(&self) -> Result<bool> {
        Ok(self.is_counting() && self.load(Word::Uncounted)? == 0)
    }

    /// The value of a word.
    pub(crate) fn load(&self, word: Word) -> Result<u64> {
        match &self.mapping {
            Some(mapping) => Ok(mapping.word(word).load(Ordering::Acquire)),
            None => self.change(word, |value| value),
        }
    }

    /// Sets a word.
    pub(crate) fn store(&self, word: Word, value: u64) -> Result<()> {
        match &self.mapping {
            Some(mapping) => mapping.word(word).store(value, Ordering::Release),
            None => drop(self.change(word, |_| value)?),
        }
        Ok(())
    }

    /// Adds to a word; returns the previous value.
    pub(crate) fn add(&self, word: Word, n: u64) -> Result<u64> {
        match &self.mapping {
            Some(mapping) => Ok(mapping.word(word).fetch_add(n, Ordering::AcqRel)),
            None => self.change(word, |value| value.wrapping_add(n)),
        }
    }

    /// Whether bytes of the file may be changed in memory.
    pub(crate) fn is_mapped(&self) -> Result<bool> {
        Ok(self.is_counting() && self.load(Word::Mapped)? != 0)
    }

    /// Takes `n` sequence numbers.
    pub(crate) fn take(&self, n: u64) -> Result<Taken> {
        if self.mapping.is_some() {
            let growths = self.load(Word::Growths)?;
            let first = self.add(Word::Next, n)?;
            return Ok(Taken { first, growths, mapped: self.is_mapped()? });
        }
        let _lock = self.locked(Byte::Words)?;
        let mut words = [0; BYTES];
        self.file.read_exact_at(&mut words, 0).map_err(|e| self.fail("pread", &e))?;
        let word = |word: Word| {
            let place = word as usize * 8;
            words[place..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let (first, growths) = (word(Word::Next), word(Word::Growths));
        let mapped = word(Word::Mapped) != 0;
        let next = first.wrapping_add(n).to_le_bytes();
        let place = Word::Next as u64 * 8;
        self.file.write_all_at(&next, place).map_err(|e| self.fail("pwrite", &e))?;
        Ok(Taken { first, growths, mapped })
    }

    /// Makes a word at least `n`.
    pub(crate) fn raise(&self, word: Word, n: u64) -> Result<()> {
        match &self.mapping {
            // Most writes end before the end of the file: a load is cheaper than an exchange.
            Some(mapping) if mapping.word(word).load(Ordering::Acquire) >= n => {}
            Some(mapping) => drop(mapping.word(word).fetch_max(n, Ordering::AcqRel)),
            None => drop(self.change(word, |value| value.max(n))?),
        }
        Ok(())
    }

    /// Reads, changes and writes a word under a lock.
    fn change(&self, word: Word, change: impl Fn(u64) -> u64) -> Result<u64> {
        let _lock = self.locked(Byte::Words)?;
        let (mut bytes, place) = ([0; 8], word as u64 * 8);
        self.file.read_exact_at(&mut bytes, place).map_err(|e| self.fail("pread", &e))?;
        let old = u64::from_le_bytes(bytes);
        let new = change(old);
        if new != old {
            let bytes = new.to_le_bytes();
            self.file.write_all_at(&bytes, place).map_err(|e| self.fail("pwrite", &e))?;
        }
        Ok(old)
    }

    /// Waits until nobody else changes the size with others waiting; others wait while the guard
    /// lives.
    pub(crate) fn turn(&self) -> Result<Turn<'_>> {
        self.locked(Byte::Turn)
    }

    /// Waits until nobody else replaces the manifest; others wait while the guard lives.
    pub(crate) fn manifest_turn(&self) -> Result<Turn<'_>> {
        self.locked(Byte::Manifest)
    }

    /// As [`turn`](Sequencer::turn), until this description is closed.
    pub(crate) fn lock_turn(&self) -> Result<()> {
        self.lock(libc::F_WRLCK, Byte::Turn, true).map(drop)
    }

    fn locked(&self, byte: Byte) -> Result<Turn<'_>> {
        self.lock(libc::F_WRLCK, byte, true)?;
        Ok(Turn { order: self, byte })
    }

    /// Registers this description as a writer; waits while another one excludes writers.
    pub(crate) fn arrive(&self) -> Result<()> {
        self.lock(libc::F_RDLCK, Byte::Presence, true).map(drop)
    }

    /// Tries to be the only writer; `false` if there are others.
    pub(crate) fn be_alone(&self) -> Result<bool> {
        self.lock(libc::F_WRLCK, Byte::Presence, false)
    }

    /// Registers that this description has the container open; waits while a set is made of it.
    pub(crate) fn stay(&self) -> Result<()> {
        self.lock(libc::F_RDLCK, Byte::Open, true).map(drop)
    }

    /// Tries to be the only description with the container open, until it is closed.
    pub(crate) fn close_for_others(&self) -> Result<bool> {
        self.lock(libc::F_WRLCK, Byte::Open, false)
    }

    /// Registers that the parts are needed until this description is closed; `false` if a process
    /// is removing them.
    pub(crate) fn need_parts(&self) -> Result<bool> {
        self.lock(libc::F_RDLCK, Byte::Parts, false)
    }

    /// Tries to be the only description that needs the parts, until it is closed.
    pub(crate) fn take_parts(&self) -> Result<bool> {
        self.lock(libc::F_WRLCK, Byte::Parts, false)
    }

    /// Whether somebody needs the parts. Nothing is locked for it.
    pub(crate) fn are_parts_needed(&self) -> Result<bool> {
        self.is_locked(Byte::Parts)
    }

    /// Whether the descriptor stays open when another program begins in this process.
    pub(crate) fn set_inherited(&self, is: bool) -> Result<()> {
        let flags = if is { 0 } else { libc::FD_CLOEXEC };
        // SAFETY: plain numbers.
        if unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_SETFD, flags) } == 0 {
            return Ok(());
        }
        Err(self.fail("fcntl(F_SETFD)", &io::Error::last_os_error()))
    }

    /// Whether any name leads to the file still.
    pub(crate) fn has_name(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        self.file.metadata().is_ok_and(|facts| facts.nlink() > 0)
    }

    /// Ends the registration of this description as a writer.
    pub(crate) fn leave(&self) -> Result<()> {
        self.lock(libc::F_UNLCK, Byte::Presence, true).map(drop)
    }

    /// Changes a lock; `false` if it did not want to wait and had to.
    fn lock(&self, kind: libc::c_int, byte: Byte, wait: bool) -> Result<bool> {
        let command = if wait { libc::F_OFD_SETLKW } else { libc::F_OFD_SETLK };
        match os::ofd_lock(self.file.as_raw_fd(), command, kind, byte as i64, 1) {
            Ok(()) => Ok(true),
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EACCES) if !wait => Ok(false),
                _ => Err(self.fail("fcntl(F_OFD_SETLK)", &error)),
            },
        }
    }

    fn fail(&self, call: &str, error: &io::Error) -> aggio_base::Error {
        failed(call, error, &self.path)
    }
}

/// A lock that ends with the value.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    order: &'a Sequencer,
    byte: Byte,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Unlocking fails only for a bad descriptor, which this cannot be.
        let _ = self.order.lock(libc::F_UNLCK, self.byte, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_the_same_mapped_and_under_a_lock() {
        let place = tempfile::tempdir().unwrap();
        let dir = Dir::open(place.path()).unwrap();
        let mapped = Sequencer::open(&dir, 0o600, true).unwrap();
        let locked = Sequencer::open(&dir, 0o600, false).unwrap();
        assert!(mapped.mapping.is_some() && locked.mapping.is_none());
        assert_eq!(mapped.add(Word::Next, 5).unwrap(), 0);
        assert_eq!(locked.add(Word::Next, 2).unwrap(), 5);
        locked.raise(Word::Size, 10).unwrap();
        mapped.raise(Word::Size, 9).unwrap();
        assert_eq!(mapped.load(Word::Next).unwrap(), 7);
        assert_eq!(locked.load(Word::Size).unwrap(), 10);
        locked.store(Word::Size, 3).unwrap();
        assert_eq!(mapped.load(Word::Size).unwrap(), 3);
    }

    #[test]
    fn words_are_believed_only_while_everybody_keeps_them() {
        let place = tempfile::tempdir().unwrap();
        let dir = Dir::open(place.path()).unwrap();
        let mapped = Sequencer::open(&dir, 0o600, true).unwrap();
        let locked = Sequencer::open(&dir, 0o600, false).unwrap();
        assert!(mapped.is_counted().unwrap() && !locked.is_counted().unwrap());
        mapped.store(Word::Growths, 4).unwrap();
        mapped.store(Word::Mapped, 1).unwrap();
        let taken = |first| Taken { first, growths: 4, mapped: true };
        assert_eq!((mapped.take(3).unwrap(), locked.take(2).unwrap()), (taken(0), taken(3)));
        assert_eq!(mapped.load(Word::Next).unwrap(), 5);
        locked.store(Word::Uncounted, 1).unwrap();
        assert!(!mapped.is_counted().unwrap());
    }

    #[test]
    fn one_is_alone_only_when_nobody_else_is_there() {
        let place = tempfile::tempdir().unwrap();
        let dir = Dir::open(place.path()).unwrap();
        let one = Sequencer::open(&dir, 0o600, true).unwrap();
        let other = Sequencer::open(&dir, 0o600, true).unwrap();
        assert!(one.be_alone().unwrap());
        assert!(!other.be_alone().unwrap());
        one.arrive().unwrap();
        other.arrive().unwrap();
        assert!(!one.be_alone().unwrap());
        drop(other);
        assert!(one.be_alone().unwrap());
    }
}
