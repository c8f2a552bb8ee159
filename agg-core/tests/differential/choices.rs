//! A test case as a list of numbers: shorter lists and smaller numbers are simpler cases, so
//! shrinking needs no other rule.

/// Numbers that are consumed one after the other; 0 when none is left.
pub(crate) struct Choices<'a> {
    rest: &'a [u16],
}

impl<'a> Choices<'a> {
    pub(crate) fn new(numbers: &'a [u16]) -> Self {
        Self { rest: numbers }
    }

    /// A number below `n`; 0 is the simplest.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        match self.rest.split_first() {
            Some((first, rest)) => {
                self.rest = rest;
                u64::from(*first) % n.max(1)
            }
            None => 0,
        }
    }

    /// A number in `low..=high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True once in `n` times; false is simpler.
    pub(crate) fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == n - 1
    }

    /// One of the items; the first is the simplest.
    pub(crate) fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }
}
