//! When a write was made, so that the writes of different ranks can be compared.
//!
//! All ranks make the same collective calls in the same order. Between two of them only clocks tell
//! which of two ranks wrote first: that of one machine surely, those of several as well as they
//! agree.

use std::time::{SystemTime, UNIX_EPOCH};

/// When a write was made. The greater one is the later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Even in collective calls, the same on all ranks; odd between them.
    pub(crate) epoch: u64,
    /// Nanoseconds since 1970 for writes of a rank alone; 0 in collective calls.
    pub(crate) time: u64,
}

impl Moment {
    /// The moment of the collective write with this number, the first one being 1.
    pub fn of_call(number: u64) -> Self {
        Self { epoch: 2 * number, time: 0 }
    }

    /// Now, after this many collective writes.
    pub fn after_call(number: u64) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let time = now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        Self { epoch: 2 * number + 1, time }
    }
}

/// The moments of bytes that are kept in the order in which they were written.
#[derive(Clone, Debug, Default)]
pub(super) struct Moments {
    calls: Vec<Calls>,
}

/// Some writes of equal length, one behind the other: of one rank alone one write, else those of
/// collective calls without another one between them.
#[derive(Clone, Copy, Debug)]
struct Calls {
    /// Where the bytes of the first one are kept.
    position: u64,
    /// Bytes of each.
    len: u64,
    first: Moment,
    count: u64,
}

impl Calls {
    fn of(&self, number: u64) -> Moment {
        Moment { epoch: self.first.epoch + 2 * number, ..self.first }
    }
}

impl Moments {
    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.calls.capacity() * size_of::<Calls>()
    }

    /// `len` bytes from `position` on, behind all others, are of this moment.
    pub(super) fn note(&mut self, position: u64, len: u64, moment: Moment) {
        if len == 0 {
            return;
        }
        if let Some(last) = self.calls.last_mut() {
            let goes_on = last.position + last.len * last.count == position;
            let is_next = last.len == len && last.of(last.count) == moment && moment.time == 0;
            if goes_on && is_next {
                last.count += 1;
                return;
            }
        }
        self.calls.push(Calls { position, len, first: moment, count: 1 });
    }

    /// Takes in those of bytes that are kept behind `position` from now on.
    pub(super) fn append(&mut self, position: u64, newer: &mut Moments) {
        let moved = |calls: Calls| Calls { position: calls.position + position, ..calls };
        self.calls.extend(newer.calls.drain(..).map(moved));
    }

    /// The moment of the byte at `position`, and where the next one begins.
    pub(super) fn at(&self, position: u64) -> (Moment, u64) {
        let behind = self.calls.partition_point(|calls| calls.position <= position);
        let next = self.calls.get(behind).map_or(u64::MAX, |calls| calls.position);
        let Some(calls) = behind.checked_sub(1).map(|place| self.calls[place]) else {
            return (Moment::default(), next);
        };
        let number = ((position - calls.position) / calls.len).min(calls.count - 1);
        let end = calls.position + calls.len * (number + 1);
        (calls.of(number), if number + 1 < calls.count { end } else { next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_the_moment_of_its_write_and_equal_collective_calls_cost_as_much_as_one() {
        let mut moments = Moments::default();
        (1..=1000).for_each(|call| moments.note((call - 1) * 10, 10, Moment::of_call(call)));
        assert_eq!(moments.calls.len(), 1);
        let alone = [Moment::after_call(1000), Moment::after_call(1000)];
        moments.note(10_000, 5, alone[0]);
        moments.note(10_005, 5, alone[1]);
        moments.note(10_010, 10, Moment::of_call(1001));
        let mut later = Moments::default();
        later.note(0, 3, Moment::of_call(1003));
        moments.append(10_020, &mut later);
        for (position, moment, next) in [
            (0, Moment::of_call(1), 10),
            (19, Moment::of_call(2), 20),
            (9_999, Moment::of_call(1000), 10_000),
            (10_000, alone[0], 10_005),
            (10_009, alone[1], 10_010),
            (10_015, Moment::of_call(1001), 10_020),
            (10_021, Moment::of_call(1003), u64::MAX),
        ] {
            assert_eq!(moments.at(position), (moment, next), "byte {position}");
        }
    }

    #[test]
    fn moments_are_ordered_by_calls_and_between_them_by_time() {
        let (before, after) = (Moment::after_call(3), Moment::after_call(3));
        assert!(Moment::of_call(3) < before && before <= after && after < Moment::of_call(4));
    }
}
