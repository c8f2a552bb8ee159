//! Windows of the file that pass through the shared memory of a node, in order.
//!
//! Window `w` of an operation uses slot `w % DEPTH`. It is *open* once all windows up to
//! `w - DEPTH` are done, so at most `DEPTH` windows are under way and no rank can run ahead of the
//! others by more. Each member that may have data in a window puts it there and *arrives*; the last
//! one to arrive finds the window full.

use super::Node;
use super::layout::{DEPTH, FAILURES, control};
use super::operation::Operation;
use aggio_base::error::Result;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The ring of one operation, as one member sees it.
pub struct Ring<'a> {
    operation: &'a Operation<'a>,
    /// Number of windows.
    windows: u32,
}

/// A member's turn to store windows.
pub struct Turn<'r, 'a>(&'r Ring<'a>);

impl Drop for Turn<'_, '_> {
    fn drop(&mut self) {
        let operation = self.0.operation;
        if operation.word(control::STORING).swap(FREE, Ordering::SeqCst) == WANTED {
            operation.announce();
        }
    }
}

/// States of the turn to store windows.
const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and some other member waits for it.
const WANTED: u32 = 2;

/// Words of a slot, as distances from its start.
mod slot {
    pub(super) const ARRIVED: usize = 0;
    pub(super) const FULL: usize = 4;
    pub(super) const FINISHED: usize = 8;
    pub(super) const CLAIMED: usize = 12;
    pub(super) const LOADED: usize = 16;
    pub(super) const WANTED: usize = 20;
    pub(super) const VALID: usize = 24;
    pub(super) const LEFT: usize = 32;
}

/// The windows of an operation that did not reach the file.
#[derive(Debug)]
pub struct Unstored {
    /// Windows with the first byte of the file that they did not store.
    pub(crate) parts: Vec<(u32, u64)>,
    /// No window from this one on was stored, or none is known to be.
    pub(crate) from: u32,
}

impl Unstored {
    /// Bytes of the wire form.
    const WIRE_BYTES: usize = 8 + 16 * FAILURES;

    /// The bytes that carry it to another node.
    #[inline]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut words = vec![u64::from(self.from)];
        words.extend(self.parts.iter().flat_map(|(window, offset)| [u64::from(*window), *offset]));
        words.resize(Self::WIRE_BYTES / 8, u64::MAX);
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// Those of all nodes, end to end.
    #[inline]
    pub fn all_from_bytes(bytes: &[u8]) -> Vec<Self> {
        let one = |bytes: &[u8]| {
            let words =
                bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
            let words: Vec<u64> = words.collect();
            let number = |word: u64| u32::try_from(word).ok();
            let parts = words[1..].chunks_exact(2);
            let parts = parts.filter_map(|pair| number(pair[0]).map(|window| (window, pair[1])));
            Self { parts: parts.collect(), from: number(words[0]).unwrap_or(0) }
        };
        bytes.chunks_exact(Self::WIRE_BYTES).map(one).collect()
    }

    /// The first byte of the file in `window` that is not stored; `u64::MAX` if all are.
    #[inline]
    pub fn stored_below(&self, window: u32) -> u64 {
        let of_window = self.parts.iter().filter(|(number, _)| *number == window);
        let noted = of_window.map(|(_, offset)| *offset).min();
        let dropped = (window >= self.from).then_some(0);
        noted.or(dropped).unwrap_or(u64::MAX)
    }
}

impl<'a> Ring<'a> {
    /// The ring of `operation` for `windows` windows, fewer than 2^31.
    #[inline]
    pub fn new(operation: &'a Operation<'a>, windows: u32) -> Self {
        Self { operation, windows }
    }

    fn slot(&self, window: u32, word: usize) -> &AtomicU32 {
        let slot = window as usize % DEPTH;
        self.operation.word(control::SLOTS + control::SLOT * slot + word)
    }

    fn valid(&self, window: u32) -> &AtomicU64 {
        let slot = window as usize % DEPTH;
        self.operation.long(control::SLOTS + control::SLOT * slot + slot::VALID)
    }

    /// Windows below this one are done.
    fn done(&self) -> u32 {
        self.operation.word(control::DONE).load(Ordering::SeqCst)
    }

    fn is_open(&self, window: u32) -> bool {
        window < self.done() + DEPTH as u32
    }

    /// The windows that are open and not done.
    fn under_way(&self) -> Range<u32> {
        let done = self.done();
        done..self.windows.min(done + DEPTH as u32)
    }

    /// Waits until `window` is open, and runs `help` whenever something has happened meanwhile.
    pub async fn open(&self, window: u32, mut help: impl FnMut()) -> Result<()> {
        let ready = || {
            if !self.is_open(window) {
                help();
            }
            self.is_open(window).then_some(())
        };
        self.operation.until(ready).await
    }

    /// Waits until all windows are done, and runs `help` whenever something has happened meanwhile.
    pub async fn drained(&self, mut help: impl FnMut()) -> Result<()> {
        let ready = || {
            help();
            (self.done() >= self.windows).then_some(())
        };
        self.operation.until(ready).await
    }

