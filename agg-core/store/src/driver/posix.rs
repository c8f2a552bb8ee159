//! Files of every file system that the kernel serves: local, NFS, Lustre, GPFS, FUSE, ...

use super::descriptor::Descriptor;
use super::direct::Direct;
use super::facts::Magic;
use super::latency::{self, Meter, Meters};
use super::mapped::Mappable;
use super::reserving::Reserving;
use super::table::{Drivers, Kind};
use super::{
    Closing, Driver, Facts, InPlace, OpenHow, Stamp, Striped, caches, facts, generic, locks,
    mapped, os, striping,
};
use aggio_base::{Error, ErrorClass, Extent, Result};
use aggio_comm::transport::LockGuard;
use aggio_comm::transport::{Identity, Offer, Taken};
use std::ffi::CString;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// Two changes of a file may have one time if they are no further apart, in nanoseconds.
const COARSE: i128 = 2_000_000_000;

/// An open file.
#[derive(Debug)]
struct PosixFile {
    descriptor: Arc<Descriptor>,
    direct: Option<Direct>,
    /// Properties that the system reported at open and that do not change.
    identity: Identity,
    block_size: u64,
    facts: OnceLock<Facts>,
    /// Before this time, in milliseconds of the clock of times of files, the file has no stamp.
    stamps_from: AtomicI64,
    magic: Magic,
    meter: Arc<Meter>,
    mappable: Mappable,
    /// Whether this computer keeps pages of the file, and no disk of it has them.
    may_cache: bool,
    striped: Striped,
    reserving: Reserving,
}

/// Refuses names that cannot be a path.
fn c_path(path: &str) -> Result<CString> {
    let bad = |why: &str| Error::new(ErrorClass::BadFile, format!("file name {path:?} {why}"));
    if path.is_empty() {
        return Err(bad("is empty"));
    }
    CString::new(path).map_err(|_| bad("contains a zero byte"))
}

/// The POSIX kind of storage, with the costs of requests to each file system.
#[derive(Clone, Debug)]
pub(super) struct Posix {
    meters: Arc<Meters>,
}

impl Kind for Posix {
    fn name(&self) -> &'static str {
        "posix"
    }

    /// The prefixes of ROMIO: programs and job scripts contain them.
    fn prefixes(&self) -> &'static [&'static str] {
        &[
            "ufs:", "nfs:", "xfs:", "pfs:", "piofs:", "pvfs:", "pvfs2:", "panfs:", "gpfs:",
            "lustre:", "daos:", "ime:", "quobyte:",
        ]
    }

    /// `O_APPEND` is never used, because it would change the meaning of `pwrite`.
    fn open(&self, _: &Drivers, how: &OpenHow) -> Result<Box<dyn Driver>> {
        self.open_by(how, &striping::Real)
    }

    fn adopt(&self, _: &Drivers, how: &OpenHow, offer: Offer) -> Result<Box<dyn Driver>> {
        let needed = OpenHow { read: how.read && !how.read_is_optional, ..how.clone() };
        let Taken { fd, copied } = offer.take(access_wanted(&needed))?;
        let access = os::access_mode(fd.as_raw_fd()).map_err(|error| Error::os("fcntl", &error))?;
        let stat = os::lasting_facts(fd.as_raw_fd());
        let stat = stat.map_err(|error| Error::os("fstat", &error))?;
        refuse_directory(&stat).map_err(|error| Error::os("adopt", &error))?;
        let descriptor = Descriptor::with(fd.into_raw_fd(), copied);
        let file = PosixFile::new(how, descriptor, access, &stat, &self.meters);
        // The owner of a copied descriptor has already dropped this computer's cached pages of the
        // file.
        if !copied {
            file.renew();
        }
        Ok(Box::new(file))
    }

    fn sees(&self, how: &OpenHow) -> bool {
        sees(how)
    }

    fn delete(&self, _: &Drivers, path: &str, _: usize) -> Result<()> {
        let name = c_path(path)?;
        os::unlink(&name).map_err(|error| Error::os("unlink", &error).with_path(path))
    }
}

impl Posix {
    pub(super) fn new(meters: Arc<Meters>) -> Self {
        Self { meters }
    }

