//! Whether ranks access the file each for itself or through aggregators.

use super::cost::{Costs, are_parts_worth_staging};
use super::{Reason, Total};
use aggio_config::hints::Switch;

/// Mean length of pieces from which requests of [`PROMPT`] nanoseconds cost no more than passing
/// the bytes to or from an aggregator: reads.
const READ_PIECE: u64 = 16 << 10;
/// The same for writes, which wait for each other at the file.
const WRITE_PIECE: u64 = 64 << 10;
/// The same for pieces that no other rank's pieces lie between, with [`BRIEF`] requests: nothing
/// can be joined but the ends of neighbours.
const SEPARATE_PIECE: u64 = 4 << 10;
/// Requests of at least this length are worth their fixed time anywhere.
const LONG: u64 = 1 << 20;
/// Requests with a fixed time up to this one, in nanoseconds, are as cheap as they get.
const PROMPT: u64 = 5_000;
/// Requests with a fixed time up to this one, in nanoseconds, take less than ranks wait for each
/// other in an exchange: where processes outnumber processors, each of its steps takes tens of
/// microseconds. Measured times contain waiting for other ranks' requests, too.
const BRIEF: u64 = 100_000;
/// Where moving a MiB takes longer, in nanoseconds, reading bytes twice costs more than passing
/// them on.
const SLOW_MIB: u64 = 600_000;

/// The conditions of a call, besides the data; equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// The hint `romio_cb_read` or `romio_cb_write`.
    pub buffering: Switch,
    /// The hint `romio_no_indep_rw`.
    pub only_collective: bool,
    /// The call writes.
    pub writes: bool,
    /// The file is in atomic mode: ranks that work independently wait for each other.
    pub atomic: bool,
    /// All ranks are on one node, so they share the kernel's view of the file: requests of one rank
    /// do not take its parts away from another.
    pub together: bool,
    /// The file is a blob container that every rank can open: each appends to a log of its own.
    pub logs: bool,
    /// The writes of each rank may be staged, where all ranks see them.
    pub staged: bool,
}

/// How a collective call is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Some rank's arguments are wrong: no rank begins to access the file.
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
    /// The method.
    pub method: Method,
    /// The reason for it.
    pub reason: Reason,
}

/// Chooses the method for a call from the summaries of all ranks and the conditions of the call. If
/// hints say nothing, the cost of requests decides, as measured by the rank with the highest cost.
///
/// Ranks that access the file each for itself may write bytes that others write too: such a call
/// has no defined result in any case (MPI-4.1, 14.6.1), unless the file is in atomic mode.
pub fn decide(all: &Total, wishes: Wishes) -> Decision {
    let say = |method, reason| Decision { method, reason };
    if all.failed {
        return say(Method::Fail, Reason::Wrong);
    }
    if all.ranks == 0 {
        return say(Method::Nothing, Reason::Nothing);
    }
    if all.unordered {
        return say(Method::Independent, Reason::Overlap);
    }
    if wishes.logs && wishes.writes && !wishes.atomic {
        // An exchange would join nothing, and its borders would cut elements: no hint asks for
        // that. In atomic mode it makes each call of a rank one access.
        let reason = if all.ranks == 1 { Reason::OneWithData } else { Reason::Logs };
        return say(Method::Independent, reason);
    }
    if wishes.staged && wishes.writes && !wishes.atomic && are_parts_small(all) {
        return say(Method::Independent, Reason::Staged);
    }
    match (wishes.only_collective, wishes.buffering) {
        (true, _) => return say(Method::TwoPhase, Reason::OnlyCollective),
        (_, Switch::Enable) => return say(Method::TwoPhase, Reason::Enabled),
        (_, Switch::Disable) => return say(Method::Independent, Reason::Disabled),
        (_, Switch::Automatic) => {}
    }
    if all.ranks == 1 {
        return say(Method::Independent, Reason::OneWithData);
    }
    by_cost(all, wishes)
}

