//! Whether each canonical element was written, and only once.

use super::set::Member;
use std::ops::Range;

/// Gaps that are told one by one.
const MOST_TOLD: usize = 16;

/// What of a decomposition was written.
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

/// What the members have of the elements of decomposition `k`.
pub(crate) fn cover(members: &[Member], k: usize, elements: u64) -> Result<Covered, Twice> {
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
