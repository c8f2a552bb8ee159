//! `aggio cat`: the bytes of containers, sets and files, without FUSE.

use super::facts::Facts;
use super::source::Source;
use super::{PIECE, sets, stream};
use crate::{Answer, progress};
use agg_core::blob::is_container;
use aggio_formats::Logical;
use std::io::{ErrorKind, IsTerminal, Write};
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
        // A progress bar would spoil output to a terminal.
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

    /// Writes a file to standard output; returns whether that still has a reader.
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
            return stream::all(&set, 0, &mut put);
        }
        let source = Source::open(path, self.sets)?;
        let end = self.length.map_or(u64::MAX, |length| self.offset.saturating_add(length));
        let (mut place, mut buffer) = (self.offset, vec![0; PIECE]);
        while place < end {
            let wanted = usize::try_from(end - place).unwrap_or(PIECE).min(PIECE);
            let count = source.read_at(&mut buffer[..wanted], place)?;
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

/// Writes bytes to standard output; returns whether that still has a reader.
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
