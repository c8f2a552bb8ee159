//! Pieces of an open file that the ranks of a node keep together: the rank that needs one fetches
//! it into memory that all of them map, and the others copy from there.
//!
//! A piece is used only while the file is in the state that the reader sees, for [`FRESH`] at most,
//! if it was fetched after the reader's last synchronisation and no rank of the node has written
//! through the same open since. No rank depends on another: if a fetch takes long, or the fetching
//! rank has ended, the waiting rank reads for itself.

mod memory;
mod set;
#[cfg(test)]
mod tests;

use crate::node::NodeAddress;
use crate::transport::NodeTable;
use memory::Pieces;
use set::{Claim, Way};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Bytes of a piece, which begins at a multiple of this.
pub const PIECE: usize = 1 << 20;

/// For so long pieces are used: stores through mappings of other programs change no state.
pub const FRESH: Duration = Duration::from_secs(1);

/// The maximum time that a rank waits for another one's fetch.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often a waiting rank checks that the fetching rank lives.
const PULSE: Duration = Duration::from_millis(20);

/// Number of extents fetched for others after the last one that others read.
const HOPE: u32 = 8;

/// Set in the numbers of pieces that begin anywhere; the other bits are where.
const ANYWHERE: u64 = 1 << 63;

/// The state of a file, in words that are opaque here.
pub type State = [u64; 5];

/// Counts of the ranks of a node for one open file.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Counts {
    /// Where the memory with the pieces is; 0 if there is none.
    address: AtomicU64,
    /// Changes that a rank of the node has made while there was such memory.
    changes: AtomicU32,
    /// Ranks that need the memory no more.
    left: AtomicU32,
    /// How likely ranks read the same extents: more for each that was looked at again, less for
    /// each that one rank has fetched for others.
    alike: AtomicU32,
}

/// Where they count.
#[derive(Debug)]
enum Place {
    Node(Arc<NodeTable>, u32),
    Alone(Counts),
}

/// The pieces of one open file, as one rank sees them.
#[derive(Debug)]
pub struct NodePieces {
    place: Place,
    /// Ranks of the node.
    ranks: usize,
    /// Synchronisations that this rank has ended. Of those that are collective no rank ends one
    /// before all have begun it.
    rounds: AtomicU32,
    memory: OnceLock<Option<Pieces>>,
}

/// The result of looking for a piece.
#[derive(Debug)]
pub enum Look<'a> {
    /// The bytes of the range.
    Bytes(Vec<u8>),
    /// No rank has the piece: the caller shall fetch it.
    Fetch(Fetch<'a>),
    /// The caller does best to carry out its read as it is.
    AsItIs,
}

/// The right to fetch a piece; if it is dropped, the piece stays missing.
#[derive(Debug)]
pub struct Fetch<'a> {
    way: Way<'a>,
    wanted: Wanted,
    is_done: bool,
}

/// The conditions under which a piece is used.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    number: u64,
    state: State,
    rounds: u32,
    changes: u32,
    now: u64,
}

impl NodePieces {
    /// The pieces of the file in `lane` on a node with this number of `ranks`; of this rank alone
    /// without a table.
    pub fn new(table: Option<Arc<NodeTable>>, lane: u32, ranks: usize) -> Self {
        let place = match table {
            Some(table) if ranks > 1 => Place::Node(table, lane),
            _ => Place::Alone(Counts::default()),
        };
        let ranks = if matches!(place, Place::Alone(_)) { 1 } else { ranks };
        Self { place, ranks, rounds: AtomicU32::new(0), memory: OnceLock::new() }
    }

    fn counts(&self) -> &Counts {
        match &self.place {
            Place::Node(table, lane) => table.counts(*lane),
            Place::Alone(counts) => counts,
        }
    }

    /// Whether a rank of the node keeps pieces.
    pub fn are_kept(&self) -> bool {
        self.counts().address.load(Ordering::SeqCst) != 0
    }

