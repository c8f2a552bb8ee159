//! An open container: one reader for all that read it, one log for all that write it.

use crate::attributes::TTL;
use crate::held;
use crate::seek;
use crate::stamp::Stamp;
use agg_core::Extent;
use agg_core::blob::{Attributes, Container, Hold, MANIFEST, Permissions, Reader, Verify, Writer};
use agg_core::log::Level;
use parking_lot::{Mutex, RwLock};
use rustix::fs::AtFlags;
use std::io::{Error, Result};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// An open container.
pub(crate) struct Blob {
    fd: Arc<OwnedFd>,
    container: Container,
    reader: Reader,
    writer: RwLock<Option<Writer>>,
    uses: Mutex<Uses>,
    /// When the reader was refreshed, and how many changes there had been.
    looked: Mutex<(Instant, u64)>,
    /// The number of logs that were ended here; each makes an earlier look outdated.
    changes: AtomicU64,
    /// Mode and owner, and the manifest that has them.
    permissions: Mutex<Option<(Version, Permissions)>>,
    /// Keeps its parts, even if its name is removed here or in another process.
    hold: Option<Hold>,
    /// The container's path may go through this descriptor.
    _home: Option<Arc<OwnedFd>>,
}

/// Which file a manifest is: each change makes another one.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Version {
    inode: u64,
    changed: (i64, u64),
}

#[derive(Default)]
struct Uses {
    opens: usize,
    writers: usize,
}

/// The error of the system in an error of a container; logged if it is more than a refusal.
pub(crate) fn error(fd: &OwnedFd, why: &agg_core::Error) -> Error {
    let errno = why.number();
    if why.errno() == 0 || errno == rustix::io::Errno::IO.raw_os_error() {
        agg_core::log::once(Level::Error, &format!("{}: {why}", held::name(fd)));
    }
    Error::from_raw_os_error(errno)
}

/// The attributes of a container that need not be open.
pub(crate) fn attributes(fd: &OwnedFd) -> Result<Attributes> {
    let container = Container::open(&held::directory(fd)).map_err(|why| error(fd, &why))?;
    container.attributes().map_err(|why| error(fd, &why))
}

impl Blob {
    pub(crate) fn open(fd: Arc<OwnedFd>, verify: Verify) -> Result<Self> {
        let container = Container::open(&held::directory(&fd)).map_err(|why| error(&fd, &why))?;
        Self::of(fd, container, None, verify)
    }

    /// A container that was just made; its path goes through the descriptor `home`.
    pub(crate) fn made(
        fd: Arc<OwnedFd>,
        (container, home): (Container, Arc<OwnedFd>),
        verify: Verify,
    ) -> Result<Self> {
        Self::of(fd, container, Some(home), verify)
    }

    fn of(
        fd: Arc<OwnedFd>,
        container: Container,
        home: Option<Arc<OwnedFd>>,
        verify: Verify,
    ) -> Result<Self> {
        let hold = container.hold().map_err(|why| error(&fd, &why))?;
        let reader = container.reader().and_then(|reader| reader.verifying(verify));
        let reader = reader.map_err(|why| error(&fd, &why))?;
        Ok(Blob {
            fd,
            container,
            reader,
            writer: RwLock::default(),
            uses: Mutex::default(),
            looked: Mutex::new((Instant::now(), 0)),
            changes: AtomicU64::new(0),
            permissions: Mutex::default(),
            hold,
            _home: home,
        })
    }

    fn told<T>(&self, result: agg_core::Result<T>) -> Result<T> {
        result.map_err(|why| error(&self.fd, &why))
    }

    /// Attributes with everything that was written until now.
    pub(crate) fn attributes(&self) -> Result<Attributes> {
        let size = || {
            self.reader.refresh()?;
            Ok(self.reader.size())
        };
        self.told(self.container.attributes_with(size))
    }

    /// Mode and owner; cheap as long as nobody replaces the manifest.
    pub(crate) fn permissions(&self) -> Result<Permissions> {
        let stat = rustix::fs::statat(&*self.fd, MANIFEST, AtFlags::SYMLINK_NOFOLLOW)?;
        let changed = (stat.st_ctime, stat.st_ctime_nsec);
        let version = Version { inode: stat.st_ino, changed };
        let known = *self.permissions.lock();
        if let Some((_, found)) = known.filter(|(of, _)| *of == version) {
            return Ok(found);
        }
        let found = self.told(self.container.permissions())?;
        *self.permissions.lock() = Some((version, found));
        Ok(found)
    }

    pub(crate) fn set_mode(&self, mode: u32) -> Result<()> {
        self.told(self.container.set_mode(mode))
    }

