//! A range of a file as memory.

use aggio_base::Extent;

/// The kind of access to a range of a file [in place](super::Driver::in_place).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlace<'a> {
    /// Bytes are loaded.
    Load,
    /// Bytes are stored, none of them outside these ranges.
    Store(&'a [Extent]),
}
