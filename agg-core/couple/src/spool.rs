//! The directory of generations that survive their agent. It belongs to one agent, and is in the
//! directory that the user named.
//!
//! ```text
//! aggio-coupled-UID-NODE-PLACE/       of the agent of one place; it holds a lock of it
//!     bytes-NUMBER                    a complete generation
//!     record-NUMBER                   the state of one file: replaced as a whole
//!     record-NUMBER.new               the same, about to replace it
//! ```
//!
//! A generation has no name before it is complete, so that one which is being written vanishes with
//! the agent and its writers. Its record is written before it gets its name, and once more behind
//! that: bytes without a record are nobody's, and a record without bytes tells of a generation that
//! was not complete yet, or of one that was given up.

mod record;

pub(crate) use record::{Held, Kept, NUMBERS, ProcessRecord, Record, Written};

use crate::fd::owned;
use crate::place::{Place, user};
use crate::registry::Area;
use crate::spill_directory::{self, Folder};
use aggio_base::os;
use std::ffi::{CString, OsStr};
use std::fs::{self, DirBuilder, File, Metadata, TryLockError};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::time::{Duration, Instant};

/// Bytes of a record at most.
const LONGEST: u64 = 16 << 20;

/// Time that a killed agent may take to release its directory, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(2);

const BYTES: &str = "bytes-";
const RECORD: &str = "record-";
const NEW: &str = ".new";

/// The directory of one agent, locked.
#[derive(Debug)]
pub(crate) struct Spool {
    outer: Folder,
    name: String,
    inner: Folder,
    /// Its name in messages.
    path: String,
}

/// The contents of the directory.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) records: Vec<(u64, Record)>,
    /// Files that no agent wrote, or that are damaged, and why.
    pub(crate) strange: Vec<(String, String)>,
    /// The greatest number in a name.
    pub(crate) last: u64,
}

impl Spool {
    /// The directory of the agent of `place` in the directory `path`, which is made if it is
    /// missing.
    ///
    /// # Errors
    /// Either directory is another user's, or others may enter the inner one; another agent has it;
    /// its file system has no nameless files.
    pub(crate) fn open(path: &str, place: &Place) -> io::Result<Self> {
        let outer = Folder::open(path)?;
        let digest = aggio_base::checksum::crc32c(place.path().as_os_str().as_bytes());
        let name = format!("aggio-coupled-{}-{}-{digest:08x}", user(), place.host());
        let path = format!("{path}/{name}");
        let inner =
            Self::enter(&outer, &name).map_err(|error| spill_directory::refusal(&path, &error))?;
        let spool = Self { outer, name, inner, path };
        spool.file().map_err(|error| spill_directory::refusal(&spool.path, &error))?;
        Ok(spool)
    }

    fn enter(outer: &Folder, name: &str) -> io::Result<Folder> {
        match DirBuilder::new().mode(0o700).create(outer.at(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let inner = outer.open_at(&CString::new(name)?, flags)?;
        let facts = std::fs::metadata(format!("/proc/self/fd/{}", inner.as_raw_fd()))?;
        crate::place::check(&facts)?;
        lock(&inner)?;
        Ok(Folder::from(inner))
    }

    /// Its name in messages.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The memory of a generation that begins: a nameless file, open for reading.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn file(&self) -> io::Result<OwnedFd> {
        let made = self.inner.open_at(c".", libc::O_RDWR | libc::O_CLOEXEC | libc::O_TMPFILE)?;
        // A description that could write would count as a writer.
        os::reopen(made.as_raw_fd(), libc::O_RDONLY).map(owned)
    }

    /// Gives the file of a complete generation its name.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn keep(&self, area: Area, file: &OwnedFd) -> io::Result<()> {
        self.link(file, &format!("{BYTES}{area}"))
    }