    /// Notes that this member is done with `window`; returns whether it was the last of `expected`
    /// members.
    #[inline]
    pub fn arrive(&self, window: u32, expected: u32) -> bool {
        let arrived = self.slot(window, slot::ARRIVED).fetch_add(1, Ordering::SeqCst) + 1;
        arrived == expected
    }

    /// Leaves a full window to a member that can store it.
    #[inline]
    pub fn offer(&self, window: u32) {
        self.slot(window, slot::FULL).store(window + 1, Ordering::SeqCst);
        self.operation.announce();
    }

    /// The turn to store windows; `None` if another member has it, which then wakes this one when
    /// it ends.
    pub fn turn_to_store(&self) -> Option<Turn<'_, 'a>> {
        let word = self.operation.word(control::STORING);
        loop {
            match word.compare_exchange(FREE, TAKEN, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Some(Turn(self)),
                Err(WANTED) => return None,
                Err(_) => {}
            }
            let wanted = word.compare_exchange(TAKEN, WANTED, Ordering::SeqCst, Ordering::SeqCst);
            if wanted.is_ok() {
                return None;
            }
        }
    }

    /// Takes over a full window that another member left, one for which `mine` holds.
    #[inline]
    pub fn take(&self, mine: impl Fn(u32) -> bool) -> Option<u32> {
        self.under_way().find(|window| {
            let full = self.slot(*window, slot::FULL);
            if full.load(Ordering::SeqCst) != window + 1 || !mine(*window) {
                return false;
            }
            let taken = full.compare_exchange(window + 1, 0, Ordering::SeqCst, Ordering::SeqCst);
            taken.is_ok()
        })
    }

    /// Notes that the keeper of `window` does not store it.
    #[inline]
    pub fn leave(&self, window: u32) {
        if !self.is_left(window) {
            self.slot(window, slot::LEFT).store(window + 1, Ordering::SeqCst);
            self.operation.announce();
        }
    }

    /// Whether `window` was [left](Ring::leave) to all.
    #[inline]
    pub fn is_left(&self, window: u32) -> bool {
        self.slot(window, slot::LEFT).load(Ordering::SeqCst) == window + 1
    }

    /// Waits until `window` is [offered](Ring::offer), and takes it over; one member alone does.
    pub async fn full(&self, window: u32) -> Result<()> {
        self.operation.until(|| self.take(|other| other == window).map(drop)).await
    }

    /// Ends `window`; `expected` says how many members each later window waits for, and windows
    /// that wait for none are passed over.
    #[inline]
    pub fn finish(&self, window: u32, expected: impl Fn(u32) -> u32) {
        self.slot(window, slot::ARRIVED).store(0, Ordering::SeqCst);
        self.slot(window, slot::WANTED).store(0, Ordering::SeqCst);
        self.slot(window, slot::FINISHED).store(window + 1, Ordering::SeqCst);
        self.advance(expected);
        self.operation.announce();
    }

    /// Passes over windows without expected members, before anything else.
    #[inline]
    pub fn pass_over(&self, expected: impl Fn(u32) -> u32) {
        if self.windows > 0 && self.done() == 0 && expected(0) == 0 {
            self.advance(expected);
            self.operation.announce();
        }
    }

    fn advance(&self, expected: impl Fn(u32) -> u32) {
        let done = self.operation.word(control::DONE);
        let mut next = done.load(Ordering::SeqCst);
        while next < self.windows {
            let finished = self.slot(next, slot::FINISHED).load(Ordering::SeqCst) == next + 1;
            if !finished && expected(next) > 0 {
                // Another member may have moved on meanwhile.
                if done.load(Ordering::SeqCst) == next {
                    break;
                }
            } else {
                let _ = done.compare_exchange(next, next + 1, Ordering::SeqCst, Ordering::SeqCst);
            }
            next = done.load(Ordering::SeqCst);
        }
    }

    // Reading.

    /// Notes that this member has marked the bytes it needs from `window`; returns whether it was
    /// the last of `expected` members.
    #[inline]
    pub fn want(&self, window: u32, expected: u32) -> bool {
        let wanted = self.slot(window, slot::WANTED).fetch_add(1, Ordering::SeqCst) + 1;
        wanted == expected
    }

    /// Claims, for reading it, the first open window for which `wanted` holds and that is not
    /// claimed.
    #[inline]
    pub fn claim(&self, wanted: impl Fn(u32) -> bool) -> Option<u32> {
        self.under_way().find(|window| {
            let claimed = self.slot(*window, slot::CLAIMED);
            let before = claimed.load(Ordering::SeqCst);
            // A later window has claimed the slot: this one is done by now.
            if before > *window || !wanted(*window) {
                return false;
            }
            let claim =
                claimed.compare_exchange(before, window + 1, Ordering::SeqCst, Ordering::SeqCst);
            claim.is_ok()
        })
    }

