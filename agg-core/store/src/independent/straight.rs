//! One piece of file, one piece of memory: nothing to plan, nothing to copy.

use crate::driver::{Driver, Outcome};
use aggio_base::report::Counters;
use aggio_types::memory::Memory;
use aggio_types::view::View;

/// Writes at once if the data is contiguous on both sides; else returns `None`.
pub(super) fn write<D: Driver + ?Sized>(
    driver: &D,
    view: &View,
    pos: u64,
    memory: &Memory,
    counters: &Counters,
) -> Option<Outcome> {
    let offset = single_offset(view, pos)?;
    Some(driver.write_contig(memory.as_slice()?, offset, counters))
}

/// Reads at once if the data is contiguous on both sides; else returns `None`.
pub(super) fn read<D: Driver + ?Sized>(
    driver: &D,
    view: &View,
    pos: u64,
    memory: &Memory,
    counters: &Counters,
) -> Option<Outcome> {
    let offset = single_offset(view, pos)?;
    Some(driver.read_contig(memory.clone().as_mut_slice()?, offset, counters))
}

/// The file byte of data byte `pos`, if all data bytes behind it follow in a row.
fn single_offset(view: &View, pos: u64) -> Option<u64> {
    (view.is_contiguous() && !view.is_empty()).then(|| view.offset_at(pos))
}
