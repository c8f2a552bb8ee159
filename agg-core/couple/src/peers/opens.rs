//! Open files of other nodes, by the handles that programs of this node have of them.

use super::Key;
use crate::protocol::Reply;
use crate::registry::Process;
use aggio_link::Peer;
use std::collections::{BTreeMap, BTreeSet};

/// Handles of files of other nodes are from here on.
pub(crate) const AWAY: u64 = 1 << 63;

/// An open of a replica.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// The owner's handle.
    pub(crate) theirs: u64,
    pub(crate) key: Key,
    pub(crate) process: Process,
    /// The process may write.
    pub(crate) writes: bool,
}

/// All opens.
#[derive(Debug)]
pub(crate) struct Opens {
    all: BTreeMap<u64, Held>,
    /// The number of the last handle.
    last: u64,
    /// Handles of files with an owner that has ended: the process, and the text about lost bytes,
    /// which is empty if none are lost.
    lost: BTreeMap<u64, (Process, String)>,
}

/// The answer to a request about a handle with an owner that has ended.
fn after(lost: Option<&(Process, String)>) -> Reply {
    match lost {
        Some((_, text)) if text.is_empty() => Reply::Done,
        Some((_, text)) => Reply::Failed(libc::EIO, text.clone()),
        None => Reply::unknown(),
    }
}

impl Opens {
    /// None; handles are counted from `last` on.
    pub(crate) fn new(last: u64) -> Self {
        Self { all: BTreeMap::new(), last, lost: BTreeMap::new() }
    }

    /// Adds an open. Returns its handle.
    pub(crate) fn add(&mut self, held: Held) -> u64 {
        self.last += 1;
        let handle = AWAY | self.last;
        self.all.insert(handle, held);
        handle
    }

    /// The open with this handle.
    ///
    /// # Errors
    /// The answer for its program if the owner has ended, or an earlier agent has made it.
    pub(crate) fn get(&self, handle: u64) -> Result<Held, Reply> {
        self.all.get(&handle).copied().ok_or_else(|| after(self.lost.get(&handle)))
    }

    /// As [`get`](Self::get), for a program that needs more bytes of the file.
    ///
    /// # Errors
    /// As there, and an error if the owner has ended.
    pub(crate) fn get_more(&self, handle: u64, text: &str) -> Result<Held, Reply> {
        self.get(handle).map_err(|reply| match reply {
            Reply::Done => Reply::Failed(libc::EIO, text.into()),
            failed => failed,
        })
    }

    /// Ends an open.
    ///
    /// # Errors
    /// As [`get`](Self::get), once.
    pub(crate) fn end(&mut self, handle: u64) -> Result<Held, Reply> {
        self.all.remove(&handle).ok_or_else(|| after(self.lost.remove(&handle).as_ref()))
    }

    /// The replica that was opened with the owner's handle `theirs`.
    pub(crate) fn key_of(&self, peer: Peer, theirs: u64) -> Option<Key> {
        let is_it = |held: &&Held| held.theirs == theirs && held.key.0 == peer;
        self.all.values().find(is_it).map(|held| held.key)
    }

    /// The replicas that a process has open.
    pub(crate) fn of(&self, process: Process) -> BTreeSet<Key> {
        self.all.values().filter(|held| held.process == process).map(|held| held.key).collect()
    }

    /// A process has ended, and its opens with it. Returns the replicas, one for each.
    pub(crate) fn leave(&mut self, process: Process) -> Vec<Key> {
        self.lost.retain(|_, (of, _)| *of != process);
        let own = self.all.values().filter(|held| held.process == process);
        let keys = own.map(|held| held.key).collect();
        self.all.retain(|_, held| held.process != process);
        keys
    }

    /// The owner of a replica has ended, with a text about lost bytes.
    pub(crate) fn lose(&mut self, key: Key, text: &str) {
        let all = self.all.iter().filter(|(_, held)| held.key == key);
        self.lost.extend(all.map(|(handle, held)| (*handle, (held.process, text.to_owned()))));
        self.all.retain(|_, held| held.key != key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_a_file_of_an_owner_that_has_ended_gets_an_error_if_bytes_are_lost() {
        let mut opens = Opens::new(0);
        let held = |area| Held { theirs: area, key: (Peer(1), area), process: 7, writes: true };
        let [lost, read, left] = [5, 6, 8].map(|area| opens.add(held(area)));
        assert!(lost > AWAY && opens.get(lost).is_ok_and(|held| held.theirs == 5));
        assert_eq!(opens.key_of(Peer(1), 6), Some((Peer(1), 6)));
        opens.lose((Peer(1), 5), "it has ended");
        opens.lose((Peer(1), 6), "");
        assert_eq!(opens.get(lost).unwrap_err(), Reply::Failed(libc::EIO, "it has ended".into()));
        assert_eq!(opens.get(read).unwrap_err(), Reply::Done);
        let more = opens.get_more(read, "the rest is gone").unwrap_err();
        assert_eq!(more, Reply::Failed(libc::EIO, "the rest is gone".into()));
        assert_eq!(opens.end(read).unwrap_err(), Reply::Done);
        assert_eq!(opens.end(read).unwrap_err(), Reply::unknown());
        assert_eq!(opens.of(7), [(Peer(1), 8)].into());
        assert_eq!(opens.leave(7), [(Peer(1), 8)]);
        assert_eq!(opens.end(left).unwrap_err(), Reply::unknown());
        assert_eq!(opens.end(lost).unwrap_err(), Reply::unknown(), "the process has ended");
    }
}
