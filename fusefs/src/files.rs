//! Opening, closing, reading and writing.

use crate::blob::Blob;
use crate::handles::Open;
use crate::held;
use crate::seek;
use crate::set_ids::SET_IDS;
use crate::stamp::Stamp;
use crate::tree::{Kind, Known};
use crate::view::View;
use agg_core::Extent;
use agg_core::driver::caches;
use agg_core::log::Level;
use aggio_couple::Viewed;
use fuser::{BackingId, FileHandle, FopenFlags};
use rustix::fs::{FallocateFlags, OFlags, SeekFrom};
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// How a file was opened, for the kernel.
pub(crate) struct Opened {
    pub(crate) handle: FileHandle,
    pub(crate) flags: FopenFlags,
    pub(crate) backing: Option<Arc<BackingId>>,
}

/// Whether these flags of `open` allow writing.
pub(crate) fn writes(flags: i32) -> bool {
    OFlags::from_bits_retain(flags.cast_unsigned()) & OFlags::RWMODE != OFlags::RDONLY
}

fn appends(flags: i32) -> bool {
    OFlags::from_bits_retain(flags.cast_unsigned()).contains(OFlags::APPEND)
}

impl View {
    pub(crate) fn open(
        &self,
        id: u64,
        flags: i32,
        register: impl FnOnce(&File) -> Result<BackingId>,
    ) -> Result<Opened> {
        if writes(flags) && !self.options.write {
            return Err(rustix::io::Errno::ROFS.into());
        }
        let known = self.tree.get(id)?;
        if known.is_container() {
            return self.open_container(id, &known, flags);
        }
        if known.kind == Kind::Set {
            return self.open_set(id, &known, flags);
        }
        if known.kind == Kind::Coupled {
            return self.open_generation(id, flags);
        }
        self.open_plain(id, held::reopen(&known.fd, flags)?, register)
    }

    /// A set is read as it was when it was opened, and cannot be written.
    fn open_set(&self, id: u64, known: &Known, flags: i32) -> Result<Opened> {
        if writes(flags) {
            return Err(rustix::io::Errno::ROFS.into());
        }
        let set = self.set(id, known)?;
        let kept = self.tree.has_kept(id, set.stamp());
        let flags = if kept { FopenFlags::FOPEN_KEEP_CACHE } else { FopenFlags::empty() };
        Ok(Opened { handle: self.handles.insert(Open::Set { set }), flags, backing: None })
    }

    /// A generation is read as long as somebody has it open, and cannot be written.
    fn open_generation(&self, id: u64, flags: i32) -> Result<Opened> {
        if writes(flags) {
            return Err(rustix::io::Errno::ROFS.into());
        }
        let (viewed, _) = self.generation(id)?;
        let handle = self.handles.insert(Open::Generation { viewed, id });
        Ok(Opened { handle, flags: FopenFlags::empty(), backing: None })
    }

    pub(crate) fn open_plain(
        &self,
        id: u64,
        file: File,
        register: impl FnOnce(&File) -> Result<BackingId>,
    ) -> Result<Opened> {
        let stat = rustix::fs::fstat(&file)?;
        let kept = self.tree.has_kept(id, Stamp::of_plain(&stat));
        let access = rustix::fs::fcntl_getfl(&file)? & OFlags::RWMODE;
        let writes = access != OFlags::RDONLY;
        if access != OFlags::WRONLY {
            caches::renew(file.as_raw_fd(), stat.st_dev);
        }
        let may_pass = stat.st_mode & SET_IDS == 0;
        let backing = self.passthrough.begin(id, writes, may_pass.then_some(|| register(&file)));
        let flags = match &backing {
            None if kept => FopenFlags::FOPEN_KEEP_CACHE,
            _ => FopenFlags::empty(),
        };
        let open = Open::Plain { file, id, writes };
        Ok(Opened { handle: self.handles.insert(open), flags, backing })
    }

