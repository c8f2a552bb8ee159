//! An open file or directory, and the operations on it.

use crate::blob::Blob;
use crate::listing::Listing;
use crate::passthrough::Passthrough;
use crate::request::Caller;
use crate::seek;
use crate::set_ids;
use crate::sets::OpenSet;
use crate::shown::Shown;
use agg_core::Extent;
use aggio_couple::Viewed;
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// An open file or directory.
pub(crate) enum OpenFile {
    /// A file that is shown as it is.
    Plain { file: File, id: u64, writes: bool },
    /// A container.
    Blob { blob: Arc<Blob>, id: u64, writes: bool },
    /// A set of netCDF files.
    Set { set: Arc<OpenSet> },
    /// A generation of a file that programs exchange in memory.
    Generation { viewed: Viewed, id: u64 },
    /// A directory.
    Directory(Listing),
}

impl OpenFile {
    /// The entries of a directory; of anything else there are none.
    pub(crate) fn listing(&self) -> Result<&Listing> {
        match self {
            OpenFile::Directory(listing) => Ok(listing),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    /// The number of the file of a generation.
    pub(crate) fn generation(&self) -> Option<u64> {
        match self {
            OpenFile::Generation { id, .. } => Some(*id),
            _ => None,
        }
    }

    /// The attributes of a file of this number; a directory is shown by its number.
    pub(crate) fn shown(&self, id: u64) -> Option<Result<Shown>> {
        let stat = |file: &File| rustix::fs::fstat(file).map_err(Error::from);
        match self {
            OpenFile::Blob { blob, .. } => Some(Shown::open_container(blob, id)),
            OpenFile::Set { set, .. } => Some(Ok(Shown::set(set, id))),
            OpenFile::Generation { viewed, .. } => {
                Some(stat(&viewed.file).map(|stat| Shown::generation(&stat, id)))
            }
            OpenFile::Plain { file, .. } => Some(stat(file).map(|stat| Shown::plain(&stat, id))),
            OpenFile::Directory(_) => None,
        }
    }

    /// Reads into `buffer`: how many bytes, less than asked for only at the end of the file.
    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        match self {
            OpenFile::Blob { blob, .. } => blob.read(buffer, offset),
            OpenFile::Plain { file, .. } => read_fully(file, buffer, offset),
            OpenFile::Set { set } => set.read(buffer, offset),
            OpenFile::Generation { viewed, .. } => read_fully(&viewed.file, buffer, offset),
            OpenFile::Directory(_) => Err(Errno::ISDIR.into()),
        }
    }

    /// Writes all of `data`. `append` says to write at the end, wherever that is.
    pub(crate) fn write(&self, offset: u64, data: &[u8], append: bool) -> Result<()> {
        match self {
            OpenFile::Blob { blob, .. } if append => blob.write(|log| log.append(data)).map(drop),
            OpenFile::Blob { blob, .. } => blob.write(|log| log.write_at(data, offset)).map(drop),
            OpenFile::Plain { file, .. } if append => append_fully(file, data),
            OpenFile::Plain { file, .. } => file.write_all_at(data, offset),
            OpenFile::Set { .. } | OpenFile::Generation { .. } => Err(Errno::ROFS.into()),
            OpenFile::Directory(_) => Err(Errno::ISDIR.into()),
        }
    }

    /// Takes set-id bits away, before `caller` changes the bytes.
    pub(crate) fn drop_set_ids(&self, caller: Caller) -> Result<()> {
        match self {
            OpenFile::Plain { file, .. } => set_ids::drop_from_file(file, caller),
            OpenFile::Blob { blob, .. } => set_ids::drop_from_container(blob, caller),
            OpenFile::Set { .. } | OpenFile::Generation { .. } | OpenFile::Directory(_) => Ok(()),
        }
    }

    pub(crate) fn sync(&self, data_only: bool) -> Result<()> {
        match self {
            OpenFile::Blob { blob, writes: true, .. } => blob.write(|log| log.sync()),
            OpenFile::Blob { .. } | OpenFile::Set { .. } | OpenFile::Generation { .. } => Ok(()),
            OpenFile::Directory(_) => Ok(()),
            OpenFile::Plain { file, .. } if data_only => file.sync_data(),
            OpenFile::Plain { file, .. } => file.sync_all(),
        }
    }

    pub(crate) fn allocate(&self, offset: u64, length: u64, mode: i32) -> Result<()> {
        let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        match self {
            OpenFile::Plain { file, .. } => Ok(rustix::fs::fallocate(file, mode, offset, length)?),
            OpenFile::Blob { blob, .. } => allocate_in(blob, mode, Extent::new(offset, length)),
            OpenFile::Set { .. } | OpenFile::Generation { .. } => Err(Errno::ROFS.into()),
            OpenFile::Directory(_) => Err(Errno::ISDIR.into()),
        }
    }

    /// The next data or hole, for `SEEK_DATA` and `SEEK_HOLE`.
    pub(crate) fn seek(&self, offset: i64, whence: i32, passed: &Passthrough) -> Result<i64> {
        let start = u64::try_from(offset).map_err(|_| Error::from(Errno::NXIO))?;
        let data = match whence {
            3 => true,
            4 => false,
            _ => return Err(Errno::INVAL.into()),
        };
        let place = match self {
            OpenFile::Plain { file, id, .. } if passed.may_lag(*id) => {
                seek::in_data(start, file.metadata()?.len(), data)?
            }
            OpenFile::Plain { file, .. } => seek_in(file, start, data)?,
            OpenFile::Generation { viewed, .. } => seek_in(&viewed.file, start, data)?,
            OpenFile::Blob { blob, .. } => blob.seek(start, data)?,
            OpenFile::Set { set } => set.seek(start, data)?,
            OpenFile::Directory(_) => return Err(Errno::ISDIR.into()),
        };
        i64::try_from(place).map_err(|_| Errno::OVERFLOW.into())
    }
}

fn seek_in(file: &File, start: u64, data: bool) -> rustix::io::Result<u64> {
    rustix::fs::seek(file, if data { SeekFrom::Data(start) } else { SeekFrom::Hole(start) })
}

/// Logs take room when they are written: none is reserved, but holes, zeros and sizes can be had.
fn allocate_in(blob: &Blob, mode: FallocateFlags, range: Extent) -> Result<()> {
    let keeps = mode.contains(FallocateFlags::KEEP_SIZE);
    let what = mode - FallocateFlags::KEEP_SIZE;
    let empties = what == FallocateFlags::ZERO_RANGE || what == FallocateFlags::PUNCH_HOLE && keeps;
    if !empties && !what.is_empty() {
        return Err(Errno::OPNOTSUPP.into());
    }
    blob.write(|log| {
        if empties {
            log.punch(range)?;
        }
        if keeps { Ok(()) } else { log.grow(range.offset.saturating_add(range.len)) }
    })
}

fn read_fully(file: &File, buffer: &mut [u8], offset: u64) -> Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Writes at the end of a plain file, even while others do so.
fn append_fully(file: &File, mut data: &[u8]) -> Result<()> {
    use rustix::io::{ReadWriteFlags, pwritev2};
    while !data.is_empty() {
        let pieces = [std::io::IoSlice::new(data)];
        match pwritev2(file, &pieces, 0, ReadWriteFlags::APPEND) {
            Ok(0) => return Err(Errno::IO.into()),
            Ok(count) => data = data.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "open_file_tests.rs"]
mod tests;
