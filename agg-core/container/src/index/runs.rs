//! Many runs, found by the bytes they have: runs with the same stride form a comb, in which the
//! teeth that matter follow from a remainder; all others are found by their spans.

use crate::format::Run;
use crate::index::spans::Spans;
use aggio_base::Extent;
use std::collections::HashMap;
use std::ops::Range;

/// Fewer runs with one stride are not worth a comb.
const TEETH: usize = 8;

/// Runs that do not change any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    combs: Vec<Comb>,
    loose: Vec<Run>,
    spans: Spans,
}

/// Runs with one stride, sorted by the remainder of their lowest start divided by it.
#[derive(Clone, Debug)]
struct Comb {
    stride: u64,
    longest: u64,
    span: Extent,
    remainders: Vec<u64>,
    runs: Vec<Run>,
}

impl Runs {
    /// Sorts `runs`.
    pub(crate) fn new(runs: Vec<Run>) -> Self {
        let mut strides: HashMap<u64, usize> = HashMap::new();
        for run in runs.iter().filter(|run| run.count > 1) {
            *strides.entry(run.stride.unsigned_abs()).or_default() += 1;
        }
        let in_comb = |run: &Run| {
            run.count > 1
                && strides.get(&run.stride.unsigned_abs()).is_some_and(|count| *count >= TEETH)
        };
        let (teeth, mut loose): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(in_comb);
        loose.sort_unstable_by_key(|run| run.span().offset);
        let ends: Vec<u64> = loose.iter().map(|run| run.span().end()).collect();
        let spans = Spans::new(loose.iter().map(|run| run.span().offset).collect(), &ends);
        Self { combs: combs(teeth), loose, spans }
    }

    /// All runs, in no particular order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Run> {
        self.combs.iter().flat_map(|comb| comb.runs.iter()).chain(&self.loose)
    }

    /// All runs, without a copy of them.
    pub(crate) fn into_all(self) -> Vec<Run> {
        let mut all = self.loose;
        self.combs.into_iter().for_each(|comb| all.extend(comb.runs));
        all
    }

    /// Calls `take` with every run that has pieces in `range`, and their numbers.
    pub(crate) fn in_range(&self, range: Extent, take: &mut impl FnMut(&Run, Range<u64>)) {
        let mut found = Vec::new();
        self.spans.in_range(range, &mut found);
        for number in found {
            offer(&self.loose[number], range, take);
        }
        for comb in &self.combs {
            comb.in_range(range, take);
        }
    }
}

fn offer(run: &Run, range: Extent, take: &mut impl FnMut(&Run, Range<u64>)) {
    let pieces = run.pieces_in(range);
    if !pieces.is_empty() {
        take(run, pieces);
    }
}

fn combs(mut teeth: Vec<Run>) -> Vec<Comb> {
    let stride_of = |run: &Run| run.stride.unsigned_abs();
    teeth.sort_unstable_by_key(|run| (stride_of(run), run.span().offset % stride_of(run)));
    teeth
        .chunk_by(|a, b| stride_of(a) == stride_of(b))
        .map(|runs| {
            let stride = stride_of(&runs[0]);
            let low = runs.iter().map(|run| run.span().offset).min().unwrap_or(0);
            let high = runs.iter().map(|run| run.span().end()).max().unwrap_or(0);
            Comb {
                stride,
                longest: runs.iter().map(|run| run.length).max().unwrap_or(0),
                span: Extent::between(low, high),
                remainders: runs.iter().map(|run| run.span().offset % stride).collect(),
                runs: runs.to_vec(),
            }
        })
        .collect()
}

impl Comb {
    fn in_range(&self, range: Extent, take: &mut impl FnMut(&Run, Range<u64>)) {
        let range = range.intersect(self.span);
        if range.is_empty() {
            return;
        }
        // A piece with bytes in the range begins less than `longest` before it, and before its end.
        let first = range.offset.saturating_sub(self.longest - 1);
        if range.end() - first >= self.stride {
            self.runs.iter().for_each(|run| offer(run, range, take));
            return;
        }
        let (low, high) = (first % self.stride, (range.end() - 1) % self.stride);
        let at = |remainder: u64| self.remainders.partition_point(|r| *r < remainder);
        let after = |remainder: u64| self.remainders.partition_point(|r| *r <= remainder);
        let (head, tail) = if low <= high {
            (0..0, at(low)..after(high))
        } else {
            (0..after(high), at(low)..self.runs.len())
        };
        for run in self.runs[head].iter().chain(&self.runs[tail]) {
            offer(run, range, take);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run((start, length, gap, count, back): (u64, u64, u64, u64, bool)) -> Run {
        let stride = (length + gap) as i64;
        Run {
            start: if back { start + (count - 1) * stride as u64 } else { start },
            length,
            stride: if count == 1 {
                0
            } else if back {
                -stride
            } else {
                stride
            },
            count,
            log: 0,
            framed: false,
            head: 0,
            place: start,
            place_stride: length,
            seq: 0,
            last_seq: count - 1,
        }
    }

    proptest! {
        #[test]
        fn all_pieces_in_a_range_are_found_once(
            many in prop::collection::vec(
                (0_u64..300, 1_u64..5, 0_u64..3, 1_u64..9, any::<bool>()),
                0..60,
            ),
            offset in 0_u64..400, len in 0_u64..60,
        ) {
            let all: Vec<Run> = many.into_iter().map(run).collect();
            let query = Extent::new(offset, len);
            let key = |run: &Run, k: u64| {
                (run.piece(k).offset, run.length, run.place_of(k), run.count)
            };
            let mut expected: Vec<_> = all
                .iter()
                .flat_map(|run| run.pieces_in(query).map(move |k| key(run, k)))
                .collect();
            let mut found = Vec::new();
            Runs::new(all.clone()).in_range(query, &mut |run, pieces| {
                found.extend(pieces.map(|k| key(run, k)));
            });
            expected.sort_unstable();
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