    /// Opens a file; a new one gets its stripes from `system`.
    pub(super) fn open_by(
        &self,
        how: &OpenHow,
        system: &dyn striping::System,
    ) -> Result<Box<dyn Driver>> {
        Ok(Box::new(open_file(how, system, &self.meters)?))
    }
}

fn open_file(how: &OpenHow, system: &dyn striping::System, meters: &Meters) -> Result<PosixFile> {
    let path = c_path(&how.path)?;
    let mut flags = access_wanted(how) | libc::O_CLOEXEC | libc::O_NOCTTY;
    if how.create {
        flags |= libc::O_CREAT;
    }
    if how.exclusive {
        flags |= libc::O_CREAT | libc::O_EXCL;
    }
    let fail = |call: &str, error: io::Error| Error::os(call, &error).with_path(&how.path);
    let permissions = how.permissions.unwrap_or(0o666);
    let opened = match how.create && how.striping.is_wanted() {
        true => striping::create(&path, flags, permissions, how.striping, system),
        false => os::open(&path, flags, permissions).map(|fd| (fd, Striped::default())),
    };
    let (fd, striped) = opened.map_err(|error| fail("open", error))?;
    let descriptor = Descriptor::new(fd);
    let stat = os::lasting_facts(fd).map_err(|error| fail("fstat", error))?;
    refuse_directory(&stat).map_err(|error| fail("open", error))?;
    let access = access_wanted(how);
    let file = PosixFile { striped, ..PosixFile::new(how, descriptor, access, &stat, meters) };
    file.renew();
    Ok(file)
}

/// A directory may be a file of another kind.
fn refuse_directory(stat: &libc::stat) -> io::Result<()> {
    let is_directory = stat.st_mode & libc::S_IFMT == libc::S_IFDIR;
    if is_directory { Err(io::Error::from_raw_os_error(libc::EISDIR)) } else { Ok(()) }
}

fn access_wanted(how: &OpenHow) -> i32 {
    match (how.read, how.write) {
        (true, true) => libc::O_RDWR,
        (false, true) => libc::O_WRONLY,
        _ => libc::O_RDONLY,
    }
}

impl Posix {
    /// The file that `fd` leads to, with the access that `how` asks for.
    pub(super) fn of_descriptor(&self, how: &OpenHow, fd: OwnedFd) -> Result<Box<dyn Driver>> {
        let stat = os::lasting_facts(fd.as_raw_fd());
        let stat = stat.map_err(|error| Error::os("fstat", &error))?;
        let (descriptor, access) = (Descriptor::new(fd.into_raw_fd()), access_wanted(how));
        let file = PosixFile::new(how, descriptor, access, &stat, &self.meters);
        file.renew();
        Ok(Box::new(file))
    }
}

/// Whether the file is there, or the directory in which it is to be created.
pub(super) fn sees(how: &OpenHow) -> bool {
    let path = Path::new(&how.path);
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    path.exists() || how.create && folder.is_dir()
}

impl PosixFile {
    /// An open file with the properties `stat`; `access` is the access mode of its descriptor. This
    /// computer's cached pages of it may be stale.
    fn new(
        how: &OpenHow,
        descriptor: Descriptor,
        access: i32,
        stat: &libc::stat,
        meters: &Meters,
    ) -> Self {
        let identity = Identity::from(stat);
        let (device, block_size) = (identity.device, u64::try_from(stat.st_blksize).unwrap_or(1));
        let wants_direct = how.direct_read || how.direct_write;
        let open_directly = |fd| Direct::open(fd, access, how.direct_read, how.direct_write);
        let direct = descriptor.get().ok().filter(|_| wants_direct).and_then(open_directly);
        let may_cache = access != libc::O_WRONLY && caches::has_no_disk(device);
        let magic = Magic::default();
        let name = || magic.look(&descriptor, block_size).file_system;
        let path = if direct.is_some() { latency::Path::Direct } else { latency::Path::Cached };
        Self {
            meter: meters.of(device, path, name),
            descriptor: Arc::new(descriptor),
            direct,
            identity,
            block_size,
            facts: OnceLock::new(),
            stamps_from: AtomicI64::new(i64::MIN),
            mappable: match wants_direct {
                true => Mappable { loads: false, stores: false },
                false => Mappable::with(access),
            },
            may_cache,
            magic,
            striped: Striped::default(),
            reserving: Reserving::default(),
        }
    }

