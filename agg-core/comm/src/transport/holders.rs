//! The ranks of a node with buffered writes of a file, and the ranks that request a flush: counters
//! in the memory of the node.

use super::NodeTable;
use super::table::Slot;
use crate::{node, task};
use aggio_base::Extent;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The counters of one file, which may be looked at by any thread.
#[derive(Clone, Debug)]
pub struct Holders {
    table: Arc<NodeTable>,
    lane: u32,
    /// Ranks of the node.
    ranks: u32,
}

impl Holders {
    /// The holders of the file in `lane`, which is being opened by this number of `ranks` of the
    /// node: none has written yet.
    pub fn new(table: Arc<NodeTable>, lane: u32, ranks: usize) -> Self {
        let holders = Self { table, lane, ranks: ranks as u32 };
        holders.slot().done.store(0, Ordering::SeqCst);
        holders
    }

    fn slot(&self) -> &Slot {
        self.table.slot(self.lane)
    }

    fn change(&self, counter: &AtomicU32, by: i32) {
        counter.fetch_add(by as u32, Ordering::SeqCst);
        self.slot().changes.fetch_add(1, Ordering::SeqCst);
        node::wake(&self.slot().changes);
    }

    /// This rank holds something back, until the result is dropped.
    pub fn hold(&self) -> Hold {
        self.change(&self.slot().holders, 1);
        Hold { holders: self.clone(), is_last: false, has_failed: false }
    }

    /// Requests a flush of the buffered writes of other ranks, until the result is dropped; of
    /// bytes that must be stored last as well if `all`.
    pub fn ask(&self, all: bool) -> Ask {
        if all {
            self.slot().asks_all.fetch_add(1, Ordering::SeqCst);
        }
        self.change(&self.slot().asks, 1);
        Ask { holders: self.clone(), all }
    }

    /// Number of ranks that hold something back.
    pub fn count(&self) -> u32 {
        self.slot().holders.load(Ordering::SeqCst)
    }

    /// Records that this rank has done a collective write that may be deferred; its buffered bytes
    /// have been announced before.
    pub fn note_done(&self) {
        self.change(&self.slot().done, 1);
    }

    /// Whether a rank of the node is still in one of `calls` collective writes that a rank has
    /// done. If one is further, none is: each of these calls needs all ranks.
    pub fn are_behind(&self, calls: u32) -> bool {
        let done = self.slot().done.load(Ordering::SeqCst);
        calls.wrapping_mul(self.ranks).wrapping_sub(done).cast_signed() > 0
    }

    /// Whether a rank could not store its buffered writes.
    pub fn have_failed(&self) -> bool {
        self.slot().failed.load(Ordering::SeqCst) > 0
    }

    /// Whether all ranks that hold something back, if any, could not store it.
    pub fn can_store_no_more(&self) -> bool {
        self.slot().failed.load(Ordering::SeqCst) >= self.count()
    }

    /// Whether a rank asks.
    pub fn are_asked(&self) -> bool {
        self.slot().asks.load(Ordering::SeqCst) > 0
    }

    /// Whether a rank requests bytes that must be stored last as well.
    pub fn are_asked_for_all(&self) -> bool {
        self.slot().asks_all.load(Ordering::SeqCst) > 0
    }

    /// Whether all buffered bytes are bytes that must be stored last.
    pub fn hold_the_last_only(&self) -> bool {
        self.slot().lasts.load(Ordering::SeqCst) >= self.count()
    }

    /// The extent of the buffered independent writes of the first rank. A rank that learns of a
    /// write after it was made sees it here, or sees its bytes in the file.
    pub fn alone(&self) -> Extent {
        let [start, end] = &self.slot().alone;
        Extent::between(start.load(Ordering::SeqCst), end.load(Ordering::SeqCst))
    }

    /// Publishes the extent of buffered independent writes; only for the first rank.
    pub fn set_alone(&self, extent: Extent) {
        let [start, end] = &self.slot().alone;
        let (from, upto) = if extent.is_empty() { (0, 0) } else { (extent.offset, extent.end()) };
        start.store(from, Ordering::SeqCst);
        end.store(upto, Ordering::SeqCst);
    }

