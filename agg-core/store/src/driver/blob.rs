//! Blob containers as files: each rank that writes appends to a log of its own.

use super::descriptor::Descriptor;
use super::latency::{Meter, Meters};
use super::portions::{read_in_portions, write_in_portions};
use super::table::{Drivers, Kind};
use super::{Closing, Driver, Facts, Identity, Offer, OpenHow, Outcome, generic, locks, posix};
use crate::independent::{self, Strategy};
use aggio_base::Extent;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::log::{self, Level};
use aggio_base::report::Counters;
use aggio_comm::transport::LockGuard;
use aggio_config::settings::blobs::BlobRule;
use aggio_container::blob::{self, Container, Create, Hold, Presence, Reader, Sealing, Writer};
use aggio_types::memory::Memory;
use aggio_types::view::View;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

mod opening;
#[cfg(test)]
mod tests;

/// The container kind of storage, with the rules that select which new files become containers, and
/// the costs of requests to containers on each file system.
#[derive(Debug)]
pub struct Containers {
    rules: Arc<[BlobRule]>,
    meters: Arc<Meters>,
    /// The directory of the node for the logs of containers that become sets.
    stage: OnceLock<PathBuf>,
}

impl Containers {
    /// Containers; new ones are made according to these rules.
    pub(super) fn new(rules: &[BlobRule], meters: Arc<Meters>) -> Self {
        Self { rules: rules.into(), meters, stage: OnceLock::new() }
    }

    /// Lets logs of containers that become sets wait in the directory `place`, where writes to
    /// their files may be staged.
    pub fn stage_logs(&self, place: &Path) {
        // The first setting is kept.
        let _ = self.stage.set(place.to_path_buf());
    }

    /// The rule for a new file `path`.
    fn rule(&self, path: &str) -> Option<&BlobRule> {
        BlobRule::of(&self.rules, path)
    }

    /// Whether a set called `path` was made of a container, and becomes one to be changed.
    pub fn remakes(&self, path: &str) -> bool {
        self.rule(path).is_some_and(|rule| rule.layout != blob::Layout::Container)
    }

    /// How a container called `path` is made.
    pub fn creation(&self, path: &str, mode: u32) -> Create {
        let data_crc = self.rule(path).is_none_or(|rule| rule.data_crc);
        Create { mode, exclusive: false, data_crc }
    }
}

impl Kind for Containers {
    fn name(&self) -> &'static str {
        "blob"
    }

    fn prefixes(&self) -> &'static [&'static str] {
        &["blob:"]
    }

    /// Whether opening `how` makes a new container.
    fn claims(&self, _: &Drivers, how: &OpenHow) -> Result<bool> {
        let path = &how.path;
        let is_new = || (how.create || how.exclusive) && !Path::new(path).exists();
        if self.rule(path).is_some() {
            return Ok(is_new());
        }
        if BlobRule::spares(&self.rules, path) && is_new() {
            let why = "AGGIO_BLOB means it only by a pattern that begins with / \
                       (it is below /dev, /etc, ...)";
            log::once(Level::Warn, &format!("{path} becomes an ordinary file: {why}"));
        }
        Ok(false)
    }

    /// A container is a directory.
    fn explains(&self, path: &str, error: &Error) -> bool {
        error.errno() == libc::EISDIR && blob::is_container(&opening::behind_link(path))
    }

    fn open(&self, drivers: &Drivers, how: &OpenHow) -> Result<Box<dyn Driver>> {
        let path = &*opening::behind_link(&how.path);
        let creates = how.create || how.exclusive;
        let container = if creates {
            let mode = how.permissions.unwrap_or(0o666);
            let create = Create { exclusive: how.exclusive, ..self.creation(&how.path, mode) };
            Container::create(path, &create)
        } else {
            Container::open(path)
        };
        let container = container.map_err(|error| error.with_path(&how.path))?;
        match self.file(container, how)? {
            Some(file) => Ok(file),
            // It has become a set just now.
            None => drivers.open(&OpenHow { create: creates, ..how.clone() }),
        }
    }

    fn adopt(&self, _: &Drivers, how: &OpenHow, offer: Offer) -> Result<Box<dyn Driver>> {
        self.taken(how, offer)
    }

    fn sees(&self, how: &OpenHow) -> bool {
        posix::sees(how)
    }

    fn delete(&self, drivers: &Drivers, path: &str, _: usize) -> Result<()> {
        blob::remove(Path::new(path)).map_err(|error| error.with_path(path))?;
        drivers.remove_hidden(path)
    }
}