    /// This rank has written through this open: pieces fetched before are no longer used.
    pub fn changed(&self) {
        // A rank that makes the memory from now on fetches the new bytes.
        fence(Ordering::SeqCst);
        if self.are_kept() || self.memory.get().is_some() {
            self.counts().changes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// This rank has ended a synchronisation: it uses nothing that was fetched before by a rank
    /// that had not.
    pub fn renewed(&self) {
        self.rounds.fetch_add(1, Ordering::SeqCst);
    }

    /// This rank needs the pieces no more. All ranks of the node call this, each before the file is
    /// closed on any rank; until then the memory can be found.
    pub fn leave(&self) {
        let counts = self.counts();
        if counts.left.fetch_add(1, Ordering::SeqCst) as usize + 1 == self.ranks {
            counts.address.store(0, Ordering::SeqCst);
            counts.alike.store(0, Ordering::SeqCst);
            counts.left.store(0, Ordering::SeqCst);
        }
    }

    /// The bytes `range` of piece `number` of the file, which is in `state`. The second look at a
    /// piece returns [`Look::Fetch`].
    pub fn look(&self, number: u64, state: State, range: Range<usize>) -> Look<'_> {
        self.look_or_fetch(number, state, range, false, PATIENCE)
    }

    /// The bytes of an extent of at most [`PIECE`] bytes that begins at byte `offset`, which all
    /// ranks are expected to read as a whole. The second look at it returns [`Look::Fetch`], or the
    /// first one if several ranks looked at the last extents. A rank waits at most `patience` for
    /// the fetch of another rank.
    pub fn look_at_extent(
        &self,
        offset: u64,
        state: State,
        len: usize,
        patience: Duration,
    ) -> Look<'_> {
        let alike = &self.counts().alike;
        let hope = alike.load(Ordering::Relaxed);
        let found = self.look_or_fetch(ANYWHERE | offset, state, 0..len, hope > 0, patience);
        match (&found, hope) {
            // Two ranks may decrement at a time; each stores the value it saw minus 1, never less.
            (Look::Fetch(_), 1..) => alike.store(hope - 1, Ordering::Relaxed),
            (Look::Fetch(_) | Look::Bytes(_), _) => alike.store(HOPE, Ordering::Relaxed),
            (Look::AsItIs, _) => {}
        }
        found
    }

    /// The next bytes of an extent; [`NodePieces::look_at_extent`] has returned its beginning.
    pub fn look_further(
        &self,
        offset: u64,
        state: State,
        len: usize,
        patience: Duration,
    ) -> Look<'_> {
        self.look_or_fetch(ANYWHERE | offset, state, 0..len, true, patience)
    }

    fn look_or_fetch(
        &self,
        number: u64,
        state: State,
        range: Range<usize>,
        is_first: bool,
        patience: Duration,
    ) -> Look<'_> {
        let Some(pieces) = self.memory() else { return Look::AsItIs };
        let set = pieces.set(number);
        let wanted = Wanted {
            number,
            state,
            rounds: self.rounds.load(Ordering::SeqCst),
            changes: self.counts().changes.load(Ordering::SeqCst),
            now: now(),
        };
        loop {
            let seen = set.seen();
            match set.copy(&wanted, range.clone()) {
                Some(Ok(bytes)) => return Look::Bytes(bytes),
                Some(Err(_)) => return Look::AsItIs,
                None => {}
            }
            match set.claim(&wanted, is_first, patience) {
                Claim::Fetch(way) => return Look::Fetch(Fetch { way, wanted, is_done: false }),
                Claim::AsItIs => return Look::AsItIs,
                Claim::IsThere => {}
                Claim::Wait => set.wait(seen, patience),
            }
            if now().saturating_sub(wanted.now) > nanoseconds(patience) {
                return Look::AsItIs;
            }
        }
    }

    fn memory(&self) -> Option<&Pieces> {
        self.memory.get_or_init(|| self.find().or_else(|| self.find())).as_ref()
    }

    /// The memory of the node, or new one for it; `None` if another rank was quicker, or if there
    /// can be none.
    fn find(&self) -> Option<Pieces> {
        let address = &self.counts().address;
        let there = address.load(Ordering::SeqCst);
        if let Some(found) = (there != 0).then(|| Pieces::open(place(there)?, self.ranks)).flatten()
        {
            return Some(found);
        }
        let made = Pieces::create(self.ranks)?;
        let own = word(made.address());
        let put = address.compare_exchange(there, own, Ordering::SeqCst, Ordering::SeqCst);
        put.is_ok().then_some(made)
    }
}

impl Fetch<'_> {
    /// Lets all ranks of the node have the piece: its `bytes` up to the end of the file. The file
    /// is in the same state as before they were read.
    pub fn done(mut self, bytes: &[u8]) {
        self.is_done = self.way.publish(&self.wanted, Some(bytes));
    }

    /// Records that the fetch failed, so that ranks do not try again soon.
    pub fn failed(mut self) {
        self.is_done = self.way.publish(&self.wanted, None);
    }
}

impl Drop for Fetch<'_> {
    fn drop(&mut self) {
        self.way.release(self.is_done);
    }
}

fn word(address: NodeAddress) -> u64 {
    u64::from_le_bytes(address.to_bytes())
}

fn place(word: u64) -> Option<NodeAddress> {
    NodeAddress::from_bytes(&word.to_le_bytes()).ok()
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The time on a clock that all processes of the node share, in nanoseconds; never 0.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the record outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let [seconds, rest] = [time.tv_sec, time.tv_nsec].map(|part| part.cast_unsigned());
    (seconds * 1_000_000_000 + rest).max(1)
}