    /// A number that differs after every change. Read it before looking for one.
    pub fn changes(&self) -> u32 {
        self.slot().changes.load(Ordering::SeqCst)
    }

    /// Sleeps until a change since `seen`, at most for `most`; may return early.
    pub fn sleep(&self, seen: u32, most: Duration) {
        node::sleep(self.slot().changes.as_ptr() as usize, seen, most);
    }

    /// To be called by a future that waits for a change since `seen`.
    pub fn sleep_until_changed(&self, seen: u32) {
        task::sleep_until_changed(&self.slot().changes, seen);
    }
}

/// A rank that holds something back.
#[derive(Debug)]
pub struct Hold {
    holders: Holders,
    is_last: bool,
    has_failed: bool,
}

impl Hold {
    /// Records whether this rank holds only bytes that must be stored last.
    pub fn set_last(&mut self, is_last: bool) {
        if std::mem::replace(&mut self.is_last, is_last) != is_last {
            self.holders.change(&self.holders.slot().lasts, if is_last { 1 } else { -1 });
        }
    }

    /// Whether it could not be stored.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Records whether its buffered writes cannot be stored.
    pub fn set_failed(&mut self, has_failed: bool) {
        if std::mem::replace(&mut self.has_failed, has_failed) != has_failed {
            self.holders.change(&self.holders.slot().failed, if has_failed { 1 } else { -1 });
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.set_last(false);
        self.set_failed(false);
        self.holders.change(&self.holders.slot().holders, -1);
    }
}

/// A rank that asks.
#[derive(Debug)]
pub struct Ask {
    holders: Holders,
    all: bool,
}

impl Drop for Ask {
    fn drop(&mut self) {
        let slot = self.holders.slot();
        if self.all {
            slot.asks_all.fetch_sub(1, Ordering::SeqCst);
        }
        self.holders.change(&slot.asks, -1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_and_who_asks_is_seen_by_others_until_it_ends() {
        let table = Arc::new(NodeTable::create().expect("memfd"));
        let [one, other, apart] = [3, 3, 4].map(|lane| Holders::new(table.clone(), lane, 2));
        let mut hold = one.hold();
        assert_eq!((other.count(), apart.count(), other.hold_the_last_only()), (1, 0, false));
        hold.set_last(true);
        hold.set_failed(true);
        assert!(other.hold_the_last_only() && other.have_failed() && !other.are_asked());
        let (ask, seen) = (other.ask(false), one.changes());
        assert!(one.are_asked() && !one.are_asked_for_all());
        let all = other.ask(true);
        assert!(one.are_asked_for_all());
        drop((ask, all, hold));
        assert!(
            !one.are_asked() && !one.are_asked_for_all() && !one.have_failed() && one.count() == 0
        );
        assert_ne!(one.changes(), seen);
    }

    #[test]
    fn a_rank_knows_whether_others_are_still_in_a_write_that_it_has_done() {
        let table = Arc::new(NodeTable::create().expect("memfd"));
        let [one, other] = [3; 2].map(|lane| Holders::new(table.clone(), lane, 2));
        assert!(!one.are_behind(0));
        one.note_done();
        assert!(one.are_behind(1));
        other.note_done();
        assert!(!one.are_behind(1) && !other.are_behind(1));
        one.note_done();
        assert!(!other.are_behind(1), "one is further");
        // The next file in the lane begins anew.
        assert!(!Holders::new(table, 3, 2).are_behind(0));
    }

    #[test]
    fn others_see_where_the_first_rank_holds_back_what_it_wrote_alone() {
        let table = Arc::new(NodeTable::create().expect("memfd"));
        let [one, other, apart] = [3, 3, 4].map(|lane| Holders::new(table.clone(), lane, 2));
        assert!(other.alone().is_empty());
        one.set_alone(Extent::between(4, 12));
        assert_eq!((other.alone(), apart.alone()), (Extent::between(4, 12), Extent::default()));
        one.set_alone(Extent::default());
        assert!(other.alone().is_empty());
    }
}
