//! Several open files on one transport: each has message tags of its own, a *lane*.
//!
//! Opens on one transport follow each other in the same order on all ranks, so they share one small
//! set of tags. Operations on *different* files keep no order between ranks, and closes are such
//! operations: which lanes are free differs from rank to rank. So rank 0 chooses a lane that is
//! free on rank 0 and sends its number with the result of the open; every other rank waits until
//! the lane is free there too, which it soon is: rank 0 has ended the close of the file before, so
//! all ranks are in that close already, with nothing left to wait for. From then on the argument of
//! [`crate::tags`] holds: messages with equal tags between two ranks arrive in order, and each rank
//! begins with the new file only after it has ended the old one.
//!
//! The lane's number also selects the file's word of the shared memory.

use crate::tags::{TagBlock, Tags};
use crate::task::pause;
use aggio_base::error::{Error, ErrorClass, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of lanes, the one of the opens included: its number is 0.
pub const COUNT: u32 = 256;

/// Most tags of a lane; operations beyond that wait for the first ones of the file.
const WIDEST: u32 = 2048;

/// The lanes of one transport, as one rank sees them.
#[derive(Debug)]
pub struct Lanes {
    opening: Tags,
    width: u32,
    states: Mutex<Vec<State>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Taken,
    /// Messages of a file that did not end in order may still be under way.
    Retired,
}

/// The lane of one file. Call [`Lane::release`] after an orderly close; a lane that is only dropped
/// is not used again.
#[derive(Debug)]
pub struct Lane {
    lanes: Arc<Lanes>,
    number: u32,
}

impl Lanes {
    /// Lanes with tags up to `max_tag` (see [`crate::transport::Transport::max_tag`]).
    pub fn new(max_tag: u32) -> Arc<Self> {
        let tags = u64::from(max_tag) + 1;
        let width = (tags / u64::from(COUNT)).min(u64::from(WIDEST)) as u32;
        let width = width / TagBlock::WIDTH * TagBlock::WIDTH;
        let opening = Tags::within(0, width.min(8 * TagBlock::WIDTH));
        Arc::new(Self { opening, width, states: Mutex::new(vec![State::Free; COUNT as usize]) })
    }

    /// The tags of the opens themselves.
    pub fn opening(&self) -> &Tags {
        &self.opening
    }

    /// Takes a lane that is free on this rank; only for rank 0, which sends the number to the
    /// others.
    pub fn choose(self: &Arc<Self>) -> Option<Lane> {
        let mut states = self.states();
        let number = (1..COUNT).find(|n| states[*n as usize] == State::Free)?;
        states[number as usize] = State::Taken;
        Some(Lane { lanes: self.clone(), number })
    }

    /// Takes the lane that rank 0 chose, as soon as it is free here.
    ///
    /// # Errors
    /// `Intern` if it will never be, because the messages of another file broke off.
    pub async fn take(self: &Arc<Self>, number: u32) -> Result<Lane> {
        loop {
            match self.try_take(number)? {
                Some(lane) => return Ok(lane),
                None => pause().await,
            }
        }
    }

    fn try_take(self: &Arc<Self>, number: u32) -> Result<Option<Lane>> {
        let mut states = self.states();
        match states.get_mut(number as usize) {
            Some(state @ State::Free) if number != 0 => {
                *state = State::Taken;
                Ok(Some(Lane { lanes: self.clone(), number }))
            }
            Some(State::Taken) => Ok(None),
            _ => {
                let text = format!("message lane {number} cannot be used on this rank");
                Err(Error::new(ErrorClass::Intern, text))
            }
        }
    }

    fn states(&self) -> MutexGuard<'_, Vec<State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, number: u32, state: State) {
        self.states()[number as usize] = state;
    }
}

impl Lane {
    /// Its number, from 1 up to [`COUNT`] - 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The tags of the file, counted anew.
    pub fn tags(&self) -> Tags {
        Tags::within(self.number * self.lanes.width, self.lanes.width)
    }

    /// Gives the lane to later files: all ranks have ended the file, and none has a message left
    /// to receive.
    pub fn release(self) {
        self.lanes.set(self.number, State::Free);
        std::mem::forget(self);
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.lanes.set(self.number, State::Retired);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn no_two_lanes_have_a_tag_in_common_and_none_is_beyond_the_largest() {
        for max_tag in [32767, 40_000, 8_388_607, u32::MAX >> 1] {
            let lanes = Lanes::new(max_tag);
            let mut all: HashSet<u32> = HashSet::new();
            let mut claim = |tags: &Tags, blocks: u32| {
                for _ in 0..blocks {
                    let block = tags.next();
                    for step in 0..TagBlock::WIDTH {
                        assert!(block.tag(step) <= max_tag && all.insert(block.tag(step)));
                    }
                }
            };
            claim(lanes.opening(), 2);
            let files: Vec<Lane> = std::iter::from_fn(|| lanes.choose()).collect();
            assert_eq!(files.len(), COUNT as usize - 1);
            for lane in &files {
                claim(&lane.tags(), lanes.width / TagBlock::WIDTH);
            }
        }
    }

    #[test]
    fn a_rank_waits_for_a_lane_until_it_has_ended_the_file_before() {
        let lanes = Lanes::new(32767);
        let first = lanes.choose().expect("a free lane");
        let number = first.number();
        let mut context = Context::from_waker(Waker::noop());
        let mut second = pin!(lanes.take(number));
        assert!(second.as_mut().poll(&mut context).is_pending());
        first.release();
        assert!(second.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn a_lane_whose_file_broke_off_is_not_used_again() {
        let lanes = Lanes::new(32767);
        let first = lanes.choose().expect("a free lane");
        let number = first.number();
        drop(first);
        assert_ne!(lanes.choose().expect("a free lane").number(), number);
        let mut context = Context::from_waker(Waker::noop());
        let mut again = pin!(lanes.take(number));
        assert!(matches!(again.as_mut().poll(&mut context), std::task::Poll::Ready(Err(_))));
    }
}
