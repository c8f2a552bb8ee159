//! The bytes of a window that are requested or supplied: one bit per byte, so the cost is bounded
//! for any shape of the pieces, and exact when pieces overlap.

use std::ops::{DerefMut, Range};

/// A set of bytes of a window, or of pieces of it of equal size.
#[derive(Debug)]
pub(super) struct Coverage<W: DerefMut<Target = [u64]> = Vec<u64>> {
    words: W,
    /// Words that may hold a bit.
    used: Range<usize>,
}

impl Coverage {
    /// An empty set for windows of up to `bytes` bytes; `None` if there is no memory for it.
    pub(super) fn new(bytes: usize) -> Option<Self> {
        let mut words = Vec::new();
        words.try_reserve_exact(bytes.div_ceil(64)).ok()?;
        words.resize(bytes.div_ceil(64), 0);
        Some(Self { words, used: 0..0 })
    }

    /// A set that has no member and can have none.
    pub(super) fn none() -> Self {
        Self { words: Vec::new(), used: 0..0 }
    }
}

impl<'a> Coverage<&'a mut [u64]> {
    /// The set stored in `words`; words outside `used` must be 0.
    pub(super) fn over(words: &'a mut [u64], used: Range<usize>) -> Self {
        Self { words, used }
    }
}

impl<W: DerefMut<Target = [u64]>> Coverage<W> {
    /// The words that may hold a member.
    pub(super) fn used(&self) -> Range<usize> {
        self.used.clone()
    }

    /// The words of [`Coverage::used`].
    pub(super) fn used_words(&self) -> &[u64] {
        &self.words[self.used.clone()]
    }

    /// Members that the set can have: those below this one.
    pub(super) fn room(&self) -> usize {
        64 * self.words.len()
    }

    /// Adds the members of another set; `words` are its words from word `start` on.
    pub(super) fn merge(&mut self, start: usize, words: &[u64]) {
        if words.is_empty() {
            return;
        }
        for (own, other) in self.words[start..].iter_mut().zip(words) {
            *own |= other;
        }
        self.note(start..start + words.len());
    }

    /// Adds `len` bytes from `start` on; they must be inside the window.
    pub(super) fn add(&mut self, start: usize, len: usize) {
        if len == 0 {
            return;
        }
        let (first, last) = (start / 64, (start + len - 1) / 64);
        let head = u64::MAX << (start % 64);
        let tail = u64::MAX >> (63 - (start + len - 1) % 64);
        if first == last {
            self.words[first] |= head & tail;
        } else {
            self.words[first] |= head;
            self.words[first + 1..last].fill(u64::MAX);
            self.words[last] |= tail;
        }
        self.note(first..last + 1);
    }

    /// Words in `words` may hold a bit from now on.
    fn note(&mut self, words: Range<usize>) {
        self.used = match self.used.is_empty() {
            true => words,
            false => self.used.start.min(words.start)..self.used.end.max(words.end),
        };
    }

    /// Adds `count` runs of `len` bytes, `stride` bytes apart, the first from `start` on.
    pub(super) fn add_rows(&mut self, start: usize, len: usize, stride: usize, count: usize) {
        let end = start + stride * count;
        let (first, last) = (start.next_multiple_of(64), end / 64 * 64);
        let fits = matches!(stride, 2 | 4 | 8 | 16 | 32 | 64) && len <= stride;
        // Few rows may not fill a single whole word: then `first` lies behind `last`.
        if count < 16 || first >= last || !fits {
            for row in 0..count {
                self.add(start + row * stride, len);
            }
            return;
        }
        // Between whole words the pattern is the same in each: one step for 64 bytes.
        let head = (first - start).div_ceil(stride);
        let tail = (last - start) / stride;
        (0..head).chain(tail..count).for_each(|row| self.add(start + row * stride, len));
        let phase = start % stride;
        let run = if len == 64 { u64::MAX } else { (1u64 << len) - 1 };
        let mut pattern = 0;
        for at in (0..64).step_by(stride) {
            pattern |= run.rotate_left((at + phase) as u32);
        }
        for word in &mut self.words[first / 64..last / 64] {
            *word |= pattern;
        }
        self.note(first / 64..last / 64);
    }

