//! One generation of one file: its state, its bytes, its writers, and the opens that have it.

use super::{Area, Directory, Handle, Job, Open, Path, Process, Reader};
use std::collections::BTreeSet;

/// The state of a generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// A program may write to it.
    #[default]
    Writing,
    /// It changes no more.
    Complete,
}

/// Whether a generation is on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stored {
    /// It is not to be.
    #[default]
    Never,
    /// It is to be.
    Wanted,
    /// That is going on.
    Busy,
    /// It is.
    Done,
    /// It could not be, and is kept in memory.
    Failed,
}

impl Stored {
    /// Whether nothing is left to be stored.
    pub(crate) fn is_settled(self) -> bool {
        matches!(self, Self::Never | Self::Done)
    }
}

/// The place of the bytes of a generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Home {
    /// In memory.
    #[default]
    Memory,
    /// In memory, while they are copied to this directory.
    Moving(Directory),
    /// In this directory; opens with numbers below this one still have the memory.
    Directory(Directory, Handle),
}

/// The programs that write a generation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writers {
    /// Programs that wrote it.
    pub(crate) jobs: BTreeSet<Job>,
    /// Processes that had it open for writing.
    pub(crate) processes: BTreeSet<Process>,
    /// Opens by which it was written.
    pub(crate) handles: BTreeSet<Handle>,
    /// Opens for writing that have not ended.
    pub(crate) open: BTreeSet<Handle>,
    /// While it is written, the nodes where its programs use it: each may have bytes of it.
    pub(crate) sites: BTreeSet<u64>,
    /// The process that began it, as messages name it.
    pub(crate) maker: String,
    /// A program has said that it wrote to it, whether or not bytes have changed.
    pub(crate) written: bool,
    /// A program may have written to it that does not say which bytes.
    pub(crate) untold: bool,
    /// The open that began it, while that is the only one for writing that there has been.
    pub(crate) alone: Option<Handle>,
    /// No process could write any more when its bytes began to be fetched or compared.
    pub(crate) are_done: bool,
}

/// Readers of a generation that is not complete.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Early {
    /// They get it as it is.
    pub(crate) published: bool,
    /// Its rule lets them have records.
    pub(crate) step: bool,
    /// The records that they may have, once they may.
    pub(crate) records: Option<u64>,
}

/// One generation of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Generation {
    /// The name of the file.
    pub(crate) path: Path,
    /// Its number, from 1.
    pub(crate) number: u64,
    /// Whether it is complete.
    pub(crate) state: State,
    /// The programs that write it, or wrote it.
    pub(crate) writers: Writers,
    /// The readers that it has before it is complete.
    pub(crate) early: Early,
    /// Opens for reading that have not ended.
    pub(crate) readers: BTreeSet<Handle>,
    /// A reader is done with it.
    pub(crate) read: bool,
    /// The name means it no more for its writer.
    pub(crate) unlinked: bool,
    /// Its name was removed while programs had it open for writing: it is for nobody.
    pub(crate) is_for_nobody: bool,
    /// Whether it is on disk.
    pub(crate) stored: Stored,
    /// The file had been cut to no bytes by name before.
    pub(crate) emptied: bool,
    /// Bytes of memory, once it is complete.
    pub(crate) bytes: u64,
    /// Bytes that it is expected to have when it is complete; 0 if nothing is known.
    pub(crate) expected: u64,
    /// The place of its bytes.
    pub(crate) home: Home,
    /// Its memory began as a copy of this generation.
    pub(crate) copy_of: Option<Area>,
}

impl Generation {
    /// Whether it changes no more.
    pub(crate) fn is_complete(&self) -> bool {
        self.state == State::Complete
    }

    /// Whether a program wrote it.
    pub(crate) fn is_by(&self, job: Job) -> bool {
        self.writers.jobs.contains(&job)
    }

    /// An open has it.
    pub(super) fn open(&mut self, handle: Handle, open: &Open) {
        let (is_complete, writers) = (self.is_complete(), &mut self.writers);
        if !open.reads_on && !is_complete {
            writers.sites.insert(open.node);
        }
        if !open.write {
            self.readers.insert(handle);
            return;
        }
        writers.alone = writers.processes.is_empty().then_some(handle);
        writers.jobs.insert(open.job);
        writers.processes.insert(open.process);
        writers.handles.insert(handle);
        writers.open.insert(handle);
        writers.untold |= !open.tells;
        writers.are_done = false;
    }

    /// An open has it no more.
    pub(super) fn close(&mut self, handle: Handle) {
        self.readers.remove(&handle);
        self.writers.open.remove(&handle);
    }

    /// It changes no more.
    pub(super) fn complete(&mut self) {
        (self.state, self.copy_of) = (State::Complete, None);
        self.writers.sites.clear();
    }

    /// Whether a process has it open.
    pub(super) fn is_open(&self) -> bool {
        !self.readers.is_empty() || self.is_open_to_write()
    }

