//! `aggio split`: an ordinary file becomes a container.

use super::merge::{partial, sync_parent};
use super::{PIECE, at, progress};
use crate::Answer;
use agg_core::blob::{self, Container, Create, Writer};
use rustix::fs::SeekFrom;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Arguments of `aggio split`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The file
    file: PathBuf,
    /// The container that is made; it appears when it is complete and on storage
    container: PathBuf,
    /// Store no checksums of the data
    #[arg(long)]
    no_data_crc: bool,
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        match self.split() {
            Ok(()) => Answer::default(),
            Err(why) => Answer::failed(format!("split: {why}")),
        }
    }

    fn split(&self) -> Result<(), String> {
        let file = File::open(&self.file).map_err(|why| at(&self.file, why))?;
        let found = file.metadata().map_err(|why| at(&self.file, why))?;
        if !found.is_file() {
            return Err(at(&self.file, "not a regular file"));
        }
        if std::fs::symlink_metadata(&self.container).is_ok() {
            return Err(at(&self.container, "there already"));
        }
        let temporary = partial(&self.container)?;
        let made = self.fill(&file, &found, &temporary).and_then(|()| {
            blob::rename(&temporary, &self.container).map_err(|why| at(&self.container, why))
        });
        if made.is_err() && blob::is_container(&temporary) {
            // The first error is the one that counts.
            let _ = blob::remove(&temporary);
        }
        made?;
        sync_parent(&self.container)
    }

    fn fill(&self, file: &File, found: &std::fs::Metadata, temporary: &Path) -> Result<(), String> {
        let told = |why: agg_core::Error| at(temporary, why);
        let mode = found.mode() & 0o7777;
        let how = Create { mode: 0o600, exclusive: true, data_crc: !self.no_data_crc };
        let container = Container::create(temporary, &how).map_err(told)?;
        let writer = container.writer().map_err(told)?;
        self.copy(file, found.len(), &writer)?;
        writer.set_size(found.len()).map_err(told)?;
        writer.sync().map_err(told)?;
        writer.close().map_err(told)?;
        container.set_mode(mode).map_err(told)?;
        container.set_times(found.accessed().ok(), found.modified().ok()).map_err(told)
    }

    /// Copies what has data; holes stay holes.
    fn copy(&self, file: &File, size: u64, writer: &Writer) -> Result<(), String> {
        let (mut place, mut buffer) = (0, vec![0; PIECE]);
        let bar = progress(size, "splitting");
        while let Some((start, end)) = data_from(file, place, size) {
            place = start;
            while place < end {
                let count = usize::try_from(end - place).unwrap_or(PIECE).min(PIECE);
                let piece = &mut buffer[..count];
                file.read_exact_at(piece, place).map_err(|why| at(&self.file, why))?;
                writer.write_at(piece, place).map_err(|why| at(&self.container, why))?;
                place += count as u64;
                bar.set_position(place);
            }
        }
        bar.finish_and_clear();
        Ok(())
    }
}

/// The next range with data; all the rest where the file system does not tell.
fn data_from(file: &File, place: u64, size: u64) -> Option<(u64, u64)> {
    if place >= size {
        return None;
    }
    let start = match rustix::fs::seek(file, SeekFrom::Data(place)) {
        Ok(start) => start,
        Err(rustix::io::Errno::NXIO) => return None,
        Err(_) => return Some((place, size)),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap_or(size);
    (start < size).then_some((start, end.min(size)))
}
