//! The vote of a rank about a collective write, and its message form.

use crate::file::agreement::Words;
use aggio_base::extent::Extent;

/// Flags, in the highest bits of the numbers of a message.
const FLAG: u64 = 1 << 63;
/// Another flag, in the first number. A rank with bytes behind this offset writes at once.
const LOWER: u64 = 1 << 62;

/// Message of a rank, or of all ranks, about a collective write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WriteBehindVote {
    /// The extent of the write.
    pub(super) writes: Extent,
    /// The extent of the writes that ranks have buffered together.
    pub(super) buffered: Extent,
    /// The write must go straight to the file.
    pub(super) forces_write: bool,
    /// The buffer has no room for the write.
    pub(super) lacks_room: bool,
    /// Another rank requested a flush since the last vote.
    pub(super) was_asked: bool,
    /// The write costs more if it is buffered.
    pub(super) costs_more: bool,
    /// The first rank has buffered independent writes, which ranks of other nodes do not see: bytes
    /// before all those that ranks have buffered together.
    pub(super) has_independent: bool,
}

impl WriteBehindVote {
    /// The vote about a write of `span`: one of bytes that a message cannot name is forced.
    pub(super) fn on(span: Extent) -> Self {
        let forces_write = span.end() >= LOWER;
        let writes = if forces_write { Extent::between(0, LOWER - 1) } else { span };
        Self { writes, forces_write, ..Self::default() }
    }

    /// The extent of buffered writes that a rank cannot tell.
    pub(super) fn everything() -> Extent {
        Extent::between(0, FLAG - 1)
    }

    /// The combined vote of all ranks.
    pub(super) fn of_all(messages: &[Words]) -> Self {
        messages.iter().map(Self::from_words).fold(Self::default(), Self::and)
    }

    /// The message form.
    pub(super) fn to_words(self) -> Words {
        let flag = |on: bool| if on { FLAG } else { 0 };
        let Self { writes, buffered, .. } = self;
        [
            writes.offset | flag(self.forces_write) | (flag(self.has_independent) >> 1),
            writes.end() | flag(self.lacks_room),
            buffered.offset | flag(self.was_asked),
            buffered.end() | flag(self.costs_more),
        ]
    }

    fn from_words(words: &Words) -> Self {
        let [first, end, from, to] = words.map(|word| word & !FLAG);
        let (at, has_independent) = (first & !LOWER, first & LOWER != 0);
        let [forces_write, lacks_room, was_asked, costs_more] = words.map(|word| word & FLAG != 0);
        let (writes, buffered) = (Extent::between(at, end), Extent::between(from, to));
        Self { writes, buffered, forces_write, lacks_room, was_asked, costs_more, has_independent }
    }

    fn and(self, other: Self) -> Self {
        Self {
            writes: self.writes.hull(other.writes),
            buffered: self.buffered.hull(other.buffered),
            forces_write: self.forces_write || other.forces_write,
            lacks_room: self.lacks_room || other.lacks_room,
            was_asked: self.was_asked || other.was_asked,
            costs_more: self.costs_more || other.costs_more,
            has_independent: self.has_independent || other.has_independent,
        }
    }

    /// Whether the write must go straight to the file: also where ranks may write over buffered
    /// independent writes of the first rank.
    pub(super) fn must_write(&self) -> bool {
        let meets_independent = self.has_independent
            && !self.writes.is_empty()
            && self.writes.offset < self.buffered.offset;
        self.forces_write || meets_independent
    }

    /// Whether buffered writes are flushed before the write, `buffers` saying whether it is
    /// buffered itself: buffered bytes of two calls never overlap.
    pub(super) fn needs_flush(&self, buffers: bool) -> bool {
        let overlaps = !self.buffered.intersect(self.writes).is_empty();
        !self.buffered.is_empty() && (!buffers || overlaps || self.lacks_room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vote_survives_the_way_to_another_rank() {
        let vote = WriteBehindVote {
            writes: Extent::between(5, (1 << 62) - 1),
            buffered: Extent::between(0, 7),
            forces_write: true,
            lacks_room: false,
            was_asked: true,
            costs_more: true,
            has_independent: true,
        };
        assert_eq!(WriteBehindVote::from_words(&vote.to_words()), vote);
        let none = WriteBehindVote::default();
        assert_eq!(none.and(vote), vote);
        let other = WriteBehindVote { writes: Extent::between(1, 3), lacks_room: true, ..none };
        assert_eq!(vote.and(other).writes, Extent::between(1, (1 << 62) - 1));
        assert!(vote.and(other).lacks_room);
    }

    #[test]
    fn bytes_that_no_message_can_name_are_written_at_once() {
        let near = WriteBehindVote::on(Extent::between(5, 9));
        assert!(!near.must_write() && near.writes == Extent::between(5, 9));
        let far = WriteBehindVote::on(Extent::between(5, LOWER));
        assert!(far.must_write() && far.writes.end() < LOWER);
        assert_eq!(WriteBehindVote::from_words(&far.to_words()), far);
    }

    #[test]
    fn buffered_writes_are_flushed_before_one_that_meets_them() {
        let (low, high) = (Extent::between(0, 10), Extent::between(10, 20));
        let vote = WriteBehindVote { writes: low, buffered: high, ..WriteBehindVote::default() };
        assert!(!vote.needs_flush(true) && vote.needs_flush(false));
        assert!(WriteBehindVote { writes: high, ..vote }.needs_flush(true));
        assert!(WriteBehindVote { lacks_room: true, ..vote }.needs_flush(true));
        assert!(!WriteBehindVote::on(low).needs_flush(false), "nothing is buffered");
        assert!(WriteBehindVote { has_independent: true, ..vote }.must_write());
    }
}