/// Whether each rank had better stage its part; their mean counts.
fn are_parts_small(all: &Total) -> bool {
    let each = |sum: u64| sum.div_ceil(all.ranks);
    are_parts_worth_staging(all.figures, each(all.bytes), each(all.pieces))
}

fn by_cost(all: &Total, wishes: Wishes) -> Decision {
    let say = |method, reason| Decision { method, reason };
    let worthwhile = worthwhile_piece(all.figures, wishes.writes);
    let mean = all.bytes / all.pieces.max(1);
    if !all.interleaved {
        // Aggregators cannot join pieces that no other rank's pieces lie between, but parts of
        // ranks that follow each other.
        let brief = wishes.together && all.figures.latency() <= BRIEF;
        let joined = wishes.writes && all.figures.is_slow() && all.is_dense();
        return if mean >= worthwhile.min(if joined { LONG } else { WRITE_PIECE }) {
            say(Method::Independent, Reason::LargeSeparate)
        } else if brief && (mean >= SEPARATE_PIECE || all.pieces <= all.ranks) {
            say(Method::Independent, Reason::Separate)
        } else {
            say(Method::TwoPhase, Reason::Small)
        };
    }
    let shared = all.bytes / 3 > all.hull.len / 2;
    if !wishes.writes && shared && all.figures.mib() > SLOW_MIB {
        return say(Method::TwoPhase, Reason::Shared);
    }
    if mean >= worthwhile && !wishes.atomic {
        return say(Method::Independent, Reason::Cheap);
    }
    say(Method::TwoPhase, Reason::Interleaved)
}

/// The length of pieces for which a request each costs no more than passing the bytes on.
fn worthwhile_piece(figures: Costs, writes: bool) -> u64 {
    let least = if writes { WRITE_PIECE } else { READ_PIECE };
    let product = u128::from(least) * u128::from(figures.latency().max(PROMPT));
    u64::try_from(product / u128::from(PROMPT)).unwrap_or(u64::MAX)
}

