//! Replicas of generations that other nodes own.

use super::mapped::Mapped;
use super::{Away, Held, Key, Opens};
use crate::areas::{Areas, Quiet, set_time, write_all};
use crate::client::Stat;
use crate::registry::{Area, Path, Process, Series, series};
use crate::spares::Spare;
use aggio_base::os;
use aggio_base::overlay::Overlay;
use aggio_link::Peer;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

mod confirmation;
mod renewals;
mod replica;

pub(crate) use confirmation::agree;
pub(crate) use replica::{Replica, Wanting};

/// Series of files with a known last one, at most.
const HABITS: usize = 256;

/// Replicas that nobody has opened, made because programs asked for attributes, at most.
const DESCRIBED: usize = 64;

/// Facts of the last file of a series.
#[derive(Debug, Default)]
struct Habit {
    /// The units that programs have wanted, as ranges of their numbers.
    wanted: Overlay<()>,
    /// Its bytes, if hardly any were holes.
    bytes: u64,
}

/// All copies of an agent.
#[derive(Debug)]
pub(crate) struct Replicas {
    pub(crate) areas: Areas,
    all: BTreeMap<Key, Replica>,
    pub(crate) opens: Opens,
    last: Area,
    habits: BTreeMap<Series, Habit>,
    /// Copies that were made because programs have asked for the attributes of files.
    described: VecDeque<Key>,
    /// Replicas that are looked at again soon, and how often they were.
    pub(crate) closing: BTreeMap<Key, u32>,
}

impl Replicas {
    /// No copies; handles are counted from `number` on.
    pub(crate) fn new(number: u64) -> io::Result<Self> {
        let (all, habits, described) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        let (areas, opens, closing) = (Areas::new()?, Opens::new(number), BTreeMap::new());
        Ok(Self { areas, all, opens, last: 0, habits, described, closing })
    }

    /// Notes an open of a copy: the handle that programs of this node have of it.
    pub(crate) fn keep(&mut self, held: Held) -> u64 {
        let handle = self.opens.add(held);
        if let Some(copy) = self.all.get_mut(&held.key) {
            copy.opens += 1;
        }
        handle
    }

