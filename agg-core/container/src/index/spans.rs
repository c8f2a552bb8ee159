//! Ranges that may overlap, sorted by their starts, with a tree of maxima over their ends: all
//! ranges that have bytes in a given one are found without looking at the others.

use aggio_base::Extent;

/// The sorted ranges. The caller keeps the values that belong to them in the same order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans {
    starts: Vec<u64>,
    /// Maxima of ends: node `i` has the children `2i` and `2i + 1`, the leaves begin at `leaves`.
    ends: Vec<u64>,
    leaves: usize,
}

impl Spans {
    /// The ranges from `starts`, which ascend, to `ends`.
    pub(crate) fn new(starts: Vec<u64>, ends: &[u64]) -> Self {
        let leaves = starts.len().next_power_of_two();
        let mut tree = vec![0; leaves * 2];
        tree[leaves..leaves + ends.len()].copy_from_slice(ends);
        for node in (1..leaves).rev() {
            tree[node] = tree[2 * node].max(tree[2 * node + 1]);
        }
        Self { starts, ends: tree, leaves }
    }

    /// The numbers of all ranges that have bytes in `range`, ascending.
    pub(crate) fn in_range(&self, range: Extent, found: &mut Vec<usize>) {
        let before = self.starts.partition_point(|start| *start < range.end());
        if before > 0 && !range.is_empty() {
            self.descend(1, self.leaves, 0, before, range.offset, found);
        }
    }

    /// Leaves below `node`, which covers `width` of them from `first` on, that are before `before`
    /// and end behind `offset`.
    fn descend(
        &self,
        node: usize,
        width: usize,
        first: usize,
        before: usize,
        offset: u64,
        found: &mut Vec<usize>,
    ) {
        if first >= before || self.ends[node] <= offset {
            return;
        }
        if width == 1 {
            found.push(first);
            return;
        }
        let half = width / 2;
        self.descend(2 * node, half, first, before, offset, found);
        self.descend(2 * node + 1, half, first + half, before, offset, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_ranges_found_are_those_that_intersect(
            mut ranges in prop::collection::vec((0_u64..200, 1_u64..60), 0..40),
            offset in 0_u64..250, len in 0_u64..50,
        ) {
            ranges.sort_unstable();
            let ends: Vec<u64> = ranges.iter().map(|(start, len)| start + len).collect();
            let spans = Spans::new(ranges.iter().map(|pair| pair.0).collect(), &ends);
            let query = Extent::new(offset, len);
            let expected: Vec<usize> = (0..ranges.len())
                .filter(|i| !Extent::new(ranges[*i].0, ranges[*i].1).intersect(query).is_empty())
                .collect();
            let mut found = Vec::new();
            spans.in_range(query, &mut found);
            prop_assert_eq!(found, expected);
        }
    }
}
