//! One collective operation in the memory of a node: claiming a place, meeting, agreeing.

use super::Node;
use super::layout::{OPERATIONS, RESULT, SUMMARY, control};
use crate::error::{Error, ErrorClass, Result};
use crate::task;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

/// How often who waits looks whether all others live.
const PULSE: Duration = Duration::from_secs(1);

/// A place for one operation that all ranks of the node take part in.
///
/// Every member must claim it, and then drop it when it has ended: only when all have dropped it
/// can the place be used again.
#[derive(Debug)]
pub(crate) struct Operation<'a> {
    pub(super) node: &'a Node,
    /// Distance of its bytes from those of operation 0.
    pub(super) base: usize,
}

impl Node {
    /// Claims the place of operation `id`, which is unique among the operations of this node's
    /// memory and the same on all its ranks.
    pub(crate) async fn claim(&self, id: u64) -> Result<Operation<'_>> {
        // Operations of one file follow each other in number, those of several files start alike.
        let mixed = id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let place = (mixed % OPERATIONS as u64) as usize;
        let base = self.layout.operation(place) - self.layout.operation(0);
        let operation = Operation { node: self, base };
        let owner = operation.long(control::ID);
        // 0 is a free place.
        let id = id + 1;
        let claimed = || {
            let found = owner.compare_exchange(0, id, Ordering::SeqCst, Ordering::SeqCst);
            (found.is_ok() || found == Err(id)).then_some(())
        };
        match operation.until(claimed).await {
            Ok(()) => Ok(operation),
            Err(error) => {
                // What is not claimed must not be left.
                std::mem::forget(operation);
                Err(error)
            }
        }
    }
}

impl Operation<'_> {
    pub(super) fn word(&self, at: usize) -> &AtomicU32 {
        self.node.memory.word(self.node.layout.operation(0) + self.base + at)
    }

    pub(super) fn long(&self, at: usize) -> &AtomicU64 {
        self.node.memory.long(self.node.layout.operation(0) + self.base + at)
    }

    /// Bytes of a window at most.
    pub(crate) fn window(&self) -> u64 {
        self.node.layout.window as u64
    }

    pub(super) fn members(&self) -> usize {
        self.node.members.len()
    }

    /// Waits until `ready` has a value. Everything it looks at announces changes with
    /// [`Operation::announce`].
    ///
    /// # Errors
    /// `Other` if a member's process ends meanwhile.
    pub(super) async fn until<T>(&self, mut ready: impl FnMut() -> Option<T>) -> Result<T> {
        let events = self.word(control::EVENTS);
        let mut looked: Option<Instant> = None;
        std::future::poll_fn(move |_| {
            let seen = events.load(Ordering::SeqCst);
            if let Some(value) = ready() {
                return Poll::Ready(Ok(value));
            }
            if looked.get_or_insert_with(Instant::now).elapsed() >= PULSE {
                looked = Some(Instant::now());
                if let Err(error) = self.node.all_live() {
                    return Poll::Ready(Err(error));
                }
            }
            task::sleep_until_changed(events, seen);
            Poll::Pending
        })
        .await
    }

    /// Wakes those who wait in [`Operation::until`].
    pub(super) fn announce(&self) {
        let events = self.word(control::EVENTS);
        events.fetch_add(1, Ordering::SeqCst);
        super::futex::wake(events);
    }

    /// Gives every member the `mine` of all, in the order of members, end to end. Once for each
    /// operation.
    pub(crate) async fn meet(&self, mine: &[u8]) -> Result<Vec<u8>> {
        let len = mine.len();
        assert!(len <= SUMMARY, "a part of {len} bytes");
        let place =
            |index| self.node.memory.place(self.node.layout.summary(index) + self.base, len);
        // SAFETY: this member's part is written by nobody else, and read only after `MET` counts it.
        unsafe { std::ptr::copy_nonoverlapping(mine.as_ptr(), place(self.node.index), len) };
        let met = self.word(control::MET);
        if met.fetch_add(1, Ordering::SeqCst) as usize + 1 == self.members() {
            self.announce();
        } else {
            self.until(|| (met.load(Ordering::SeqCst) as usize == self.members()).then_some(()))
                .await?;
        }
        let mut all = vec![0; len * self.members()];
        for (index, part) in all.chunks_exact_mut(len.max(1)).enumerate() {
            // SAFETY: all parts are complete, and not written again before all members have left.
            unsafe { std::ptr::copy_nonoverlapping(place(index), part.as_mut_ptr(), len) };
        }
        Ok(all)
    }

    /// Ends the operation with one result on all members: that of the lowest rank that failed.
    /// Once for each operation.
    pub(crate) async fn agree(&self, local: Result<()>) -> Result<()> {
        if let Err(error) = local {
            self.post(error);
        }
        let ended = self.word(control::ENDED);
        if ended.fetch_add(1, Ordering::SeqCst) as usize + 1 == self.members() {
            self.announce();
        } else {
            self.until(|| (ended.load(Ordering::SeqCst) as usize == self.members()).then_some(()))
                .await?;
        }
        if self.word(control::FAILED).load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        let first = (0..self.members()).find_map(|index| self.posted(index));
        Err(first.unwrap_or_else(|| Error::new(ErrorClass::Intern, "a damaged error message")))
    }

    /// Leaves this member's error where the others find it.
    fn post(&self, error: Error) {
        let error = error.with_rank(self.node.members[self.node.index]);
        let bytes = error.to_bytes_within(RESULT - 8);
        let start = self.node.layout.result(self.node.index) + self.base;
        // SAFETY: this member's place is written by nobody else, and read after `ENDED` counts it.
        unsafe {
            let place = self.node.memory.place(start + 8, bytes.len());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
        }
        self.node.memory.long(start).store(bytes.len() as u64, Ordering::SeqCst);
        self.word(control::FAILED).fetch_add(1, Ordering::SeqCst);
    }

    /// The error that member `index` left.
    fn posted(&self, index: usize) -> Option<Error> {
        let start = self.node.layout.result(index) + self.base;
        let len = self.node.memory.long(start).load(Ordering::SeqCst) as usize;
        if len == 0 || len > RESULT - 8 {
            return None;
        }
        let mut bytes = vec![0; len];
        // SAFETY: complete since `ENDED` counts this member.
        unsafe {
            let place = self.node.memory.place(start + 8, len);
            std::ptr::copy_nonoverlapping(place, bytes.as_mut_ptr(), len);
        }
        Error::from_bytes(&bytes)
    }
}

impl Drop for Operation<'_> {
    /// The last member to leave makes the place ready for the next operation.
    fn drop(&mut self) {
        let left = self.word(control::LEFT).fetch_add(1, Ordering::SeqCst) as usize + 1;
        if left < self.members() {
            return;
        }
        for index in 0..self.members() {
            self.node
                .memory
                .long(self.node.layout.result(index) + self.base)
                .store(0, Ordering::Relaxed);
        }
        for at in (control::LEFT..control::FAILURE_LIST).step_by(4) {
            self.word(at).store(0, Ordering::Relaxed);
        }
        for at in (control::SLOTS..control::BYTES).step_by(4) {
            self.word(at).store(0, Ordering::Relaxed);
        }
        self.long(control::END).store(0, Ordering::Relaxed);
        self.long(control::ID).store(0, Ordering::SeqCst);
        self.announce();
    }
}
