//! Sets of numbers that are runs, such as the units of a file that programs have wanted.

use std::collections::BTreeMap;
use std::ops::Range;

/// Numbers, as ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs(BTreeMap<u64, u64>);

impl Runs {
    /// Adds all numbers of a range.
    pub(crate) fn insert(&mut self, mut range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        if let Some((start, end)) = self.0.range(..=range.start).next_back()
            && *end >= range.start
        {
            range = *start..range.end.max(*end);
        }
        while let Some((start, end)) = self.0.range(range.start..=range.end).next() {
            let (start, end) = (*start, *end);
            range.end = range.end.max(end);
            self.0.remove(&start);
        }
        self.0.insert(range.start, range.end);
    }

    /// The ranges, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|(start, end)| *start..*end)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn numbers_are_there_that_were_added_and_no_others(
            ranges in prop::collection::vec((0..60_u64, 0..12_u64), 0..20),
        ) {
            let (mut runs, mut model) = (Runs::default(), BTreeSet::new());
            for (start, len) in ranges {
                runs.insert(start..start + len);
                model.extend(start..start + len);
            }
            let found: Vec<Range<u64>> = runs.iter().collect();
            prop_assert!(found.windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert_eq!(found.iter().cloned().flatten().collect::<BTreeSet<_>>(), model);
            prop_assert_eq!(runs.is_empty(), found.is_empty());
        }
    }
}
