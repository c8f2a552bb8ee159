//! Copies of generations whose names another node owns.

use super::{PIECE, map, span};
use crate::areas::{Areas, Quiet};
use crate::registry::{Area, Path, Process};
use aggio_base::Extent;
use aggio_base::os::{self, Mapping};
use aggio_link::{Peer, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

/// The owner and its number of the memory.
pub(crate) type Key = (Peer, u64);

/// Handles of what another node owns are from here on.
pub(crate) const AWAY: u64 = 1 << 63;

/// Pieces that are asked for at a time.
const WINDOW: u64 = 8;

/// The bytes of a copy on their way to the owner.
#[derive(Debug)]
pub(crate) struct Sending {
    /// What is still to be sent, the last first.
    rest: Vec<Extent>,
    file: OwnedFd,
}

/// One copy.
pub(crate) struct Copy {
    local: Area,
    pub(crate) path: Path,
    size: u64,
    /// What is filled, while it is.
    target: Option<Rc<Mapping>>,
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
    /// It is to be cut to no bytes when all have come.
    cut: bool,
    /// Opens that wait for its bytes.
    pub(crate) waiting: Vec<u64>,
    /// The owner has given it up.
    gone: bool,
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

    pub(crate) fn is_whole(&self) -> bool {
        self.come >= self.size
    }

    /// Whether nobody has it open or waits for it, and its owner has what was written.
    fn is_unused(&self) -> bool {
        let is_sent = !self.dirty && self.sending.is_none();
        self.opens == 0 && self.waiting.is_empty() && is_sent
    }

    /// A process has it open for writing.
    pub(crate) fn is_written_by(&mut self, process: Process) {
        self.dirty = true;
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

    /// The copy with this inode.
    pub(crate) fn find(&self, device: u64, inode: u64) -> Option<Key> {
        let local = self.areas.find(device, inode)?;
        self.all.iter().find(|(_, copy)| copy.local == local).map(|(key, _)| *key)
    }

    /// Makes the memory of a copy unless it is there. Others of the same name that nobody uses are
    /// given up.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn make(&mut self, key: Key, path: &Path, size: u64, mode: u32) -> io::Result<()> {
        if self.all.contains_key(&key) {
            return Ok(());
        }
        let of_it = |copy: &Copy| copy.path == *path && copy.is_unused();
        let old: Vec<Key> = self.all.iter().filter(|(_, c)| of_it(c)).map(|(k, _)| *k).collect();
        for key in old {
            self.give_up(key);
        }
        self.last += 1;
        let local = self.last;
        self.areas.make(local, mode, None)?;
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
            opens: 0,
            dirty: false,
            writers: BTreeSet::new(),
            sending: None,
            times: 0,
            cut: false,
            waiting: Vec::new(),
            gone: false,
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

    /// Cuts a copy to no bytes, if need be as soon as all have come: until then they are mapped.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn empty(&mut self, key: Key) -> io::Result<()> {
        let Some(copy) = self.all.get_mut(&key) else { return Ok(()) };
        copy.cut = !copy.is_whole();
        if copy.cut { Ok(()) } else { self.areas.empty(copy.local) }
    }

    /// All bytes of a copy have come: the opens that wait for them.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn is_there(&mut self, key: Key) -> io::Result<Vec<u64>> {
        let Some(copy) = self.all.get_mut(&key) else { return Ok(Vec::new()) };
        let waiting = std::mem::take(&mut copy.waiting);
        if std::mem::take(&mut copy.cut) {
            self.areas.empty(copy.local)?;
        }
        Ok(waiting)
    }

    /// Begins to send what was written; how many bytes the file has, and which time it is.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn send(&mut self, key: Key) -> io::Result<(u64, u64)> {
        let gone = || io::Error::from_raw_os_error(libc::ESTALE);
        let file = self.open(key, (true, false, false))?;
        let copy = self.all.get_mut(&key).ok_or_else(gone)?;
        let size = os::fstat(file.as_raw_fd())?.st_size.unsigned_abs();
        let mut rest = Vec::new();
        crate::areas::data(file.as_raw_fd(), |offset, len| {
            rest.push(Extent::new(offset, len as u64));
            Ok(())
        })?;
        rest.reverse();
        (copy.dirty, copy.sending) = (false, Some(Sending { rest, file }));
        copy.writers.clear();
        copy.times += 1;
        Ok((size, copy.times))
    }

    /// The next bytes of what is sent, and where they belong; `None` if there are no more.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn next_to_send(&mut self, key: Key) -> io::Result<Option<(u64, u64, Vec<u8>)>> {
        let Some(copy) = self.all.get_mut(&key) else { return Ok(None) };
        let Some(sending) = &mut copy.sending else { return Ok(None) };
        let Some(extent) = sending.rest.pop() else {
            copy.sending = None;
            return Ok(None);
        };
        let mut bytes = vec![0; extent.len as usize];
        crate::areas::read_all(sending.file.as_raw_fd(), &mut bytes, extent.offset)?;
        Ok(Some((extent.offset, copy.times, bytes)))
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
mod tests {
    use super::*;

    /// The memory that are left of a copy to which `change` was done, after another generation of
    /// its name came.
    fn left_after(change: impl FnOnce(&mut Copies, Key)) -> Vec<u64> {
        let mut copies = Copies::new(0).unwrap();
        let (first, second) = ((Peer(1), 10), (Peer(1), 11));
        let path = b"/d/f".to_vec();
        copies.make(first, &path, 4, 0o600).unwrap();
        change(&mut copies, first);
        copies.make(second, &path, 4, 0o600).unwrap();
        copies.all.into_keys().map(|key| key.1).collect()
    }

    #[test]
    fn a_copy_that_nobody_uses_makes_room_for_the_next_of_its_name() {
        assert_eq!(left_after(|_, _| {}), [11]);
        let closed = |copies: &mut Copies, key: Key| {
            copies.keep(key, 5, 7);
            copies.close(key);
        };
        assert_eq!(left_after(closed), [11]);
    }

    #[test]
    fn a_copy_stays_until_what_was_written_has_reached_its_owner() {
        let written = |copies: &mut Copies, key| copies.get_mut(key).unwrap().dirty = true;
        assert_eq!(left_after(written), [10, 11]);
        let sent = |copies: &mut Copies, key: Key| {
            copies.get_mut(key).unwrap().dirty = true;
            copies.send(key).unwrap();
        };
        assert_eq!(left_after(sent), [10, 11]);
        let arrived = |copies: &mut Copies, key: Key| {
            sent(copies, key);
            while copies.next_to_send(key).unwrap().is_some() {}
        };
        assert_eq!(left_after(arrived), [11]);
    }

    #[test]
    fn a_copy_stays_while_an_open_waits_for_its_bytes() {
        let awaited = |copies: &mut Copies, key| copies.get_mut(key).unwrap().waiting.push(3);
        assert_eq!(left_after(awaited), [10, 11]);
    }
}
