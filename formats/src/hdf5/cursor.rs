//! Reads little-endian numbers, one behind the other.

/// How many bytes addresses and lengths have in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Widths {
    pub(super) offset: usize,
    pub(super) length: usize,
}

/// The bytes that were not read yet.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    widths: Widths,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8], widths: Widths) -> Self {
        Cursor { rest: bytes, widths }
    }

    pub(super) fn widths(&self) -> Widths {
        self.widths
    }

    /// The bytes that were not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next bytes; `None`, and nothing is taken, if there are not so many.
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    /// A number of so many bytes, at most eight.
    pub(super) fn number(&mut self, count: usize) -> Option<u64> {
        let bytes = self.take(count)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(super) fn two(&mut self) -> Option<u16> {
        self.number(2).map(|number| number as u16)
    }

    pub(super) fn four(&mut self) -> Option<u32> {
        self.number(4).map(|number| number as u32)
    }

    /// A length, which has the file's own width.
    pub(super) fn length(&mut self) -> Option<u64> {
        self.number(self.widths.length)
    }

    /// An address; `Some(None)` is the address of nothing.
    pub(super) fn address(&mut self) -> Option<Option<u64>> {
        let found = self.number(self.widths.offset)?;
        Some((found != all_ones(self.widths.offset)).then_some(found))
    }

    /// A length; `Some(None)` stands for no limit.
    pub(super) fn limit(&mut self) -> Option<Option<u64>> {
        let found = self.length()?;
        Some((found != all_ones(self.widths.length)).then_some(found))
    }
}

/// The largest number of so many bytes.
fn all_ones(bytes: usize) -> u64 {
    u64::MAX >> (64 - 8 * bytes)
}

/// Bytes that HDF5 takes for numbers up to `limit`.
pub(super) fn bytes_for(limit: u64) -> usize {
    limit.checked_ilog2().unwrap_or(0) as usize / 8 + 1
}
