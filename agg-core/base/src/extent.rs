//! A range of bytes in a file.

use std::fmt;

/// A half-open range of file bytes, `offset .. offset + len`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

impl Extent {
    /// The range of `len` bytes from `offset` on.
    ///
    /// The end saturates at `u64::MAX`, so that arithmetic on an extent cannot wrap.
    #[inline]
    pub fn new(offset: u64, len: u64) -> Self {
        Self { offset, len: len.min(u64::MAX - offset) }
    }

    /// The range `start .. end`; empty if `end <= start`.
    #[inline]
    pub fn between(start: u64, end: u64) -> Self {
        Self { offset: start, len: end.saturating_sub(start) }
    }

    /// One past the last byte.
    #[inline]
    pub fn end(self) -> u64 {
        self.offset + self.len
    }

    /// Whether the range holds no byte.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The shortest range that holds both.
    #[inline]
    pub fn hull(self, other: Extent) -> Extent {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => Extent::between(self.offset.min(other.offset), self.end().max(other.end())),
        }
    }

    /// The bytes that both ranges hold.
    #[inline]
    pub fn intersect(self, other: Extent) -> Extent {
        Extent::between(self.offset.max(other.offset), self.end().min(other.end()))
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.offset, self.end())
    }
}
