//! Copies of generations whose names another node owns.

use super::shared::{Shared, Step};
use super::twin::grow;
use super::{Away, PIECE, map, span};
use crate::areas::{Areas, Quiet};
use crate::registry::{Area, Path, Process};
use aggio_base::Extent;
use aggio_base::os::{self, Mapping};
use aggio_link::{Peer, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

mod sending;

pub(crate) use sending::Sending;

/// The owner and its number of the memory.
pub(crate) type Key = (Peer, u64);

/// Handles of what another node owns are from here on.
pub(crate) const AWAY: u64 = 1 << 63;

/// Pieces that are asked for at a time.
const WINDOW: u64 = 8;

/// One copy.
pub(crate) struct Copy {
    local: Area,
    pub(crate) path: Path,
    size: u64,
    /// What is filled, while it is.
    target: Option<Arc<Mapping>>,
    /// Up to where bytes were asked for, and how many have come.
    asked: u64,
    come: u64,
    /// Opens of this node.
    pub(crate) opens: u32,
    /// It was opened for writing since it was last sent.
    pub(crate) dirty: bool,
    /// Processes that had it open for writing since then.
    pub(crate) writers: BTreeSet<Process>,
    pub(crate) sending: Option<Sending>,
    /// How often it was sent.
    pub(crate) times: u64,
    /// It is to be cut to so many bytes when all have come.
    cut: Option<u64>,
    /// Opens that wait for its bytes.
    pub(crate) waiting: Vec<u64>,
    /// It is of no use when nobody has it open any more.
    gone: bool,
    /// It is to be written by programs of other nodes as well, when it was sent.
    pub(crate) shares: bool,
    /// How often it was opened for writing.
    pub(crate) granted: u64,
    /// The same when it was last sent.
    pub(crate) sent: u64,
    /// Programs of other nodes write it as well.
    pub(crate) shared: Option<Shared>,
}

impl std::fmt::Debug for Copy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Copy({} of {} bytes)", self.come, self.size)
    }
}

impl Copy {
    /// Where bytes go that were asked for.
    pub(crate) fn room(&self, offset: u64, len: u64) -> Option<Span> {
        span(self.target.as_ref(), self.size, offset, len)
    }

    /// Whether it lacks what other nodes have written, or its owner has given it up.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Whether its readers can get what its owner has now, and nothing was written here.
    pub(crate) fn can_be_renewed(&self) -> bool {
        self.shared.is_some() && !self.gone && self.granted == 0
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.come >= self.size
    }

    /// Whether nobody has it open or waits for it, and its owner has what was written.
    fn is_unused(&self) -> bool {
        let is_idle = self.shared.as_ref().is_none_or(Shared::is_idle);
        let is_sent = !self.dirty && self.sending.is_none() && !self.shares && is_idle;
        self.opens == 0 && self.waiting.is_empty() && is_sent
    }

    /// A process has it open for writing.
    pub(crate) fn is_written_by(&mut self, process: Process) {
        self.dirty = true;
        self.granted += 1;
        self.writers.insert(process);
    }

    /// What is to be asked for now.
    pub(crate) fn next(&mut self) -> Option<Extent> {
        let open = self.asked.saturating_sub(self.come);
        if self.asked >= self.size || open >= WINDOW * PIECE {
            return None;
        }
        let extent = Extent::new(self.asked, PIECE.min(self.size - self.asked));
        self.asked = extent.end();
        Some(extent)
    }

    /// So many bytes have come; true if these were the last.
    pub(crate) fn come(&mut self, len: u64) -> bool {
        self.come += len;
        if self.is_whole() {
            self.target = None;
        }
        self.is_whole()
    }
}

/// All copies of an agent.
#[derive(Debug)]
pub(crate) struct Copies {
    areas: Areas,
    all: BTreeMap<Key, Copy>,
    /// Opens: the owner's handle, and the copy.
    pub(crate) handles: BTreeMap<u64, (u64, Key, Process)>,
    number: u64,
    last: Area,
}

