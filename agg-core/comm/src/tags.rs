//! Which message belongs to which collective operation: tags handed out in blocks, cyclically.
//!
//! Every collective operation of one open file takes the next block of [`TagBlock::WIDTH`] tags,
//! in program order, so all ranks give the same operation the same block without a message. A file
//! has a range of tags (see [`crate::lanes`]); when its last block has been used, the first one
//! comes again. An operation first waits (see [`TagBlock::ready`]) until *this* rank has ended the
//! operation that had its block before. That is enough: sends end on matching, so a rank that
//! ended an operation has no message of it left under way, and messages with equal tags between
//! two ranks arrive in order.

use crate::task::pause;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The tags of one open file.
#[derive(Debug)]
pub struct Tags {
    first: u32,
    next: AtomicU64,
    slots: Arc<[Slot]>,
}

/// The operations that have one block after the other, by their turns.
#[derive(Debug, Default)]
struct Slot {
    /// The first one that has not ended.
    first: AtomicU32,
    /// Those behind it that have: blocks that were not needed are given back early.
    early: Mutex<Vec<u32>>,
}

impl Slot {
    fn end(&self, turn: u32) {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        early.push(turn);
        let mut first = self.first.load(Ordering::Relaxed);
        while let Some(place) = early.iter().position(|ended| *ended == first) {
            early.swap_remove(place);
            first = first.wrapping_add(1);
        }
        self.first.store(first, Ordering::Release);
    }
}

/// The tags of one collective operation; given back when it is dropped.
#[derive(Debug)]
pub struct TagBlock {
    base: u32,
    slot: usize,
    turn: u32,
    id: u64,
    slots: Arc<[Slot]>,
}

impl Tags {
    /// Tags up to `max_tag` (see [`crate::transport::Transport::max_tag`]).
    #[inline]
    pub fn new(max_tag: u32) -> Self {
        Self::within(0, max_tag.min(0x7FFF) + 1)
    }

    /// `count` tags from `first` on; at least one block of them.
    #[inline]
    pub fn within(first: u32, count: u32) -> Self {
        let blocks = (count / TagBlock::WIDTH).max(1);
        let slots = (0..blocks).map(|_| Slot::default()).collect();
        Self { first, next: AtomicU64::new(0), slots }
    }

    /// The block of the next collective operation. Call it in program order: at the start of the
    /// operation, not when its future is first polled.
    #[inline]
    pub fn next(&self) -> TagBlock {
        let sequence = self.next.fetch_add(1, Ordering::Relaxed);
        let blocks = self.slots.len() as u64;
        let slot = (sequence % blocks) as usize;
        TagBlock {
            base: self.first + slot as u32 * TagBlock::WIDTH,
            slot,
            turn: (sequence / blocks) as u32,
            id: u64::from(self.first) << 40 | sequence & ((1 << 40) - 1),
            slots: Arc::clone(&self.slots),
        }
    }
}

impl TagBlock {
    /// Number of tags in a block.
    pub const WIDTH: u32 = 8;

    /// The number of the operation: the same on all ranks, and different from those of all
    /// operations of one transport that may be under way at the same time.
    #[inline]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The tag of step `step` of the operation, `0..WIDTH` (larger steps wrap).
    #[inline]
    pub fn tag(&self, step: u32) -> u32 {
        self.base + step % Self::WIDTH
    }

    /// Waits until the operation that had this block before has ended on this rank.
    pub async fn ready(&self) {
        while self.slots[self.slot].first.load(Ordering::Acquire) != self.turn {
            pause().await;
        }
    }
}

impl Drop for TagBlock {
    fn drop(&mut self) {
        self.slots[self.slot].end(self.turn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn blocks_do_not_overlap_and_stay_below_the_largest_tag() {
        let tags = Tags::new(32767);
        let blocks: Vec<TagBlock> = (0..4096).map(|_| tags.next()).collect();
        let mut seen = std::collections::HashSet::new();
        for block in &blocks {
            for step in 0..TagBlock::WIDTH {
                assert!(block.tag(step) <= 32767);
                assert!(seen.insert(block.tag(step)));
            }
        }
    }

    #[test]
    fn a_block_is_used_again_only_after_its_operation_ended() {
        let tags = Tags::new(15);
        let (first, _second, third) = (tags.next(), tags.next(), tags.next());
        assert_eq!(first.tag(0), third.tag(0));
        let mut context = Context::from_waker(Waker::noop());
        let mut ready = pin!(third.ready());
        assert!(ready.as_mut().poll(&mut context).is_pending());
        assert!(ready.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert!(ready.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn a_block_that_is_given_back_before_its_turn_ends_no_operation_before_it() {
        let tags = Tags::new(7);
        let (first, second, third, fourth) = (tags.next(), tags.next(), tags.next(), tags.next());
        let mut context = Context::from_waker(Waker::noop());
        drop(third);
        {
            let mut ready = pin!(second.ready());
            assert!(ready.as_mut().poll(&mut context).is_pending());
            drop(first);
            assert!(ready.as_mut().poll(&mut context).is_ready());
        }
        let mut last = pin!(fourth.ready());
        assert!(last.as_mut().poll(&mut context).is_pending());
        drop(second);
        assert!(last.as_mut().poll(&mut context).is_ready());
    }
}
