//! Where the writes of each epoch lie, roughly: enough to see that writes of different ranks do not
//! meet.
//!
//! Spans cover at least all writes, so that no overlap is missed; they may cover more.

use super::Moment;
use aggio_base::extent::Extent;
use std::collections::BTreeMap;

/// The most spans of an epoch that are kept apart, if there are few epochs.
const APART: usize = 64;
/// Spans of all epochs together, unless there are more epochs.
const TOGETHER: usize = if cfg!(test) { 24 } else { 1024 };
/// The most epochs that are kept apart.
const MOST: usize = 8192;
/// The writer of a span in which several ranks write.
const SEVERAL: u64 = u64::MAX;

/// A range of the file in which ranks write in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: u64,
    end: u64,
    writer: u64,
}

/// The spans of all epochs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    epochs: BTreeMap<u64, Vec<Span>>,
    /// Where several ranks write by themselves in the same epoch; nobody is the writer.
    clashes: Vec<Span>,
    /// Behind the last byte.
    end: u64,
    /// There are too many to be told.
    is_everywhere: bool,
    /// Some of the bytes wait in files.
    spills: bool,
}

impl Spans {
    /// Those of one rank.
    pub fn of(rank: usize, writes: impl Iterator<Item = (Extent, Moment)>) -> Self {
        let mut gathered: BTreeMap<u64, Gathered> = BTreeMap::new();
        let mut current = (0, Gathered::default());
        for (extent, Moment { epoch, .. }) in writes {
            if epoch != current.0 {
                let next = gathered.remove(&epoch).unwrap_or_default();
                let (epoch, before) = std::mem::replace(&mut current, (epoch, next));
                gathered.insert(epoch, before);
            }
            current.1.add(extent);
        }
        gathered.insert(current.0, current.1);
        let mut spans = Self::default();
        for (epoch, mut gathered) in gathered {
            gathered.join(0);
            let span = |extent: &Extent| Span {
                start: extent.offset,
                end: extent.end(),
                writer: rank as u64,
            };
            let of_epoch: Vec<Span> = gathered.extents.iter().map(span).collect();
            spans.end = of_epoch.last().map_or(spans.end, |last| last.end.max(spans.end));
            spans.epochs.entry(epoch).or_default().extend(of_epoch);
        }
        spans.epochs.retain(|_, spans| !spans.is_empty());
        spans.bounded()
    }

    /// The same; the bytes of the writes wait in files if `spills` is set.
    pub fn in_files(self, spills: bool) -> Self {
        Self { spills, ..self }
    }

    /// Whether bytes of any rank wait in files.
    pub fn are_in_files(&self) -> bool {
        self.spills
    }

    /// Those of some ranks and of others together.
    pub fn and(mut self, other: Self) -> Self {
        self.is_everywhere |= other.is_everywhere;
        self.spills |= other.spills;
        self.end = self.end.max(other.end);
        for clash in other.clashes {
            insert(&mut self.clashes, clash);
        }
        for (epoch, theirs) in other.epochs {
            let ours = self.epochs.entry(epoch).or_default();
            if epoch % 2 == 1 {
                meetings(ours, &theirs).for_each(|clash| insert(&mut self.clashes, clash));
            }
            theirs.into_iter().for_each(|span| insert(ours, span));
        }
        self.bounded()
    }

    /// The same with so few spans that a message stays short: a coarser view mostly shows as well
    /// that no two ranks meet.
    fn bounded(mut self) -> Self {
        if self.is_everywhere || self.epochs.len() > MOST {
            let Self { end, spills, .. } = self;
            return Self { is_everywhere: true, end, spills, ..Self::default() };
        }
        let each = (TOGETHER / self.epochs.len().max(1)).clamp(1, APART);
        self.epochs.values_mut().for_each(|spans| coarsen(spans, each));
        self
    }

    /// Where bytes may have been written by several ranks in different epochs, or by each alone:
    /// ranges in order, apart.
    pub fn contested(&self) -> Vec<Extent> {
        if self.is_everywhere {
            return vec![Extent::between(0, self.end)];
        }
        let mut contested = self.clashes.clone();
        let of_epoch = |(epoch, spans): (&u64, &Vec<Span>)| {
            let epoch = *epoch;
            spans.iter().map(move |span| (*span, epoch)).collect::<Vec<_>>()
        };
        let mut all: Vec<(Span, u64)> = self.epochs.iter().flat_map(of_epoch).collect();
        all.sort_by_key(|(span, _)| span.start);
        let mut open: Vec<(Span, u64)> = Vec::new();
        for (span, epoch) in all {
            open.retain(|(before, _)| before.end > span.start);
            for (before, of) in &open {
                let by_one = before.writer == span.writer && span.writer != SEVERAL;
                if *of != epoch && !by_one {
                    insert(&mut contested, Span { end: span.end.min(before.end), ..span });
                }
            }
            open.push((span, epoch));
        }
        let mut extents: Vec<Extent> = Vec::new();
        for Span { start, end, .. } in contested {
            match extents.last_mut() {
                Some(last) if last.end() >= start => {
                    *last = Extent::between(last.offset, last.end().max(end))
                }
                _ => extents.push(Extent::between(start, end)),
            }
        }
        extents
    }