    fn link(&self, file: &OwnedFd, name: &str) -> io::Result<()> {
        let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let (to, here) = (CString::new(name)?, self.inner.as_raw_fd());
        let (at, flags) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
        // SAFETY: both names are terminated strings.
        match unsafe { libc::linkat(at, from.as_ptr(), here, to.as_ptr(), flags) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// The file of a complete generation, open for reading, if it is as its record says.
    ///
    /// # Errors
    /// `NotFound` if it was given up; it is another one.
    pub(crate) fn kept(&self, one: &Kept) -> io::Result<OwnedFd> {
        let (file, facts) = self.open_file(&format!("{BYTES}{}", one.area))?;
        let (size, mode, inode) = (facts.len(), facts.mode() & 0o7777, facts.ino());
        let modified = (facts.mtime(), facts.mtime_nsec());
        let said = (one.size, one.mode, one.inode, one.modified);
        if (size, mode, inode, modified) == said {
            return Ok(file);
        }
        let text = format!(
            "it is not the file of its record: {size} bytes, mode {mode:o}, inode {inode}, written \
             at {} s",
            modified.0
        );
        Err(io::Error::new(io::ErrorKind::InvalidData, text))
    }

    /// A file of this user's with one name.
    fn open_file(&self, name: &str) -> io::Result<(OwnedFd, Metadata)> {
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
        let file = File::from(self.inner.open_at(&CString::new(name)?, flags)?);
        let facts = file.metadata()?;
        if !facts.is_file() || facts.uid() != user() || facts.nlink() != 1 {
            let text = "it is no file of this user's alone";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok((file.into(), facts))
    }

    /// Replaces a record; nobody ever sees a part of it.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn write(&self, number: u64, record: &Record) -> io::Result<()> {
        let (name, new) = (format!("{RECORD}{number}"), format!("{RECORD}{number}{NEW}"));
        let bytes = record.encode();
        if bytes.len() as u64 > LONGEST {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let made = self.inner.open_at(c".", libc::O_RDWR | libc::O_CLOEXEC | libc::O_TMPFILE)?;
        File::from(made.try_clone()?).write_all(&bytes)?;
        match self.link(&made, &new) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.remove(&new)?;
                self.link(&made, &new)?;
            }
            result => result?,
        }
        fs::rename(self.inner.at(&new), self.inner.at(&name))
    }

    /// Removes the file of a generation, if it has a name.
    pub(crate) fn give_up(&self, area: Area) -> io::Result<()> {
        self.remove(&format!("{BYTES}{area}"))
    }

    /// Removes a record.
    pub(crate) fn forget(&self, number: u64) -> io::Result<()> {
        self.remove(&format!("{RECORD}{number}"))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.inner.at(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Reads the files that an earlier agent has left.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(crate) fn find(&self, boot: &str) -> io::Result<Found> {
        let mut found = Found::default();
        let mut names = Vec::new();
        for entry in fs::read_dir(self.inner.at(""))? {
            names.push(entry?.file_name());
        }
        // A file that is about to replace a record comes behind it.
        names.sort();
        let mut bytes = Vec::new();
        for name in names {
            let name = OsStr::to_string_lossy(&name).into_owned();
            if let Some(area) = number(&name, BYTES, "") {
                found.last = found.last.max(area);
                bytes.push((name, area));
                continue;
            }
            let new = number(&name, RECORD, NEW);
            let Some(number) = number(&name, RECORD, "").or(new) else {
                found.strange.push((name, "it is no file of an agent's".into()));
                continue;
            };
            found.last = found.last.max(number);
            match self.read(&name, boot) {
                Ok(record) => {
                    if new.is_some() {
                        // Later records are not to depend on the one before it.
                        let is_replaced = format!("{RECORD}{number}");
                        fs::rename(self.inner.at(&name), self.inner.at(&is_replaced))?;
                        found.strange.retain(|(name, _)| *name != is_replaced);
                    }
                    found.records.retain(|(known, _)| *known != number);
                    found.records.push((number, record));
                }
                Err(why) => found.strange.push((name, why.to_string())),
            }
        }
        found.keep_newest();
        let generations = || found.records.iter().flat_map(|(_, record)| &record.generations);
        let is_known = |area: u64| generations().any(|one| one.area == area);
        bytes.retain(|(_, area)| !is_known(*area));
        let nobodys = bytes.into_iter().map(|(name, _)| (name, "no record names it".into()));
        found.strange.extend(nobodys.collect::<Vec<_>>());
        Ok(found)
    }

    fn read(&self, name: &str, boot: &str) -> io::Result<Record> {
        let (file, facts) = self.open_file(name)?;
        if facts.len() > LONGEST || facts.mode() & 0o077 != 0 {
            return Err(io::Error::other("it is no file of an agent's"));
        }
        let mut bytes = Vec::new();
        File::from(file).take(LONGEST).read_to_end(&mut bytes)?;
        let record = Record::decode(&bytes)?;
        match record.boot == boot {
            true => Ok(record),
            false => Err(io::Error::other("it is of before the computer was started")),
        }
    }

    /// Removes the directory, if nothing is in it.
    pub(crate) fn close(self) {
        let _ = fs::remove_dir(self.outer.at(&self.name));
    }
}

impl Found {
    /// Of two records of one file the one with the greater number was begun later.
    fn keep_newest(&mut self) {
        let mut records = std::mem::take(&mut self.records);
        records.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
        for (number, record) in records {
            match self.records.iter().any(|(_, newer)| newer.path == record.path) {
                false => self.records.push((number, record)),
                true => {
                    let why = "there is a newer record of the same file".into();
                    self.strange.push((format!("{RECORD}{number}"), why));
                }
            }
        }
    }
}

/// Locks the directory of an agent. The one before may have been killed, and be on its way out.
fn lock(directory: &OwnedFd) -> io::Result<()> {
    let (directory, began) = (File::from(directory.try_clone()?), Instant::now());
    loop {
        match directory.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) if error.kind() != io::ErrorKind::Interrupted => {
                return Err(error);
            }
            Err(_) if began.elapsed() > PATIENCE => {
                return Err(io::Error::from_raw_os_error(libc::EBUSY));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// The number in a name.
fn number(name: &str, start: &str, end: &str) -> Option<u64> {
    let digits = name.strip_prefix(start)?.strip_suffix(end)?;
    let number = digits.parse().ok()?;
    // Only as it was written.
    (number < NUMBERS && format!("{number}") == digits).then_some(number)
}

#[cfg(test)]
mod tests;
