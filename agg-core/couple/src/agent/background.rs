//! Copies and comparisons of large files, and moves to directories, which other threads make: the
//! agent answers meanwhile.

use super::waits::Waiting;
use crate::areas::{Areas, are_same, copy};
use crate::peers::Key;
use crate::registry::{Area, Opening};
use crate::spill_directory::Folder;
use crate::worker::Results;
use aggio_base::log;
use aggio_base::log::Level;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Files of fewer bytes are copied and compared at once: that takes milliseconds.
const LARGE: u64 = 16 << 20;

/// The result of a thread.
#[derive(Debug)]
pub(super) enum Done {
    Copied(Area, io::Result<()>),
    Compared(Area, io::Result<bool>),
    /// The bytes are in this file.
    Moved(Area, io::Result<OwnedFd>),
    /// The kept bytes of a generation are in these files, which are in memory by these inodes.
    MovedKept(Key, io::Result<Vec<(u64, OwnedFd)>>),
}

/// A generation that is filled with the bytes of the one before.
#[derive(Debug, Default)]
pub(super) struct Copying {
    /// Opens that are answered when that is done.
    pub(super) waiting: Vec<(Waiting, Opening)>,
    /// It is to have no bytes then.
    pub(super) cut: bool,
}

/// A generation that may still be the copy as which it began.
#[derive(Debug)]
enum Comparison {
    /// It is being found out; whether the file was opened for writing since.
    Runs(bool),
    Same(bool),
}

/// The work of other threads.
#[derive(Debug)]
pub(super) struct Background {
    results: Results<Done>,
    copying: BTreeMap<Area, Copying>,
    comparing: BTreeMap<Area, Comparison>,
}

/// Whether a generation is copied and compared by another thread.
pub(super) fn is_large(area: Area, areas: &Areas) -> bool {
    areas.stat(area, 0).is_ok_and(|stat| stat.size >= LARGE)
}