    /// Announces that `window` holds the file's bytes below `valid`.
    #[inline]
    pub fn note_loaded(&self, window: u32, valid: u64) {
        self.valid(window).store(valid, Ordering::SeqCst);
        self.slot(window, slot::LOADED).store(window + 1, Ordering::SeqCst);
        self.operation.announce();
    }

    /// Waits until `window` is loaded, and runs `help`, which says whether it did something,
    /// meanwhile; returns the end of the window's bytes.
    pub async fn loaded(&self, window: u32, mut help: impl FnMut() -> bool) -> Result<u64> {
        let there = || {
            let loaded = self.slot(window, slot::LOADED).load(Ordering::SeqCst) == window + 1;
            loaded.then(|| self.valid(window).load(Ordering::SeqCst))
        };
        let ready = || {
            loop {
                if let Some(valid) = there() {
                    return Some(valid);
                }
                if !help() {
                    // The window may have been loaded while there was nothing to help with.
                    return there();
                }
            }
        };
        self.operation.until(ready).await
    }

    // Failures.

    /// Whether some window failed: from now on windows are received and dropped.
    #[inline]
    pub fn failed(&self) -> bool {
        self.operation.word(control::FIRST_FAILED).load(Ordering::SeqCst) != 0
    }

    /// Notes that of `window` only the bytes below `offset` are stored. Must come before
    /// [`Ring::finish`].
    ///
    /// Windows that are `DEPTH` or more behind the first failed one are opened only after it was
    /// finished, so all of them are dropped and need no note; the others fit the list.
    #[inline]
    pub fn note_unstored(&self, window: u32, offset: u64) {
        let first = self.operation.word(control::FIRST_FAILED);
        let _ = first.compare_exchange(0, window + 1, Ordering::SeqCst, Ordering::SeqCst);
        if window >= self.first_dropped() {
            return;
        }
        let count = self.operation.word(control::FAILURES).fetch_add(1, Ordering::SeqCst) as usize;
        if count < FAILURES {
            let at = control::FAILURE_LIST + 16 * count;
            self.operation.long(at).store(u64::from(window), Ordering::SeqCst);
            self.operation.long(at + 8).store(offset, Ordering::SeqCst);
        }
    }

    fn first_dropped(&self) -> u32 {
        let first = self.operation.word(control::FIRST_FAILED).load(Ordering::SeqCst);
        if first == 0 { u32::MAX } else { first - 1 + DEPTH as u32 }
    }

    /// The windows that did not reach the file. If a member has ended, unfinished windows count as
    /// not stored.
    #[inline]
    pub fn unstored(&self) -> Unstored {
        let count = self.operation.word(control::FAILURES).load(Ordering::SeqCst) as usize;
        let parts = (0..count.min(FAILURES)).map(|number| {
            let at = control::FAILURE_LIST + 16 * number;
            let window = self.operation.long(at).load(Ordering::SeqCst) as u32;
            (window, self.operation.long(at + 8).load(Ordering::SeqCst))
        });
        let done = self.done();
        let broken_off = if done < self.windows { done } else { u32::MAX };
        Unstored { parts: parts.collect(), from: self.first_dropped().min(broken_off) }
    }

    /// Lowers the offset from which on the file has no (readable) bytes.
    #[inline]
    pub fn note_end(&self, offset: u64) {
        // Stored as its complement, so that 0 stands for no end.
        self.operation.long(control::END).fetch_max(!offset, Ordering::SeqCst);
    }

    /// The lowest offset noted; `u64::MAX` if none.
    #[inline]
    pub fn end(&self) -> u64 {
        !self.operation.long(control::END).load(Ordering::SeqCst)
    }

    // Memory.

    /// The bytes of the window's slot; `len` of them are used.
    #[inline]
    pub fn bytes(&self, window: u32, len: usize) -> *mut u8 {
        let node = self.operation.node;
        assert!(len <= node.layout.window, "a window of {len} bytes");
        node.memory.place(node.layout.window(window as usize % DEPTH) + self.operation.base, len)
    }

    /// The marks of member `index` for the window's slot.
    #[inline]
    pub fn marks(&self, window: u32, index: usize) -> (*mut u64, usize) {
        let (node, base) = (self.operation.node, self.operation.base);
        let len = node.layout.marks_len();
        let start = node.layout.marks(window as usize % DEPTH, index) + base;
        (node.memory.place(start, len).cast(), len / 8)
    }

    /// The words of [`Ring::marks`] in use, as (first, one past the last).
    #[inline]
    pub fn used(&self, window: u32, index: usize) -> &AtomicU64 {
        let (node, base) = (self.operation.node, self.operation.base);
        node.memory.long(node.layout.used(window as usize % DEPTH, index) + base)
    }

    /// Number of members.
    #[inline]
    pub fn members(&self) -> usize {
        self.operation.members()
    }

    /// The node of this ring.
    #[inline]
    pub fn node(&self) -> &'a Node {
        self.operation.node()
    }

    /// This member.
    #[inline]
    pub fn index(&self) -> usize {
        self.operation.node.index()
    }
}
