//! Little-endian numbers, one behind the other.

/// What of some bytes was not read yet.
pub(super) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor(bytes)
    }

    /// The next bytes; `None`, and nothing is taken, if there are not so many.
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of so many bytes, at most eight.
    pub(super) fn number(&mut self, count: usize) -> Option<u64> {
        let bytes = self.take(count)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}
