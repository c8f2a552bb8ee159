//! Sets of netCDF files: each is shown as the one file that it stands for.

use crate::ahead::{Ahead, Progress};
use crate::attributes::TTL;
use crate::held;
use crate::set_rights;
use crate::stamp::Stamp;
use crate::tree::{Kind, Seen, open_name};
use agg_core::log::Level;
use aggio_formats::files::Folder;
use aggio_formats::{Cache, Holes, Logical, Options, Set, Sets};
use parking_lot::Mutex;
use rustix::fs::Stat;
use std::ffi::OsStr;
use std::io::{Error, Result};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Sets that are kept open though nobody has them open.
const MOST_KEPT: usize = 16;

/// Bytes of assembled parts that are kept for all sets.
const CACHE: u64 = 256 << 20;

/// A set that was opened.
pub(crate) struct OpenSet {
    pub(crate) file: Logical,
    name: String,
    /// Its files.
    set: Set,
    /// Its first file, when the set was opened.
    first: Stat,
    /// The same with the rights that all files give.
    shown: Stat,
    /// When all its files were looked at.
    looked: Mutex<Instant>,
    /// Another for each time that a set is opened.
    number: u64,
    /// How it is being read.
    pub(crate) progress: Progress,
    ahead: Arc<Ahead>,
}

/// The error of the system in an error of a set; logged if it is more than a refusal.
fn error(why: &aggio_formats::Error) -> Error {
    let errno = why.number();
    if errno == rustix::io::Errno::IO.raw_os_error() {
        agg_core::log::once(Level::Error, &why.to_string());
    }
    Error::from_raw_os_error(errno)
}

/// A directory by its descriptor, under the name that the user knows.
pub(crate) fn folder(directory: &Arc<OwnedFd>) -> Folder {
    Folder {
        path: held::directory(directory),
        shown: PathBuf::from(held::name(directory)),
        held: Some(Arc::clone(directory)),
        place: Ok,
        guard: Some(set_rights::without_links()),
    }
}

/// The same for a moment.
fn folder_now(directory: &OwnedFd) -> Folder {
    Folder {
        path: held::directory(directory),
        shown: PathBuf::new(),
        held: None,
        place: Ok,
        guard: Some(set_rights::without_links()),
    }
}

/// The set that a name stands for.
pub(crate) fn see(directory: &OwnedFd, name: &OsStr) -> Result<Option<Seen>> {
    let Some(text) = name.to_str() else { return Ok(None) };
    let set = Set::find(&folder_now(directory), text).map_err(|why| error(&why))?;
    let Some(first) = set.map(|set| set.first()) else { return Ok(None) };
    let fd = Arc::new(open_name(directory, OsStr::new(&first))?);
    let stat = rustix::fs::fstat(&*fd)?;
    Ok(Some(Seen { fd, stat, kind: Kind::Set, first: Some(first.into()) }))
}

/// The set that a file is a part of.
pub(crate) fn that_has<'a>(sets: &'a mut Sets, name: &OsStr) -> Result<Option<&'a Set>> {
    match name.to_str() {
        Some(name) => sets.that_has(name).map_err(|why| error(&why)),
        None => Ok(None),
    }
}

/// The facts that tell one state of a file from another.
fn state(stat: &Stat) -> impl PartialEq {
    let Stat { st_dev, st_ino, st_size, st_mtime, st_mtime_nsec, .. } = *stat;
    (st_dev, st_ino, st_size, st_mtime, st_mtime_nsec, (stat.st_mode, stat.st_uid, stat.st_gid))
}

impl OpenSet {
    pub(crate) fn stat(&self) -> &Stat {
        &self.shown
    }

    /// Whether its files, which are in a directory, still give the rights that are shown.
    fn has_same_rights(&self, directory: &OwnedFd) -> bool {
        let now = set_rights::of_all(directory, &self.set, &self.first);
        now.is_ok_and(|now| set_rights::shown(&self.first, now).st_mode == self.shown.st_mode)
    }

    /// The state of its data, if it can be told from any later one.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        Stamp::of_plain(&self.shown).map(|stamp| Stamp { version: self.number, ..stamp })
    }

    /// Fills the buffer from `offset` on; less only at the end of the file.
    pub(crate) fn read(self: &Arc<Self>, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.ahead.reads(self, offset, buffer.len() as u64);
        self.file.read_at(buffer, offset).map_err(|why| error(&why))
    }

    /// The next place that has data, which is everywhere, or that has none, which is the end.
    pub(crate) fn seek(&self, start: u64, data: bool) -> Result<u64> {
        if start >= self.file.size() {
            return Err(rustix::io::Errno::NXIO.into());
        }
        Ok(if data { start } else { self.file.size() })
    }
}

/// The sets that were used last.
pub(crate) struct OpenSets {
    options: Options,
    /// The one used last is at the end.
    kept: Mutex<Vec<Arc<OpenSet>>>,
    count: AtomicU64,
    ahead: Arc<Ahead>,
}

impl OpenSets {
    pub(crate) fn new(holes: Holes) -> Self {
        // The kernel caches the bytes that were read.
        let options = Options { holes, cache: Arc::new(Cache::once(CACHE)), ..Options::default() };
        let ahead = Arc::default();
        OpenSets { options, kept: Mutex::default(), count: AtomicU64::new(0), ahead }
    }

    /// The set with this name in a directory, and with this first file.
    pub(crate) fn get(
        &self,
        first: &OwnedFd,
        directory: &Arc<OwnedFd>,
        name: &OsStr,
    ) -> Result<Arc<OpenSet>> {
        let name = name.to_str().ok_or(rustix::io::Errno::ILSEQ)?;
        let now = rustix::fs::fstat(first)?;
        if let Some(found) = self.kept(directory, name, &now) {
            return Ok(found);
        }
        let stale = || Error::from(rustix::io::Errno::STALE);
        let set = Set::find(&folder(directory), name).map_err(|why| error(&why))?;
        let rights = set_rights::of_all(directory, &set.ok_or_else(stale)?, &now)?;
        let guard = Some(set_rights::guard(now, rights));
        let place = Folder { guard, ..folder(directory) };
        let set = Set::find(&place, name).map_err(|why| error(&why))?.ok_or_else(stale)?;
        let file = set.open(&self.options).map_err(|why| error(&why))?;
        let looked = Mutex::new(Instant::now());
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let opened = Arc::new(OpenSet {
            file,
            name: name.into(),
            set,
            first: now,
            shown: set_rights::shown(&now, rights),
            looked,
            number,
            progress: Progress::default(),
            ahead: Arc::clone(&self.ahead),
        });
        let mut kept = self.kept.lock();
        kept.retain(|other| other.name != name || other.first.st_ino != now.st_ino);
        if kept.len() >= MOST_KEPT {
            kept.remove(0);
        }
        kept.push(Arc::clone(&opened));
        Ok(opened)
    }

    /// The set as it was opened before, if it has not changed.
    fn kept(&self, directory: &OwnedFd, name: &str, now: &Stat) -> Option<Arc<OpenSet>> {
        let mut kept = self.kept.lock();
        let same = |set: &Arc<OpenSet>| set.name == name && state(&set.first) == state(now);
        let found = kept.iter().position(same)?;
        let set = kept.remove(found);
        // Its other files may have changed, too. One look at a time is enough.
        let is_old = set.looked.lock().elapsed() > TTL;
        if is_old && !(set.file.is_unchanged() && set.has_same_rights(directory)) {
            return None;
        }
        if is_old {
            *set.looked.lock() = Instant::now();
        }
        kept.push(Arc::clone(&set));
        Some(set)
    }
}