impl Copies {
    /// No copies; handles are counted from `number` on.
    pub(crate) fn new(number: u64) -> io::Result<Self> {
        let (all, handles) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { areas: Areas::new()?, all, handles, number, last: 0 })
    }

    /// Notes an open of a copy, which the owner calls `theirs`.
    pub(crate) fn keep(&mut self, key: Key, theirs: u64, process: Process) -> u64 {
        self.number += 1;
        let handle = AWAY | self.number;
        self.handles.insert(handle, (theirs, key, process));
        if let Some(copy) = self.all.get_mut(&key) {
            copy.opens += 1;
        }
        handle
    }

    pub(crate) fn events(&self) -> i32 {
        self.areas.events()
    }

    pub(crate) fn are_idle(&self) -> bool {
        self.all.values().all(Copy::is_unused)
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Copy> {
        self.all.get(&key)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Copy> {
        self.all.get_mut(&key)
    }

    /// The copies of which a description that could write was closed.
    pub(crate) fn closed(&self) -> Vec<Key> {
        let closed = self.areas.closed();
        let is_it = |copy: &Copy| closed.contains(&copy.local);
        self.all.iter().filter(|(_, copy)| is_it(copy)).map(|(key, _)| *key).collect()
    }

    /// The copies that are being sent.
    pub(crate) fn sending(&self) -> Vec<Key> {
        let all = self.all.iter().filter(|(_, copy)| copy.sending.is_some());
        all.map(|(key, _)| *key).collect()
    }

    /// The copies that a process has written, or has open.
    pub(crate) fn used_by(&self, process: Process) -> BTreeSet<Key> {
        let written = self.all.iter().filter(|(_, copy)| copy.writers.contains(&process));
        let open = self.handles.values().filter(|(.., whose)| *whose == process);
        written.map(|(key, _)| *key).chain(open.map(|(_, key, _)| *key)).collect()
    }

    /// The copies of what `peer` owns.
    pub(crate) fn of(&self, peer: Peer) -> Vec<Key> {
        self.all.keys().filter(|key| key.0 == peer).copied().collect()
    }

    /// The copy that was opened with the owner's handle `theirs`.
    pub(crate) fn key_of(&self, peer: Peer, theirs: u64) -> Option<Key> {
        let is_it = |(known, key, _): &&(u64, Key, Process)| *known == theirs && key.0 == peer;
        self.handles.values().find(is_it).map(|(_, key, _)| *key)
    }

    /// The copy with this inode.
    pub(crate) fn find(&self, device: u64, inode: u64) -> Option<Key> {
        let local = self.areas.find(device, inode)?;
        self.all.iter().find(|(_, copy)| copy.local == local).map(|(key, _)| *key)
    }

    /// Makes the memory of a copy unless it is there: that of a file that gets differences, which
    /// has no bytes yet, or of one that has the size of `away`. Others of the same name that nobody
    /// uses are given up.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn make(&mut self, key: Key, path: &Path, away: &Away) -> io::Result<()> {
        let is_renewed = away.is_renewed();
        let size = if is_renewed { 0 } else { away.size };
        let mut opens = 0;
        if let Some(copy) = self.all.get(&key) {
            // One that lacks what other nodes have written is of use to who has it open only.
            let is_it = copy.shared.is_some() == is_renewed && !(is_renewed && copy.gone);
            if is_it || copy.can_be_renewed() {
                return Ok(());
            }
            opens = copy.opens;
            self.give_up(key);
        }
        let of_it = |copy: &Copy| copy.path == *path && copy.is_unused();
        let old: Vec<Key> = self.all.iter().filter(|(_, c)| of_it(c)).map(|(k, _)| *k).collect();
        for key in old {
            self.give_up(key);
        }
        self.last += 1;
        let local = self.last;
        self.areas.make(local, away.mode, None)?;
        let filled = self.areas.open(local, true, true, false).and_then(|file| {
            os::ftruncate(file.as_raw_fd(), size)?;
            map(file.as_raw_fd(), size, true)
        });
        let target = filled.inspect_err(|_| self.areas.free(local))?;
        let copy = Copy {
            local,
            path: path.clone(),
            size,
            target,
            asked: 0,
            come: 0,
            opens,
            dirty: false,
            writers: BTreeSet::new(),
            sending: None,
            times: 0,
            cut: None,
            waiting: Vec::new(),
            gone: false,
            shares: false,
            granted: 0,
            sent: 0,
            shared: is_renewed
                .then(|| if away.early { Shared::early() } else { Shared::default() }),
        };
        self.all.insert(key, copy);
        Ok(())
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

    /// Whether nobody on this node can write to it any more.
    pub(crate) fn is_quiet(&self, key: Key) -> bool {
        let Some(copy) = self.all.get(&key) else { return false };
        match self.areas.is_quiet(copy.local) {
            Quiet::Yes => true,
            Quiet::No => false,
            Quiet::Unknown => copy.opens == 0,
        }
    }

    /// Lets a copy have so many bytes, if need be as soon as all have come: until then they are
    /// mapped.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn cut(&mut self, key: Key, size: u64) -> io::Result<()> {
        let Some(copy) = self.all.get_mut(&key) else { return Ok(()) };
        if let Some(shared) = &mut copy.shared {
            shared.cut(size)?;
        }
        copy.cut = (!copy.is_whole()).then_some(size);
        if copy.cut.is_some() { Ok(()) } else { self.areas.resize(copy.local, size) }
    }

    /// Programs of other nodes write it from now on, of which the owner has no bytes yet. False if
    /// nothing was written here that the owner does not have or get.
    pub(crate) fn share(&mut self, key: Key) -> bool {
        let Some(copy) = self.all.get_mut(&key) else { return false };
        copy.shares = false;
        copy.shared.get_or_insert_default();
        if copy.dirty {
            copy.times += 1;
            return true;
        }
        // What it has is soon not all of it.
        self.retire(key);
        false
    }

    /// It is of use to those only who have it open.
    pub(crate) fn retire(&mut self, key: Key) {
        let Some(copy) = self.all.get_mut(&key) else { return };
        copy.gone = true;
        if copy.opens == 0 {
            self.give_up(key);
        }
    }

    /// What is to be done next with a copy that several nodes write.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn step(&mut self, key: Key, has_room: bool) -> io::Result<Step> {
        let Some(copy) = self.all.get_mut(&key).filter(|copy| copy.is_whole()) else {
            return Ok(Step::Nothing);
        };
        let Some(shared) = &mut copy.shared else { return Ok(Step::Nothing) };
        let file = self.areas.open(copy.local, true, false, false)?;
        let step = shared.step(key, file.as_raw_fd(), has_room)?;
        if matches!(step, Step::Renewed(_)) && copy.granted == 0 {
            let file = self.areas.open(copy.local, true, true, false)?;
            grow(file.as_raw_fd(), shared.size())?;
        }
        Ok(step)
    }

    /// The owner's file has so many bytes.
    ///
    /// # Errors
    /// Nobody has asked; the system's.
    pub(crate) fn looked(&mut self, key: Key, size: u64) -> io::Result<()> {
        let (all, areas) = (&mut self.all, &mut self.areas);
        let Some(copy) = all.get_mut(&key) else { return Ok(()) };
        let (only_reads, local) = (copy.granted == 0, copy.local);
        let Some(shared) = &mut copy.shared else { return Ok(()) };
        if only_reads && shared.size() > size {
            // Its writer has cut the file: only nodes that write it were told.
            shared.cut(size)?;
            areas.resize(local, size)?;
        }
        // A reader that looks at the size is not to find it before the bytes.
        if !shared.looked(size)? || only_reads {
            return Ok(());
        }
        grow(areas.open(local, true, true, false)?.as_raw_fd(), size)
    }

    /// The owner has these bytes, or those that both had.
    ///
    /// # Errors
    /// Nobody has asked; the system's.
    pub(crate) fn renewed(&mut self, key: Key, news: (u64, Option<&[u8]>)) -> io::Result<()> {
        let (all, areas) = (&mut self.all, &self.areas);
        let Some(copy) = all.get_mut(&key) else { return Ok(()) };
        let (shared, local) = (copy.shared.as_mut(), copy.local);
        shared
            .map_or(Ok(()), |shared| shared.renewed(news, || areas.open(local, true, true, false)))
    }

    /// The copies that several nodes write.
    pub(crate) fn shared(&self) -> Vec<Key> {
        let is_it = |copy: &Copy| copy.shared.as_ref().is_some_and(|shared| !shared.is_idle());
        self.all.iter().filter(|(_, copy)| is_it(copy)).map(|(key, _)| *key).collect()
    }

    /// All bytes of a copy have come: the opens that wait for them.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn is_there(&mut self, key: Key) -> io::Result<Vec<u64>> {
        let Some(copy) = self.all.get_mut(&key) else { return Ok(Vec::new()) };
        let waiting = std::mem::take(&mut copy.waiting);
        if let Some(size) = copy.cut.take() {
            self.areas.resize(copy.local, size)?;
        }
        Ok(waiting)
    }

    /// An open has ended.
    pub(crate) fn close(&mut self, key: Key) {
        let Some(copy) = self.all.get_mut(&key) else { return };
        copy.opens = copy.opens.saturating_sub(1);
        if copy.gone && copy.opens == 0 {
            self.give_up(key);
        }
    }

    /// A process has ended, and with it its opens.
    pub(crate) fn leave(&mut self, process: Process) {
        let own = self.handles.iter().filter(|(_, (.., whose))| *whose == process);
        let own: Vec<(u64, Key)> = own.map(|(handle, (_, key, _))| (*handle, *key)).collect();
        for (handle, key) in own {
            self.handles.remove(&handle);
            self.close(key);
        }
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
        if let Some(copy) = self.all.remove(&key) {
            self.areas.free(copy.local);
        }
    }
}

#[cfg(test)]
mod tests;
