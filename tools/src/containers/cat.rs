//! `aggio cat`: the bytes of containers, sets and files, without FUSE.

use super::facts::Facts;
use super::{PIECE, at, pour, sets};
use crate::{Answer, progress};
use agg_core::blob::{Container, Reader, Verify, is_container};
use aggio_formats::Logical;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

/// Arguments of `aggio cat`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Containers, sets of netCDF files, and files
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// The first byte that is written
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    offset: u64,
    /// How many bytes are written; without it all up to the end
    #[arg(long, value_name = "BYTES")]
    length: Option<u64>,
    #[command(flatten)]
    sets: sets::Flags,
}

/// Reads at an offset; less only at the end.
pub(super) type Read = dyn Fn(&mut [u8], u64) -> Result<usize, String>;

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        let mut answer = Answer::default();
        let mut is_read = true;
        let mut write = |path: &PathBuf, tell: &(dyn Fn(u64) + Sync)| {
            if !is_read {
                return;
            }
            match self.write_out(path, tell) {
                Ok(more) => is_read = more,
                Err(why) => answer.findings.push(format!("cat: {why}")),
            }
        };
        // A bar among what is written to a terminal would spoil it.
        if std::io::stdout().is_terminal() {
            self.paths.iter().for_each(|path| write(path, &|_| ()));
        } else {
            let paths = self.paths.iter().map(|path| (path, self.bytes_of(path)));
            progress::each("writing", paths.collect(), write);
        }
        answer
    }

    /// About how many bytes will be written of a file.
    fn bytes_of(&self, path: &Path) -> u64 {
        let size = Facts::with(path, self.sets).map_or(0, |facts| facts.size);
        self.length.unwrap_or(u64::MAX).min(size.saturating_sub(self.offset))
    }

    /// Whether there is still somebody who reads.
    fn write_out(&self, path: &Path, tell: &(dyn Fn(u64) + Sync)) -> Result<bool, String> {
        if (self.offset, self.length) == (0, None)
            && let Some(set) = set_at(path, self.sets)?
        {
            let mut done = 0;
            let mut put = |bytes: &[u8]| {
                done += bytes.len() as u64;
                tell(done);
                put(bytes)
            };
            return pour::all(&set, 0, &mut put);
        }
        let read = source(path, self.sets)?;
        let end = self.length.map_or(u64::MAX, |length| self.offset.saturating_add(length));
        let (mut place, mut buffer) = (self.offset, vec![0; PIECE]);
        while place < end {
            let wanted = usize::try_from(end - place).unwrap_or(PIECE).min(PIECE);
            let count = read(&mut buffer[..wanted], place)?;
            if count == 0 {
                break;
            }
            if !put(&buffer[..count])? {
                return Ok(false);
            }
            place += count as u64;
            tell(place - self.offset);
        }
        Ok(true)
    }
}

/// Writes bytes to standard output; whether there is still somebody who reads.
fn put(bytes: &[u8]) -> Result<bool, String> {
    let mut output = std::io::stdout().lock();
    match output.write_all(bytes).and_then(|()| output.flush()) {
        Err(why) if why.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(why) => Err(format!("standard output: {why}")),
        Ok(()) => Ok(true),
    }
}

/// The set that a path stands for, if that is no container.
fn set_at(path: &Path, flags: sets::Flags) -> Result<Option<Logical>, String> {
    if is_container(path) { Ok(None) } else { sets::open(path, flags) }
}

/// A reader of a container that returns bytes only after it found the checksums of their frames
/// right.
pub(super) fn verifying(path: &Path) -> Result<Reader, String> {
    let reader = Container::open(path).and_then(|container| container.reader());
    reader.and_then(|reader| reader.verifying(Verify::Always)).map_err(|why| at(path, why))
}

/// How the bytes of a path are read.
pub(super) fn source(path: &Path, flags: sets::Flags) -> Result<Box<Read>, String> {
    let name = path.to_path_buf();
    if is_container(path) {
        let reader = verifying(path)?;
        return Ok(Box::new(move |buffer, place| {
            reader.read_at(buffer, place).map_err(|why| at(&name, why))
        }));
    }
    if let Some(file) = sets::open(path, flags)? {
        return Ok(Box::new(move |buffer, place| {
            file.read_at(buffer, place).map_err(|why| why.to_string())
        }));
    }
    let file = plain_file(path)?;
    Ok(Box::new(move |buffer, place| {
        loop {
            match file.read_at(buffer, place) {
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                result => return result.map_err(|why| at(&name, why)),
            }
        }
    }))
}

/// Opens something whose bytes have offsets; what has none makes nobody wait.
fn plain_file(path: &Path) -> Result<File, String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(opened.map_err(|why| at(path, std::io::Error::from(why)))?);
    let kind = file.metadata().map_err(|why| at(path, why))?.file_type();
    if kind.is_file() || kind.is_block_device() || kind.is_char_device() {
        return Ok(file);
    }
    let what = if kind.is_fifo() { "a FIFO" } else { "a directory and no container" };
    Err(at(path, format!("{what}: only containers, sets and ordinary files can be read")))
}