/// An open container.
#[derive(Debug)]
struct BlobFile {
    container: Container,
    meter: Arc<Meter>,
    file_system: OnceLock<String>,
    /// Until this rank has closed it.
    presence: Mutex<Option<Presence>>,
    hold: Mutex<Option<Hold>>,
    rules: Arc<[BlobRule]>,
    how: OpenHow,
    /// Had at the first read.
    reader: RwLock<Option<Reader>>,
    /// Had at the first write: a rank that writes nothing leaves no log.
    writer: RwLock<Option<Writer>>,
    /// How often the file was synchronised, and that number when the logs themselves were looked at
    /// last: other hosts may have written, and the counter of writes is shared on one host only.
    syncs: AtomicU64,
    looked: AtomicU64,
    /// The same of the moment when the writer last looked which writes its own follow.
    followed: AtomicU64,
    /// Nothing is read or written any more.
    closed: AtomicBool,
    /// The file that the locks of atomic mode are taken on, behind all that others lock there.
    locks: OnceLock<Arc<Descriptor>>,
}

impl BlobFile {
    fn read<T>(&self, act: impl FnOnce(&Reader) -> Result<T>) -> Result<T> {
        if !self.how.read {
            return Err(Error::os("read", &io::Error::from_raw_os_error(libc::EBADF)));
        }
        with(
            &self.reader,
            || self.reader(),
            |reader| {
                // Other ranks may have written since.
                self.look(reader)?;
                act(reader)
            },
        )
    }

    /// Brings `reader` up to date.
    fn look(&self, reader: &Reader) -> Result<bool> {
        let syncs = self.syncs.load(Ordering::Acquire);
        if self.looked.load(Ordering::Acquire) == syncs {
            return reader.catch_up();
        }
        let changed = reader.refresh()?;
        self.looked.fetch_max(syncs, Ordering::AcqRel);
        Ok(changed)
    }

    fn write<T>(&self, act: impl FnOnce(&Writer) -> Result<T>) -> Result<T> {
        if !self.how.write {
            return Err(Error::os("write", &io::Error::from_raw_os_error(libc::EBADF)));
        }
        with(
            &self.writer,
            || self.open().and_then(|()| self.container.writer()),
            |writer| {
                self.follow(writer)?;
                act(writer)
            },
        )
    }

    /// Orders later writes behind all those present at the last synchronisation, on other computers
    /// too.
    fn follow(&self, writer: &Writer) -> Result<()> {
        let syncs = self.syncs.load(Ordering::Acquire);
        if self.container.may_be_stale() && self.followed.load(Ordering::Acquire) != syncs {
            writer.follow()?;
            self.followed.fetch_max(syncs, Ordering::AcqRel);
        }
        Ok(())
    }

    fn reader(&self) -> Result<Reader> {
        self.open()?;
        self.container.reader()?.verifying(self.how.verify)
    }