    /// The longest runs of bytes in the set, in order; runs with at most `gap` bytes between them
    /// count as one.
    pub(super) fn runs(&self, gap: usize) -> impl Iterator<Item = Range<usize>> + use<'_, W> {
        let mut at = self.used.start * 64;
        std::iter::from_fn(move || {
            let start = self.next(at, false)?;
            let mut end = self.next(start, true).unwrap_or(self.used.end * 64);
            while let Some(more) = self.next(end, false).filter(|more| more - end <= gap) {
                end = self.next(more, true).unwrap_or(self.used.end * 64);
            }
            at = end;
            Some(start..end)
        })
    }

    /// Empties the set.
    pub(super) fn clear(&mut self) {
        self.words[self.used.clone()].fill(0);
        self.used = 0..0;
    }

    /// The first byte from `at` on that is in the set, or not in it if `absent`.
    fn next(&self, at: usize, absent: bool) -> Option<usize> {
        let flip = if absent { u64::MAX } else { 0 };
        let mut word = at / 64;
        let mut mask = u64::MAX << (at % 64);
        while word < self.used.end {
            let bits = (self.words[word] ^ flip) & mask;
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
            mask = u64::MAX;
            word += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_gaps_are_bridged_and_long_ones_are_not() {
        let mut set = Coverage::new(1000).expect("memory");
        for (start, len) in [(10, 5), (17, 3), (500, 500)] {
            set.add(start, len);
        }
        assert_eq!(set.runs(0).collect::<Vec<_>>(), [10..15, 17..20, 500..1000]);
        assert_eq!(set.runs(2).collect::<Vec<_>>(), [10..20, 500..1000]);
        set.clear();
        assert_eq!(set.runs(0).count(), 0);
    }

    #[test]
    fn regular_runs_that_fill_no_whole_word_are_added_too() {
        for start in 0..130 {
            for stride in [2, 4] {
                for count in 16..40 {
                    let mut set = Coverage::new(400).expect("memory");
                    set.add_rows(start, 1, stride, count);
                    let wanted: Vec<_> =
                        (0..count).map(|row| start + row * stride).map(|at| at..at + 1).collect();
                    assert_eq!(set.runs(0).collect::<Vec<_>>(), wanted);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn regular_runs_are_added_like_single_ones(
            start in 0..200usize, len in 1..70usize, more in 0..70usize, count in 1..80usize,
            shift in 0..7u32,
        ) {
            let strides = [len + more, (1 << shift).max(len).next_power_of_two()];
            for stride in strides {
                let size = start + stride * count + len;
                let mut set = Coverage::new(size).expect("memory");
                let mut model = Coverage::new(size).expect("memory");
                set.add_rows(start, len, stride, count);
                (0..count).for_each(|row| model.add(start + row * stride, len));
                prop_assert_eq!(set.runs(0).collect::<Vec<_>>(), model.runs(0).collect::<Vec<_>>());
            }
        }

        #[test]
        fn runs_are_exactly_the_bytes_added(
            pieces in proptest::collection::vec((0..700usize, 0..200usize), 0..12),
            gap in 0..70usize,
        ) {
            let mut set = Coverage::new(900).expect("memory");
            let mut model = vec![false; 900];
            for (start, len) in pieces {
                set.add(start, len);
                model[start..start + len].fill(true);
            }
            let mut from_runs = vec![false; 900];
            for run in set.runs(0) {
                from_runs[run].fill(true);
            }
            prop_assert_eq!(&from_runs, &model);
            let merged: Vec<_> = set.runs(gap).collect();
            for run in &merged {
                prop_assert!(model[run.start] && model[run.end - 1]);
            }
            for pair in merged.windows(2) {
                prop_assert!(pair[1].start - pair[0].end > gap);
                prop_assert!(!model[pair[0].end..pair[1].start].contains(&true));
            }
        }
    }
}