    pub(crate) fn are_idle(&self) -> bool {
        self.all.values().all(Replica::is_unused)
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Replica> {
        self.all.get(&key)
    }

    /// The copy, if it has this memory.
    pub(crate) fn made(&self, key: Key, local: Area) -> Option<&Replica> {
        self.all.get(&key).filter(|copy| copy.local == local)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Replica> {
        self.all.get_mut(&key)
    }

    /// A replica, and the memory of all.
    pub(crate) fn with_memory(&mut self, key: Key) -> Option<(&mut Replica, &mut Areas)> {
        self.all.get_mut(&key).map(|replica| (replica, &mut self.areas))
    }

    /// The replicas with a description that could write and was closed.
    pub(crate) fn closed(&self) -> Vec<Key> {
        let closed = self.areas.closed();
        let is_it = |copy: &Replica| closed.contains(&copy.local);
        self.all.iter().filter(|(_, copy)| is_it(copy)).map(|(key, _)| *key).collect()
    }

    /// A replica was looked at so often after a description that could write was closed: it may
    /// have been found open although it is not, so that it is looked at again, but not more often
    /// than `most` times.
    pub(crate) fn look_again(&mut self, key: Key, looks: u32, most: u32) {
        if looks < most && self.get(key).is_some_and(|replica| replica.writing.dirty) {
            self.closing.insert(key, looks + 1);
        }
    }

    /// The copies that were written.
    pub(crate) fn dirty(&self) -> impl Iterator<Item = (&Key, &Replica)> {
        self.all.iter().filter(|(_, copy)| copy.writing.dirty)
    }

    /// The copies that a process has written, or has open.
    pub(crate) fn used_by(&self, process: Process) -> BTreeSet<Key> {
        let written = self.all.iter().filter(|(_, copy)| copy.writing.writers.contains(&process));
        written.map(|(key, _)| *key).chain(self.opens.of(process)).collect()
    }

    /// The replicas of files of `peer`.
    pub(crate) fn of(&self, peer: Peer) -> Vec<Key> {
        self.all.keys().filter(|key| key.0 == peer).copied().collect()
    }

    /// The copy with this inode.
    pub(crate) fn find(&self, device: u64, inode: u64) -> Option<Key> {
        let local = self.areas.find(device, inode)?;
        self.all.iter().find(|(_, copy)| copy.local == local).map(|(key, _)| *key)
    }

    /// How many bytes a copy will have, 0 if that is unknown.
    pub(crate) fn expected(&self, path: &Path, away: &Away) -> u64 {
        match away.is_renewed() {
            // Its pages tell which bytes were written, and have to be small for that.
            true => 0,
            false if away.size > 0 => away.size,
            false => self.habits.get(&series(path)).map_or(0, |habit| habit.bytes),
        }
    }

    /// Makes the memory of a copy unless it is there: that of a file that gets differences, which
    /// has no bytes yet, or of one that has the size of `away`. It is that of `spare`, if there is
    /// one. Others of the same name that nobody uses are given up.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn make(
        &mut self,
        key: Key,
        path: &Path,
        away: &Away,
        spare: Option<Spare>,
    ) -> io::Result<()> {
        let is_renewed = away.is_renewed();
        let size = if is_renewed { 0 } else { away.size };
        let mut opens = 0;
        if let Some(copy) = self.all.get(&key) {
            // One that lacks bytes of other nodes is of use only to programs that have it open.
            let is_it = copy.shared.is_some() == is_renewed && !(is_renewed && copy.gone);
            if is_it || copy.can_be_renewed() {
                return Ok(());
            }
            opens = copy.opens;
            self.give_up(key);
        }
        let of_it = |copy: &Replica| copy.path == *path && copy.is_unused() && !copy.early;
        let old: Vec<Key> = self.all.iter().filter(|(_, c)| of_it(c)).map(|(k, _)| *k).collect();
        for key in old {
            self.give_up(key);
        }
        self.last += 1;
        let local = self.last;
        self.areas.make_of(spare, local, away.mode, None)?;
        let filled = self.areas.open(local, true, true, false).and_then(|file| {
            os::ftruncate(file.as_raw_fd(), size)?;
            Mapped::of(&file, true)
        });
        let target = filled.inspect_err(|_| self.areas.free(local))?;
        let mut copy = Replica::new(local, path, away, target);
        copy.opens = opens;
        if let Some(habit) = self.habits.get(&series(path)) {
            copy.incoming.pieces.expect(&habit.wanted);
        }
        self.all.insert(key, copy);
        Ok(())
    }

    /// Makes a copy as [`make`](Self::make), unless it is there, and sets the time of its last
    /// modification. Its attributes.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn describe(
        &mut self,
        key: Key,
        path: &Path,
        away: &Away,
        modified: (i64, i64),
        spare: Option<Spare>,
    ) -> io::Result<Stat> {
        if self.all.get(&key).is_some_and(|copy| copy.is_unopened() && copy.size != away.size) {
            self.give_up(key);
        }
        if !self.all.contains_key(&key) {
            self.make(key, path, away, spare)?;
            self.all.get_mut(&key).into_iter().for_each(|copy| copy.modified = Some(modified));
            self.keep_time(key);
            self.described.push_back(key);
        }
        if self.described.len() > DESCRIBED
            && let Some(key) = self.described.pop_front()
            && self.all.get(&key).is_some_and(|copy| copy.is_unused() && copy.writing.granted == 0)
        {
            self.give_up(key);
        }
        let copy = self.all.get(&key).ok_or_else(|| io::Error::from_raw_os_error(libc::ESTALE))?;
        let stat = self.areas.stat(copy.local, away.generation)?;
        Ok(Stat { area: key.1, ..stat })
    }

    /// Lets a copy that was [described](Self::describe) show the time of its last modification
    /// again, after bytes have come.
    pub(crate) fn keep_time(&self, key: Key) {
        let Some(copy) = self.all.get(&key) else { return };
        if let Some(modified) = copy.modified
            && let Ok(file) = self.areas.open(copy.local, true, true, false)
        {
            let _ = set_time(file.as_raw_fd(), modified);
        }
    }

