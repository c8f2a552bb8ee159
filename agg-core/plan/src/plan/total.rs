//! The summaries of several ranks combined in a few numbers, independent of the number of ranks.

use super::Summary;
use super::cost::Costs;
use aggio_base::Extent;

/// The summaries of several ranks, put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// The file bytes from the first to the last that any of the ranks asks for.
    pub hull: Extent,
    /// Data bytes.
    pub bytes: u64,
    /// Contiguous pieces in the file, about.
    pub pieces: u64,
    /// The lengths of the ranks' spans.
    pub spans: u64,
    /// Ranks with data.
    pub ranks: u64,
    /// The arguments of a rank were wrong.
    pub failed: bool,
    /// No aggregator can serve the view of a rank with data.
    pub unordered: bool,
    /// The spans of two ranks have a byte in common.
    pub interleaved: bool,
    /// A rank has more bytes, for afterwards.
    pub more: bool,
    /// There are data bytes, and all ranks say that theirs are zeros.
    pub zeros: bool,
    /// All pieces start and end at multiples of 2 to this power.
    pub grain: u8,
    /// The highest cost of requests that any of the ranks has found.
    pub figures: Costs,
}

impl Total {
    /// Puts the summaries of `all` ranks of a group together.
    pub fn of(all: &[Summary]) -> Self {
        let with_data = || all.iter().filter(|summary| summary.bytes > 0);
        let sum = |value: fn(&Summary) -> u64| {
            with_data().map(value).fold(0u64, |sum, value| sum.saturating_add(value))
        };
        Self {
            hull: Summary::hull(all),
            bytes: sum(|summary| summary.bytes),
            pieces: sum(|summary| summary.pieces),
            spans: sum(|summary| summary.span.len),
            ranks: with_data().count() as u64,
            failed: all.iter().any(|summary| summary.failed),
            unordered: with_data().any(|summary| summary.unordered),
            interleaved: interleaved(all),
            more: all.iter().any(|summary| summary.more),
            zeros: with_data().count() > 0 && with_data().all(|summary| summary.zeros),
            grain: with_data().map(|summary| summary.grain).min().unwrap_or(u8::MAX),
            figures: highest(all.iter().map(|summary| summary.figures)),
        }
    }

    /// Combines groups. Spans in different groups are known to have a byte in common only if they
    /// are too long to lie side by side.
    pub fn join(groups: &[Self]) -> Self {
        let with_data = || groups.iter().filter(|group| group.ranks > 0);
        let sum = |value: fn(&Self) -> u64| {
            with_data().map(value).fold(0u64, |sum, value| sum.saturating_add(value))
        };
        let start = with_data().map(|group| group.hull.offset).min().unwrap_or(0);
        let end = with_data().map(|group| group.hull.end()).max().unwrap_or(0);
        let (hull, spans) = (Extent::between(start, end), sum(|group| group.spans));
        Self {
            hull,
            bytes: sum(|group| group.bytes),
            pieces: sum(|group| group.pieces),
            spans,
            ranks: sum(|group| group.ranks),
            failed: groups.iter().any(|group| group.failed),
            unordered: groups.iter().any(|group| group.unordered),
            interleaved: groups.iter().any(|group| group.interleaved) || spans > hull.len,
            more: groups.iter().any(|group| group.more),
            zeros: with_data().count() > 0 && with_data().all(|group| group.zeros),
            grain: with_data().map(|group| group.grain).min().unwrap_or(u8::MAX),
            figures: highest(groups.iter().map(|group| group.figures)),
        }
    }

    /// Whether ranks work on different parts of the hull, so that one after the other would wait
    /// if all went through it from the start.
    #[inline]
    pub fn is_spread(&self) -> bool {
        2 * u128::from(self.spans) < u128::from(self.hull.len) * u128::from(self.ranks)
    }

    /// Whether there are hardly any gaps between the requests of the ranks.
    #[inline]
    pub fn is_dense(&self) -> bool {
        is_dense(self.bytes, self.hull)
    }