    /// Whether a process has it open for writing.
    pub(super) fn is_open_to_write(&self) -> bool {
        !self.writers.open.is_empty()
    }

    /// Whether it was written on another node, and nobody has it open for writing: its bytes are on
    /// their way to this one.
    pub(super) fn is_on_its_way(&self) -> bool {
        self.writers.sites.iter().any(|site| *site != 0) && !self.is_open_to_write()
    }

    /// Whether nobody has it open for writing, and it is complete as soon as its bytes have come
    /// or were compared.
    pub(super) fn is_coming(&self) -> bool {
        let are_done = self.writers.are_done && !self.is_open_to_write();
        !self.is_complete() && (are_done || self.is_on_its_way())
    }

    /// Whether its bytes are on other nodes than this one of a process.
    pub(super) fn is_elsewhere(&self, node: u64) -> bool {
        let sites = &self.writers.sites;
        !self.is_complete() && !sites.is_empty() && !sites.contains(&node)
    }

    /// Whether readers get it now; `at_step`: as soon as it has records.
    pub(super) fn is_ready(&self, at_step: bool) -> bool {
        let early = self.early;
        self.is_complete() || early.published || at_step && early.records.is_some()
    }

    /// Bytes of memory of a complete generation, on the node that has most of them.
    pub(crate) fn in_memory(&self) -> u64 {
        if matches!(self.home, Home::Directory(..)) { 0 } else { self.bytes }
    }

    /// Whether its bytes are in a directory, and an open from before they moved has the memory;
    /// nothing if they have not moved.
    pub(super) fn is_left_in_memory(&self) -> Option<bool> {
        let Home::Directory(_, next) = self.home else { return None };
        let opens = [&self.readers, &self.writers.open];
        Some(opens.iter().any(|opens| opens.first().is_some_and(|first| *first < next)))
    }

    /// Whether all processes of a reader that have come are done with it.
    pub(super) fn is_passed_by(&self, reader: &Reader) -> bool {
        reader.processes.values().all(|position| {
            let is_closed = position.at == self.number && position.open == 0;
            position.at > self.number
                || is_closed && (position.seen || position.finished >= self.number)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(process: Process, node: u64, write: bool) -> Open {
        Open { process, job: process, node, write, reads_on: !write, ..Open::default() }
    }

    #[test]
    fn the_first_open_is_alone_until_another_one_writes() {
        let mut one = Generation::default();
        one.open(5, &open(1, 0, true));
        one.open(6, &open(3, 0, false));
        assert!(one.writers.alone == Some(5) && one.is_by(1) && !one.is_by(3));
        one.open(7, &open(2, 0, true));
        assert!(one.writers.alone.is_none() && one.is_open_to_write());
        [5, 7].into_iter().for_each(|handle| one.close(handle));
        assert!(!one.is_open_to_write() && one.is_open());
        one.close(6);
        assert!(!one.is_open() && one.writers.handles == [5, 7].into());
    }

    #[test]
    fn bytes_are_on_the_nodes_of_writers_until_it_is_complete() {
        let mut one = Generation::default();
        assert!(!one.is_elsewhere(0) && !one.is_on_its_way());
        one.open(5, &open(1, 7, true));
        assert!(one.is_elsewhere(0) && !one.is_elsewhere(7) && !one.is_on_its_way());
        one.close(5);
        assert!(one.is_on_its_way());
        one.complete();
        assert!(!one.is_elsewhere(0) && !one.is_on_its_way());
    }

    #[test]
    fn it_comes_if_its_writers_have_closed_it_and_its_bytes_are_not_here_or_not_compared() {
        for (node, are_done) in [(0, true), (7, false)] {
            let mut one = Generation::default();
            one.open(5, &open(1, node, true));
            assert!(!one.is_coming());
            one.close(5);
            one.writers.are_done = are_done;
            assert!(one.is_coming());
            one.open(6, &open(2, 0, true));
            assert!(!one.is_coming());
            one.close(6);
            assert!(one.is_coming() != are_done, "it is looked at again");
            one.complete();
            assert!(!one.is_coming());
        }
    }

    #[test]
    fn what_has_moved_is_left_in_memory_for_opens_from_before() {
        let mut one = Generation { bytes: 8, ..Generation::default() };
        assert_eq!((one.is_left_in_memory(), one.in_memory()), (None, 8));
        one.home = Home::Directory("/spill".into(), 6);
        one.open(6, &open(1, 0, false));
        assert_eq!((one.is_left_in_memory(), one.in_memory()), (Some(false), 0));
        one.open(5, &open(1, 0, false));
        assert_eq!(one.is_left_in_memory(), Some(true));
    }

    #[test]
    fn readers_get_what_is_complete_or_shown() {
        let mut one = Generation::default();
        one.early.records = Some(1);
        assert!(one.is_ready(true) && !one.is_ready(false));
        one.early.published = true;
        assert!(one.is_ready(false));
        one.early = Early::default();
        one.complete();
        assert!(one.is_ready(false));
    }
}
