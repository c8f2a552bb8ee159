//! The number of records of a netCDF file that is read while it is written.

use aggio_couple::NUMBER;
use std::sync::atomic::AtomicU64;

/// The records of a file that a reader knows; unused by writers.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// One more than the number of records that it received last.
    pub(super) told: AtomicU64,
    /// The end of the bytes that are on its node and do not change any more.
    pub(super) there: AtomicU64,
}

impl Step {
    /// Of an open file, which may belong to another node.
    pub(super) fn of(is_away: bool) -> Self {
        let there = if is_away { 0 } else { u64::MAX };
        Self { told: AtomicU64::new(0), there: AtomicU64::new(there) }
    }
}

/// Overwrites the number of records in bytes that were read at `offset` with the visible number.
pub(super) fn show(records: Option<(u64, usize)>, read: &mut [u8], offset: u64) {
    let Some((count, width)) = records else { return };
    for (index, byte) in (NUMBER as u64..).zip(&count.to_be_bytes()[8 - width..]) {
        let place = index.checked_sub(offset).and_then(|place| usize::try_from(place).ok());
        if let Some(place) = place.and_then(|place| read.get_mut(place)) {
            *place = *byte;
        }
    }
}
