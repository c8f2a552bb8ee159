//! Bytes of a container, a set of netCDF files or a file, read at offsets.

use super::{at, sets};
use agg_core::blob::{Container, Reader, Verify, is_container};
use aggio_formats::Logical;
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

/// A container, a set or a file, opened for reading at offsets.
pub(super) struct Source {
    path: PathBuf,
    content: Content,
}

enum Content {
    Container(Box<Reader>),
    Set(Box<Logical>),
    File(File),
}

impl Source {
    /// Opens the object at a path.
    ///
    /// # Errors
    /// A text that names the path, if nothing is there that can be read at an offset.
    pub(super) fn open(path: &Path, flags: sets::Flags) -> Result<Self, String> {
        let content = if is_container(path) {
            Content::Container(Box::new(verifying(path)?))
        } else if let Some(set) = sets::open(path, flags)? {
            Content::Set(Box::new(set))
        } else {
            Content::File(plain_file(path)?)
        };
        Ok(Self { path: path.to_path_buf(), content })
    }

    /// Reads at an offset; less than the buffer holds only at the end.
    pub(super) fn read_at(&self, buffer: &mut [u8], place: u64) -> Result<usize, String> {
        match &self.content {
            Content::Container(reader) => {
                reader.read_at(buffer, place).map_err(|why| at(&self.path, why))
            }
            Content::Set(set) => set.read_at(buffer, place).map_err(|why| why.to_string()),
            Content::File(file) => fill(file, buffer, place).map_err(|why| at(&self.path, why)),
        }
    }

    /// The first offset not before `place` where data may be; all bytes between are zeros. At or
    /// beyond the end it is `place` or the size.
    pub(super) fn data_from(&self, place: u64) -> Result<u64, String> {
        match &self.content {
            Content::Container(reader) => {
                let found = reader.data_from(place).map_err(|why| at(&self.path, why))?;
                Ok(found.max(place))
            }
            Content::Set(_) => Ok(place),
            Content::File(file) => data_in(file, place).map_err(|why| at(&self.path, why)),
        }
    }
}

/// Fills a buffer from a file; less only at the end.
fn fill(file: &File, buffer: &mut [u8], place: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], place + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(done)
}

/// Where data begin in a file from `place` on; `place` itself if the file system or device does not
/// report holes.
fn data_in(file: &File, place: u64) -> io::Result<u64> {
    match rustix::fs::seek(file, SeekFrom::Data(place)) {
        Ok(found) => Ok(found),
        Err(Errno::NXIO) => Ok(file.metadata()?.len().max(place)),
        Err(Errno::INVAL | Errno::SPIPE | Errno::NOTSUP) => Ok(place),
        Err(why) => Err(why.into()),
    }
}

/// A reader of a container that returns bytes only after it found the checksums of their frames
/// right.
pub(super) fn verifying(path: &Path) -> Result<Reader, String> {
    let reader = Container::open(path).and_then(|container| container.reader());
    reader.and_then(|reader| reader.verifying(Verify::Always)).map_err(|why| at(path, why))
}

/// Opens a file for reading at offsets; fails without blocking if it has none, such as a FIFO.
fn plain_file(path: &Path) -> Result<File, String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(opened.map_err(|why| at(path, io::Error::from(why)))?);
    let kind = file.metadata().map_err(|why| at(path, why))?.file_type();
    if kind.is_file() || kind.is_block_device() || kind.is_char_device() {
        return Ok(file);
    }
    let what = if kind.is_fifo() { "a FIFO" } else { "a directory and no container" };
    Err(at(path, format!("{what}: only containers, sets and ordinary files can be read")))
}
