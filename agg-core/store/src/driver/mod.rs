//! Storage: the table of functions that every kind of file system supplies.

#[macro_use]
mod forward;

pub mod blob;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
pub mod fault;
pub mod fault_plan;
pub mod generic;

pub mod latency;
pub mod table;

mod couple;
mod descriptor;
mod direct;
mod facts;
mod in_place;
mod kinds;
mod lazy;
pub mod locks;
mod mapped;
pub mod portions;
mod posix;
mod reserving;
mod sigbus;
mod striping;

#[cfg(test)]
mod fd_passing_tests;
#[cfg(any(test, feature = "testing"))]
pub mod scratch;
#[cfg(test)]
mod tests;

use crate::independent::{self, Strategy};
use aggio_base::Extent;
use aggio_base::error::{Error, Result};
use aggio_base::os;
use aggio_base::report::{Counters, Totals};
use aggio_config::hints::Drain;
use aggio_container::blob::Verify;
use aggio_types::memory::Memory;
use aggio_types::view::View;
use std::io::{self, IoSlice, IoSliceMut};

pub use aggio_base::caches;
pub use aggio_comm::transport::{Identity, Offer};
pub use aggio_container::blob::Sealing;
pub use facts::Facts;
pub use in_place::InPlace;
pub use lazy::LazyDriver;
pub use striping::{Striped, Striping};

/// The name of the file system with stripes that a program can choose.
pub const STRIPED: &str = aggio_base::file_systems::LUSTRE_NAME;
pub use blob::Containers;
pub use table::{Drivers, Kind};

/// Opens a file with the drivers of this crate alone, where no new file becomes a container.
///
/// # Errors
/// The system's error.
pub fn open(how: &OpenHow) -> Result<Box<dyn Driver>> {
    Drivers::default().open(how)
}

/// Deletes a file with the drivers of this crate alone.
///
/// # Errors
/// The system's error; `ErrorClass::NoSuchFile` if there is none.
pub fn delete(name: &str, rank: usize) -> Result<()> {
    Drivers::default().delete(name, rank)
}

/// How to open one file on one rank.
///
/// These are instructions for the system. The layer above decides the meaning of the caller's
/// access mode for several ranks (the rank that creates, the start of the file pointer, append).
#[derive(Clone, Debug, Default)]
pub struct OpenHow {
    /// File name, possibly with a driver prefix such as `ufs:`.
    pub path: String,
    /// Creates the file if it is missing.
    pub create: bool,
    /// Fails with `ErrorClass::FileExists` if the file exists (implies `create`).
    pub exclusive: bool,
    /// Data may be read.
    pub read: bool,
    /// Data may be written.
    pub write: bool,
    /// Permission bits of a new file, before the umask; `None` means 0666.
    pub permissions: Option<u32>,
    /// Reads go past the page cache if the file system can do that.
    pub direct_read: bool,
    /// Writes go past the page cache if the file system can do that.
    pub direct_write: bool,
    /// Reading is of use, but not needed: where the permissions forbid it, writing is enough.
    pub read_is_optional: bool,
    /// Whether bytes of a container are compared with checksums.
    pub verify: Verify,
    /// The stripes of a new file.
    pub striping: Striping,
    /// Writes may be staged; `None` if they may not.
    pub staging: Option<Staging>,
    /// The rank that opens; only the test driver looks at it.
    pub rank: usize,
}

/// Terms on which writes to a file are staged: they wait on the node, where all see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staging {
    /// This opener makes the stage if there is none; the others join it.
    pub first: bool,
    /// Writes are staged regardless of cost.
    pub always: bool,
    /// When staged bytes go into the file.
    pub drain: Drain,
    /// Bytes of one rank that may be staged.
    pub each: u64,
    /// The same of all ranks, in a directory.
    pub limit: u64,
    /// Bytes of all ranks that may be staged in memory.
    pub in_memory: u64,
    /// All openers see the stage. Otherwise nothing is staged, and bytes left in an earlier stage
    /// are moved into the file before it is open.
    pub shared: bool,
    /// All processes that may access the file run on this node.
    pub local: bool,
}

/// How a rank closes a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The file has all bytes of this rank.
    Complete,
    /// As `Complete`, but other processes can still take the file, see [`Driver::offer`], until it
    /// is closed in another way. A driver that offers nothing closes the file for good.
    Offering,
    /// Bytes of other ranks may be missing because they cannot be reached: a driver that publishes
    /// complete files only does not publish this one.
    Incomplete,
}

/// The state of a file: while it stays the same, requests have changed no byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Bytes of the file.
    pub size: i64,
    /// When its bytes were changed last, as the file says, in nanoseconds since 1970.
    pub modified: i128,
    /// When anything of it was changed last, which no program can set.
    pub changed: i128,
}

