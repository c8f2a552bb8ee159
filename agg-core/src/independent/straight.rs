//! One piece of file, one piece of memory: nothing to plan, nothing to copy.

use crate::driver::{Driver, Outcome};
use crate::memory::Memory;
use crate::report::Counters;
use crate::view::View;

/// Writes at once what is contiguous on both sides; `None` if it is not.
pub(super) fn write<D: Driver + ?Sized>(
    driver: &D,
    view: &View,
    pos: u64,
    memory: &Memory,
    counters: &Counters,
) -> Option<Outcome> {
    if !shows_all_in_a_row(view) {
        return None;
    }
    let bytes = memory.as_slice()?;
    Some(driver.write_contig(bytes, view.offset_at(pos), counters))
}

/// Reads at once what is contiguous on both sides; `None` if it is not.
pub(super) fn read<D: Driver + ?Sized>(
    driver: &D,
    view: &View,
    pos: u64,
    memory: &Memory,
    counters: &Counters,
) -> Option<Outcome> {
    if !shows_all_in_a_row(view) {
        return None;
    }
    let mut memory = memory.clone();
    let bytes = memory.as_mut_slice()?;
    Some(driver.read_contig(bytes, view.offset_at(pos), counters))
}

fn shows_all_in_a_row(view: &View) -> bool {
    view.is_contiguous() && !view.is_empty()
}
