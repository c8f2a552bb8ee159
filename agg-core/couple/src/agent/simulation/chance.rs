//! Random numbers that a seed determines.

use std::cell::Cell;
use std::ops::Range;

/// Draws numbers (SplitMix64).
#[derive(Debug)]
pub(super) struct Chance(Cell<u64>);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    fn next(&self) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut x = self.0.get();
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// A number of the range, which is not empty.
    pub(super) fn of(&self, range: Range<usize>) -> usize {
        range.start + (self.next() % (range.end - range.start) as u64) as usize
    }

    /// True once in `many` times.
    pub(super) fn once_in(&self, many: usize) -> bool {
        self.of(0..many) == 0
    }

    /// One of the values.
    pub(super) fn one<T: Copy>(&self, values: &[T]) -> T {
        values[self.of(0..values.len())]
    }

    /// Bytes to be written at an offset: random ones, zeros, or small integers in doubles.
    pub(super) fn values(&self, offset: usize, len: usize) -> Vec<u8> {
        let (kind, salt) = (self.of(0..3), self.next());
        let double = |at: usize| (((at / 8) as u64 + salt) % 100) as f64;
        let value = |at: usize| match kind {
            0 => self.next() as u8,
            1 => 0,
            _ => double(at).to_le_bytes()[at % 8],
        };
        (offset..offset + len).map(value).collect()
    }
}