/// Bytes moved by a data operation, and its result.
///
/// `bytes` is the truth also when `result` is an error: that number of bytes was stored (or
/// delivered) before the error or in spite of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes moved.
    pub bytes: u64,
    /// How it ended; a read that met the end of the file is `Ok` with fewer bytes.
    pub result: Result<()>,
}

/// An open file of one kind of file system: ADIO's function table.
///
/// The methods without a body are all that a driver must supply; each of the others is a *generic
/// function* that is correct for every driver and may be replaced by a faster one.
pub trait Driver: Send + Sync + std::fmt::Debug {
    /// The driver's name, as in the driver table.
    fn name(&self) -> &'static str;

    /// Whether the requested stripes were set.
    fn striped(&self) -> Striped {
        Striped::default()
    }

    /// One attempt to read at `offset`; may be short or interrupted. 0 means end of file.
    fn pread(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// One attempt to write at `offset`; may be short or interrupted.
    fn pwrite(&self, buffer: &[u8], offset: u64) -> io::Result<usize>;

    /// One attempt to fill `buffers`, in order, from `offset` on; may be short or interrupted.
    fn preadv(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        match buffers.iter_mut().find(|buffer| !buffer.is_empty()) {
            Some(first) => self.pread(first, offset),
            None => Ok(0),
        }
    }

    /// One attempt to write `buffers`, in order, from `offset` on; may be short or interrupted.
    fn pwritev(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        match buffers.iter().find(|buffer| !buffer.is_empty()) {
            Some(first) => self.pwrite(first, offset),
            None => Ok(0),
        }
    }

    /// Gives `copy` the address of the first byte of `extent`, a range of the file as memory, for
    /// this access. Other processes store into it meanwhile.
    ///
    /// Returns whether the copied bytes are (or were) the content of the file, which then reaches
    /// to the end of `extent` at least. If not, that is no error: `copy` may have been run or not,
    /// and the caller moves all its bytes by requests and gets the error there. A driver without
    /// memory mappings does nothing.
    fn in_place(&self, extent: Extent, access: InPlace<'_>, copy: &mut dyn FnMut(*mut u8)) -> bool {
        let _ = (extent, access, copy);
        false
    }

    /// Reads until `buffer` is full, the file ends, or an error; counts system calls and bytes.
    fn read_contig(&self, buffer: &mut [u8], offset: u64, counters: &Counters) -> Outcome {
        generic::read_contig(self, buffer, offset, counters)
    }

    /// Writes all of `buffer` or stops at an error; counts system calls and bytes.
    fn write_contig(&self, buffer: &[u8], offset: u64, counters: &Counters) -> Outcome {
        generic::write_contig(self, buffer, offset, counters)
    }

    /// Writes `memory` to the bytes of `view` from data byte `pos` on; no other byte changes.
    fn write_strided(
        &self,
        view: &View,
        pos: u64,
        memory: &Memory,
        strategy: &Strategy,
        counters: &Counters,
    ) -> Outcome {
        independent::write_strided(self, view, pos, memory, strategy, counters)
    }

    /// Reads the bytes of `view` from data byte `pos` on into `memory`, up to the end of the file;
    /// memory behind that keeps its content.
    fn read_strided(
        &self,
        view: &View,
        pos: u64,
        memory: &Memory,
        strategy: &Strategy,
        counters: &Counters,
    ) -> Outcome {
        independent::read_strided(self, view, pos, memory, strategy, counters)
    }

    /// The file's size in bytes.
    fn size(&self) -> Result<u64>;

    /// Truncates or extends (with zeros) the file to `size` bytes.
    fn set_size(&self, size: u64) -> Result<()>;

    /// Another rank has set the size of the file.
    fn was_resized(&self, _size: u64) {}

    /// Makes all completed writes durable.
    fn sync(&self) -> Result<()>;

    /// Drops pages that this computer caches of the file if another computer may have changed it
    /// unnoticed: the next reads go to the file system. Costs nothing where that is impossible.
    fn renew(&self) {}

    /// Closes the file and returns the system's error. Unless it is [`Closing::Offering`], the
    /// driver is unusable afterwards.
    fn close(&self, how: Closing) -> Result<()>;

    /// The form that the file takes once all ranks have closed it, and this rank's data for it.
    fn sealing(&self) -> Option<Sealing> {
        None
    }

    /// Whether requests can be made at all; a rank that cannot leaves them to others where it may.
    fn is_available(&self) -> bool {
        true
    }

    /// Properties of the file system for the planner.
    fn facts(&self) -> Facts;

    /// Where the cost of requests is learned, if the driver lets that be done.
    fn meter(&self) -> Option<&latency::Meter> {
        None
    }

    /// Differs after every change of the file that this computer can see; `None` if there is no
    /// stamp, or if the file has changed so recently that the next change might not show.
    fn stamp(&self) -> Option<Stamp> {
        None
    }

    /// Counts of requests that belong to no call, such as those of a close.
    fn background(&self) -> Option<Totals> {
        None
    }

    /// Whether (reads, writes) go past the page cache at present, see the hints `direct_*`.
    fn direct(&self) -> (bool, bool) {
        (false, false)
    }

    /// The identity of the file; `None` if the driver has none.
    fn identity(&self) -> Option<Identity> {
        None
    }

    /// Where other processes of the node can take the file from this one until it is closed; `None`
    /// if there is nothing to take.
    fn offer(&self) -> Option<Offer> {
        None
    }

    /// Whether the last close can fail although one with [`Closing::Offering`] has not, because
    /// writes are complete only then.
    fn completes_at_close(&self) -> bool {
        false
    }

    /// Makes sure that `size` bytes of storage exist; never shrinks the file, never changes data.
    fn preallocate(&self, size: u64) -> Result<()> {
        if self.size()? < size { self.set_size(size) } else { Ok(()) }
    }

    /// Lets as much of `extent` as possible, in one piece, read as zeros, with storage for it, if
    /// no byte of it is stored: without writing these, and without changing any byte that another
    /// process stores meanwhile.
    ///
    /// Returns the part that now reads as zeros. The rest is unchanged, and the caller writes it.
    fn reserve_zeros(&self, extent: Extent) -> Extent {
        Extent::new(extent.offset, 0)
    }

    /// Whether this is a file that ends at or before `offset` now, regardless of caches, and that
    /// shows zeros in front of bytes that are written behind its end.
    fn ends_by(&self, offset: u64) -> bool {
        let _ = offset;
        false
    }

    /// Whether the file has bytes behind `offset` as far as this computer knows without a request,
    /// including bytes that it may not have stored yet. Returns false if the file is not open.
    fn knows_bytes_behind(&self, offset: u64) -> bool {
        self.size().map_or(true, |end| end > offset)
    }

    /// Makes sure that there is storage for `extent`, which then belongs to the file; changes no
    /// byte that another process stores meanwhile.
    ///
    /// # Errors
    /// `UnsupportedOperation` if the file system cannot do so.
    fn reserve(&self, extent: Extent) -> Result<()> {
        let detail = format!("driver {}: no storage ahead (wanted bytes {extent})", self.name());
        Err(Error::new(aggio_base::ErrorClass::UnsupportedOperation, detail))
    }

    /// Counts `len` bytes of this file as not written, if the file system has plenty of room for
    /// them and for all that were counted before; whether it has. Nothing is reserved.
    fn claim_room(&self, len: u64) -> bool {
        let _ = len;
        false
    }

    /// Extends a file that ends at or before the start of `extent` to the end of `extent`, with
    /// zeros there: with storage for them where the file system can reserve it, elsewhere, if there
    /// is plenty of room, as a hole, by writing its last byte. Returns `false` if the caller has to
    /// write the zeros; that write then reports any error.
    fn extend_with_zeros(&self, extent: Extent, counters: &Counters) -> bool {
        if extent.is_empty() || !self.ends_by(extent.offset) {
            return false;
        }
        match self.reserve(extent) {
            Ok(()) => true,
            Err(why) if why.class() == aggio_base::ErrorClass::UnsupportedOperation => {
                self.claim_room(extent.len)
                    && self.write_contig(&[0], extent.end() - 1, counters).result.is_ok()
            }
            Err(_) => false,
        }
    }

    /// Takes a lock on `extent` of the file itself, against other programs that lock too.
    fn lock(
        &self,
        extent: Extent,
        exclusive: bool,
    ) -> Result<Box<dyn aggio_comm::transport::LockGuard>> {
        let _ = exclusive;
        Err(Error::new(
            aggio_base::ErrorClass::UnsupportedOperation,
            format!("driver {}: no file locks (wanted bytes {extent})", self.name()),
        ))
    }

    /// Takes the lock on `extent` that an access in atomic mode needs, against other ranks on this
    /// and on other hosts; `None` if another one conflicts. Independent of the locks of
    /// [`Driver::lock`].
    ///
    /// # Errors
    /// `UnsupportedOperation` if the file has no locks that hosts share; the system's error.
    fn try_lock(
        &self,
        extent: Extent,
        exclusive: bool,
    ) -> Result<Option<Box<dyn aggio_comm::transport::LockGuard>>> {
        let _ = exclusive;
        Err(Error::new(
            aggio_base::ErrorClass::UnsupportedOperation,
            format!("driver {}: no locks of atomic mode (wanted bytes {extent})", self.name()),
        ))
    }
}
