//! When reading a gap is cheaper than another system call.
//!
//! The cost of a call is given as the number of bytes that could be moved in its time. On a local
//! file system that is the work of entering the kernel; behind a network it is a round trip, and
//! the client fetches whole blocks anyway. It is measured ([`crate::driver::latency`]), and assumed
//! before that.

use crate::driver::Driver;
use aggio_config::hints::Switch;
use aggio_plan::plan::cost::{Costs, is_local};

/// The cost of a read call in bytes, at least and at most.
const CALL: (u64, u64) = (1 << 10, 4 << 20);
/// The cost of moving a piece by a call of its own, at least and at most.
const PIECE: (u64, u64) = (1 << 10, 64 << 10);
/// File systems on which getting a page of a file as memory takes about half as long as moving its
/// bytes by a call. On others it takes about as long, and twice as long for storing into it.
const PAGES_AT_HAND: &[&str] = &["tmpfs"];
/// Fewer pieces are not worth getting pages for.
pub(super) const FEWEST_PIECES: usize = 16;
/// Copying a byte out of the staging buffer costs this part of delivering it.
const COPY_SHARE: u64 = 4;

/// The cost of one read call in bytes; 0 means never to read gaps, `u64::MAX` always.
pub fn call_cost<D: Driver + ?Sized>(sieving: Switch, driver: &D) -> u64 {
    match sieving {
        Switch::Disable => 0,
        Switch::Enable => u64::MAX,
        Switch::Automatic => read_call(driver).clamp(CALL.0, CALL.1),
    }
}

fn read_call<D: Driver + ?Sized>(driver: &D) -> u64 {
    if let Some(meter) = driver.meter().filter(|meter| meter.is_local()) {
        return meter.reads.figures().request_in_bytes();
    }
    let facts = driver.facts();
    let assumed = Costs::assumed(&facts.file_system);
    let figures = driver.meter().map_or(assumed, |meter| meter.reads.figures());
    let block = if is_local(&facts.file_system) { 0 } else { facts.block_size };
    figures.request_in_bytes().max(block)
}

/// The cost of writing a piece by a call of its own, in bytes of pages got for storing.
pub fn piece_cost<D: Driver + ?Sized>(driver: &D) -> u64 {
    let file_system = driver.facts().file_system;
    let assumed = || Costs::assumed(&file_system);
    let figures = driver.meter().map_or_else(assumed, |meter| meter.writes.figures());
    let bytes = figures.request_in_bytes();
    let bytes = if PAGES_AT_HAND.contains(&&*file_system) { bytes * 2 } else { bytes / 2 };
    bytes.clamp(PIECE.0, PIECE.1)
}

/// Whether mapping bytes of the file takes less time than moving them by a call.
pub fn has_pages_at_hand<D: Driver + ?Sized>(driver: &D) -> bool {
    PAGES_AT_HAND.contains(&&*driver.facts().file_system)
}

/// The cost of reading a piece by a call of its own, in bytes of pages got for loading.
pub fn loads_cost<D: Driver + ?Sized>(driver: &D) -> u64 {
    read_call(driver).saturating_mul(2).clamp(PIECE.0, PIECE.1)
}

/// Whether a piece of `len` bytes is worth a place in a common read at all.
pub fn is_small(len: u64, call_cost: u64) -> bool {
    len / COPY_SHARE <= call_cost
}

/// Whether a piece of `len` bytes behind a gap of `gap` bytes joins the read before it.
pub fn joins(gap: u64, len: u64, call_cost: u64) -> bool {
    gap.saturating_add(len / COPY_SHARE) <= call_cost
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Facts;
    use crate::driver::fake::FakeDriver;
    use crate::driver::latency::Meter;
    use std::time::Duration;

    /// A file on a file system with this name and block size.
    fn on(file_system: &str, block_size: u64) -> FakeDriver {
        let facts = Facts { block_size, ..Facts::of_bytes(file_system) };
        FakeDriver { facts, ..FakeDriver::on(file_system) }
    }

    fn measured(file_system: &'static str, nanoseconds: u64) -> FakeDriver {
        let meter = Meter::new(file_system);
        for _ in 0..20 {
            meter.reads.learn(100, Duration::from_nanos(nanoseconds));
            meter.writes.learn(100, Duration::from_nanos(nanoseconds));
        }
        FakeDriver { meter: Some(meter), ..on(file_system, 4096) }
    }

    #[test]
    fn a_call_costs_more_behind_a_network() {
        let cost = |on: &FakeDriver| call_cost(Switch::Automatic, on);
        assert_eq!(cost(&on("ext4", 4096)), 4 << 10);
        assert_eq!(cost(&on("nfs", 1 << 20)), 1 << 20);
        assert_eq!(cost(&on("0x123", 512)), 256 << 10);
        assert_eq!(
            cost(&FakeDriver { meter: Some(Meter::new("nfs")), ..on("nfs", 1 << 20) }),
            1 << 20
        );
    }

    #[test]
    fn what_was_measured_counts_more_than_the_name() {
        let slow = measured("ext4", 500_000);
        let cost = call_cost(Switch::Automatic, &slow);
        assert!((1 << 20..=4 << 20).contains(&cost), "{cost}");
        assert_eq!(piece_cost(&slow), 64 << 10);
        assert_eq!(piece_cost(&on("ext4", 4096)), 2 << 10);
        assert_eq!(piece_cost(&measured("tmpfs", 50)), 1 << 10);
        assert_eq!(piece_cost(&on("tmpfs", 4096)), 8 << 10);
        assert_eq!(loads_cost(&on("ext4", 4096)), 8 << 10);
        assert_eq!(call_cost(Switch::Automatic, &measured("nfs", 50)), 256 << 10);
    }

    #[test]
    fn the_hint_wins_over_the_cost() {
        let on = on("ext4", 4096);
        assert!(!joins(1, 1, call_cost(Switch::Disable, &on)));
        assert!(joins(1 << 40, 1 << 40, call_cost(Switch::Enable, &on)));
    }

    #[test]
    fn small_pieces_close_together_are_read_at_once_and_others_are_not() {
        assert!(joins(4000, 8, 4 << 10));
        assert!(!joins(1 << 20, 8, 4 << 10));
        assert!(!joins(8, 1 << 20, 4 << 10));
    }
}
