//! Sequential reads of sets: a thread assembles the parts that will be read next.

use crate::sets::OpenSet;
use parking_lot::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{OnceLock, Weak};

/// Requests that arrive so much before or after the last one still count as one way through the
/// file.
const NEAR: u64 = 8 << 20;
/// Bytes that are read in order before anything is prepared.
const LEAST: u64 = 1 << 20;
/// Bytes behind the last request that should be prepared.
const AHEAD: u64 = 12 << 20;

/// How far a set was read in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Way {
    end: u64,
    /// Bytes that were read on this way.
    read: u64,
    /// The end of the prepared part.
    prepared: u64,
    /// Whether something is being prepared.
    busy: bool,
}

/// How far a set was read in order, and prepared.
#[derive(Default)]
pub(crate) struct Progress(Mutex<Way>);

impl Way {
    /// Records a request; returns from where on something should be prepared. `after` returns the
    /// end of the part of the file that a byte is in.
    fn step(
        &mut self,
        offset: u64,
        len: u64,
        size: u64,
        after: impl Fn(u64) -> u64,
    ) -> Option<u64> {
        let end = offset.saturating_add(len);
        if offset > self.end.saturating_add(NEAR) || offset.saturating_add(NEAR) < self.end {
            *self = Way { busy: self.busy, ..Way::default() };
            self.end = end;
        }
        self.end = self.end.max(end);
        self.read += len;
        if self.busy || self.read < LEAST || self.prepared > self.end.saturating_add(AHEAD) {
            return None;
        }
        // The request itself assembles its bytes.
        let next = self.prepared.max(after(offset));
        self.busy = next < size;
        self.busy.then_some(next)
    }

    fn was_prepared(&mut self, until: u64) {
        (self.prepared, self.busy) = (until, false);
    }
}

/// A set, and the byte from which on it is to be prepared.
type Wanted = (Weak<OpenSet>, u64);

/// The thread that prepares, of all sets of a mount; there is none before it is needed.
#[derive(Default)]
pub(crate) struct Ahead(OnceLock<Option<SyncSender<Wanted>>>);

impl Ahead {
    /// Call before a read from a set.
    pub(crate) fn reads(&self, set: &std::sync::Arc<OpenSet>, offset: u64, len: u64) {
        let (file, mut way) = (&set.file, set.progress.0.lock());
        let after = |at: u64| if at < file.size() { file.end_of_part(at) } else { file.size() };
        let Some(next) = way.step(offset, len, file.size(), after) else { return };
        let thread = self.0.get_or_init(start).as_ref();
        let sent =
            thread.is_some_and(|to| to.try_send((std::sync::Arc::downgrade(set), next)).is_ok());
        way.busy = sent;
    }
}

/// Starts the thread; without one everything is assembled when it is asked for.
fn start() -> Option<SyncSender<Wanted>> {
    let (sender, receiver) = sync_channel(1);
    let thread = std::thread::Builder::new().name("aggio-ahead".into());
    thread.spawn(move || prepare(&receiver)).ok().map(|_| sender)
}

fn prepare(wanted: &Receiver<Wanted>) {
    for (set, from) in wanted {
        let Some(set) = set.upgrade() else { continue };
        // The read of these bytes will return the error.
        let until = set.file.prepare(from).unwrap_or(u64::MAX);
        set.progress.0.lock().was_prepared(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Parts of 8 MiB.
    fn after(at: u64) -> u64 {
        (at / (8 * MIB) + 1) * 8 * MIB
    }

    #[test]
    fn the_next_part_is_prepared_while_one_is_read_also_by_requests_out_of_order() {
        let mut way = Way::default();
        assert_eq!(way.step(0, MIB / 2, 100 * MIB, after), None);
        assert_eq!(way.step(2 * MIB, MIB, 100 * MIB, after), Some(8 * MIB));
        assert_eq!(way.step(MIB, MIB, 100 * MIB, after), None);
        way.was_prepared(16 * MIB);
        assert_eq!(way.step(3 * MIB, MIB, 100 * MIB, after), Some(16 * MIB));
        way.was_prepared(24 * MIB);
        // Enough for now.
        assert_eq!(way.step(4 * MIB, MIB, 100 * MIB, after), None);
        assert_eq!(way.step(12 * MIB, MIB, 100 * MIB, after), Some(24 * MIB));
    }

    #[test]
    fn nothing_is_prepared_behind_the_end_or_for_requests_here_and_there() {
        let mut way = Way::default();
        assert_eq!(way.step(0, 2 * MIB, 8 * MIB, after), None);
        let places = [90, 10, 50, 20, 70, 0, 40];
        let mut way = Way::default();
        assert!(places.iter().all(|at| way.step(at * MIB, 4096, 100 * MIB, after).is_none()));
        // The way begins anew, even if something was prepared elsewhere.
        way.was_prepared(u64::MAX);
        assert_eq!(way.step(60 * MIB, MIB, 100 * MIB, after), Some(64 * MIB));
    }
}
