//! Import: makes a set of files a container again, so that it can be changed.

use crate::directory::{fd_range, remove_tree};
use crate::errors::failed;
use crate::file::{Container, Create};
use crate::order::Sequencer;
use crate::output::{fresh_beside, is_same, rename_new};
use crate::writing::Writer;
use aggio_base::{Extent, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// Bytes that are copied at a time.
const WINDOW: u64 = 4 << 20;
/// Pieces that are copied at a time.
const PIECES: usize = 64 << 10;
/// Writers that have a log each; the bytes of further ones count as the first one's.
const WRITERS: u32 = 256;

/// Takes bytes and the number of their writer.
pub type Take<'a> = dyn FnMut(Extent, u32) -> Result<()> + 'a;

/// The one file that a set stands for.
pub trait ReadOnlyFile: Send + Sync + std::fmt::Debug {
    /// Its bytes.
    fn size(&self) -> u64;

    /// Fills a buffer from `offset` on: how many bytes, less than asked for only at the end of the
    /// file.
    ///
    /// # Errors
    /// If a file of the set cannot be read, which the error names.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize>;

    /// Gives `take` all bytes that anybody wrote, in the order of the file, and maybe some behind
    /// its end. Bytes of nobody are zeros.
    ///
    /// # Errors
    /// Those of `take`.
    fn owned(&self, take: &mut Take<'_>) -> Result<()> {
        take(Extent::new(0, self.size()), 0)
    }
}

/// The right to make a container of a set: one process at a time has it.
#[derive(Debug)]
pub struct Turn {
    /// Holds the lock, on the first file of the set; `None` where there are no locks.
    _order: Option<Sequencer>,
}

impl Turn {
    /// Waits until no other process makes a container of the set with this first file. Returns
    /// `None` if another set has the name meanwhile.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn take(first: &Path) -> Result<Option<Turn>> {
        let fail = |error| failed("open", &error, first);
        let file = File::options().read(true).write(true).open(first).map(fd_range::moved);
        let file = file.map_err(fail)?;
        let own = file.metadata().map_err(fail)?;
        let order = Sequencer::of(file, first.to_path_buf());
        let locked = order.lock_turn().is_ok();
        if !first.metadata().is_ok_and(|now| is_same(&own, &now)) {
            return Ok(None);
        }
        Ok(Some(Turn { _order: locked.then_some(order) }))
    }
}

/// Makes a container called `path` of all bytes of `file`. The bytes of each writer go to a log of
/// its own, with the writer's number plus one as its id. The container gets its name when it is
/// complete and as durable as the set; from then on it hides the set. If another process was
/// faster, its container stays.
///
/// # Errors
///
/// If the set cannot be read, or the container not be stored.
pub fn unfold(path: &Path, file: &dyn ReadOnlyFile, how: &Create, _turn: &Turn) -> Result<()> {
    unfold_and(path, file, how, rename_new)
}

/// The same, with the function that gives the container its name.
fn unfold_and(
    path: &Path,
    file: &dyn ReadOnlyFile,
    how: &Create,
    rename: impl FnOnce(&Path, &Path) -> Result<()>,
) -> Result<()> {
    let hidden = fresh_beside(path)?;
    // Until it has its name, the container says that somebody needs it.
    let made = fill(&hidden, file, how)
        .and_then(|container| rename(&hidden, path).map(|()| drop(container)));
    if made.is_err() {
        // Report the original error.
        let _ = remove_tree(&hidden);
    }
    made.or_else(|error| if error.errno() == libc::EEXIST { Ok(()) } else { Err(error) })
}

fn fill(hidden: &Path, file: &dyn ReadOnlyFile, how: &Create) -> Result<Container> {
    let container = Container::make_hidden(hidden, &Create { mode: 0o600, ..*how })?;
    let size = file.size();
    let (writers, window) = (BTreeMap::new(), Vec::new());
    let mut copy = Copy { container: &container, file, writers, window };
    file.owned(&mut |extent, writer| copy.add(extent.intersect(Extent::new(0, size)), writer))?;
    copy.flush()?;
    copy.finish(size)?;
    container.set_mode(how.mode)?;
    Ok(container)
}

/// A copy under way.
struct Copy<'a> {
    container: &'a Container,
    file: &'a dyn ReadOnlyFile,
    writers: BTreeMap<u32, Writer>,
    /// Pieces that lie close together and are copied at once.
    window: Vec<(Extent, u32)>,
}

impl Copy<'_> {
    fn add(&mut self, mut rest: Extent, writer: u32) -> Result<()> {
        while rest.len > 0 {
            let start = self.window.first().map_or(rest.offset, |(first, _)| first.offset);
            let end = rest.end().min(start + WINDOW);
            if end <= rest.offset || self.window.len() == PIECES {
                self.flush()?;
                continue;
            }
            self.window.push((Extent::between(rest.offset, end), writer));
            rest = Extent::between(end, rest.end());
        }
        Ok(())
    }

    /// Copies the window.
    fn flush(&mut self) -> Result<()> {
        let pieces = std::mem::take(&mut self.window);
        let (Some((first, _)), Some((last, _))) = (pieces.first(), pieces.last()) else {
            return Ok(());
        };
        let start = first.offset;
        let mut bytes = vec![0; (last.end() - start) as usize];
        if self.file.read_at(&mut bytes, start)? < bytes.len() {
            return Err(crate::errors::damaged(format!("it ends before byte {}", last.end())));
        }
        let mut of_writers: BTreeMap<u32, Vec<(u64, &[u8])>> = BTreeMap::new();
        for (extent, writer) in &pieces {
            let from = (extent.offset - start) as usize;
            let piece = (extent.offset, &bytes[from..from + extent.len as usize]);
            of_writers.entry(if *writer < WRITERS { *writer } else { 0 }).or_default().push(piece);
        }
        for (number, pieces) in &of_writers {
            self.writer(*number)?.write_pieces(pieces)?;
        }
        Ok(())
    }

    fn writer(&mut self, number: u32) -> Result<&Writer> {
        if !self.writers.contains_key(&number) {
            let writer = self.container.writer()?;
            writer.name_log(u64::from(number) + 1);
            self.writers.insert(number, writer);
        }
        self.writers.get(&number).ok_or_else(|| crate::errors::damaged("no log is open"))
    }

    fn finish(mut self, size: u64) -> Result<()> {
        if self.container.reader()?.size() < size {
            self.writer(0)?.set_size(size)?;
        }
        self.writers.into_values().try_for_each(|writer| {
            writer.sync()?;
            writer.close()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::manifest::is_container;
    use crate::output::Cleared;
    use crate::repair::remains::clear;

    #[derive(Debug)]
    struct Zeros;

    impl ReadOnlyFile for Zeros {
        fn size(&self) -> u64 {
            100
        }

        fn read_at(&self, buffer: &mut [u8], _: u64) -> Result<usize> {
            buffer.fill(0);
            Ok(buffer.len())
        }
    }

    #[test]
    fn until_it_has_its_name_the_container_is_needed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("c");
        let how = Create { mode: 0o644, exclusive: true, data_crc: true };
        let made = unfold_and(&path, &Zeros, &how, |hidden, path| {
            assert_eq!(clear(hidden).unwrap(), Cleared::Needed);
            rename_new(hidden, path)
        });
        made.unwrap();
        let size = Container::open(&path).unwrap().reader().unwrap().size();
        assert!(is_container(&path) && size == 100);
    }
}
