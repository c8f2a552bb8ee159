//! Sizes of generations, and the expected size of the next one.

use super::{Area, Generation, Home, Registry};

/// Large files have memory in pages of so many bytes at most.
const PAGE: u64 = 2 << 20;

/// Names that differ in digits only: the files of one series are alike.
pub(crate) type Series = Vec<u8>;

/// The series of a name.
pub(crate) fn series(path: &[u8]) -> Series {
    let mut series = Series::with_capacity(path.len());
    for byte in path {
        match byte.is_ascii_digit() {
            true if series.last() == Some(&b'0') => {}
            true => series.push(b'0'),
            false => series.push(*byte),
        }
    }
    series
}

impl Generation {
    /// Bytes of memory of a complete generation, on the node that has most of them.
    pub(crate) fn in_memory(&self) -> u64 {
        if matches!(self.home, Home::Directory(..)) { 0 } else { self.bytes }
    }
}

impl Registry {
    /// Tells how many bytes a complete generation has.
    pub fn weigh(&mut self, area: Area, bytes: u64) {
        if let Some(generation) = self.generations.get_mut(&area) {
            generation.bytes = bytes;
            self.sizes.insert(series(&generation.path), bytes);
            let name = self.names.get(&generation.path);
            if name.is_some_and(|name| name.options.spill.is_some()) {
                self.grown = Some(generation.path.clone());
            }
        }
    }

    /// Bytes that another generation of a file is expected to have: as many as the last one of its
    /// series, and as those with which it begins; 0 if nothing is known.
    pub(crate) fn expected(&self, path: &[u8], copy_of: Option<Area>) -> u64 {
        let last = self.sizes.get(&series(path)).copied().unwrap_or(0);
        let source = copy_of.and_then(|area| self.generations.get(&area));
        let bytes = source.map_or(last, |source| last.max(source.bytes));
        if bytes >= 2 * PAGE { bytes.next_multiple_of(PAGE) } else { bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_digits_are_one_series() {
        assert_eq!(series(b"/r1/ck.0009.nc"), series(b"/r22/ck.10.nc"));
        assert_ne!(series(b"ck.1.nc"), series(b"ck.nc"));
        assert_ne!(series(b"ck.1.nc"), series(b"ck.1.h5"));
    }

    #[test]
    fn a_generation_is_expected_to_have_the_pages_of_the_last_one_of_its_series() {
        let mut registry = Registry::default();
        for (bytes, expected) in [(7, 7), (PAGE + 1, PAGE + 1), (2 * PAGE + 1, 3 * PAGE)] {
            registry.sizes.insert(series(b"/d/ck.1"), bytes);
            assert_eq!(registry.expected(b"/d/ck.20", None), expected);
        }
        assert_eq!(registry.expected(b"/d/other", None), 0);
    }
}