    pub(crate) fn open_container(&self, id: u64, known: &Known, flags: i32) -> Result<Opened> {
        let blob = {
            let mut blobs = self.blobs.lock();
            let blob = match blobs.get(&id) {
                Some(blob) => Arc::clone(blob),
                None => {
                    let blob = Arc::new(Blob::open(Arc::clone(&known.fd), self.options.verify)?);
                    blobs.insert(id, Arc::clone(&blob));
                    blob
                }
            };
            // Before the table is free again: a thread that closes the container now must see that
            // it is in use.
            blob.reserve();
            blob
        };
        self.begin_or_let_go(id, &blob, flags)
    }

    /// Opens a container that was made just now.
    pub(crate) fn open_made(&self, id: u64, blob: Blob, flags: i32) -> Result<Opened> {
        let blob = Arc::new(blob);
        blob.reserve();
        self.blobs.lock().insert(id, Arc::clone(&blob));
        self.begin_or_let_go(id, &blob, flags)
    }

    fn begin_or_let_go(&self, id: u64, blob: &Arc<Blob>, flags: i32) -> Result<Opened> {
        let begun = self.begin(id, blob, flags);
        if begun.is_err() {
            // The error of opening is the one that counts; nothing was written.
            let _ = blob.end(false);
            self.let_go_of_blob(id, blob);
        }
        begun
    }

    fn begin(&self, id: u64, blob: &Arc<Blob>, flags: i32) -> Result<Opened> {
        let kept = self.tree.has_kept(id, blob.stamp()?) && !writes(flags);
        blob.begin(writes(flags))?;
        let flags_of_open = if appends(flags) && writes(flags) {
            // Where an append goes is known when it is carried out: nothing of it may be
            // remembered.
            FopenFlags::FOPEN_DIRECT_IO
        } else if kept {
            FopenFlags::FOPEN_KEEP_CACHE
        } else {
            FopenFlags::empty()
        };
        let open = Open::Blob { blob: Arc::clone(blob), id, writes: writes(flags) };
        Ok(Opened { handle: self.handles.insert(open), flags: flags_of_open, backing: None })
    }

    fn let_go_of_blob(&self, id: u64, blob: &Arc<Blob>) {
        let mut blobs = self.blobs.lock();
        if blob.is_unused() && blobs.get(&id).is_some_and(|open| Arc::ptr_eq(open, blob)) {
            blobs.remove(&id);
        }
    }

    /// A handle is closed for good.
    pub(crate) fn close(&self, handle: FileHandle) {
        if let Some(open) = self.handles.remove(handle) {
            self.end(&open);
        }
    }

    pub(crate) fn end(&self, open: &Open) {
        match open {
            Open::Plain { id, writes, .. } => self.passthrough.end(*id, *writes),
            Open::Directory(_) | Open::Set { .. } | Open::Generation { .. } => {}
            Open::Blob { blob, id, writes } => {
                let (unused, result) = blob.end(*writes);
                if let Err(why) = result {
                    agg_core::log!(Level::Error, "{}: not sealed: {why}", blob.name());
                }
                if unused {
                    self.let_go_of_blob(*id, blob);
                }
            }
        }
    }

    /// Closes all files that are still open when the file system ends.
    pub(crate) fn end_all(&self) {
        for open in self.handles.drain() {
            self.end(&open);
        }
    }

    /// Reads into `buffer`: how many bytes, less than asked for only at the end of the file.
    pub(crate) fn read(&self, handle: FileHandle, buffer: &mut [u8], offset: u64) -> Result<usize> {
        match &*self.handles.get(handle)? {
            Open::Blob { blob, .. } => blob.read(buffer, offset),
            Open::Plain { file, .. } => read_fully(file, buffer, offset),
            Open::Set { set } => set.read(buffer, offset),
            Open::Generation { viewed, .. } => read_fully(&viewed.file, buffer, offset),
            Open::Directory(_) => Err(rustix::io::Errno::ISDIR.into()),
        }
    }

