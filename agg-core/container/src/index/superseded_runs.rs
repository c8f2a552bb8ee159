//! Finds runs that no read needs any more, because newer ones have all of their bytes: a program
//! that writes the same place again and again leaves thousands.

use crate::format::Run;
use aggio_base::Extent;
use std::collections::BTreeMap;

/// Separates the runs that reads need from those that newer runs cover.
///
/// Only runs without gaps cover others. A run that may be needed counts as needed.
pub(crate) fn split(runs: Vec<Run>) -> (Vec<Run>, Vec<Run>) {
    let mut oldest_last: Vec<usize> = (0..runs.len()).collect();
    if !do_overlap(&runs, &mut oldest_last) {
        return (runs, Vec::new());
    }
    let mut newer: Vec<usize> = (0..runs.len()).filter(|at| is_whole(&runs[*at])).collect();
    newer.sort_unstable_by_key(|at| std::cmp::Reverse(runs[*at].seq));
    oldest_last.sort_unstable_by_key(|at| std::cmp::Reverse(runs[*at].last_seq));
    let mut newer = newer.into_iter().peekable();
    let mut covered = Covered::default();
    let mut is_needed = vec![true; runs.len()];
    for at in oldest_last {
        while let Some(next) = newer.next_if(|next| runs[*next].seq > runs[at].last_seq) {
            covered.add(runs[next].span());
        }
        is_needed[at] = !covered.has(runs[at].span());
    }
    let mut needed = is_needed.into_iter();
    runs.into_iter().partition(|_| needed.next().unwrap_or(true))
}

/// Whether every byte between its first and its last is one of the run's.
fn is_whole(run: &Run) -> bool {
    run.count == 1 || run.stride.unsigned_abs() == run.length
}

/// Whether the spans of any two of `runs` share a byte; sorts their numbers by their places.
fn do_overlap(runs: &[Run], numbers: &mut [usize]) -> bool {
    numbers.sort_unstable_by_key(|at| runs[*at].span().offset);
    numbers.windows(2).any(|two| runs[two[0]].span().end() > runs[two[1]].span().offset)
}

/// Ranges that neither overlap nor touch, each start with its end.
#[derive(Default)]
struct Covered(BTreeMap<u64, u64>);

impl Covered {
    fn add(&mut self, extent: Extent) {
        let (mut start, mut end) = (extent.offset, extent.end());
        while let Some((&other, &until)) = self.0.range(..=end).next_back() {
            if until < start {
                break;
            }
            (start, end) = (start.min(other), end.max(until));
            self.0.remove(&other);
        }
        self.0.insert(start, end);
    }

    fn has(&self, extent: Extent) -> bool {
        let before = self.0.range(..=extent.offset).next_back();
        before.is_some_and(|(_, end)| *end >= extent.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `count` pieces of `length` bytes that follow each other at `gap` bytes, or alone.
    fn run((start, length, gap, count): (u64, u64, u64, u64), number: u64) -> Run {
        Run {
            start,
            length,
            stride: if count == 1 { 0 } else { (length + gap) as i64 },
            count,
            log: 0,
            framed: false,
            head: 0,
            place: 1000 * number,
            place_stride: length,
            seq: 10 * number,
            last_seq: 10 * number + count - 1,
        }
    }

    /// Where each byte of the file comes from.
    fn bytes_of(runs: &[Run]) -> Vec<Option<u64>> {
        let mut bytes = vec![None; 200];
        let mut sorted = runs.to_vec();
        sorted.sort_unstable_by_key(|run| run.seq);
        for run in sorted {
            for k in 0..run.count {
                for at in 0..run.length {
                    bytes[(run.piece(k).offset + at) as usize] = Some(run.place_of(k) + at);
                }
            }
        }
        bytes
    }

    proptest! {
        #[test]
        fn what_is_needed_has_every_byte_and_nothing_is_lost(
            many in prop::collection::vec((0_u64..60, 1_u64..20, 0_u64..2, 1_u64..5), 0..40),
            turn in 0_usize..40,
        ) {
            let mut all: Vec<Run> =
                (1..).zip(many).map(|(number, shape)| run(shape, number)).collect();
            let middle = turn.min(all.len());
            all.rotate_left(middle);
            let expected = bytes_of(&all);
            let (needed, superseded) = split(all.clone());
            prop_assert_eq!(bytes_of(&needed), expected);
            prop_assert_eq!(needed.len() + superseded.len(), all.len());
            prop_assert!(superseded.iter().all(|run| all.contains(run)));
        }
    }

    #[test]
    fn of_a_place_that_is_written_again_and_again_the_newest_run_is_needed() {
        let halves = |number| [(0, 8, 0, 1), (8, 8, 0, 1)].map(|shape| run(shape, number));
        let mut all: Vec<Run> = (1..500).flat_map(halves).collect();
        all.push(run((4, 8, 0, 1), 600));
        let (needed, _) = split(all);
        let numbers: Vec<u64> = needed.iter().map(|run| run.seq / 10).collect();
        assert_eq!(numbers, [499, 499, 600]);
    }

    #[test]
    fn numbers_that_may_be_the_same_cover_nothing() {
        let (needed, superseded) = split(vec![run((0, 8, 0, 1), 3), run((0, 8, 0, 1), 3)]);
        assert_eq!((needed.len(), superseded.len()), (2, 0));
    }
}
