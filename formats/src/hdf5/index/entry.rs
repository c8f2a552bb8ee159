//! Where one chunk is, as arrays and trees of version 2 say it.

use crate::hdf5::cursor::Cursor;

/// The address, the stored bytes and the filter mask of a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) address: Option<u64>,
    pub(super) size: u64,
    pub(super) mask: u32,
}

impl Entry {
    /// Parses all of `cursor`. With filters, the stored bytes have the width that is left.
    pub(super) fn parse(mut cursor: Cursor<'_>, filtered: bool) -> Option<Self> {
        let address = cursor.address()?;
        if !filtered {
            return Some(Entry { address, size: 0, mask: 0 });
        }
        let width = cursor.rest().len().checked_sub(4).filter(|width| (1..=8).contains(width))?;
        Some(Entry { address, size: cursor.number(width)?, mask: cursor.four()? })
    }
}
