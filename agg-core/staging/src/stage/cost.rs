//! Whether staging takes less time than a request to the file for each piece.

use aggio_plan::plan::cost::Costs;

/// Nanoseconds for a MiB that is staged: it is copied twice more.
const MIB: u64 = 400_000;
/// Nanoseconds for a piece that is staged.
const PIECE: u64 = 2_000;

/// Whether `bytes` in so many `pieces` take less time if they are staged, where requests cost
/// `costs`: straight to the file each piece is a request.
pub(super) fn is_worth_it(costs: Costs, bytes: u64, pieces: u64) -> bool {
    let copies = (u128::from(bytes) * u128::from(MIB)) >> 20;
    let staging = copies + u128::from(pieces) * u128::from(PIECE);
    2 * staging <= u128::from(costs.latency()) * u128::from(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_staged_where_a_request_for_each_costs_more() {
        let slow = Costs::new(1_048_576, 1 << 21);
        assert!(is_worth_it(slow, 8, 1) && is_worth_it(slow, 1 << 20, 1));
        assert!(is_worth_it(slow, 64 << 20, 64), "many of a MiB");
        assert!(!is_worth_it(slow, 4 << 20, 1) && !is_worth_it(slow, u64::MAX, 1));
        let quick = Costs::new(2_000, 1 << 18);
        assert!(!is_worth_it(quick, 8, 1) && !is_worth_it(quick, 8 << 10, 1 << 10));
    }
}