/// Bytes in a row that only one rank has data in, from which on an exchange joins nothing worth its
/// cost: no request of an aggregator is much longer than these.
pub fn alone_from(figures: Costs, writes: bool) -> u64 {
    worthwhile_piece(figures, writes).min(LONG)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Summary;
    use aggio_base::Extent;

    fn part(offset: u64, len: u64, pieces: u64) -> Summary {
        Summary { span: Extent::new(offset, len), bytes: len, pieces, ..Summary::default() }
    }

    const READ: Wishes = Wishes {
        buffering: Switch::Automatic,
        only_collective: false,
        writes: false,
        atomic: false,
        together: true,
        logs: false,
        staged: false,
    };
    const WRITE: Wishes = Wishes { writes: true, ..READ };

    fn decide(all: &[Summary], wishes: Wishes) -> Decision {
        super::decide(&Total::of(all), wishes)
    }

    fn method(all: &[Summary]) -> Method {
        decide(all, WRITE).method
    }

    /// Four ranks in turn, 100 pieces of `len` bytes each, where a request takes `latency`
    /// nanoseconds on the last rank and a MiB takes `mib`.
    fn in_turn(len: u64, latency: u64, mib: u64) -> Vec<Summary> {
        let rank = |rank: u64| Summary {
            span: Extent::new(rank * len, 397 * len),
            figures: if rank == 3 { Costs::new(latency, mib) } else { Costs::default() },
            ..part(0, 100 * len, 100)
        };
        (0..4).map(rank).collect()
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn large_separate_parts_are_written_by_their_owners() {
        assert_eq!(method(&[part(MIB, MIB, 1), part(0, MIB, 1)]), Method::Independent);
    }

    #[test]
    fn interleaving_of_ranks_that_are_no_neighbours_is_seen() {
        let all = [part(0, 3 * MIB, 999), part(5 * MIB, MIB, 99), part(2 * MIB, MIB, 99)];
        assert_eq!(method(&all), Method::TwoPhase);
    }

    #[test]
    fn small_separate_pieces_are_collected_unless_requests_are_cheap() {
        let parts = |latency, len, pieces| {
            let figures = Costs::new(latency, 1 << 18);
            [0, 1].map(|rank| Summary { figures, ..part(rank * len, len, pieces) })
        };
        let reason = |latency, len, pieces| decide(&parts(latency, len, pieces), WRITE).reason;
        assert_eq!(reason(150_000, 8192, 1), Reason::Small);
        assert_eq!(reason(90_000, 8192, 1), Reason::Separate);
        assert_eq!(reason(2000, 8, 1), Reason::Separate);
        assert_eq!(reason(2000, MIB, 256), Reason::Separate);
        assert_eq!(reason(2000, MIB, 257), Reason::Small);
        assert_eq!(reason(150_000, MIB, 256), Reason::Small);
        let apart = Wishes { together: false, ..WRITE };
        assert_eq!(decide(&parts(2000, 8192, 1), apart).reason, Reason::Small);
    }

    #[test]
    fn interleaved_pieces_are_left_to_their_owners_where_requests_are_cheap() {
        let decide = |len, wishes| decide(&in_turn(len, 2000, 1 << 18), wishes);
        let cheap = Decision { method: Method::Independent, reason: Reason::Cheap };
        let passed = Decision { method: Method::TwoPhase, reason: Reason::Interleaved };
        assert_eq!((decide(16 << 10, READ), decide(15 << 10, READ)), (cheap, passed));
        assert_eq!((decide(64 << 10, WRITE), decide(60 << 10, WRITE)), (cheap, passed));
        let atomic = Wishes { atomic: true, ..WRITE };
        assert_eq!(decide(1 << 20, atomic), passed, "owners would wait for each other");
    }

    #[test]
    fn where_a_request_takes_a_millisecond_only_huge_pieces_are_left_to_their_owners() {
        let method = |len, wishes| decide(&in_turn(len, 1_000_000, 1 << 20), wishes).method;
        for wishes in [READ, WRITE] {
            assert_eq!(method(2 << 20, wishes), Method::TwoPhase);
            assert_eq!(method(64 << 20, wishes), Method::Independent);
        }
    }

    #[test]
    fn large_contiguous_parts_need_no_help_however_slow_requests_are() {
        let figures = Costs::new(1_000_000, 1 << 20);
        let all = [0, 1, 2].map(|rank| Summary { figures, ..part(rank * MIB, MIB, 1) });
        for wishes in [READ, WRITE, Wishes { atomic: true, ..WRITE }] {
            assert_eq!(decide(&all, wishes).reason, Reason::LargeSeparate);
        }
    }

    #[test]
    fn parts_that_follow_each_other_are_written_together_where_requests_are_slow() {
        let parts = |latency, distance| {
            let figures = Costs::new(latency, 1 << 20);
            [0_u64, 1, 2, 3].map(|rank| Summary { figures, ..part(rank * distance, 65536, 1) })
        };
        let reason = |latency, distance, wishes| decide(&parts(latency, distance), wishes).reason;
        assert_eq!(reason(1_000_000, 65536, WRITE), Reason::Small);
        assert_eq!(reason(1_000_000, 65536 + 4096, WRITE), Reason::Small);
        assert_eq!(
            reason(1_000_000, 131_072, WRITE),
            Reason::LargeSeparate,
            "gaps cannot be joined"
        );
        assert_eq!(reason(1_000_000, 65536, READ), Reason::LargeSeparate, "readers share");
        assert_eq!(reason(2000, 65536, WRITE), Reason::LargeSeparate);
    }

    #[test]
    fn what_all_ranks_read_is_fetched_once_unless_fetching_costs_nothing() {
        let all = |mib| {
            let figures = Costs::new(2000, mib);
            [Summary { figures, ..part(0, 64 * MIB, 1) }; 4]
        };
        assert_eq!(decide(&all(1 << 20), READ).reason, Reason::Shared);
        assert_eq!(decide(&all(1 << 17), READ).reason, Reason::Cheap);
    }

    #[test]
    fn writes_to_a_container_go_to_the_logs_of_their_ranks_whatever_hints_say() {
        let logs = Wishes { logs: true, ..WRITE };
        let parts = in_turn(8, 1_000_000, 1 << 20);
        assert_eq!(decide(&parts, logs).reason, Reason::Logs);
        assert_eq!(decide(&parts, Wishes { writes: false, ..logs }).method, Method::TwoPhase);
        for buffering in [Switch::Enable, Switch::Disable, Switch::Automatic] {
            for only_collective in [false, true] {
                let hinted = Wishes { buffering, only_collective, ..logs };
                assert_eq!(decide(&parts, hinted).reason, Reason::Logs, "{hinted:?}");
            }
        }
        let alone = [parts[0], Summary::default()];
        let hinted = Wishes { buffering: Switch::Enable, ..logs };
        assert_eq!(decide(&alone, hinted).method, Method::Independent);
    }

    #[test]
    fn small_parts_are_staged_by_their_ranks_and_others_go_through_aggregators() {
        let staged = Wishes { staged: true, ..WRITE };
        let few = |part: Summary| Summary { pieces: part.pieces.min(40), ..part };
        let reason = |len, wishes| {
            let parts = in_turn(len, 1_000_000, 1 << 20);
            decide(&parts.into_iter().map(few).collect::<Vec<_>>(), wishes).reason
        };
        let enabled = Wishes { buffering: Switch::Enable, ..staged };
        assert_eq!((reason(80, staged), reason(80, enabled)), (Reason::Staged, Reason::Staged));
        assert_eq!(reason(80, Wishes { atomic: true, ..staged }), Reason::Interleaved);
        assert_eq!(reason(80, Wishes { writes: false, ..staged }), Reason::Interleaved);
        assert_eq!(reason(64 << 10, staged), Reason::Interleaved);
        let quick = decide(&in_turn(80, 2000, 1 << 18), staged).reason;
        assert_eq!(quick, Reason::Interleaved);
    }

    #[test]
    fn numbers_of_any_size_are_no_trouble() {
        let figures = Costs::from_bytes([255, 255]);
        let huge = Summary { figures, ..part(0, u64::MAX, u64::MAX) };
        assert_eq!(decide(&[huge; 3], WRITE).method, Method::TwoPhase);
        assert_eq!(decide(&[huge; 3], READ).method, Method::TwoPhase);
    }

    #[test]
    fn one_rank_with_data_needs_no_other() {
        assert_eq!(method(&[Summary::default(), part(0, 8, 1)]), Method::Independent);
        assert_eq!(method(&[Summary::default(), Summary::default()]), Method::Nothing);
    }

    #[test]
    fn hints_win_against_rules_but_not_against_errors_and_overlap() {
        let hinted = |all: &[Summary], buffering, only_collective| {
            decide(all, Wishes { buffering, only_collective, ..WRITE }).method
        };
        let all = [part(MIB, MIB, 1), part(0, MIB, 1)];
        assert_eq!(hinted(&all, Switch::Enable, false), Method::TwoPhase);
        assert_eq!(hinted(&all, Switch::Disable, true), Method::TwoPhase);
        let mixed = [part(0, MIB, 9), part(0, MIB, 9)];
        assert_eq!(hinted(&mixed, Switch::Disable, false), Method::Independent);
        let failed = Summary { failed: true, ..Summary::default() };
        assert_eq!(hinted(&[all[0], failed], Switch::Enable, false), Method::Fail);
        let unordered = Summary { unordered: true, ..all[0] };
        assert_eq!(hinted(&[unordered], Switch::Enable, true), Method::Independent);
    }
}