    /// Writes all of `data`. `append` says to write at the end, wherever that is.
    pub(crate) fn write(
        &self,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        append: bool,
    ) -> Result<()> {
        match &*self.handles.get(handle)? {
            Open::Blob { blob, .. } if append => blob.write(|log| log.append(data)).map(|_| ()),
            Open::Blob { blob, .. } => blob.write(|log| log.write_at(data, offset)).map(|_| ()),
            Open::Plain { file, .. } if append => append_fully(file, data),
            Open::Plain { file, .. } => file.write_all_at(data, offset),
            Open::Set { .. } | Open::Generation { .. } => Err(rustix::io::Errno::ROFS.into()),
            Open::Directory(_) => Err(rustix::io::Errno::ISDIR.into()),
        }
    }

    pub(crate) fn sync(&self, handle: FileHandle, data_only: bool) -> Result<()> {
        match &*self.handles.get(handle)? {
            Open::Blob { blob, writes: true, .. } => blob.write(|log| log.sync()),
            Open::Blob { .. } | Open::Set { .. } | Open::Generation { .. } => Ok(()),
            Open::Directory(_) => Ok(()),
            Open::Plain { file, .. } if data_only => file.sync_data(),
            Open::Plain { file, .. } => file.sync_all(),
        }
    }

    pub(crate) fn sync_directory(&self, id: u64) -> Result<()> {
        let directory = held::reopen_directory(&self.tree.get(id)?.fd)?;
        Ok(rustix::fs::fsync(&directory)?)
    }

    pub(crate) fn allocate(
        &self,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> Result<()> {
        let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        match &*self.handles.get(handle)? {
            Open::Plain { file, .. } => Ok(rustix::fs::fallocate(file, mode, offset, length)?),
            Open::Blob { blob, .. } => allocate_in(blob, mode, Extent::new(offset, length)),
            Open::Set { .. } | Open::Generation { .. } => Err(rustix::io::Errno::ROFS.into()),
            Open::Directory(_) => Err(rustix::io::Errno::ISDIR.into()),
        }
    }

    pub(crate) fn seek(&self, handle: FileHandle, offset: i64, whence: i32) -> Result<i64> {
        let start = u64::try_from(offset).map_err(|_| Error::from(rustix::io::Errno::NXIO))?;
        let data = match whence {
            3 => true,
            4 => false,
            _ => return Err(rustix::io::Errno::INVAL.into()),
        };
        let place = match &*self.handles.get(handle)? {
            Open::Plain { file, id, .. } if self.passthrough.may_lag(*id) => {
                let size = file.metadata()?.len();
                seek::in_data(start, size, data)?
            }
            Open::Plain { file, .. } | Open::Generation { viewed: Viewed { file, .. }, .. } => {
                let to = if data { SeekFrom::Data(start) } else { SeekFrom::Hole(start) };
                rustix::fs::seek(file, to)?
            }
            Open::Blob { blob, .. } => blob.seek(start, data)?,
            Open::Set { set } => set.seek(start, data)?,
            Open::Directory(_) => return Err(rustix::io::Errno::ISDIR.into()),
        };
        i64::try_from(place).map_err(|_| rustix::io::Errno::OVERFLOW.into())
    }
}

/// Logs take room when they are written: none is reserved, but holes, zeros and sizes can be had.
fn allocate_in(blob: &Blob, mode: FallocateFlags, range: Extent) -> Result<()> {
    let keeps = mode.contains(FallocateFlags::KEEP_SIZE);
    let what = mode - FallocateFlags::KEEP_SIZE;
    let empties = what == FallocateFlags::ZERO_RANGE || what == FallocateFlags::PUNCH_HOLE && keeps;
    if !empties && !what.is_empty() {
        return Err(rustix::io::Errno::OPNOTSUPP.into());
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
            Ok(0) => return Err(rustix::io::Errno::IO.into()),
            Ok(count) => data = data.get(count..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