    /// Whether this computer may keep pages that are older than the file.
    fn may_be_stale(&self) -> bool {
        self.may_cache && self.magic.of(&self.descriptor).is_some_and(facts::may_be_stale)
    }

    /// Asks the system for the facts.
    fn look(&self) -> Facts {
        self.magic.look(&self.descriptor, self.block_size)
    }

    fn call<T>(&self, name: &str, call: impl FnOnce(RawFd) -> io::Result<T>) -> Result<T> {
        self.descriptor.get().and_then(call).map_err(|error| Error::os(name, &error))
    }

    /// Extends the file to `size` with stored zeros, without `fallocate`.
    ///
    /// Appending cannot overwrite bytes that another process has written behind the old end.
    fn append_zeros(&self, size: u64) -> Result<()> {
        let zeros = vec![0u8; 1 << 20];
        loop {
            let missing = size.saturating_sub(self.size()?);
            let len = usize::try_from(missing).unwrap_or(zeros.len()).min(zeros.len());
            if len == 0 {
                return Ok(());
            }
            match self.descriptor.get().and_then(|fd| os::append(fd, &zeros[..len])) {
                Ok(0) => return Err(Error::new(ErrorClass::NoSpace, "pwritev2: stored nothing")),
                Ok(_) => {}
                Err(error) if is_unsupported(error.raw_os_error()) => return self.set_size(size),
                Err(error) => return Err(Error::os("pwritev2", &error)),
            }
        }
    }
}

fn is_unsupported(errno: Option<i32>) -> bool {
    matches!(errno, Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL))
}

