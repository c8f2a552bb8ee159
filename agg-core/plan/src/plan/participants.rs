//! Participants: how many ranks or nodes have data in a part of the file, without visiting each.

use aggio_base::Extent;

/// Spans of a file; only starts and ends are kept, two words each.
#[derive(Clone, Debug, Default)]
pub struct Participants {
    starts: Vec<u64>,
    ends: Vec<u64>,
}

impl Participants {
    /// The participants of `spans`; those without a byte do not count.
    pub fn of(spans: impl Iterator<Item = Extent> + Clone) -> Self {
        let sorted = |mut offsets: Vec<u64>| {
            offsets.sort_unstable();
            offsets
        };
        let spans = spans.filter(|span| !span.is_empty());
        Self {
            starts: sorted(spans.clone().map(|span| span.offset).collect()),
            ends: sorted(spans.map(|span| span.end()).collect()),
        }
    }

    /// How many spans have a byte of `extent`: O(log spans).
    pub fn at(&self, extent: Extent) -> usize {
        if extent.is_empty() {
            return 0;
        }
        // Spans that have ended before have also started.
        let started = self.starts.partition_point(|start| *start < extent.end());
        started - self.ends.partition_point(|end| *end <= extent.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extents() -> impl Strategy<Value = Extent> {
        let offset = prop_oneof![0..40u64, u64::MAX - 40..u64::MAX];
        (offset, 0..20u64).prop_map(|(offset, len)| Extent::new(offset, len))
    }

    proptest! {
        #[test]
        fn as_many_are_counted_as_have_a_byte(
            spans in proptest::collection::vec(extents(), 0..12), extent in extents(),
        ) {
            let having = spans.iter().filter(|span| !span.intersect(extent).is_empty()).count();
            prop_assert_eq!(Participants::of(spans.iter().copied()).at(extent), having);
        }
    }
}
