//! Opens of processes, and the errors of those that have lost their generation.

use super::{Area, Handle, Job, Process};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

/// One open of one process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Open {
    /// The process that has it.
    pub(crate) process: Process,
    /// The program of the process.
    pub(crate) job: Job,
    /// The node of the process; 0 is this one.
    pub(crate) node: u64,
    /// The generation that is open.
    pub(crate) area: Area,
    /// Whether it may write.
    pub(crate) write: bool,
    /// The process will say which bytes it has written.
    pub(crate) tells: bool,
    /// Whether it moves the position of a reader.
    pub(crate) reads_on: bool,
    /// The generation was not complete, so that its reader opens it again to have the rest.
    pub(crate) is_part: bool,
    /// The process's own number of the open; 0 if it will not ask again.
    pub(crate) key: u64,
}

/// The error of an open for writing after its generation was lost.
#[derive(Debug)]
struct Loss {
    process: Process,
    error: i32,
    text: String,
}

/// All opens, by handle. An open for reading stays when its generation is lost.
#[derive(Debug, Default)]
pub(crate) struct Opens {
    all: BTreeMap<Handle, Open>,
    lost: BTreeMap<Handle, Loss>,
}

impl Deref for Opens {
    type Target = BTreeMap<Handle, Open>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl Opens {
    /// A process has opened something.
    pub(super) fn add(&mut self, handle: Handle, open: Open) {
        self.all.insert(handle, open);
    }

    /// Ends an open of a process. Returns it, if the process has it.
    pub(super) fn close(&mut self, process: Process, handle: Handle) -> Option<Open> {
        self.lost.retain(|lost, loss| *lost != handle || loss.process != process);
        self.of(process, handle)?;
        self.all.remove(&handle)
    }

    /// A process has ended. Returns its opens.
    pub(super) fn end(&mut self, process: Process) -> Vec<(Handle, Open)> {
        self.lost.retain(|_, loss| loss.process != process);
        self.take(|open| open.process == process)
    }

    /// Ends opens.
    pub(super) fn take(&mut self, is_it: impl Fn(&Open) -> bool) -> Vec<(Handle, Open)> {
        let all = self.all.iter().filter(|(_, open)| is_it(open));
        let taken = all.map(|(handle, open)| (*handle, *open)).collect();
        self.all.retain(|_, open| !is_it(open));
        taken
    }

    /// An open, if the process has it.
    pub(super) fn of(&self, process: Process, handle: Handle) -> Option<Open> {
        self.get(&handle).filter(|open| open.process == process).copied()
    }

    /// The generation that a process has open for writing.
    pub(super) fn written(&self, process: Process, handle: Handle) -> Option<Area> {
        self.of(process, handle).filter(|open| open.write).map(|open| open.area)
    }

    /// The open that a process has asked for by `key` before, and its generation: an earlier agent
    /// has made it, and died before it could say so.
    pub(super) fn asked_before(&self, process: Process, key: u64) -> Option<(Handle, Area)> {
        let is_it = |open: &Open| key != 0 && open.process == process && open.key == key;
        self.iter().find(|(_, open)| is_it(open)).map(|(handle, open)| (*handle, open.area))
    }

    /// Whether a program has opened a generation before that was complete.
    pub(super) fn has_part(&self, job: Job, area: Area) -> bool {
        self.values().any(|open| open.area == area && open.is_part && open.job == job)
    }

    /// A reader was told that the file is complete, so that it has all of it.
    pub(crate) fn has_all_records(&mut self, handle: Handle) {
        if let Some(open) = self.all.get_mut(&handle) {
            open.is_part = false;
        }
    }

    /// Ends the reading of a generation, but no open. Returns the opens that read it.
    pub(super) fn end_reading(&mut self, area: Area) -> Vec<Open> {
        let opens = self.all.values_mut().filter(|open| open.area == area && open.reads_on);
        opens.map(|open| std::mem::replace(open, Open { reads_on: false, ..*open })).collect()
    }

    /// The other nodes on which a process has a generation open that it reads.
    pub(crate) fn readers_away(&self, area: Area) -> BTreeSet<u64> {
        let opens = self.values().filter(|open| open.area == area && !open.write);
        opens.map(|open| open.node).filter(|node| *node != 0).collect()
    }

    /// Whether a process has a generation open for writing.
    pub(super) fn writes(&self, process: Process, area: Area) -> bool {
        self.values().any(|open| open.area == area && open.write && open.process == process)
    }

    /// Whether a process of the node has a generation open for writing.
    pub(crate) fn is_open_on(&self, area: Area, node: u64) -> bool {
        self.values().any(|open| open.area == area && open.write && open.node == node)
    }

    /// Ends all opens for writing of a generation that is lost. Their processes get the error when
    /// they close it.
    pub(super) fn lose_writers(&mut self, area: Area, error: i32, text: &str) {
        let losers = self.take(|open| open.area == area && open.write).into_iter();
        let loss = |process| Loss { process, error, text: text.to_owned() };
        self.lost.extend(losers.map(|(handle, open)| (handle, loss(open.process))));
    }

    /// The error of an open for writing after its generation was lost, and its message.
    pub(crate) fn loss(&self, handle: Handle) -> Option<(i32, &str)> {
        self.lost.get(&handle).map(|loss| (loss.error, &*loss.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opens() -> Opens {
        let mut opens = Opens::default();
        let open = |process, node, write| Open {
            process,
            job: process,
            node,
            area: 5,
            write,
            reads_on: !write,
            ..Open::default()
        };
        for (handle, one) in
            [(10, open(1, 0, true)), (11, open(2, 7, true)), (12, open(3, 8, false))]
        {
            opens.add(handle, one);
        }
        opens
    }

    #[test]
    fn an_open_is_closed_by_its_process_only() {
        let mut opens = opens();
        assert!(opens.close(2, 10).is_none() && opens.written(1, 10) == Some(5));
        assert!(opens.close(1, 10).is_some() && opens.close(1, 10).is_none());
        assert!(opens.is_open_on(5, 7) && !opens.is_open_on(5, 0) && !opens.is_open_on(5, 8));
        assert_eq!(opens.readers_away(5), [8].into());
        assert_eq!(opens.end(3).len(), 1);
        assert!(opens.readers_away(5).is_empty());
    }

    #[test]
    fn writers_of_what_is_lost_have_the_error_until_they_close_it_or_end() {
        let mut opens = opens();
        opens.lose_writers(5, libc::EIO, "lost");
        assert_eq!(opens.keys().copied().collect::<Vec<_>>(), [12], "a reader keeps its open");
        assert_eq!((opens.loss(10), opens.loss(12)), (Some((libc::EIO, "lost")), None));
        opens.close(2, 10);
        assert!(opens.loss(10).is_some(), "it is another's");
        opens.close(1, 10);
        opens.end(2);
        assert!(opens.lost.is_empty());
    }

    #[test]
    fn a_part_is_one_for_the_program_of_its_reader_until_it_has_all() {
        let mut opens = opens();
        opens.all.get_mut(&12).unwrap().is_part = true;
        assert!(opens.has_part(3, 5) && !opens.has_part(1, 5));
        opens.has_all_records(12);
        assert!(!opens.has_part(3, 5));
        assert!(opens.end_reading(5)[0].reads_on && opens.end_reading(5).is_empty());
    }
}