    /// For a message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let flags = u64::from(self.is_everywhere) | u64::from(self.spills) << 1;
        let mut words = vec![flags, self.end, self.clashes.len() as u64];
        let put = |span: &Span| [span.start, span.end, span.writer];
        words.extend(self.clashes.iter().flat_map(put));
        for (epoch, spans) in &self.epochs {
            words.extend([*epoch, spans.len() as u64]);
            words.extend(spans.iter().flat_map(put));
        }
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// From a message; `None` if it is damaged.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word)).peekable();
        let spans = |words: &mut dyn Iterator<Item = u64>| -> Option<Vec<Span>> {
            let count = words.next()?;
            let mut next =
                || Some(Span { start: words.next()?, end: words.next()?, writer: words.next()? });
            (0..count).map(|_| next()).collect()
        };
        let (flags, end) = (words.next()?, words.next()?);
        let (is_everywhere, spills) = (flags & 1 != 0, flags & 2 != 0);
        let clashes = spans(&mut words)?;
        let mut epochs = BTreeMap::new();
        while words.peek().is_some() {
            let epoch = words.next()?;
            epochs.insert(epoch, spans(&mut words)?);
        }
        Some(Self { epochs, clashes, end, is_everywhere, spills })
    }
}

/// Ranges of one rank in one epoch, which become coarser when they are too many.
#[derive(Default)]
struct Gathered {
    extents: Vec<Extent>,
    /// Bytes between two ranges that count as one.
    gap: u64,
}

impl Gathered {
    fn add(&mut self, extent: Extent) {
        if let Some(last) = self.extents.last_mut()
            && last.offset <= extent.offset
            && extent.offset <= last.end().saturating_add(self.gap)
        {
            *last = Extent::between(last.offset, last.end().max(extent.end()));
            return;
        }
        self.extents.push(extent);
        if self.extents.len() > 2 * APART {
            self.join(self.gap);
            while self.extents.len() > APART {
                self.join(2 * self.gap + 1);
            }
        }
    }

    /// Joins ranges with at most `gap` bytes between them.
    fn join(&mut self, gap: u64) {
        self.gap = self.gap.max(gap);
        self.extents.sort_by_key(|extent| extent.offset);
        let gap = self.gap;
        self.extents.dedup_by(|next, last| {
            let joins = next.offset <= last.end().saturating_add(gap);
            if joins {
                *last = Extent::between(last.offset, last.end().max(next.end()));
            }
            joins
        });
    }
}

/// Puts a span among others, which are in order and apart, and joins those that meet; where they
/// are too many, also the two with the least between them.
fn insert(spans: &mut Vec<Span>, new: Span) {
    // Spans of one rank that touch are one; of several only if they overlap.
    let joins = |span: &Span| {
        let touch = span.start <= new.end && new.start <= span.end;
        let overlap = span.start < new.end && new.start < span.end;
        overlap || (touch && span.writer == new.writer)
    };
    let first = spans.partition_point(|span| span.end < new.start);
    let count = spans[first..].iter().take_while(|span| span.start <= new.end).count();
    let near = first..first + count;
    let (joined, others): (Vec<Span>, Vec<Span>) =
        spans[near.clone()].iter().partition(|span| joins(span));
    let one = joined.into_iter().fold(new, join);
    let mut more = others;
    more.push(one);
    more.sort_by_key(|span| (span.start, span.end));
    spans.splice(near, more);
    coarsen(spans, APART);
}

/// Joins spans, which are in order and apart, until there are at most `most`: those with the least
/// between them.
fn coarsen(spans: &mut Vec<Span>, most: usize) {
    if spans.len() <= most {
        return;
    }
    let gap = |second: usize| spans[second].start - spans[second - 1].end;
    // Which spans begin a new one.
    let mut first: Vec<usize> = (1..spans.len()).collect();
    first.sort_by_key(|second| std::cmp::Reverse(gap(*second)));
    first.truncate(most - 1);
    first.sort_unstable();
    let mut coarse = Vec::with_capacity(most);
    let mut from = 0;
    for to in first.into_iter().chain([spans.len()]) {
        coarse.extend(spans[from..to].iter().copied().reduce(join));
        from = to;
    }
    *spans = coarse;
}

fn join(one: Span, other: Span) -> Span {
    let writer = if one.writer == other.writer { one.writer } else { SEVERAL };
    Span { start: one.start.min(other.start), end: one.end.max(other.end), writer }
}