    /// A description for a program.
    ///
    /// # Errors
    /// The copy is gone; no descriptors.
    pub(crate) fn open(&self, key: Key, how: (bool, bool, bool)) -> io::Result<OwnedFd> {
        let gone = || io::Error::from_raw_os_error(libc::ESTALE);
        let copy = self.all.get(&key).ok_or_else(gone)?;
        self.areas.open(copy.local, how.0, how.1, how.2)
    }

    /// Puts bytes of this node into a copy.
    ///
    /// # Errors
    /// The copy is gone; the system's.
    pub(crate) fn fill(&self, key: Key, bytes: &[u8], offset: u64) -> io::Result<()> {
        let file = self.open(key, (true, true, false))?;
        write_all(file.as_raw_fd(), bytes, offset)
    }

    /// Whether nobody on this node can write to it any more.
    pub(crate) fn is_quiet(&self, key: Key) -> bool {
        let Some(copy) = self.all.get(&key) else { return false };
        match self.areas.is_quiet(copy.local) {
            Quiet::Yes => true,
            Quiet::No => false,
            Quiet::Unknown => copy.opens == 0,
        }
    }

    /// Gives up early copies of files of others than those that are still asked.
    pub(crate) fn decline(&mut self, asked: &BTreeSet<Peer>) {
        let is_left = |key: &Key, copy: &Replica| copy.is_unopened() && !asked.contains(&key.0);
        let left: Vec<Key> =
            self.all.iter().filter(|(key, copy)| is_left(key, copy)).map(|(key, _)| *key).collect();
        left.into_iter().for_each(|key| self.give_up(key));
    }

    /// An open has ended.
    pub(crate) fn close(&mut self, key: Key) {
        let Some(copy) = self.all.get_mut(&key) else { return };
        copy.opens = copy.opens.saturating_sub(1);
        // After its owner has all written bytes, a copy is of use only while it is open.
        let was_written = copy.shared.is_some() && copy.writing.granted > 0;
        copy.gone |= copy.opens == 0 && was_written && copy.writing.is_over();
        self.note_habit(key);
        self.give_up_if_over(key);
    }

    /// A process has ended, and with it its opens.
    pub(crate) fn leave(&mut self, process: Process) {
        self.opens.leave(process).into_iter().for_each(|key| self.close(key));
    }

    /// Whether programs of this node have written to it, and none can write any more.
    pub(crate) fn is_written(&self, key: Key) -> bool {
        let Some(replica) = self.all.get(&key) else { return false };
        let may_be_sent = replica.shared.is_some() || replica.is_whole();
        replica.writing.dirty && may_be_sent && self.is_quiet(key)
    }

    /// The processes that have written to it, if the owner is to get that now.
    pub(crate) fn writers(&self, key: Key) -> Option<&BTreeSet<Process>> {
        let replica = self.all.get(&key).filter(|replica| replica.writing.dirty)?;
        (replica.shared.is_none() || self.is_quiet(key)).then_some(&replica.writing.writers)
    }

    /// The owner has given it up.
    pub(crate) fn is_gone(&mut self, key: Key) {
        let Some(copy) = self.all.get_mut(&key) else { return };
        copy.gone = true;
        if copy.opens == 0 {
            self.give_up(key);
        }
    }

    /// Gives it up; programs that have it open keep their descriptors.
    pub(crate) fn give_up(&mut self, key: Key) {
        self.note_habit(key);
        let Some(copy) = self.all.remove(&key) else { return };
        let remains = self.areas.take(copy.local);
        let bytes = remains.filter(|remains| remains.is_dense).map_or(0, |remains| remains.bytes);
        if let Some(habit) = self.habits.get_mut(&series(&copy.path)) {
            habit.bytes = bytes;
        }
    }

    /// Notes the bytes that programs have wanted of a replica so far.
    pub(crate) fn note_habit(&mut self, key: Key) {
        let Some(copy) = self.all.get(&key) else { return };
        let series = series(&copy.path);
        if self.habits.len() < HABITS || self.habits.contains_key(&series) {
            let (habit, wanted) =
                (self.habits.entry(series).or_default(), copy.incoming.pieces.wanted());
            if !wanted.is_empty() {
                habit.wanted.clone_from(wanted);
            }
        }
    }
}

#[cfg(test)]
mod tests;
