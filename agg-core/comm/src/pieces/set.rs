//! A set of pieces: grants fetches, and copies pieces that are there.
//!
//! Which piece is where is decided under a lock that is held for a few instructions. The bytes of a
//! piece are copied without it, and used if the piece has not changed meanwhile.

use super::memory::Pieces;
use super::{FRESH, PIECE, PULSE, State, Wanted, nanoseconds};
use crate::node;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

/// Pieces of a set.
pub(super) const WAYS: usize = 16;

/// Pieces with one look so far that a set records, the latest ones.
const TOUCHED: usize = 256;

/// Attempts to take the lock of a set. Its holder releases it at once, or never.
const TRIES: u32 = 1000;

/// In place of a length: the piece could not be fetched.
const FAILED: u32 = u32::MAX;

/// Words of a set in memory that processes share; all zero in the beginning.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Control {
    /// The process that decides; 0 if none does.
    lock: AtomicU32,
    /// Differs after each fetch that has ended.
    events: AtomicU32,
    /// Where the next number is entered in `touched`.
    next: AtomicU32,
    /// The pieces: their numbers plus 1, or 0.
    tags: [AtomicU64; WAYS],
    ways: [WayControl; WAYS],
    /// Numbers of pieces plus 1.
    touched: [AtomicU64; TOUCHED],
}

/// Words of a piece.
#[derive(Debug)]
#[repr(C, align(64))]
struct WayControl {
    /// Odd while the rest changes.
    version: AtomicU32,
    /// The process that fetches; 0 if none does.
    fetches: AtomicU32,
    /// When the last fetch was given to a process.
    given: AtomicU64,
    /// Bytes, less than [`PIECE`] at the end of the file, or [`FAILED`].
    len: AtomicU32,
    /// Synchronisations of the rank that has fetched it before it did.
    rounds: AtomicU32,
    /// Changes of the file by ranks of the node before it was fetched.
    changes: AtomicU32,
    /// When its fetch began; 0 if there is nothing.
    since: AtomicU64,
    state: [AtomicU64; 5],
}

/// A set, as one rank sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Set<'a> {
    pub(super) control: &'a Control,
    pub(super) pieces: &'a Pieces,
    /// Where its pieces are in the memory.
    pub(super) first: usize,
}

/// The place of a piece that this rank fetches.
#[derive(Debug)]
pub(super) struct Way<'a> {
    set: Set<'a>,
    index: usize,
}

/// The next step for a piece that was not found.
#[derive(Debug)]
pub(super) enum Claim<'a> {
    /// This rank fetches it.
    Fetch(Way<'a>),
    /// This rank carries out its read without the piece.
    AsItIs,
    /// Another rank fetches it.
    Wait,
    /// Another rank has fetched it just now.
    IsThere,
}

/// The piece could not be fetched.
#[derive(Debug)]
pub(super) struct Failed;

/// The lock of a set.
struct Guard<'a>(&'a Control);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.lock.store(0, Ordering::Release);
    }
}

/// The number of this process, which is not 0.
fn this_process() -> u32 {
    std::process::id()
}

impl WayControl {
    fn is_current(&self, wanted: &Wanted) -> bool {
        let since = self.since.load(Ordering::Acquire);
        let state: State = std::array::from_fn(|word| self.state[word].load(Ordering::Relaxed));
        since != 0
            && state == wanted.state
            && self.rounds.load(Ordering::Relaxed) >= wanted.rounds
            && self.changes.load(Ordering::Relaxed) == wanted.changes
            && wanted.now.saturating_sub(since) <= nanoseconds(FRESH)
    }

    /// Changes the words and the bytes of the piece; only for the process that fetches it.
    fn change(&self, change: impl FnOnce()) {
        self.version.fetch_add(1, Ordering::SeqCst);
        // Nothing of the change is seen before the version is.
        fence(Ordering::SeqCst);
        change();
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether a process fetches that still lives.
    fn is_being_fetched(&self) -> bool {
        let process = self.fetches.load(Ordering::SeqCst);
        process != 0 && !node::has_ended(process)
    }
}

impl<'a> Set<'a> {
    /// A number that changes after each fetch that has ended. Read it before looking for a piece.
    pub(super) fn seen(self) -> u32 {
        self.control.events.load(Ordering::SeqCst)
    }

    /// Sleeps a little, or until a fetch ends.
    pub(super) fn wait(self, seen: u32, patience: Duration) {
        node::sleep(self.control.events.as_ptr() as usize, seen, PULSE.min(patience));
    }

    fn find(self, number: u64) -> Option<usize> {
        self.control.tags.iter().position(|tag| tag.load(Ordering::Acquire) == number + 1)
    }

    /// The bytes `range` of the piece, as many as it has.
    pub(super) fn copy(
        self,
        wanted: &Wanted,
        range: Range<usize>,
    ) -> Option<Result<Vec<u8>, Failed>> {
        let index = self.find(wanted.number)?;
        let way = &self.control.ways[index];
        let version = way.version.load(Ordering::SeqCst);
        if !version.is_multiple_of(2) || !way.is_current(wanted) {
            return None;
        }
        let len = way.len.load(Ordering::Relaxed);
        let bytes = match len {
            FAILED => Err(Failed),
            len => {
                let end = range.end.min(len as usize).min(PIECE);
                let start = range.start.min(end);
                Ok(self.pieces.copy(self.first + index * PIECE + start, end - start))
            }
        };
        // The copy is valid if the piece has not changed since.
        fence(Ordering::SeqCst);
        let tag = self.control.tags[index].load(Ordering::SeqCst);
        let is_same = way.version.load(Ordering::SeqCst) == version && tag == wanted.number + 1;
        is_same.then_some(bytes)
    }

