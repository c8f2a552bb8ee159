//! One collective operation in the memory of a node: claiming a place, agreeing.

use super::Node;
use super::arrivals::Met;
use super::layout::{Board, DEPTH, OPERATIONS, RESULT, control};
use crate::task;
use aggio_base::error::{Error, ErrorClass, Result};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

/// How often a waiting rank checks that all others live.
const PULSE: Duration = Duration::from_secs(1);

/// Checks regularly that the processes of a node live, for a rank that waits for one of them.
#[derive(Debug, Default)]
pub struct Pulse(Option<Instant>);

impl Pulse {
    /// Checks if it is time to.
    ///
    /// # Errors
    /// `Other` if the process of a member has ended.
    pub fn look(&mut self, node: &Node) -> Result<()> {
        if self.0.get_or_insert_with(Instant::now).elapsed() < PULSE {
            return Ok(());
        }
        self.0 = Some(Instant::now());
        node.all_live()
    }
}

/// A place for one operation that all ranks of the node take part in.
///
/// Every member must claim it, and then drop it when it has ended: only when all have dropped it
/// can the place be used again.
#[derive(Debug)]
pub struct Operation<'a> {
    pub(super) node: &'a Node,
    /// Distance of its bytes from those of operation 0.
    pub(super) base: usize,
    met: Met,
}

impl Node {
    /// Claims the place of an operation, unless another member has done so.
    pub(crate) async fn claim(&self, met: Met) -> Result<Operation<'_>> {
        self.enter(met, true).await
    }

    /// As [`Node::claim`], after another rank of the node has claimed the place.
    pub(crate) async fn follow(&self, met: Met) -> Result<Operation<'_>> {
        self.enter(met, false).await
    }

    async fn enter(&self, met: Met, first: bool) -> Result<Operation<'_>> {
        let id = met.id;
        let place = (super::mixed(id) % OPERATIONS as u64) as usize;
        let base = self.layout.operation(place) - self.layout.operation(0);
        let operation = Operation { node: self, base, met };
        let owner = operation.long(control::ID);
        let claimed = || {
            if !first {
                return (owner.load(Ordering::SeqCst) == id).then_some(());
            }
            match owner.compare_exchange(0, id, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) if self.has_others() => operation.announce(),
                Ok(_) => {}
                Err(found) if found == id => {}
                Err(_) => return None,
            }
            Some(())
        };
        match operation.until(claimed).await {
            Ok(()) => Ok(operation),
            Err(error) => {
                // An operation that is not claimed must not be left.
                std::mem::forget(operation);
                Err(error)
            }
        }
    }

    /// Waits until `ready` has a value. Everything it looks at changes before `events` does.
    ///
    /// # Errors
    /// `Other` if a member's process ends meanwhile.
    pub(super) async fn until<T>(
        &self,
        events: &AtomicU32,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        let mut pulse = Pulse::default();
        std::future::poll_fn(move |_| {
            let seen = events.load(Ordering::SeqCst);
            if let Some(value) = ready() {
                return Poll::Ready(Ok(value));
            }
            if let Err(error) = pulse.look(self) {
                return Poll::Ready(Err(error));
            }
            match self.has_others() {
                true => task::sleep_among_nodes(events, seen),
                false => task::sleep_until_changed(events, seen),
            }
            Poll::Pending
        })
        .await
    }
}

impl<'a> Operation<'a> {
    pub(super) fn word(&self, at: usize) -> &AtomicU32 {
        self.node.memory.word(self.node.layout.operation(0) + self.base + at)
    }

    pub(super) fn long(&self, at: usize) -> &AtomicU64 {
        self.node.memory.long(self.node.layout.operation(0) + self.base + at)
    }

    /// Bytes of a window at most, if pieces start and end at multiples of 2 to the power `grain`.
    pub fn window(&self, grain: u32) -> u64 {
        self.node.layout.window_of(grain) as u64
    }

    pub(super) fn members(&self) -> usize {
        self.node.members().len()
    }

    /// Waits until `ready` has a value. Everything it looks at announces changes with
    /// [`Operation::announce`].
    ///
    /// # Errors
    /// `Other` if a member's process ends meanwhile.
    pub(super) async fn until<T>(&self, ready: impl FnMut() -> Option<T>) -> Result<T> {
        self.node.until(self.word(control::EVENTS), ready).await
    }

    /// Wakes ranks that wait in [`Operation::until`].
    pub(super) fn announce(&self) {
        let events = self.word(control::EVENTS);
        events.fetch_add(1, Ordering::SeqCst);
        super::futex::wake(events);
    }

