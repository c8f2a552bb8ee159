//! Whether ranks access the file each for itself or through aggregators.

use super::{Reason, Summary};
use crate::hints::Switch;

/// Mean length of contiguous pieces from which separate requests cost no more than an exchange.
const LARGE_PIECE: u64 = 64 << 10;

/// How a collective call is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Some rank's arguments are wrong: nobody accesses the file.
    Fail,
    /// No rank has data.
    Nothing,
    /// Each rank accesses the file for itself.
    Independent,
    /// Aggregators access the file; data travels between ranks.
    TwoPhase,
}

/// A method, and the rule that chose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What is done.
    pub method: Method,
    /// Why.
    pub reason: Reason,
}

/// Chooses the method for a call from what all ranks bring and from the hint `romio_cb_read` or
/// `romio_cb_write`; `only_collective` is the hint `romio_no_indep_rw`.
pub fn decide(all: &[Summary], buffering: Switch, only_collective: bool) -> Decision {
    let say = |method, reason| Decision { method, reason };
    if all.iter().any(|summary| summary.failed) {
        return say(Method::Fail, Reason::Wrong);
    }
    if all.iter().all(|summary| summary.bytes == 0) {
        return say(Method::Nothing, Reason::Nothing);
    }
    if all.iter().any(|summary| summary.unordered && summary.bytes > 0) {
        return say(Method::Independent, Reason::Overlap);
    }
    match (only_collective, buffering) {
        (true, _) => return say(Method::TwoPhase, Reason::OnlyCollective),
        (_, Switch::Enable) => return say(Method::TwoPhase, Reason::Enabled),
        (_, Switch::Disable) => return say(Method::Independent, Reason::Disabled),
        (_, Switch::Automatic) => {}
    }
    if all.iter().filter(|summary| summary.bytes > 0).count() == 1 {
        return say(Method::Independent, Reason::OneWithData);
    }
    if interleaved(all) {
        return say(Method::TwoPhase, Reason::Interleaved);
    }
    let sum = |value: fn(&Summary) -> u64| {
        all.iter().map(value).fold(0u64, |sum, value| sum.saturating_add(value))
    };
    if sum(|s| s.bytes) / sum(|s| s.pieces).max(1) >= LARGE_PIECE {
        say(Method::Independent, Reason::LargeSeparate)
    } else {
        say(Method::TwoPhase, Reason::Small)
    }
}

/// Whether the spans of any two ranks have a byte in common.
fn interleaved(all: &[Summary]) -> bool {
    let mut spans: Vec<_> =
        all.iter().filter(|summary| summary.bytes > 0).map(|summary| summary.span).collect();
    spans.sort_unstable_by_key(|span| span.offset);
    spans.windows(2).any(|pair| pair[0].end() > pair[1].offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Extent;

    fn part(offset: u64, len: u64, pieces: u64) -> Summary {
        Summary { span: Extent::new(offset, len), bytes: len, pieces, ..Summary::default() }
    }

    fn method(all: &[Summary]) -> Method {
        decide(all, Switch::Automatic, false).method
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn large_separate_parts_are_written_by_their_owners() {
        assert_eq!(method(&[part(MIB, MIB, 1), part(0, MIB, 1)]), Method::Independent);
    }

    #[test]
    fn interleaving_of_ranks_that_are_no_neighbours_is_seen() {
        let all = [part(0, 3 * MIB, 1), part(5 * MIB, MIB, 1), part(2 * MIB, MIB, 1)];
        assert_eq!(method(&all), Method::TwoPhase);
    }

    #[test]
    fn small_pieces_are_collected() {
        assert_eq!(method(&[part(0, 4096, 1), part(4096, 4096, 1)]), Method::TwoPhase);
        assert_eq!(method(&[part(0, MIB, 1000), part(MIB, MIB, 1000)]), Method::TwoPhase);
    }

    #[test]
    fn one_rank_with_data_needs_no_other() {
        assert_eq!(method(&[Summary::default(), part(0, 8, 1)]), Method::Independent);
        assert_eq!(method(&[Summary::default(), Summary::default()]), Method::Nothing);
    }

    #[test]
    fn hints_win_against_rules_but_not_against_errors_and_overlap() {
        let all = [part(MIB, MIB, 1), part(0, MIB, 1)];
        assert_eq!(decide(&all, Switch::Enable, false).method, Method::TwoPhase);
        assert_eq!(decide(&all, Switch::Disable, true).method, Method::TwoPhase);
        let mixed = [part(0, MIB, 9), part(0, MIB, 9)];
        assert_eq!(decide(&mixed, Switch::Disable, false).method, Method::Independent);
        let failed = Summary { failed: true, ..Summary::default() };
        assert_eq!(decide(&[all[0], failed], Switch::Enable, false).method, Method::Fail);
        let unordered = Summary { unordered: true, ..all[0] };
        assert_eq!(decide(&[unordered], Switch::Enable, true).method, Method::Independent);
    }
}
