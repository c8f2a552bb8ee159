//! The netCDF classic format (CDF-1, CDF-2, CDF-5): its header, and where in the file each element
//! lies.
//!
//! ```text
//! bytes -> parse.rs -> Header (header.rs) -> write.rs -> bytes
//!                      Header -> layout.rs: begins and sizes
//!                             -> place.rs: offset <-> (variable, record, element)
//! ```

mod header;
mod layout;
mod parse;
mod place;
mod write;

pub use header::{Attribute, Dimension, Header, Name, Records, Type, Variable, Version};
pub use layout::{Alignment, Layout, Slot};
pub(crate) use parse::swap;
pub use parse::{Dialect, Error, parse, parse_as};
pub use place::{Element, Piece, Pieces, Place};
pub use write::Unwritable;

/// The order of the bytes of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Endian {
    /// As in every netCDF file.
    #[default]
    Big,
    /// As in headers that an HDF5 blob holds, written on most machines.
    Little,
}

/// Bytes up to the next multiple of four.
pub(crate) fn padded(size: u64) -> Option<u64> {
    size.checked_next_multiple_of(4)
}

#[cfg(test)]
#[path = "tests.rs"]
pub(crate) mod tests;