    /// The numbers and flags that carry the total to other ranks.
    #[inline]
    pub fn to_numbers(self) -> ([u64; 6], u8) {
        let Self { hull, bytes, pieces, spans, ranks, .. } = self;
        // There are fewer than 2^32 ranks.
        let [latency, mib] = self.figures.to_bytes();
        let small = u32::from_le_bytes([self.grain, latency, mib, 0]);
        let ranks = ranks << 32 | u64::from(small);
        let flags = [self.failed, self.unordered, self.interleaved, self.more, self.zeros];
        let flags = flags.iter().rev().fold(0, |flags, flag| flags << 1 | u8::from(*flag));
        ([hull.offset, hull.len, bytes, pieces, spans, ranks], flags)
    }

    /// The inverse of [`Total::to_numbers`].
    pub fn from_numbers(numbers: [u64; 6], flags: u8) -> Self {
        let [offset, len, bytes, pieces, spans, ranks] = numbers;
        let [grain, latency, mib, _] = (ranks as u32).to_le_bytes();
        Self {
            hull: Extent::new(offset, len),
            bytes,
            pieces,
            spans,
            ranks: ranks >> 32,
            failed: flags & 1 != 0,
            unordered: flags & 2 != 0,
            interleaved: flags & 4 != 0,
            more: flags & 8 != 0,
            zeros: flags & 16 != 0,
            grain,
            figures: Costs::from_bytes([latency, mib]),
        }
    }
}

/// Whether `bytes` leave hardly any gaps in `extent`.
#[inline]
pub fn is_dense(bytes: u64, extent: Extent) -> bool {
    bytes >= extent.len / 8 * 7
}

fn highest(figures: impl Iterator<Item = Costs>) -> Costs {
    figures.fold(Costs::default(), Costs::max)
}

/// Whether the spans of any two ranks have a byte in common.
fn interleaved(all: &[Summary]) -> bool {
    let mut spans: Vec<_> =
        all.iter().filter(|summary| summary.bytes > 0).map(|summary| summary.span).collect();
    spans.sort_unstable_by_key(|span| span.offset);
    spans.windows(2).any(|pair| pair[0].end() > pair[1].offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_summary() -> impl Strategy<Value = Summary> {
        let place = (0..1000u64, 1..400u64, 0..3u64);
        (place, any::<[bool; 4]>(), 0..13u8, any::<[u8; 2]>()).prop_map(
            |((offset, len, bytes), [failed, unordered, more, zeros], grain, figures)| Summary {
                more,
                zeros,
                span: if bytes > 0 { Extent::new(offset, len) } else { Extent::default() },
                bytes,
                pieces: bytes,
                failed,
                kind: 0,
                unordered,
                grain,
                figures: Costs::from_bytes(figures),
                ..Summary::default()
            },
        )
    }

    proptest! {
        #[test]
        fn groups_put_together_are_what_their_ranks_are(
            all in proptest::collection::vec(any_summary(), 1..12), parts in 1..5usize,
        ) {
            let groups: Vec<Total> = all.chunks(all.len().div_ceil(parts)).map(Total::of).collect();
            let (joined, whole) = (Total::join(&groups), Total::of(&all));
            // Between groups interleaving may be overlooked, but none is made up.
            prop_assert!(whole.interleaved || !joined.interleaved);
            prop_assert_eq!(Total { interleaved: whole.interleaved, ..joined }, whole);
            let (numbers, flags) = whole.to_numbers();
            prop_assert_eq!(Total::from_numbers(numbers, flags), whole);
        }
    }

    #[test]
    fn ranks_dealt_to_nodes_by_turns_interleave_only_if_their_spans_do() {
        let span = |offset, len| Summary {
            span: Extent::new(offset, len),
            bytes: len,
            pieces: 1,
            ..Summary::default()
        };
        let apart = [[span(0, 10), span(20, 10)], [span(10, 10), span(30, 10)]];
        assert!(!Total::join(&apart.map(|node| Total::of(&node))).interleaved);
        let mixed = [[span(0, 37)], [span(3, 37)]];
        assert!(Total::join(&mixed.map(|node| Total::of(&node))).interleaved);
    }
}
