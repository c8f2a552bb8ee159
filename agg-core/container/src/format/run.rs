//! Runs: pieces at equal distances in the file and in a log. A run grows by the next piece that
//! continues it, and by nothing else; no list of distances is searched for repetitions.

use crate::format::frame;
use crate::format::frame::SHORT;
use aggio_base::Extent;
use std::ops::Range;

/// `count` pieces of one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Where the first piece belongs in the file.
    pub(crate) start: u64,
    /// Bytes of each piece.
    pub(crate) length: u64,
    /// From one piece's start in the file to the next one's.
    pub(crate) stride: i64,
    /// Number of pieces, in the order in which they were written.
    pub(crate) count: u64,
    /// Number of the log, as its owner counts them.
    pub(crate) log: u32,
    /// Whether each piece has a frame of its own, which begins [`SHORT`] bytes before it.
    pub(crate) framed: bool,
    /// Bytes from the start of the frame to the first piece; 0 if that is not known.
    pub(crate) head: u64,
    /// Where the first piece lies in the log.
    pub(crate) place: u64,
    /// From one piece's place to the next one's.
    pub(crate) place_stride: u64,
    /// The sequence number of the first piece.
    pub(crate) seq: u64,
    /// The sequence number of the last piece. Numbers ascend; they are consecutive unless pieces
    /// have frames.
    pub(crate) last_seq: u64,
}

impl Run {
    /// Where piece `k` belongs in the file.
    pub(crate) fn piece(&self, k: u64) -> Extent {
        Extent::new(self.start.wrapping_add((self.stride as u64).wrapping_mul(k)), self.length)
    }

    /// Where piece `k` lies in the log.
    pub(crate) fn place_of(&self, k: u64) -> u64 {
        self.place + self.place_stride * k
    }

    /// Where the frame of piece `k` begins, if that is known.
    pub(crate) fn frame_of(&self, k: u64) -> Option<u64> {
        if self.framed {
            return self.place_of(k).checked_sub(SHORT as u64);
        }
        self.place.checked_sub(self.head).filter(|_| self.head > 0)
    }

    /// The sequence number of piece `k`, if the run itself determines it.
    pub(crate) fn seq_of(&self, k: u64) -> Option<u64> {
        if k == 0 {
            return Some(self.seq);
        }
        if k + 1 == self.count {
            return Some(self.last_seq);
        }
        self.is_consecutive().then(|| self.seq + k)
    }

    /// Whether every piece's number follows from the first one's.
    pub(crate) fn is_consecutive(&self) -> bool {
        self.last_seq - self.seq + 1 == self.count
    }

    /// Both pieces of a run of two. Any two pieces of one length are one; where places have no
    /// order, such runs reach over the whole file and would all be looked at in every search.
    pub(crate) fn pair(&self) -> Option<[Run; 2]> {
        let piece = |k: u64, seq: u64| Run {
            start: self.piece(k).offset,
            stride: 0,
            count: 1,
            place: self.place_of(k),
            place_stride: 0,
            head: self.frame_of(k).map_or(0, |frame| self.place_of(k) - frame),
            seq,
            last_seq: seq,
            ..*self
        };
        (self.count == 2).then(|| [piece(0, self.seq), piece(1, self.last_seq)])
    }

    /// All file bytes from the first to the last, those between pieces included.
    pub(crate) fn span(&self) -> Extent {
        let (first, last) = (self.piece(0), self.piece(self.count - 1));
        Extent::between(first.offset.min(last.offset), first.end().max(last.end()))
    }

    /// The pieces that have bytes in `range`.
    pub(crate) fn pieces_in(&self, range: Extent) -> Range<u64> {
        if range.intersect(self.span()).is_empty() {
            return 0..0;
        }
        if self.count == 1 {
            return 0..1;
        }
        // Counted from the lowest piece; the first `below` pieces end before the range.
        let (low, step) = (self.span().offset, self.stride.unsigned_abs());
        let until = |end: u64| (end.saturating_sub(low)).div_ceil(step).min(self.count);
        let below = until((range.offset + 1).saturating_sub(self.length));
        let pieces = below..until(range.end()).max(below);
        if self.stride > 0 { pieces } else { self.count - pieces.end..self.count - pieces.start }
    }

    /// Takes `next` into this run if it continues it; says whether it did.
    pub(crate) fn extend(&mut self, next: &Run) -> bool {
        if next.count != 1 || next.log != self.log || next.length != self.length {
            return false;
        }
        let (Some(place_stride), true) =
            (next.place.checked_sub(self.place_of(self.count - 1)), next.seq > self.last_seq)
        else {
            return false;
        };
        let stride = next.start.wrapping_sub(self.piece(self.count - 1).offset) as i64;
        let continues = if self.count == 1 {
            self.may_begin(next, place_stride)
                && frame::is_sound(self.start, self.length, stride, 2)
        } else {
            stride == self.stride && place_stride == self.place_stride && self.framed == next.framed
        };
        if continues {
            (self.stride, self.place_stride) = (stride, place_stride);
            self.count += 1;
            self.last_seq = next.last_seq;
        }
        continues
    }

    /// Whether two single pieces can be a run: their frames follow each other, and have nothing
    /// else.
    fn may_begin(&self, next: &Run, place_stride: u64) -> bool {
        self.framed && next.framed && place_stride == self.length + SHORT as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn single(start: u64, length: u64, number: u64) -> Run {
        let place = number * (length + SHORT as u64) + SHORT as u64;
        let seq = 10 + 3 * number;
        Run {
            start,
            length,
            stride: 0,
            count: 1,
            log: 0,
            framed: true,
            head: SHORT as u64,
            place,
            place_stride: 0,
            seq,
            last_seq: seq,
        }
    }

    fn strided(start: u64, length: u64, stride: i64, count: u64) -> Run {
        let at = |k: u64| start.wrapping_add((stride as u64).wrapping_mul(k));
        let mut run = single(start, length, 0);
        (1..count).for_each(|k| assert!(run.extend(&single(at(k), length, k)), "piece {k}"));
        run
    }

    #[test]
    fn equal_steps_become_one_run_and_another_step_does_not() {
        let mut run = strided(1000, 10, 50, 4);
        assert_eq!((run.stride, run.count, run.seq, run.last_seq), (50, 4, 10, 19));
        assert!(!run.extend(&single(1201, 10, 4)));
        assert!(!run.extend(&single(1200, 11, 4)));
        assert!(!run.extend(&single(1200, 10, 5)), "a frame is missing between");
        assert!(run.extend(&single(1200, 10, 4)));
    }

    #[test]
    fn pieces_that_overlap_are_no_run() {
        let mut run = single(1000, 10, 0);
        assert!(!run.extend(&single(1000, 10, 1)));
        assert!(!run.extend(&single(1009, 10, 1)));
        assert!(!run.extend(&single(991, 10, 1)));
        assert!(run.extend(&single(990, 10, 1)));
    }

    proptest! {
        #[test]
        fn the_pieces_in_a_range_are_those_that_intersect_it(
            length in 1_u64..20, gap in 0_i64..30, count in 1_u64..20, back: bool,
            offset in 0_u64..2100, len in 0_u64..200,
        ) {
            let step = length as i64 + gap;
            let run = strided(1000, length, if back { -step } else { step }, count);
            let range = Extent::new(offset, len);
            let expected: Vec<u64> =
                (0..count).filter(|k| !run.piece(*k).intersect(range).is_empty()).collect();
            prop_assert_eq!(run.pieces_in(range).collect::<Vec<_>>(), expected);
        }
    }
}
