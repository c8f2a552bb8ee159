//! Arrivals: which ranks of a node have begun which operation.
//!
//! Ranks may begin operations on several files in different orders, and the memory of a node has
//! places for a few operations only. So each rank first enters the operation in its own *roll*, and
//! an operation gets a place when all ranks have entered it: then it can end regardless of other
//! operations.

use super::layout::{CALLS, SUMMARY};
use super::{Node, futex};
use aggio_base::error::Result;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// No call.
const FREE: u64 = 0;
/// A call that is being written.
const TAKEN: u64 = u64::MAX;

/// An operation that all ranks of the node are at.
#[derive(Debug)]
pub(crate) struct Met {
    /// The operation's number in the memory of the node.
    pub(super) id: u64,
    /// The parts of all members, in the order of members, end to end.
    pub(crate) parts: Vec<u8>,
    /// Where each member's call is in its roll.
    calls: Vec<usize>,
}

impl Node {
    /// Waits until all members are at operation `id`, which is unique among the operations of this
    /// memory and the same on all its ranks, and exchanges `mine`.
    ///
    /// Each member must then claim the operation's place, and leave it in the end; or each must
    /// [dismiss](Node::dismiss) it.
    pub(crate) async fn meet(&self, id: u64, mine: &[u8]) -> Result<Met> {
        assert!(mine.len() <= SUMMARY, "a part of {} bytes", mine.len());
        // 0 is no call.
        let id = id + 1;
        let own = self.call(id, mine).await?;
        let mut calls = Vec::with_capacity(self.members().len());
        // Members that have called are not looked for again.
        let mut all_here = || {
            while calls.len() < self.members().len() {
                let own = (calls.len() == self.index()).then_some(own);
                calls.push(own.or_else(|| self.called(calls.len(), id))?);
            }
            Some(std::mem::take(&mut calls))
        };
        let calls = match all_here() {
            Some(calls) => {
                self.announce_call();
                calls
            }
            None => self.until(self.calls(), all_here).await?,
        };
        let mut parts = vec![0; mine.len() * calls.len()];
        for (member, part) in parts.chunks_exact_mut(mine.len().max(1)).enumerate() {
            let from = self.memory.place(self.layout.part(member, calls[member]), part.len());
            // SAFETY: complete, and not written again before all members have left the operation.
            unsafe { std::ptr::copy_nonoverlapping(from, part.as_mut_ptr(), part.len()) };
        }
        Ok(Met { id, parts, calls })
    }

    /// Enters a call into this member's roll.
    async fn call(&self, id: u64, mine: &[u8]) -> Result<usize> {
        let take = |call: usize| {
            let word = self.roll(self.index(), call);
            word.compare_exchange(FREE, TAKEN, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        };
        let free = || from(id).find(|call| take(*call));
        let call = match free() {
            Some(call) => call,
            None => {
                self.short_of_calls().fetch_add(1, Ordering::SeqCst);
                let call = self.until(self.calls(), free).await;
                self.short_of_calls().fetch_sub(1, Ordering::SeqCst);
                call?
            }
        };
        let place = self.memory.place(self.layout.part(self.index(), call), mine.len());
        // SAFETY: the part belongs to a call that this thread has taken; read after the number is
        // there.
        unsafe { std::ptr::copy_nonoverlapping(mine.as_ptr(), place, mine.len()) };
        self.reach(self.index()).fetch_max(distance(id, call), Ordering::SeqCst);
        self.roll(self.index(), call).store(id, Ordering::SeqCst);
        Ok(call)
    }

    /// Where `member` has entered a call for operation `id`, if it has.
    fn called(&self, member: usize, id: u64) -> Option<usize> {
        let reach = self.reach(member).load(Ordering::SeqCst) as usize;
        let mut places = from(id).take(reach + 1);
        places.find(|call| self.roll(member, *call).load(Ordering::SeqCst) == id)
    }

    /// Leaves an operation that needs no place: the parts show all members that it has ended.
    pub(crate) fn dismiss(&self, met: Met) {
        let dismissed = self.memory.word(self.layout.dismissed(met.calls[0]));
        if dismissed.fetch_add(1, Ordering::SeqCst) as usize + 1 == met.calls.len() {
            dismissed.store(0, Ordering::SeqCst);
            self.strike(&met);
        }
    }

    /// Takes the calls of all members for an operation that all have left off their rolls.
    pub(super) fn strike(&self, met: &Met) {
        for (member, call) in met.calls.iter().enumerate() {
            self.roll(member, *call).store(FREE, Ordering::SeqCst);
        }
        if self.short_of_calls().load(Ordering::SeqCst) > 0 {
            self.announce_call();
        }
    }

    /// Wakes ranks that wait for calls or for places in their rolls.
    fn announce_call(&self) {
        self.calls().fetch_add(1, Ordering::SeqCst);
        futex::wake(self.calls());
    }

    /// Changes when an operation is at last called by all, and when a rank that is
    /// [short of calls](Node::short_of_calls) may find a place.
    fn calls(&self) -> &AtomicU32 {
        self.memory.word(self.layout.calls())
    }

    /// How many wait for a place in their roll.
    fn short_of_calls(&self) -> &AtomicU32 {
        self.memory.word(self.layout.calls() + 4)
    }

    /// How far a call of `member` has been from where one looks first, at most.
    fn reach(&self, member: usize) -> &AtomicU32 {
        self.memory.word(self.layout.reach(member))
    }

    fn roll(&self, member: usize, call: usize) -> &AtomicU64 {
        self.memory.long(self.layout.call(member, call))
    }
}

/// All places of a roll, in the order in which a call for `id` is looked for.
fn from(id: u64) -> impl Iterator<Item = usize> {
    (0..CALLS).map(move |distance| (first(id) + distance) % CALLS)
}

fn first(id: u64) -> usize {
    (super::mixed(id) % CALLS as u64) as usize
}

fn distance(id: u64, call: usize) -> u32 {
    ((call + CALLS - first(id)) % CALLS) as u32
}
