//! The data of a rank outside all windows: the rank itself moves it to or from the file.

use super::super::{Direction, Request, Scene, carry_out};
use super::NodeAggregation;
use aggio_base::allocate::zeros;
use aggio_base::error::Result;
use aggio_store::driver::Outcome;
use aggio_types::datatype::Datatype;
use aggio_types::memory::Memory;

/// Bytes that are moved at a time where the program's buffer has gaps: so few that they stay in the
/// processor's cache, or so many that a request is worth its time where it takes long.
const BLOCKS: [u64; 2] = [256 << 10, 4 << 20];

/// Result of moving the data outside the windows.
pub(super) struct Alone {
    /// The first byte of the file that is not moved; `u64::MAX` if all bytes are moved.
    pub(super) upto: u64,
    /// Bytes that are not moved.
    pub(super) left: u64,
    pub(super) result: Result<()>,
}

/// Moves this rank's data outside the windows, if the windows `passed`.
pub(super) fn run(aggregation: &NodeAggregation<'_>, direction: Direction, passed: bool) -> Alone {
    let NodeAggregation { scene, plan, own, .. } = aggregation;
    let block = BLOCKS[usize::from(plan.is_slow())];
    let mover = Mover { scene, request: own.request(), direction, block };
    let mut alone = Alone { upto: u64::MAX, left: 0, result: Ok(()) };
    let mut goes_on = passed;
    for extent in plan.own_rest() {
        let part = own.part(extent);
        let len = part.len as u64;
        let outcome = match goes_on {
            true => mover.move_part(part.position, len),
            false => Outcome { bytes: 0, result: Ok(()) },
        };
        if outcome.bytes < len {
            goes_on = false;
            let first = part.position + outcome.bytes;
            alone.upto = alone.upto.min(mover.request.view.offset_at(first));
            alone.left += len - outcome.bytes;
        }
        alone.result = alone.result.and(outcome.result);
    }
    alone
}

/// Moves data of a rank straight to or from the file.
struct Mover<'c, 'a> {
    scene: &'c Scene<'a>,
    request: Request<'a>,
    direction: Direction,
    /// Bytes that are moved at a time where the program's buffer has gaps.
    block: u64,
}

impl Mover<'_, '_> {
    /// Moves `len` data bytes from `position` of the view on.
    fn move_part(&self, position: u64, len: u64) -> Outcome {
        let mut moved = 0;
        while moved < len {
            let rest = (position + moved, len - moved);
            let (asked, outcome) = match self.run_at(rest) {
                Some(memory) => (rest.1, self.straight(rest.0, &memory)),
                None => self.move_block((rest.0, rest.1.min(self.block))),
            };
            moved += outcome.bytes;
            if outcome.bytes < asked || outcome.result.is_err() {
                return Outcome { bytes: moved, ..outcome };
            }
        }
        Outcome { bytes: moved, result: Ok(()) }
    }

    /// The memory of a range of the view's data, if it is one run.
    fn run_at(&self, (position, len): (u64, u64)) -> Option<Memory> {
        self.request.memory.run_at(position - self.request.position, len)
    }

    /// Moves a range of the view's data through a contiguous copy, as its memory has gaps.
    fn move_block(&self, (position, len): (u64, u64)) -> (u64, Outcome) {
        let mut bytes = match zeros(len as usize) {
            Ok(bytes) => bytes,
            Err(error) => return (len, Outcome { bytes: 0, result: Err(error) }),
        };
        let place = position - self.request.position;
        if self.direction == Direction::Write {
            self.request.memory.gather(place, &mut bytes);
        }
        // SAFETY: `bytes` outlives the memory, and is not used meanwhile.
        let memory = unsafe { Memory::new(bytes.as_mut_ptr(), Datatype::bytes(len), 1) };
        let outcome = self.straight(position, &memory);
        if self.direction == Direction::Read {
            self.request.memory.scatter(place, &bytes[..outcome.bytes as usize]);
        }
        (len, outcome)
    }

    fn straight(&self, position: u64, memory: &Memory) -> Outcome {
        let request = Request { position, memory, ..self.request };
        carry_out::straight(*self.scene, request, self.direction)
    }
}