    /// Writes pieces of the file, which ascend, as one frame.
    fn write_frame(&self, pieces: &[(u64, &[u8])], counters: &Counters) -> Outcome {
        let start = counters.now();
        let result = self.write(|writer| writer.write_pieces(pieces));
        Counters::add(&counters.writes_out, 1);
        if counters.is_timed() {
            Counters::add_since(&counters.nanoseconds_out, start);
        }
        let extents = || pieces.iter().map(|(at, data)| Extent::new(*at, data.len() as u64));
        if let Err(error) = result {
            let first = extents().next().map_or(0, |extent| extent.offset);
            let end = extents().next_back().map_or(first, |extent| extent.end());
            return Outcome {
                bytes: 0,
                result: Err(error.with_extent(Extent::between(first, end))),
            };
        }
        let bytes = extents().map(|extent| extent.len).sum();
        Counters::add(&counters.bytes_written_out, bytes);
        Outcome { bytes, result: Ok(()) }
    }

    /// Reads ranges of the file, one behind the other.
    fn read_ranges(&self, buffer: &mut [u8], ranges: &[Extent], counters: &Counters) -> Outcome {
        let (sample, len) = (self.meter.reads.begin(), buffer.len());
        let start = sample.or_else(|| counters.now());
        let read = self.read(|reader| reader.read_ranges(buffer, ranges));
        Counters::add(&counters.reads_out, 1);
        if counters.is_timed() {
            Counters::add_since(&counters.nanoseconds_out, start);
        }
        if let (Some(start), Ok(n)) = (sample, &read)
            && *n == len
        {
            self.meter.reads.learn(len as u64, start.elapsed());
        }
        let hull = ranges.iter().fold(Extent::default(), |hull, range| hull.hull(*range));
        let bytes = read.as_ref().map_or(0, |n| *n as u64);
        Counters::add(&counters.bytes_read_out, bytes);
        Outcome { bytes, result: read.map(drop).map_err(|error| error.with_extent(hull)) }
    }

    /// An error once the file has been closed.
    fn open(&self) -> Result<()> {
        match self.closed.load(Ordering::Acquire) {
            true => Err(Error::os("access", &io::Error::from_raw_os_error(libc::EBADF))),
            false => Ok(()),
        }
    }
}

/// Calls `act` with the value in `slot`; `make` creates it at the first need.
fn with<R, T>(
    slot: &RwLock<Option<R>>,
    make: impl FnOnce() -> Result<R>,
    act: impl FnOnce(&R) -> Result<T>,
) -> Result<T> {
    if let Some(made) = &*slot.read().unwrap_or_else(PoisonError::into_inner) {
        return act(made);
    }
    let mut empty = slot.write().unwrap_or_else(PoisonError::into_inner);
    if empty.is_none() {
        *empty = Some(make()?);
    }
    drop(empty);
    let lost = || Error::new(ErrorClass::File, "the file has been closed");
    act(slot.read().unwrap_or_else(PoisonError::into_inner).as_ref().ok_or_else(lost)?)
}

