//! A logical file cut into windows that are cheap to assemble: small variables together, large ones
//! in parts.

use super::Logical;
use std::ops::Range;

/// Bytes that a window has at least, if the file goes on.
pub(super) const LEAST: u64 = 4 << 20;

/// The windows of a file, one behind the other.
pub struct Windows<'a> {
    file: &'a Logical,
    at: u64,
}

impl Logical {
    /// Windows of the whole file, for [`Logical::read_window`].
    #[must_use]
    pub fn windows(&self) -> Windows<'_> {
        Windows { file: self, at: 0 }
    }
}

impl Iterator for Windows<'_> {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        let start = self.at;
        while self.at < self.file.size && self.at - start < LEAST {
            self.at = self.file.end_of_part(self.at);
        }
        (self.at > start).then_some(start..self.at)
    }
}
