//! Whether a write is worth buffering: only if that is expected to cost less than going straight to
//! the file.

use aggio_plan::plan::cost::Costs;

/// Nanoseconds for a buffered MiB: it is copied twice more.
const MIB: u64 = 400_000;
/// Nanoseconds for a buffered piece: its place is recorded, sorted, and sent to others.
const PIECE: u64 = 100;

/// Whether `bytes` in this number of `pieces` take less time if they are buffered, at the `costs`
/// of requests.
///
/// A write that goes straight costs one request at least; buffered writes cost almost none, as a
/// flush joins them. Where requests are quick, copies cost more than they do.
pub(super) fn is_worth_it(costs: Costs, bytes: u64, pieces: u64) -> bool {
    let copies = (u128::from(bytes) * u128::from(MIB)) >> 20;
    let waiting = copies + u128::from(pieces) * u128::from(PIECE);
    costs.is_slow() && 2 * waiting <= u128::from(costs.latency())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_requests_are_quick_nothing_waits() {
        let quick = Costs::new(2_000, 1 << 18);
        assert!(!is_worth_it(quick, 8, 1) && !is_worth_it(quick, 1 << 20, 1));
    }

    #[test]
    fn where_requests_take_a_millisecond_small_writes_wait_and_large_ones_do_not() {
        let slow = Costs::new(1_048_576, 1 << 21);
        assert!(is_worth_it(slow, 8, 1) && is_worth_it(slow, 1 << 20, 100));
        assert!(!is_worth_it(slow, 2 << 20, 1), "copies");
        assert!(!is_worth_it(slow, 40_000, 10_000), "pieces");
        assert!(!is_worth_it(slow, u64::MAX, u64::MAX));
    }
}