/// Where spans of one list overlap with those of another.
fn meetings(some: &[Span], others: &[Span]) -> impl Iterator<Item = Span> {
    let meet = |one: &Span, other: &Span| {
        let (start, end) = (one.start.max(other.start), one.end.min(other.end));
        (start < end).then_some(Span { start, end, writer: SEVERAL })
    };
    let all: Vec<Span> = some
        .iter()
        .flat_map(|one| others.iter().filter_map(move |other| meet(one, other)))
        .collect();
    all.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Writes of ranks: offset, length, epoch.
    type Writes = Vec<Vec<(u64, u64, u64)>>;

    fn spans(all: &Writes) -> Spans {
        let of = |(rank, writes): (usize, &Vec<(u64, u64, u64)>)| {
            let moment = |epoch| Moment { epoch, time: epoch % 2 };
            let writes =
                writes.iter().map(|(at, len, epoch)| (Extent::new(*at, *len), moment(*epoch)));
            Spans::of(rank, writes)
        };
        all.iter().enumerate().map(of).fold(Spans::default(), Spans::and)
    }

    fn contested(all: &Writes) -> Vec<(u64, u64)> {
        spans(all).contested().into_iter().map(|extent| (extent.offset, extent.end())).collect()
    }

    #[test]
    fn variables_one_after_the_other_and_headers_of_one_rank_are_not_contested() {
        let rank = |number: u64| -> Vec<(u64, u64, u64)> {
            let pieces = |call: u64| {
                (0..1000).map(move |k| (call * 100_000 + k * 40 + number * 10, 10, 2 * call))
            };
            let header = (1..20).map(|call| (0, 8, 2 * call + 1)).filter(|_| number == 0);
            (1..20).flat_map(pieces).chain(header).collect()
        };
        assert_eq!(contested(&(0..4).map(rank).collect()), []);
    }

    #[test]
    fn rows_of_blocks_in_hundreds_of_calls_are_not_contested_and_told_in_short() {
        let rank = |number: u64| -> Vec<(u64, u64, u64)> {
            let rows = |call: u64| {
                (0..128).map(move |row| ((call * 128 + row) * 4096 + number * 1024, 1024, 2 * call))
            };
            (1..500).flat_map(rows).collect()
        };
        let all: Writes = (0..4).map(rank).collect();
        assert_eq!(contested(&all), []);
        assert!(spans(&all).to_bytes().len() < 40_000);
    }

    #[test]
    fn a_fill_in_one_call_and_data_in_another_are_contested() {
        let writes = vec![vec![(0, 100, 2), (500, 10, 6)], vec![(100, 100, 2), (50, 20, 4)]];
        assert_eq!(contested(&writes), [(50, 70)]);
    }

    #[test]
    fn writes_of_ranks_by_themselves_are_contested_where_they_meet_and_not_where_they_touch() {
        assert_eq!(contested(&vec![vec![(0, 10, 3)], vec![(10, 10, 3)], vec![(20, 10, 3)]]), []);
        assert_eq!(
            contested(&vec![vec![(0, 10, 3)], vec![(9, 10, 3)], vec![(30, 5, 3)]]),
            [(9, 10)]
        );
    }

    proptest! {
        #[test]
        fn no_byte_of_two_ranks_in_two_epochs_is_missed(
            all in vec(vec((0..5000_u64, 1..50_u64, 1..9_u64), 0..120), 1..5),
        ) {
            let told = spans(&all);
            prop_assert_eq!(Spans::from_bytes(&told.to_bytes()), Some(told.clone()));
            let contested = told.contested();
            prop_assert!(contested.windows(2).all(|two| two[0].end() < two[1].offset));
            let mut bytes: Vec<Vec<(usize, u64)>> = vec![vec![]; 5050];
            for (rank, writes) in all.iter().enumerate() {
                for (at, len, epoch) in writes {
                    (*at..at + len).for_each(|byte| bytes[byte as usize].push((rank, *epoch)));
                }
            }
            for (byte, writers) in bytes.iter().enumerate() {
                let two = |one: &(usize, u64), other: &(usize, u64)| {
                    one.0 != other.0 && (one.1 != other.1 || one.1 % 2 == 1)
                };
                if writers.iter().any(|one| writers.iter().any(|other| two(one, other))) {
                    let byte = byte as u64;
                    let is_told = contested.iter().any(|e| e.offset <= byte && byte < e.end());
                    prop_assert!(is_told, "byte {}", byte);
                }
            }
        }
    }

    #[test]
    fn whether_bytes_wait_in_files_is_told_by_any_rank_and_kept_where_spans_are_many() {
        let one = |spills| Spans::of(1, [].into_iter()).in_files(spills);
        let told = |spans: Spans| Spans::from_bytes(&spans.to_bytes()).expect("a message");
        for (left, right) in [(false, true), (true, false), (true, true), (false, false)] {
            let all = told(told(one(left)).and(told(one(right))));
            assert_eq!(all.are_in_files(), left || right);
            let everywhere = Spans { is_everywhere: true, ..Spans::default() };
            let all = told(everywhere.and(all));
            assert_eq!((all.are_in_files(), all.is_everywhere), (left || right, true));
        }
    }

    #[test]
    fn damaged_messages_are_none() {
        let bytes = spans(&vec![vec![(0, 10, 3)], vec![(9, 10, 4)]]).to_bytes();
        assert!((1..bytes.len()).all(|len| {
            Spans::from_bytes(&bytes[..len]).is_none_or(|spans| spans.to_bytes() == bytes[..len])
        }));
    }
}