    /// Ends the operation with one result on all members: that of the lowest rank that failed.
    /// Once for each operation.
    pub(crate) async fn agree(&self, local: Result<()>) -> Result<()> {
        match self.end(local, true).await? {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// Notes how this member ended. If it is to `wait`, it waits for the others too: the lowest
    /// rank of the node that failed, with its error.
    pub(crate) async fn end(
        &self,
        local: Result<()>,
        wait: bool,
    ) -> Result<Option<(usize, Error)>> {
        if let Err(error) = local {
            self.post(error);
        }
        let ended = self.word(control::ENDED);
        if ended.fetch_add(1, Ordering::SeqCst) as usize + 1 == self.members() {
            self.announce();
        } else if wait {
            self.until(|| (ended.load(Ordering::SeqCst) as usize == self.members()).then_some(()))
                .await?;
        }
        if !wait || self.word(control::FAILED).load(Ordering::SeqCst) == 0 {
            return Ok(None);
        }
        let result = |index| self.node.layout.result(index);
        let posted = |index| self.error_at(result(index)).map(|e| (self.node.members()[index], e));
        Ok(Some((0..self.members()).find_map(posted).unwrap_or_else(|| (0, damaged()))))
    }

    /// Ends the operation for the other members: with `all`, the result of all nodes.
    pub(crate) fn pronounce(&self, all: &Result<()>) {
        if let Err(error) = all {
            self.write_error(self.node.layout.verdict(), error);
        }
        self.word(control::VERDICT).store(1 + u32::from(all.is_err()), Ordering::SeqCst);
        self.announce();
    }

    /// The verdict that the leader [pronounced](Operation::pronounce).
    pub(crate) async fn verdict(&self) -> Result<()> {
        let word = self.word(control::VERDICT);
        let there = || Some(word.load(Ordering::SeqCst)).filter(|verdict| *verdict != 0);
        match self.until(there).await? {
            1 => Ok(()),
            _ => Err(self.error_at(self.node.layout.verdict()).unwrap_or_else(damaged)),
        }
    }

    /// Publishes `news` for the other members, the same number of bytes for each node. Once for
    /// each board.
    pub(crate) fn publish(&self, board: Board, news: &[u8]) {
        let place = self.board(board);
        assert_eq!(news.len(), self.node.layout.board_len(board));
        // SAFETY: written by the leader alone, and read only after the word says that it is there.
        unsafe { std::ptr::copy_nonoverlapping(news.as_ptr(), place, news.len()) };
        self.word(board.word()).store(1, Ordering::SeqCst);
        self.announce();
    }

    /// The bytes that the leader [published](Operation::publish).
    pub(crate) async fn published(&self, board: Board) -> Result<Vec<u8>> {
        let word = self.word(board.word());
        self.until(|| (word.load(Ordering::SeqCst) != 0).then_some(())).await?;
        let mut news = vec![0; self.node.layout.board_len(board)];
        // SAFETY: complete, and not written again before all members have left.
        unsafe { std::ptr::copy_nonoverlapping(self.board(board), news.as_mut_ptr(), news.len()) };
        Ok(news)
    }

    fn board(&self, board: Board) -> *mut u8 {
        let layout = &self.node.layout;
        self.node.memory.place(layout.board(board) + self.base, layout.board_len(board))
    }

    /// Which node of how many this is, and its ranks.
    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// Leaves this member's error where the others find it.
    fn post(&self, error: Error) {
        let error = error.with_rank(self.node.members()[self.node.index()]);
        self.write_error(self.node.layout.result(self.node.index()), &error);
        self.word(control::FAILED).fetch_add(1, Ordering::SeqCst);
    }

    /// Writes an error to one of the places for errors. Only this member writes there.
    fn write_error(&self, place: usize, error: &Error) {
        let bytes = error.to_bytes_within(RESULT - 8);
        let start = place + self.base;
        // SAFETY: only this member writes the place, and it is read after a word says that it is
        // full.
        unsafe {
            let place = self.node.memory.place(start + 8, bytes.len());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
        }
        self.node.memory.long(start).store(bytes.len() as u64, Ordering::SeqCst);
    }

    /// The error that [`Operation::write_error`] left, if any.
    fn error_at(&self, place: usize) -> Option<Error> {
        let start = place + self.base;
        let len = self.node.memory.long(start).load(Ordering::SeqCst) as usize;
        if len == 0 || len > RESULT - 8 {
            return None;
        }
        let mut bytes = vec![0; len];
        // SAFETY: complete, and not written again before all members have left.
        unsafe {
            let place = self.node.memory.place(start + 8, len);
            std::ptr::copy_nonoverlapping(place, bytes.as_mut_ptr(), len);
        }
        Error::from_bytes(&bytes)
    }
}

fn damaged() -> Error {
    Error::new(ErrorClass::Intern, "a damaged error message")
}

impl Drop for Operation<'_> {
    /// The last member to leave makes the place ready for the next operation.
    fn drop(&mut self) {
        let left = self.word(control::LEFT).fetch_add(1, Ordering::SeqCst) as usize + 1;
        if left < self.members() {
            return;
        }
        // The verdict comes behind the last member's result.
        for index in 0..=self.members() {
            self.node
                .memory
                .long(self.node.layout.result(index) + self.base)
                .store(0, Ordering::Relaxed);
        }
        for at in (control::LEFT..control::FAILURE_LIST).step_by(4) {
            self.word(at).store(0, Ordering::Relaxed);
        }
        let slots = self.node.layout.operation(0) + self.base + control::SLOTS;
        for long in self.node.memory.longs(slots, DEPTH * control::SLOT / 8) {
            long.store(0, Ordering::Relaxed);
        }
        self.long(control::END).store(0, Ordering::Relaxed);
        self.node.strike(&self.met);
        self.long(control::ID).store(0, Ordering::SeqCst);
        self.announce();
    }
}
