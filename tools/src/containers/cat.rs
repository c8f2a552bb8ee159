//! `aggio cat`: the bytes of containers, sets and files, without FUSE.

use super::{PIECE, at, sets};
use crate::Answer;
use agg_core::blob::{Container, is_container};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
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
        for path in &self.paths {
            match self.write_out(path) {
                Ok(true) => {}
                // Nobody reads any more.
                Ok(false) => break,
                Err(why) => answer.findings.push(format!("cat: {why}")),
            }
        }
        answer
    }

    /// Whether there is still somebody who reads.
    fn write_out(&self, path: &Path) -> Result<bool, String> {
        let read = source(path, self.sets)?;
        let end = self.length.map_or(u64::MAX, |length| self.offset.saturating_add(length));
        let (mut place, mut buffer) = (self.offset, vec![0; PIECE]);
        let mut output = std::io::stdout().lock();
        while place < end {
            let wanted = usize::try_from(end - place).unwrap_or(PIECE).min(PIECE);
            let count = read(&mut buffer[..wanted], place)?;
            match output.write_all(&buffer[..count]) {
                Err(why) if why.kind() == ErrorKind::BrokenPipe => return Ok(false),
                Err(why) => return Err(format!("standard output: {why}")),
                Ok(()) if count == 0 => break,
                Ok(()) => place += count as u64,
            }
        }
        output.flush().map_err(|why| format!("standard output: {why}"))?;
        Ok(true)
    }
}

/// How the bytes of a path are read.
pub(super) fn source(path: &Path, flags: sets::Flags) -> Result<Box<Read>, String> {
    let name = path.to_path_buf();
    if is_container(path) {
        let reader = Container::open(path).and_then(|container| container.reader());
        let reader = reader.map_err(|why| at(path, why))?;
        return Ok(Box::new(move |buffer, place| {
            reader.read_at(buffer, place).map_err(|why| at(&name, why))
        }));
    }
    if let Some(file) = sets::open(path, flags)? {
        return Ok(Box::new(move |buffer, place| {
            file.read_at(buffer, place).map_err(|why| why.to_string())
        }));
    }
    let file = File::open(path).map_err(|why| at(path, why))?;
    Ok(Box::new(move |buffer, place| {
        loop {
            match file.read_at(buffer, place) {
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                result => return result.map_err(|why| at(&name, why)),
            }
        }
    }))
}