    pub(crate) fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.told(self.container.set_owner(uid, gid))
    }

    pub(crate) fn set_times(
        &self,
        accessed: Option<SystemTime>,
        modified: Option<SystemTime>,
    ) -> Result<()> {
        self.told(self.container.set_times(accessed, modified))
    }

    /// Names that lead to it: none once it was removed.
    pub(crate) fn links(&self) -> u32 {
        u32::from(self.container.removed().is_none())
    }

    /// Fills the buffer from `offset` on; less only at the end of the file.
    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.catch_up()?;
        self.told(self.reader.read_at(buffer, offset))
    }

    /// The state of its data, if its next state has another number.
    pub(crate) fn stamp(&self) -> Result<Option<Stamp>> {
        self.refresh()?;
        let reader = self.caught_up()?;
        let found = self.attributes()?;
        let time = found.mtime.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(time.as_secs()).unwrap_or(0);
        let modified = (seconds, u64::from(time.subsec_nanos()));
        let stamp = Stamp { version: reader.generation(), size: found.size, modified };
        Ok((reader.is_sealed() && found.sealed).then_some(stamp))
    }

    /// The reader, with everything that was written until now.
    fn caught_up(&self) -> Result<&Reader> {
        self.catch_up()?;
        Ok(&self.reader)
    }

    /// Refreshes the reader: that of a sealed container as often as the kernel asks for attributes,
    /// any other one every time.
    fn catch_up(&self) -> Result<()> {
        let (when, changes) = *self.looked.lock();
        let is_fresh = when.elapsed() < TTL && changes == self.changes.load(Ordering::Acquire);
        if is_fresh && self.reader.is_sealed() && self.writer.read().is_none() {
            return Ok(());
        }
        self.refresh()
    }

    /// Takes in everything that was written until now.
    fn refresh(&self) -> Result<()> {
        let now = (Instant::now(), self.changes.load(Ordering::Acquire));
        self.told(self.reader.refresh())?;
        *self.looked.lock() = now;
        Ok(())
    }

    /// Marks it as in use, for a caller that is about to open it.
    pub(crate) fn reserve(&self) {
        self.uses.lock().opens += 1;
    }

    /// Opens it for a caller that has reserved it. The first one that writes makes the log.
    pub(crate) fn begin(&self, writes: bool) -> Result<()> {
        let mut uses = self.uses.lock();
        if writes {
            let mut writer = self.writer.write();
            if writer.is_none() {
                *writer = Some(self.told(self.container.writer())?);
            }
            uses.writers += 1;
        }
        Ok(())
    }

    /// Closes it once; returns whether it is no longer open. The last writer seals it.
    pub(crate) fn end(&self, writes: bool) -> (bool, Result<()>) {
        let mut uses = self.uses.lock();
        uses.opens = uses.opens.saturating_sub(1);
        let mut result = Ok(());
        if writes {
            uses.writers = uses.writers.saturating_sub(1);
            if uses.writers == 0 {
                result = self.close_writer();
            }
        }
        (uses.opens == 0, result)
    }

    /// Closes the log, also when the file system ends before all files were closed.
    fn close_writer(&self) -> Result<()> {
        match self.writer.write().take() {
            Some(writer) => self.ended(writer),
            None => Ok(()),
        }
    }

    fn ended(&self, writer: Writer) -> Result<()> {
        let closed = writer.close();
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.told(closed)
    }

    /// Runs `act` with the log; one is made for that if nobody has it open for writing.
    pub(crate) fn write<T>(&self, act: impl FnOnce(&Writer) -> agg_core::Result<T>) -> Result<T> {
        if let Some(writer) = &*self.writer.read() {
            return self.told(act(writer));
        }
        let writer = self.told(self.container.writer())?;
        let result = act(&writer);
        let closed = self.ended(writer);
        let value = self.told(result)?;
        closed?;
        Ok(value)
    }

    /// Whether no program has it open.
    pub(crate) fn is_unused(&self) -> bool {
        self.uses.lock().opens == 0
    }

    /// The name of the container for messages.
    pub(crate) fn name(&self) -> String {
        held::name(&self.fd)
    }

    /// The next place from `start` on that has data, or that has none.
    pub(crate) fn seek(&self, start: u64, data: bool) -> Result<u64> {
        let reader = self.caught_up()?;
        let size = reader.size();
        if start >= size {
            return Err(rustix::io::Errno::NXIO.into());
        }
        if self.uses.lock().writers > 0 {
            return seek::in_data(start, size, data);
        }
        let (mut place, mut window) = (start, 1 << 20);
        while place < size {
            if data {
                place = self.told(reader.data_from(place))?;
            }
            let range = Extent::new(place, window.min(size - place));
            for segment in self.told(reader.segments(range))? {
                if segment.source.is_some() == data && segment.logical.len > 0 {
                    return Ok(segment.logical.offset.max(start));
                }
            }
            place += range.len;
            window = (window * 2).min(1 << 30);
        }
        // The end of the file counts as a hole.
        if data { Err(rustix::io::Errno::NXIO.into()) } else { Ok(size) }
    }
}

impl Drop for Blob {
    /// The last process that has it open, this or another one, removes a container without a name.
    fn drop(&mut self) {
        let Some(hold) = self.hold.take() else { return };
        if let Err(why) = self.container.release(hold) {
            agg_core::log!(Level::Error, "{}: not removed: {why}", self.name());
        }
    }
}