impl Driver for PosixFile {
    fn name(&self) -> &'static str {
        "posix"
    }

    fn pread(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let fd = self.descriptor.get()?;
        let Some(direct) = self.direct.as_ref().filter(|direct| direct.reads()) else {
            return os::pread(fd, buffer, offset);
        };
        direct.pread(buffer, offset).unwrap_or_else(|| {
            let len = Direct::head(offset, buffer.len());
            os::pread(fd, &mut buffer[..len], offset)
        })
    }

    fn pwrite(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        let fd = self.descriptor.get()?;
        let Some(direct) = self.direct.as_ref().filter(|direct| direct.writes()) else {
            return os::pwrite(fd, buffer, offset);
        };
        direct.pwrite(buffer, offset).unwrap_or_else(|| {
            os::pwrite(fd, &buffer[..Direct::head(offset, buffer.len())], offset)
        })
    }

    fn preadv(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        os::preadv(self.descriptor.get()?, buffers, offset)
    }

    fn pwritev(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        os::pwritev(self.descriptor.get()?, buffers, offset)
    }

    fn in_place(&self, extent: Extent, access: InPlace<'_>, copy: &mut dyn FnMut(*mut u8)) -> bool {
        let stores = access != InPlace::Load;
        let file_system = &self.facts.get_or_init(|| self.look()).file_system;
        let mappable = if stores { self.mappable.stores } else { self.mappable.loads };
        let Ok(fd) = self.descriptor.get() else { return false };
        if !mappable || extent.is_empty() || !mapped::is_suitable(file_system) {
            return false;
        }
        // On any error the caller moves the bytes by requests and gets the error there.
        let result = match stores {
            true => mapped::store(fd, file_system, extent, copy),
            false => mapped::load(fd, extent, copy),
        };
        result.unwrap_or(false)
    }

    fn size(&self) -> Result<u64> {
        let stat = self.call("fstat", os::fstat)?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    fn set_size(&self, size: u64) -> Result<()> {
        generic::check_range(size, 0)?;
        self.reserving.forget_end();
        self.call("ftruncate", |fd| os::ftruncate(fd, size))
    }

    fn sync(&self) -> Result<()> {
        self.call("fsync", os::fsync)
    }

    fn renew(&self) {
        if let Some(fd) = self.descriptor.get().ok().filter(|_| self.may_be_stale()) {
            caches::forget(fd);
        }
    }

    fn close(&self, how: Closing) -> Result<()> {
        // Closing a copy returns the same errors as closing the last descriptor. If no descriptor
        // is left for a copy, other processes have to open the file by its name.
        let copy = match how {
            Closing::Offering => self.descriptor.get().and_then(os::duplicate).ok(),
            Closing::Complete | Closing::Incomplete => None,
        };
        let direct = self.direct.as_ref().map_or(Ok(()), Direct::close);
        let closed = match copy {
            Some(copy) => os::close(copy.into_raw_fd()),
            None => self.descriptor.close(),
        };
        closed.and(direct).map_err(|error| Error::os("close", &error))
    }

    fn facts(&self) -> Facts {
        self.facts.get_or_init(|| self.look()).clone()
    }

    fn striped(&self) -> Striped {
        self.striped.clone()
    }

    fn meter(&self) -> Option<&Meter> {
        Some(&self.meter)
    }

    fn stamp(&self) -> Option<Stamp> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let milliseconds = i64::try_from(now.as_millis()).ok()?;
        // Where the system asks a server, it is not asked in vain.
        if milliseconds < self.stamps_from.load(Ordering::Relaxed) {
            return None;
        }
        let stat = self.descriptor.get().and_then(os::fstat).ok()?;
        let time = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        let modified = time(stat.st_mtime, stat.st_mtime_nsec);
        let changed = time(stat.st_ctime, stat.st_ctime_nsec);
        let from = modified.max(changed) + COARSE;
        if i128::try_from(now.as_nanos()).ok()? < from {
            let from = i64::try_from(from / 1_000_000).unwrap_or(i64::MAX);
            self.stamps_from.store(from, Ordering::Relaxed);
            return None;
        }
        Some(Stamp { size: stat.st_size, modified, changed })
    }

    fn direct(&self) -> (bool, bool) {
        self.direct.as_ref().map_or((false, false), |direct| (direct.reads(), direct.writes()))
    }

    fn preallocate(&self, size: u64) -> Result<()> {
        generic::check_range(size, 0)?;
        match self.reserve(Extent::new(0, size)) {
            _ if size == 0 => Ok(()),
            Err(why) if is_unsupported(Some(why.errno())) => self.append_zeros(size),
            reserved => reserved,
        }
    }

    fn reserve_zeros(&self, extent: Extent) -> Extent {
        let nothing = Extent::new(extent.offset, 0);
        self.descriptor.get().map_or(nothing, |fd| self.reserving.zeros(fd, extent))
    }

    fn ends_by(&self, offset: u64) -> bool {
        self.descriptor.get().is_ok_and(|fd| self.reserving.ends_by(fd, offset))
    }

    fn claim_room(&self, len: u64) -> bool {
        self.descriptor.get().is_ok_and(|fd| self.reserving.claim_room(fd, len))
    }

    fn reserve(&self, extent: Extent) -> Result<()> {
        self.call("fallocate", |fd| os::fallocate(fd, extent, false))
    }

    fn identity(&self) -> Option<Identity> {
        self.descriptor.get().ok().map(|_| self.identity)
    }

    fn offer(&self) -> Option<Offer> {
        self.descriptor.get().ok().map(|fd| Offer::with(fd, self.identity))
    }

    fn lock(&self, extent: Extent, exclusive: bool) -> Result<Box<dyn LockGuard>> {
        locks::lock(&self.descriptor, extent, exclusive)
    }

    fn try_lock(&self, extent: Extent, exclusive: bool) -> Result<Option<Box<dyn LockGuard>>> {
        locks::try_lock(&self.descriptor, extent, exclusive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::scratch::Scratch;

    #[test]
    fn storage_made_without_fallocate_keeps_the_existing_bytes() {
        let scratch = Scratch::new();
        let path = scratch.file("f");
        std::fs::write(&path, b"old").unwrap();
        let how = OpenHow { path: path.clone(), read: true, write: true, ..OpenHow::default() };
        let file = open_file(&how, &striping::Real, &Meters::new(true)).unwrap();
        for (wanted, size) in [(2, 3), (3, 3), (3_000_000, 3_000_000), (5, 3_000_000)] {
            file.append_zeros(wanted).unwrap();
            let bytes = std::fs::read(&path).unwrap();
            assert_eq!((bytes.len(), &bytes[..3]), (size, b"old".as_slice()));
            assert!(bytes[3..].iter().all(|byte| *byte == 0));
        }
    }
}
