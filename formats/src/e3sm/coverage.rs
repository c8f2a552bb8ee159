//! Whether each canonical element was written, and only once.

use super::set::Member;
use super::tables::Run;
use std::ops::Range;

/// The most gaps that are listed one by one.
const MOST_TOLD: usize = 16;
/// Elements for each run up to which all elements are looked at; of fewer runs the runs are sorted.
const DENSE: u64 = 256;
/// Elements that are looked at together, one bit each.
const STRETCH: u64 = if cfg!(test) { 128 } else { 1 << 26 };

/// The written part of a decomposition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Covered {
    pub(crate) written: u64,
    pub(crate) gaps: u64,
    pub(crate) first_gaps: Vec<Range<u64>>,
}

impl Covered {
    fn gap(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.gaps += 1;
            if self.first_gaps.len() < MOST_TOLD {
                self.first_gaps.push(range);
            }
        }
    }
}

/// An element that two subfiles have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Twice {
    pub(crate) element: u64,
    /// Both, by their positions among the members.
    pub(crate) members: [usize; 2],
}

/// The part of the elements of decomposition `k` that the members have.
///
/// Time and memory depend on the runs that are there, not on the number of elements in a header.
pub(crate) fn cover(members: &[Member], k: usize, elements: u64) -> Result<Covered, Twice> {
    let blobs = || members.iter().filter_map(|it| it.tables.get(k)).flat_map(|table| &table.blobs);
    let runs = blobs().map(|blob| blob.runs.len() as u64).sum::<u64>();
    if elements > runs.saturating_mul(DENSE) {
        return sorted(members, k, elements);
    }
    by_bits(members, k, elements)
}

/// As [`cover`], with a bit for each element: memory does not depend on how many runs there are,
/// unless an element is there twice.
fn by_bits(members: &[Member], k: usize, elements: u64) -> Result<Covered, Twice> {
    let (mut covered, mut written_to) = (Covered::default(), 0);
    let mut start = 0;
    while start < elements {
        let range = start..(start + STRETCH).min(elements);
        let mut bits = Bits::of(range.clone());
        for blob in
            members.iter().filter_map(|member| member.tables.get(k)).flat_map(|table| &table.blobs)
        {
            if !blob.among(&range).iter().all(|run| bits.add(run)) {
                return sorted(members, k, elements);
            }
        }
        covered.written += bits.count();
        if bits.count() < range.end - range.start {
            bits.runs(|run| {
                covered.gap(written_to..run.start);
                written_to = run.end;
            });
        } else {
            covered.gap(written_to..start);
            written_to = range.end;
        }
        start = range.end;
    }
    covered.gap(written_to..elements);
    Ok(covered)
}

/// Which elements of a stretch were written.
struct Bits {
    range: Range<u64>,
    words: Vec<u64>,
}

impl Bits {
    fn of(range: Range<u64>) -> Self {
        let words = (range.end - range.start).div_ceil(64);
        Bits { range, words: vec![0; words as usize] }
    }

    /// The part of a run that lies in the stretch was written; whether none of it was before.
    fn add(&mut self, run: &Run) -> bool {
        let to = u64::from(run.to);
        let (first, end) =
            (to.max(self.range.start), (to + u64::from(run.len)).min(self.range.end));
        let (mut at, end) =
            (first.max(self.range.start) - self.range.start, end.saturating_sub(self.range.start));
        let mut twice = 0;
        while at < end {
            let (bit, count) = (at % 64, (64 - at % 64).min(end - at));
            let mask = (u64::MAX >> (64 - count)) << bit;
            let word = &mut self.words[(at / 64) as usize];
            twice |= *word & mask;
            *word |= mask;
            at += count;
        }
        twice == 0
    }

    fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Calls `tell` with the elements that were written, those that follow each other in one word
    /// together.
    fn runs(&self, mut tell: impl FnMut(Range<u64>)) {
        for (index, word) in (0..).zip(&self.words) {
            let (mut rest, mut at) = (*word, self.range.start + index * 64);
            while rest != 0 {
                let zeros = rest.trailing_zeros();
                rest >>= zeros;
                let ones = rest.trailing_ones();
                at += u64::from(zeros);
                tell(at..at + u64::from(ones));
                at += u64::from(ones);
                rest = rest.checked_shr(ones).unwrap_or(0);
            }
        }
    }
}

/// As [`cover`], by sorting all runs: finds an element that is there twice, and its two members.
fn sorted(members: &[Member], k: usize, elements: u64) -> Result<Covered, Twice> {
    let mut runs: Vec<(u32, u32, u32)> = Vec::new();
    for (index, member) in members.iter().enumerate() {
        let blobs = member.tables.get(k).into_iter().flat_map(|table| &table.blobs);
        let each = blobs.flat_map(|blob| &blob.runs);
        // A set has no more files than a number of 31 bits tells.
        runs.extend(each.map(|run| (run.to, run.len, index as u32)));
    }
    runs.sort_unstable();
    let (mut covered, mut end, mut last) = (Covered::default(), 0, 0);
    for (to, len, member) in runs {
        let start = u64::from(to);
        if start < end {
            return Err(Twice { element: start, members: [last as usize, member as usize] });
        }
        covered.gap(end..start);
        covered.written += u64::from(len);
        (end, last) = (start + u64::from(len), member);
    }
    covered.gap(end..elements);
    Ok(covered)
}

#[cfg(test)]
mod tests {
    use super::super::storage::Storage;
    use super::super::tables::{Blob, Table};
    use super::*;
    use crate::cdf::{Endian, Header, Layout, Records, Version};
    use proptest::prelude::*;

    /// Members with these runs each, in this order.
    fn members(of: &[Vec<(u32, u32)>]) -> Vec<Member> {
        let member = |(file, runs): (usize, &Vec<(u32, u32)>)| {
            let runs: Vec<Run> =
                runs.iter().map(|(to, len)| Run { to: *to, len: *len, at: 0 }).collect();
            let is_sorted = runs.windows(2).all(|pair| pair[0].to + pair[0].len <= pair[1].to);
            let blob = Blob { start: 0, count: 0, runs, sorted: is_sorted };
            let tables = vec![Table { blobs: vec![blob], requests: 0 }];
            let header = Header {
                version: Version::Data64,
                records: Records::Known(0),
                dimensions: Vec::new(),
                attributes: Vec::new(),
                variables: Vec::new(),
            };
            let storage = Storage::Variables(Layout::of(&header).unwrap());
            Member { file, records: 0, endian: Endian::Big, storage, tables }
        };
        of.iter().enumerate().map(member).collect()
    }

    proptest! {
        /// Also where runs cross words and stretches, and where elements are there twice.
        #[test]
        fn it_is_what_sorting_finds(
            pieces in proptest::collection::vec((0..90_u32, 1..200_u32, 0..3_usize), 0..40),
            shuffled in any::<bool>(),
            again in proptest::option::of((0..900_u32, 1..90_u32)),
            behind in 0..300_u64,
        ) {
            let (mut runs, mut at) = (vec![Vec::new(); 3], 0);
            for (gap, len, member) in pieces {
                runs[member].push((at + gap, len));
                at += gap + len;
            }
            if shuffled {
                runs.iter_mut().for_each(|runs| runs.reverse());
            }
            if let Some((to, len)) = again {
                runs[1].push((to, len));
                at = at.max(to + len);
            }
            let (members, elements) = (members(&runs), u64::from(at) + behind);
            let expected = sorted(&members, 0, elements);
            prop_assert_eq!(by_bits(&members, 0, elements), expected);
        }
    }

    #[test]
    fn elements_that_no_run_has_cost_nothing() {
        let members = members(&[vec![(5, 10)], vec![(20, 1)]]);
        let covered = cover(&members, 0, 1 << 62).expect("no element is there twice");
        assert_eq!((covered.written, covered.gaps), (11, 3));
        assert_eq!(covered.first_gaps, [0..5, 15..20, 21..1 << 62]);
    }
}