impl Driver for BlobFile {
    fn name(&self) -> &'static str {
        "blob"
    }

    fn pread(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read(|reader| reader.read_at(buffer, offset)).map_err(|error| error.to_io())
    }

    fn pwrite(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        self.write(|writer| writer.write_at(buffer, offset)).map_err(|error| error.to_io())
    }

    fn pwritev(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let (mut pieces, mut at) = (Vec::with_capacity(buffers.len()), offset);
        for buffer in buffers.iter().filter(|buffer| !buffer.is_empty()) {
            pieces.push((at, &**buffer));
            at += buffer.len() as u64;
        }
        self.write(|writer| writer.write_pieces(&pieces)).map_err(|error| error.to_io())?;
        usize::try_from(at - offset).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
    }

    /// Pieces of file become a frame with many runs, however small they are.
    fn write_strided(
        &self,
        view: &View,
        pos: u64,
        memory: &Memory,
        _: &Strategy,
        counters: &Counters,
    ) -> Outcome {
        write_in_portions(view, pos, memory, &mut |pieces| self.write_frame(pieces, counters))
    }

    /// Pieces of file that lie together in a log take one request, however far apart they are in
    /// the file, unless they are so close there that the gaps are rather read along.
    fn read_strided(
        &self,
        view: &View,
        pos: u64,
        memory: &Memory,
        strategy: &Strategy,
        counters: &Counters,
    ) -> Outcome {
        if view.is_contiguous() || independent::joins_gaps(self, view, pos, memory, strategy) {
            return independent::read_strided(self, view, pos, memory, strategy, counters);
        }
        read_in_portions(view, pos, memory, &mut |buffer, ranges| {
            self.read_ranges(buffer, ranges, counters)
        })
    }

    fn size(&self) -> Result<u64> {
        match &*self.writer.read().unwrap_or_else(PoisonError::into_inner) {
            Some(writer) => writer.size(),
            None => with(
                &self.reader,
                || self.reader(),
                |reader| {
                    self.look(reader)?;
                    Ok(reader.size())
                },
            ),
        }
    }

    fn set_size(&self, size: u64) -> Result<()> {
        generic::check_range(size, 0)?;
        self.write(|writer| writer.set_size(size))
    }

    fn sync(&self) -> Result<()> {
        self.syncs.fetch_add(1, Ordering::AcqRel);
        let writer = self.writer.read().unwrap_or_else(PoisonError::into_inner);
        writer.as_ref().map_or(Ok(()), Writer::sync)
    }

    fn renew(&self) {
        if self.container.may_be_stale() {
            // Later reads look at the logs themselves, not at the counts of other processes in
            // memory.
            self.syncs.fetch_add(1, Ordering::AcqRel);
            let reader = self.reader.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(reader) = &*reader {
                reader.renew();
            }
        }
    }

    fn close(&self, _: Closing) -> Result<()> {
        // Set this before the reader and the writer are dropped: making another one takes the same
        // lock.
        self.closed.store(true, Ordering::Release);
        drop(self.reader.write().unwrap_or_else(PoisonError::into_inner).take());
        let writer = self.writer.write().unwrap_or_else(PoisonError::into_inner).take();
        let closed = writer.map_or(Ok(()), Writer::close);
        drop(self.presence.lock().unwrap_or_else(PoisonError::into_inner).take());
        let hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner).take();
        let released = hold.map_or(Ok(()), |hold| self.container.release(hold));
        closed.and(released)
    }

    fn sealing(&self) -> Option<Sealing> {
        let rule = BlobRule::of(&self.rules, &self.how.path).filter(|_| self.how.write)?;
        let writer = self.writer.read().unwrap_or_else(PoisonError::into_inner);
        let log = writer.as_ref().and_then(Writer::log_id).unwrap_or(0);
        let durable = self.syncs.load(Ordering::Acquire) > 0 || !self.container.was_made_here();
        Some(Sealing { layout: rule.layout, files: rule.files, log, durable })
    }

    fn try_lock(&self, extent: Extent, exclusive: bool) -> Result<Option<Box<dyn LockGuard>>> {
        let descriptor = match self.locks.get() {
            Some(descriptor) => descriptor,
            None => {
                let made = self.container.order_file(false)?;
                self.locks.get_or_init(|| Arc::new(Descriptor::new(made.into_raw_fd())))
            }
        };
        locks::try_lock(descriptor, extent, exclusive)
    }

    /// It is that of the directory.
    fn identity(&self) -> Option<Identity> {
        Identity::of(self.container.directory().as_raw_fd()).ok()
    }

    fn offer(&self) -> Option<Offer> {
        Offer::of(self.container.directory().as_raw_fd()).ok()
    }

    /// The file system is that of the logs, as requests have the costs of that file system.
    fn facts(&self) -> Facts {
        let name = || opening::file_system(self.container.directory().as_raw_fd());
        let file_system = self.file_system.get_or_init(name);
        Facts { has_logs: true, ..Facts::of_bytes(file_system) }
    }

    fn meter(&self) -> Option<&Meter> {
        Some(&self.meter)
    }
}
