//! `aggio merge`: a container becomes an ordinary file.

use super::{PIECE, at, progress};
use crate::Answer;
use agg_core::Extent;
use agg_core::blob::{Attributes, Container, Reader};
use indicatif::ProgressBar;
use std::fs::{File, FileTimes, Permissions};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Something that is done with a piece of the file.
type Act<'a> = dyn Fn(Extent, &mut [u8]) -> Result<(), String> + Sync + 'a;

/// Arguments of `aggio merge`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The container
    container: PathBuf,
    /// The file that is made; it appears when it is complete and on storage
    file: PathBuf,
    /// Replace the file if there is one
    #[arg(short, long)]
    force: bool,
    /// Read everything once more and compare
    #[arg(long)]
    verify: bool,
    /// Threads that copy
    #[arg(long, value_name = "NUMBER", default_value_t = 4)]
    threads: usize,
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        match self.merge() {
            Ok(()) => Answer::default(),
            Err(why) => Answer::failed(format!("merge: {why}")),
        }
    }

    fn merge(&self) -> Result<(), String> {
        let told = |why: agg_core::Error| at(&self.container, why);
        let container = Container::open(&self.container).map_err(told)?;
        let attributes = container.attributes().map_err(told)?;
        let reader = container.reader().map_err(told)?;
        if !self.force && std::fs::symlink_metadata(&self.file).is_ok() {
            return Err(at(&self.file, "there already (--force replaces it)"));
        }
        let partial = partial(&self.file)?;
        let failed = |why: std::io::Error| at(&partial, why);
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&partial)
            .map_err(failed)?;
        let made = self.fill(&reader, &file, &attributes);
        let named = made.and_then(|()| {
            std::fs::rename(&partial, &self.file).map_err(|why| at(&self.file, why))
        });
        if named.is_err() {
            // The first error is the one that counts.
            let _ = std::fs::remove_file(&partial);
        }
        named?;
        sync_parent(&self.file)
    }

    fn fill(&self, reader: &Reader, file: &File, found: &Attributes) -> Result<(), String> {
        let failed = |why: std::io::Error| at(&self.file, why);
        let size = reader.size();
        file.set_len(size).map_err(failed)?;
        self.in_pieces(size, "merging", &|range, buffer| self.copy(reader, file, range, buffer))?;
        if self.verify {
            self.in_pieces(size, "comparing", &|range, buffer| {
                self.compare(reader, file, range, buffer)
            })?;
        }
        file.set_permissions(Permissions::from_mode(found.mode)).map_err(failed)?;
        let times = FileTimes::new().set_modified(found.mtime).set_accessed(found.atime);
        file.set_times(times).map_err(failed)?;
        file.sync_all().map_err(failed)
    }

    /// Does something with every piece of the file, on several threads.
    fn in_pieces(&self, size: u64, what: &'static str, act: &Act<'_>) -> Result<(), String> {
        let (next, bar) = (AtomicU64::new(0), progress(size, what));
        let work = |bar: &ProgressBar| {
            let mut buffer = vec![0; PIECE];
            loop {
                let place = next.fetch_add(PIECE as u64, Ordering::Relaxed);
                if place >= size {
                    return Ok(());
                }
                let range = Extent::new(place, (PIECE as u64).min(size - place));
                act(range, &mut buffer[..range.len as usize])?;
                bar.inc(range.len);
            }
        };
        let result = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..self.threads.clamp(1, 64)).map(|_| scope.spawn(|| work(&bar))).collect();
            let died = || Err("a thread ended early".into());
            threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| died()))
        });
        bar.finish_and_clear();
        result
    }

    /// Copies a piece; what has no data stays a hole.
    fn copy(
        &self,
        reader: &Reader,
        file: &File,
        range: Extent,
        buffer: &mut [u8],
    ) -> Result<(), String> {
        let told = |why: agg_core::Error| at(&self.container, why);
        let segments = reader.segments(range).map_err(told)?;
        if segments.iter().all(|segment| segment.source.is_none()) {
            return Ok(());
        }
        let count = reader.read_at(buffer, range.offset).map_err(told)?;
        file.write_all_at(&buffer[..count], range.offset).map_err(|why| at(&self.file, why))
    }

    fn compare(
        &self,
        reader: &Reader,
        file: &File,
        range: Extent,
        buffer: &mut [u8],
    ) -> Result<(), String> {
        let count = reader.read_at(buffer, range.offset).map_err(|why| at(&self.container, why))?;
        let mut written = vec![0; count];
        file.read_exact_at(&mut written, range.offset).map_err(|why| at(&self.file, why))?;
        match written.iter().zip(&*buffer).position(|(one, other)| one != other) {
            None => Ok(()),
            Some(index) => {
                let place = range.offset + index as u64;
                Err(at(&self.file, format!("byte {place} is not that of the container")))
            }
        }
    }
}

/// A name beside the file that nobody else uses.
pub(super) fn partial(file: &Path) -> Result<PathBuf, String> {
    let name = file.file_name().ok_or_else(|| at(file, "no name for a file"))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".aggio-{}", std::process::id()));
    Ok(file.with_file_name(hidden))
}

/// Makes a new name durable.
pub(super) fn sync_parent(path: &Path) -> Result<(), String> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    File::open(parent).and_then(|folder| folder.sync_all()).map_err(|why| at(parent, why))
}