impl Background {
    pub(super) fn new() -> io::Result<Self> {
        let (copying, comparing) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { results: Results::new()?, copying, comparing })
    }

    /// Readable when something is done.
    pub(super) fn events(&self) -> RawFd {
        self.results.events()
    }

    /// Returns the results since the last call.
    pub(super) fn results(&self) -> Vec<Done> {
        self.results.take()
    }

    fn start(&self, work: impl FnOnce() -> Done + Send + 'static) -> io::Result<()> {
        self.results.start("aggio-aside", std::iter::once_with(work))
    }

    /// Whether no generation is copied or compared.
    pub(super) fn is_idle(&self) -> bool {
        self.copying.is_empty() && self.comparing.is_empty()
    }

    /// Lets a thread write the bytes of a file to a directory.
    pub(super) fn take(&self, area: Area, from: OwnedFd, folder: Folder) -> io::Result<()> {
        self.start(move || Done::Moved(area, folder.take(&from)))
    }

    /// The same for files with bytes of a generation that another node owns, by their inodes.
    pub(super) fn take_kept(
        &self,
        key: Key,
        from: Vec<(u64, OwnedFd)>,
        folder: Folder,
    ) -> io::Result<()> {
        let take = move |(inode, file)| Ok((inode, folder.take(&file)?));
        self.start(move || Done::MovedKept(key, from.into_iter().map(take).collect()))
    }

    /// Lets a thread fill a generation with the bytes of another one.
    pub(super) fn copy(&mut self, area: Area, source: Area, areas: &Areas) -> io::Result<()> {
        let from = areas.open(source, true, false, false)?;
        let to = areas.open(area, true, true, false)?;
        self.start(move || Done::Copied(area, copy(from.as_raw_fd(), to.as_raw_fd())))?;
        self.copying.insert(area, Copying::default());
        Ok(())
    }

    /// Whether a generation is still filled.
    pub(super) fn fills(&self, area: Area) -> bool {
        self.copying.contains_key(&area)
    }

    /// Lets a generation that is still filled have no bytes then; false if it is not.
    pub(super) fn cut(&mut self, area: Area) -> bool {
        self.copying.get_mut(&area).map(|copying| copying.cut = true).is_some()
    }

    /// Lets an open wait if its memory is still filled; false if it is not.
    pub(super) fn lets_wait(&mut self, waiting: &Waiting, opening: Opening) -> bool {
        let copying = self.copying.get_mut(&opening.area);
        copying.map(|copying| copying.waiting.push((waiting.clone(), opening))).is_some()
    }

    /// A generation is filled, or cannot be. Returns the opens that wait for it.
    pub(super) fn filled(&mut self, area: Area) -> Option<Copying> {
        self.copying.remove(&area)
    }

    /// A file is open for writing again.
    pub(super) fn note_written(&mut self, area: Area) {
        if let Some(comparison) = self.comparing.get_mut(&area) {
            *comparison = Comparison::Runs(true);
        }
    }

    /// Whether a file to which nobody can write differs from the one of which it began as a copy;
    /// `None` if that is yet to be found out.
    pub(super) fn is_changed(
        &mut self,
        area: Area,
        copy_of: Option<Area>,
        areas: &Areas,
    ) -> Option<bool> {
        match self.comparing.get(&area) {
            Some(Comparison::Runs(_)) => return None,
            Some(Comparison::Same(same)) => {
                let same = *same;
                self.comparing.remove(&area);
                return Some(!same);
            }
            None => {}
        }
        if is_large(area, areas)
            && let Some([one, other]) = areas.may_be_same(area, copy_of)
        {
            let work = move || Done::Compared(area, are_same(one.as_raw_fd(), other.as_raw_fd()));
            if self.start(work).is_ok() {
                self.comparing.insert(area, Comparison::Runs(false));
                return None;
            }
        }
        Some(areas.is_changed(area, copy_of))
    }

    /// A generation was compared. That counts if nobody has opened it for writing meanwhile.
    pub(super) fn compared(&mut self, area: Area, same: io::Result<bool>) {
        let same = same.unwrap_or_else(|error| {
            log!(Level::Warn, "agent: two generations cannot be compared: {error}");
            false
        });
        if let Some(Comparison::Runs(false)) = self.comparing.remove(&area) {
            self.comparing.insert(area, Comparison::Same(same));
        }
    }

    /// Somebody may write to a generation that was compared, or dies: it is to be compared anew.
    pub(super) fn forget_compared(&mut self, area: Area) {
        self.comparing.remove(&area);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::time::{Duration, Instant};

    fn wait(background: &Background) -> Done {
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < Duration::from_secs(20));
            match background.results().pop() {
                Some(done) => return done,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    #[test]
    fn a_comparison_counts_unless_the_file_was_opened_for_writing_meanwhile() {
        let (mut areas, mut background) = (Areas::new().unwrap(), Background::new().unwrap());
        areas.make(1, 0o600, None).unwrap();
        let file = File::from(areas.open(1, true, true, false).unwrap());
        file.set_len(LARGE).unwrap();
        file.write_all_at(b"bytes", 0).unwrap();
        assert!(is_large(1, &areas) && !is_large(2, &areas));
        areas.make(2, 0o600, None).unwrap();
        background.copy(2, 1, &areas).unwrap();
        assert!(background.fills(2) && !background.fills(1) && !background.is_idle());
        assert!(matches!(wait(&background), Done::Copied(2, Ok(()))));
        assert!(background.filled(2).is_some_and(|copying| !copying.cut));
        areas.is_copied(2).unwrap();
        for (is_written, known) in [(false, Some(false)), (true, None)] {
            assert_eq!(background.is_changed(2, Some(1), &areas), None);
            let Done::Compared(2, same) = wait(&background) else { panic!() };
            if is_written {
                background.note_written(2);
            }
            background.compared(2, same);
            let changed = background.is_changed(2, Some(1), &areas);
            assert_eq!(changed, known, "written: {is_written}");
        }
    }
}