    /// Decides whether this rank fetches a piece that was not found: at the first look at it if
    /// `is_first`, else at the second one.
    ///
    /// No rank waits for a fetch that has taken longer than `patience`.
    pub(super) fn claim(self, wanted: &Wanted, is_first: bool, patience: Duration) -> Claim<'a> {
        let Some(_guard) = self.lock() else { return Claim::AsItIs };
        let (control, tag) = (self.control, wanted.number + 1);
        if let Some(index) = self.find(wanted.number) {
            let way = &control.ways[index];
            if way.is_being_fetched() {
                let age = wanted.now.saturating_sub(way.given.load(Ordering::Relaxed));
                return if age > nanoseconds(patience) { Claim::AsItIs } else { Claim::Wait };
            }
            if way.fetches.load(Ordering::SeqCst) != 0 {
                // Its process has ended.
                return self.take(index, tag, wanted.now);
            }
            if way.is_current(wanted) {
                return Claim::IsThere;
            }
            control.tags[index].store(0, Ordering::SeqCst);
        }
        let is_touched = || control.touched.iter().any(|one| one.load(Ordering::Relaxed) == tag);
        if !is_first && !is_touched() {
            let next = control.next.fetch_add(1, Ordering::Relaxed) as usize % TOUCHED;
            control.touched[next].store(tag, Ordering::Relaxed);
            return Claim::AsItIs;
        }
        let age = |index: &usize| match control.tags[*index].load(Ordering::Relaxed) {
            0 => 0,
            _ => control.ways[*index].since.load(Ordering::Relaxed),
        };
        let free = (0..WAYS).filter(|index| !control.ways[*index].is_being_fetched());
        free.min_by_key(age).map_or(Claim::AsItIs, |index| self.take(index, tag, wanted.now))
    }

    /// Gives a place to this process; the set is locked.
    fn take(self, index: usize, tag: u64, now: u64) -> Claim<'a> {
        let way = &self.control.ways[index];
        way.given.store(now, Ordering::SeqCst);
        way.fetches.store(this_process(), Ordering::SeqCst);
        if !way.version.load(Ordering::SeqCst).is_multiple_of(2) {
            // Of a process that has ended.
            way.version.fetch_add(1, Ordering::SeqCst);
        }
        way.change(|| {
            way.since.store(0, Ordering::SeqCst);
            self.control.tags[index].store(tag, Ordering::SeqCst);
        });
        for touched in &self.control.touched {
            let _ = touched.compare_exchange(tag, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        Claim::Fetch(Way { set: self, index })
    }

    #[cfg(test)]
    pub(super) fn pretend_that_who_decides_has_ended(self) {
        self.control.lock.store(i32::MAX as u32, Ordering::SeqCst);
    }

    fn lock(self) -> Option<Guard<'a>> {
        let lock = &self.control.lock;
        for _ in 0..TRIES {
            let own = this_process();
            match lock.compare_exchange(0, own, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Some(Guard(self.control)),
                Err(other) if other != own && node::has_ended(other) => {
                    let _ = lock.compare_exchange(other, 0, Ordering::SeqCst, Ordering::SeqCst);
                }
                Err(_) => std::thread::yield_now(),
            }
        }
        None
    }
}

impl Way<'_> {
    #[cfg(test)]
    pub(super) fn pretend_that_its_process_has_ended(&self) {
        self.control().fetches.store(i32::MAX as u32, Ordering::SeqCst);
        // In the middle of a change.
        self.control().version.fetch_add(1, Ordering::SeqCst);
    }

    fn control(&self) -> &WayControl {
        &self.set.control.ways[self.index]
    }

    /// Publishes the bytes, or the failure, for other ranks; returns whether there is room for the
    /// bytes.
    pub(super) fn publish(&self, wanted: &Wanted, bytes: Option<&[u8]>) -> bool {
        let way = self.control();
        let mut is_stored = true;
        way.change(|| {
            let at = self.set.first + self.index * PIECE;
            is_stored = bytes.is_none_or(|bytes| self.set.pieces.store(at, bytes));
            let len = bytes.map_or(FAILED, |bytes| bytes.len() as u32);
            way.len.store(len, Ordering::SeqCst);
            way.rounds.store(wanted.rounds, Ordering::SeqCst);
            way.changes.store(wanted.changes, Ordering::SeqCst);
            for (word, value) in way.state.iter().zip(wanted.state) {
                word.store(value, Ordering::SeqCst);
            }
            way.since.store(if is_stored { wanted.now } else { 0 }, Ordering::SeqCst);
        });
        is_stored
    }

    /// Ends the fetch; without success the place is free.
    pub(super) fn release(&self, is_done: bool) {
        if !is_done {
            self.set.control.tags[self.index].store(0, Ordering::SeqCst);
        }
        self.control().fetches.store(0, Ordering::SeqCst);
        let events = &self.set.control.events;
        events.fetch_add(1, Ordering::SeqCst);
        node::wake(events);
    }
}
