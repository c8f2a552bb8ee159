//! The mix of the random cases: every ingredient is in a good part of them.

use super::cases::{Case, Part, any_case, conflict};
use super::disk::{FakeDriver, FakeFile};
use super::{Opened, Way, call_next};
use aggio_base::report::Totals;
use aggio_comm::transport::threads::testing::run_on;
use aggio_plan::plan::{self, Reason};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::sync::Arc;

/// The same cases in every run.
fn some_cases(count: usize) -> Vec<Case> {
    let mut runner = TestRunner::deterministic();
    let strategy = any_case();
    (0..count).map(|_| strategy.new_tree(&mut runner).expect("a case").current()).collect()
}

fn any(case: &Case, has: impl Fn(&Part) -> bool) -> bool {
    case.parts.iter().any(has)
}

/// Bytes of the file between bytes of the call that no rank has.
fn has_holes(case: &Case) -> bool {
    let mut offsets: Vec<usize> = case.parts.iter().flat_map(Part::offsets).collect();
    offsets.sort_unstable();
    offsets.windows(2).any(|pair| pair[1] - pair[0] > 1)
}

/// A byte of the rank that is not beside the one before it, nor the one behind it.
fn has_single_bytes(part: &Part) -> bool {
    let offsets = part.offsets();
    offsets.windows(3).any(|three| three[1] - three[0] > 1 && three[2] - three[1] > 1)
}

#[track_caller]
fn expect_share(what: &str, cases: &[Case], percent: usize, has: impl Fn(&Case) -> bool) {
    let found = cases.iter().filter(|case| has(case)).count();
    assert!(found * 100 >= cases.len() * percent, "{what}: {found} of {} cases", cases.len());
}

#[test]
fn random_cases_have_overlaps_holes_empty_ranks_single_bytes_and_far_offsets() {
    let cases = some_cases(1000);
    let expect = |what, percent, has: &dyn Fn(&Case) -> bool| {
        expect_share(what, &cases, percent, has);
    };
    expect("overlaps", 20, &conflict);
    expect("no overlaps", 20, &|case| !conflict(case));
    expect("holes", 30, &has_holes);
    expect("no holes", 5, &|case| !has_holes(case));
    expect("a rank without data", 20, &|case| any(case, |part| part.len() == 0));
    expect("pieces of 1 byte in the file", 20, &|case| any(case, has_single_bytes));
    expect("blocks of 1 byte in memory", 20, &|case| {
        any(case, |part| part.blocks.iter().any(|block| block.1 == 1))
    });
    expect("a negative stride in memory", 20, &|case| {
        any(case, |part| part.stride().is_some_and(|stride| stride < 0))
    });
    expect("offsets beyond 2^40", 15, &|case| case.base >= 1 << 40);
}

/// The totals of all ranks in a collective write.
fn totals(case: Case) -> Totals {
    let (case, disk) = (Arc::new(case.clone()), FakeFile::far(case.before, case.base));
    let of_ranks = run_on(case.ranks(), |transport| {
        let (case, access) = (Arc::clone(&case), Arc::new(FakeDriver::new(&disk)));
        Box::pin(async move {
            let opened = Opened::new(&transport);
            let tags = opened.tags.next();
            let of_file = (&opened, &tags);
            let call = call_next(&case, &access, &transport, None, Way::Write, of_file);
            assert_eq!(call.await.1, Ok(()));
            opened.counters.totals()
        })
    });
    let mut sum = Totals::default();
    of_ranks.iter().for_each(|totals| sum.add(totals));
    sum
}

#[test]
fn random_cases_take_every_way_between_the_ranks() {
    let totals: Vec<Totals> = some_cases(400).into_iter().map(totals).collect();
    for way in plan::Way::ALL {
        let took =
            |totals: &Totals| Reason::ALL.iter().any(|why| totals.decided.of(*way, *why) > 0);
        let cases = totals.iter().filter(|totals| took(totals)).count();
        assert!(cases * 20 >= totals.len(), "{way:?}: {cases} of {}", totals.len());
    }
}
