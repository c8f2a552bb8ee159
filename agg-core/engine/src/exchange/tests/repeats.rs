//! Calls that repeat an earlier one: only data travels, and the bytes are right after any change.

use super::cases::{Case, Part, any_case, cases, conflict, disjoint, written};
use super::disk::{FakeDriver, FakeFile};
use super::{Opened, Way, call_next, expected};
use aggio_base::error::Result;
use aggio_base::report::Totals;
use aggio_comm::task::{BoxFuture, join_all};
use aggio_comm::transport::threads::testing::run_on;
use aggio_comm::transport::{ThreadLocks, Transport};
use aggio_config::hints::{Hints, Switch};
use aggio_store::driver::Facts;
use aggio_types::datatype::Datatype;
use aggio_types::view::{Representation, View};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of a window.
const WINDOW: u64 = 4096;

/// One call after others.
#[derive(Clone)]
struct Step {
    case: Case,
    way: Way,
    /// The driver of every rank fails in it.
    fails: bool,
    atomic: bool,
}

/// A rank's state after a step: bytes and result of the call, its buffer, its counts so far.
type Done = (u64, Result<()>, Vec<u8>, Totals);

fn step(case: &Case, way: Way) -> Step {
    Step { case: case.clone(), way, fails: false, atomic: false }
}

/// Ranks carry out the calls in order; returns the state of each rank after each call.
fn play(steps: &[Step], disk: &Arc<FakeFile>) -> Vec<Vec<Done>> {
    let (ranks, steps) = (steps[0].case.ranks(), Arc::new(steps.to_vec()));
    let locks = Arc::new(ThreadLocks::default());
    run_on(ranks, |transport| {
        let (steps, access, locks) = (steps.clone(), FakeDriver::new(disk), locks.clone());
        Box::pin(async move {
            let (opened, mut done) = (Opened::new(&transport), Vec::new());
            for Step { case, way, fails, atomic } in steps.iter() {
                access.good.store(if *fails { 0 } else { -1 }, Ordering::Relaxed);
                let locks = atomic.then(|| locks.clone() as Arc<_>);
                let file = (&opened, &opened.tags.next());
                let (bytes, result, buffer) =
                    call_next(case, &access, &transport, locks, *way, file).await;
                done.push((bytes, result, buffer, opened.counters.totals()));
            }
            done
        })
    })
}

/// As [`play`], where nothing fails, against a byte-by-byte model: no two ranks write the same
/// byte.
fn check(steps: &[Step]) -> std::result::Result<Vec<Totals>, TestCaseError> {
    let first = &steps[0].case;
    let disk = FakeFile::far(first.before.clone(), first.base);
    let all = play(steps, &disk);
    let mut file = first.before.clone();
    for (number, step) in steps.iter().enumerate() {
        for (part, done) in step.case.parts.iter().zip(&all) {
            let (bytes, result, buffer, _) = &done[number];
            prop_assert_eq!(result, &Ok(()));
            if step.way == Way::Read {
                let (wanted_bytes, wanted) = expected(part, &file);
                prop_assert!(*buffer == wanted, "step {} reads other bytes", number);
                prop_assert_eq!(*bytes, wanted_bytes);
            } else {
                prop_assert_eq!(*bytes, part.len() as u64);
            }
        }
        if step.way == Way::Write {
            file = written(&Case { before: file, ..step.case.clone() });
        }
    }
    prop_assert!(*disk.bytes() == file, "the file holds other bytes");
    Ok(sums(&all))
}

/// The totals of all ranks for each step.
fn sums(all: &[Vec<Done>]) -> Vec<Totals> {
    let upto = |number: usize| {
        all.iter().fold(Totals::default(), |mut sum, done| {
            sum.add(&done[number].3);
            sum
        })
    };
    let sums: Vec<Totals> = (0..all[0].len()).map(upto).collect();
    let before = [Totals::default()].into_iter().chain(sums.iter().copied());
    let differences = sums.iter().zip(before).map(|(sum, before)| Totals {
        metadata_bytes: sum.metadata_bytes - before.metadata_bytes,
        plans: sum.plans - before.plans,
        plans_reused: sum.plans_reused - before.plans_reused,
        messages: sum.messages - before.messages,
        message_bytes: sum.message_bytes - before.message_bytes,
        ..Totals::default()
    });
    differences.collect()
}

fn counts(steps: &[Step]) -> Vec<Totals> {
    check(steps).unwrap_or_else(|why| panic!("{why}"))
}

/// Where ranks are.
const PLACES: [&[usize]; 3] = [&[], &[0, 0, 0, 0], &[0, 0, 1, 1]];
const NO_MEMORY: &[usize] = PLACES[0];
const ONE_NODE: &[usize] = PLACES[1];
const TWO_NODES: &[usize] = PLACES[2];

/// Pieces of 3 to 22 bytes at irregular places, all ranks' in turn.
fn irregular(hosts: &[usize]) -> Case {
    let ranks = 4;
    let parts = (0..ranks).map(|rank| {
        let piece = |i: u64| (3 + i * i % 20, (i * 120 + rank * 30) as i64);
        let pieces: Vec<(u64, i64)> = (0..150).map(piece).collect();
        let filetype = Datatype::hindexed(&pieces, &Datatype::bytes(1)).expect("pieces");
        let filetype = filetype.resized(0, 5 * WINDOW as i64).expect("whole windows");
        let bytes = filetype.size() as usize;
        Part { view: view_of(0, filetype), position: 0, blocks: vec![(0, bytes)], base: 0 }
    });
    let mut hints = Hints::default();
    hints.cb_buffer_size = WINDOW;
    (hints.romio_cb_write, hints.romio_cb_read) = (Switch::Enable, Switch::Enable);
    let facts = Facts { block_size: 512, ..Facts::of_bytes("memory") };
    Case {
        parts: parts.collect(),
        aggregators: vec![0, 2],
        facts,
        hints,
        before: vec![],
        memory: !hosts.is_empty(),
        hosts: hosts.to_vec(),
        base: 0,
        habits: vec![0; hosts.len().max(4)],
    }
}

fn view_of(displacement: u64, filetype: Datatype) -> View {
    View::new(displacement, Datatype::bytes(1), filetype, Representation::Native, false)
        .expect("an ascending filetype")
}

/// The same call with another displacement of every rank's view.
fn shifted(mut case: Case, by: u64) -> Case {
    for part in &mut case.parts {
        part.view = part.view.moved(by);
    }
    case
}

/// The same call, moved by this number of copies of the filetype in the views.
fn later(mut case: Case, copies: u64) -> Case {
    for part in &mut case.parts {
        part.position += copies * part.view.filetype().size();
    }
    case
}

fn is_planned(totals: &Totals) -> bool {
    assert_eq!(totals.plans + totals.plans_reused, 4, "all ranks do the same");
    assert!(totals.plans == 0 || totals.plans == 4);
    totals.plans > 0
}

#[test]
fn the_second_identical_call_makes_no_plan_and_sends_nothing_but_data() {
    for hosts in PLACES {
        for way in [Way::Write, Way::Read] {
            let case = Case { before: vec![9; 30_000], ..irregular(hosts) };
            let [first, second] = counts(&vec![step(&case, way); 2])[..] else { panic!() };
            assert!(is_planned(&first) && !is_planned(&second));
            assert_eq!(second.metadata_bytes, 0);
            let telling = if hosts == TWO_NODES || hosts == NO_MEMORY { 1..10_000 } else { 0..1 };
            assert!(telling.contains(&first.metadata_bytes), "{}", first.metadata_bytes);
            // Only the data of ranks on other nodes than the aggregator's travels.
            let data = case.parts.iter().map(Part::len).sum::<usize>() as u64;
            assert!(second.message_bytes < data && second.messages <= first.messages);
            let telling = if hosts == TWO_NODES { first.metadata_bytes } else { 0 };
            assert_eq!(first.message_bytes - second.message_bytes, telling);
        }
    }
}

#[test]
fn a_read_repeats_a_write_and_asks_nothing() {
    for hosts in PLACES {
        let case = irregular(hosts);
        let steps = [Way::Write, Way::Read, Way::Write].map(|way| step(&case, way));
        let counts = counts(&steps);
        assert_eq!([0, 1, 2].map(|i| is_planned(&counts[i])), [true, false, false]);
        assert_eq!(counts[1].metadata_bytes + counts[2].metadata_bytes, 0);
        assert_eq!(counts[1].messages, counts[2].messages, "no questions");
    }
}

#[test]
fn every_step_of_a_time_loop_repeats_the_first() {
    for hosts in PLACES {
        let case = irregular(hosts);
        let moved = (1..5).map(|n| shifted(case.clone(), 5 * WINDOW * n));
        let next = (5..9).map(|n| later(case.clone(), n));
        let back = [shifted(case.clone(), 5 * WINDOW)];
        let all = [case.clone()].into_iter().chain(moved).chain(next).chain(back);
        let steps: Vec<Step> = all.map(|case| step(&case, Way::Write)).collect();
        let counts = counts(&steps);
        assert!(is_planned(&counts[0]));
        assert!(!counts[1..].iter().any(is_planned), "{hosts:?}");
    }
}

#[test]
fn what_is_cut_into_other_windows_is_planned_anew() {
    let case = irregular(TWO_NODES);
    let odd = shifted(case.clone(), 7 * 512);
    let mut smaller = case.clone();
    smaller.hints.cb_buffer_size = WINDOW / 2;
    let all = [&case, &odd, &case, &odd, &smaller, &smaller, &smaller, &case];
    let counts = counts(&all.map(|case| step(case, Way::Write)));
    let planned: Vec<bool> = counts.iter().map(is_planned).collect();
    // A pattern with two cached plans tries them in turn.
    assert_eq!(planned, [true, true, false, false, true, true, false, false]);
}

#[test]
fn if_one_rank_changes_all_plan_anew() {
    for hosts in PLACES {
        let case = irregular(hosts);
        let mut other = case.clone();
        other.parts[3].position += 5;
        let mut empty = case.clone();
        empty.parts[1].blocks = vec![];
        let mut apart = case.clone();
        apart.parts[2].view = apart.parts[2].view.moved(8 * 5 * WINDOW);
        for changed in [&other, &empty, &apart] {
            let steps = [&case, changed, &case, changed].map(|case| step(case, Way::Write));
            let planned: Vec<bool> = counts(&steps).iter().map(is_planned).collect();
            assert_eq!(planned, [true, true, false, false]);
        }
    }
}

#[test]
fn patterns_that_come_in_turn_are_all_remembered_also_by_ranks_that_do_the_same_in_all() {
    for hosts in PLACES {
        let case = irregular(hosts);
        let mut other = case.clone();
        other.parts[3].position += 5;
        // Rank 0 cannot tell them apart.
        let cycle = [&case, &case, &other].map(|case| step(case, Way::Write));
        let counts = counts(&vec![cycle; 5].concat());
        assert!(!counts[6..].iter().any(is_planned), "{hosts:?}");
    }
}

#[test]
fn after_a_failure_the_next_calls_are_right() {
    for hosts in PLACES {
        let case = Case { before: vec![1; 30_000], ..irregular(hosts) };
        for way in [Way::Write, Way::Read] {
            let well = step(&case, way);
            let failing = Step { fails: true, ..well.clone() };
            let steps = [&failing, &well, &well, &failing, &well, &well].map(Step::clone);
            let disk = FakeFile::new(case.before.clone());
            let all = play(&steps, &disk);
            for done in &all {
                let well: Vec<bool> = done.iter().map(|done| done.1.is_ok()).collect();
                assert_eq!(well, [false, true, true, false, true, true]);
            }
            let planned: Vec<bool> = sums(&all).iter().map(is_planned).collect();
            assert_eq!(planned, [true, true, false, false, true, false]);
            if way == Way::Write {
                assert!(*disk.bytes() == written(&case));
            }
            for (part, done) in case.parts.iter().zip(&all) {
                let wanted = expected(part, &disk.bytes());
                assert!(way == Way::Write || done.iter().skip(4).all(|d| d.2 == wanted.1));
            }
        }
    }
}

/// Three rounds of calls, those of a round all pending at a time and begun by each rank in another
/// order; the sums of all ranks' counts.
fn pending(cases: &[Case], disk: &Arc<FakeFile>) -> Totals {
    let shared = Arc::new(cases.to_vec());
    let all = run_on(cases[0].ranks(), |transport| {
        let (access, cases) = (FakeDriver::new(disk), shared.clone());
        Box::pin(async move {
            let opened = Opened::new(&transport);
            for round in 0..3 {
                let tags: Vec<_> = cases.iter().map(|_| opened.tags.next()).collect();
                let mut calls: Vec<BoxFuture<'_, _>> = Vec::new();
                for (case, tags) in cases.iter().zip(&tags) {
                    let file = (&opened, tags);
                    let call = call_next(case, &access, &transport, None, Way::Write, file);
                    calls.push(Box::pin(call));
                }
                calls.rotate_left((transport.rank() + round) % cases.len());
                for (_, result, _) in join_all(calls).await {
                    assert_eq!(result, Ok(()));
                }
            }
            opened.counters.totals()
        })
    });
    all.iter().fold(Totals::default(), |mut sum, totals| {
        sum.add(totals);
        sum
    })
}

#[test]
fn pending_calls_repeat_those_that_ended_whatever_their_order_on_each_rank() {
    for hosts in PLACES {
        let case = irregular(hosts);
        let mut cases = Vec::new();
        for number in 0..4 {
            let mut next = shifted(case.clone(), 50 * WINDOW * number);
            for part in &mut next.parts {
                part.blocks[0].1 -= 11 * number as usize;
            }
            cases.push(next);
        }
        let disk = FakeFile::new(vec![]);
        let totals = pending(&cases, &disk);
        let mut file = vec![];
        for case in &cases {
            file = written(&Case { before: file, ..case.clone() });
        }
        assert!(*disk.bytes() == file, "{hosts:?}");
        assert_eq!((totals.plans, totals.plans_reused), (4 * 4, 2 * 4 * 4), "{hosts:?}");
    }
}

#[test]
fn a_file_that_ended_inside_the_first_read_may_end_elsewhere_in_the_next() {
    for hosts in PLACES {
        let case = irregular(hosts);
        let short = Case { before: (0..9000).map(|i| i as u8).collect(), ..case.clone() };
        let grow = |len: u64| {
            let mut grow = case.clone();
            for (rank, part) in grow.parts.iter_mut().enumerate() {
                let at = len - 40 + 10 * rank as u64;
                part.view = view_of(at, Datatype::bytes(1));
                part.blocks = vec![(0, 10)];
            }
            grow
        };
        let mut steps = vec![step(&short, Way::Read)];
        for len in [9001, 10_007, 13_333, 30_000] {
            steps.push(step(&grow(len), Way::Write));
            steps.push(step(&short, Way::Read));
        }
        let counts = counts(&steps);
        assert!([2, 4, 6, 8].iter().all(|read| !is_planned(&counts[*read])));
    }
}

#[test]
fn calls_in_atomic_mode_repeat_others_in_it() {
    let case = irregular(ONE_NODE);
    let plain = step(&case, Way::Write);
    let atomic = Step { atomic: true, ..plain.clone() };
    // Data takes another way, with another plan.
    let steps = [&plain, &atomic, &atomic, &plain].map(Step::clone);
    let planned: Vec<bool> = counts(&steps).iter().map(is_planned).collect();
    assert!(planned[0] && planned[1], "{planned:?}");
}

#[test]
fn what_takes_too_much_memory_is_planned_each_time() {
    for hosts in [NO_MEMORY, TWO_NODES] {
        let mut case = irregular(hosts);
        case.hints.cb_buffer_size = 1 << 20;
        for (rank, part) in case.parts.iter_mut().enumerate() {
            let place = |i: u64| (8 * (4 * i + rank as u64) + i % 5) as i64;
            let pieces: Vec<(u64, i64)> = (0..200_000).map(|i| (1 + i % 3, place(i))).collect();
            let filetype = Datatype::hindexed(&pieces, &Datatype::bytes(1)).expect("pieces");
            part.blocks = vec![(0, filetype.size() as usize)];
            part.view = view_of(0, filetype);
        }
        let counts = counts(&vec![step(&case, Way::Write); 2]);
        assert!(counts.iter().all(is_planned), "{hosts:?}");
        assert_eq!(counts[0].metadata_bytes, counts[1].metadata_bytes);
    }
}

/// How a step differs from the first call.
#[derive(Clone, Debug)]
struct Change {
    write: bool,
    /// Bits of ranks that have changed places in their views.
    ranks: u8,
    /// Distance in the file, and whether it is in windows.
    shift: (u64, bool),
    copies: u64,
    smaller: bool,
}

fn any_change() -> impl Strategy<Value = Change> {
    let ranks = prop_oneof![4 => Just(0u8), 1 => any::<u8>()];
    let shift =
        prop_oneof![2 => Just((0, true)), 2 => (0..4u64, Just(true)), 1 => (0..50u64, Just(false))];
    let copies = prop_oneof![3 => Just(0u64), 1 => 0..3u64];
    (any::<bool>(), ranks, shift, copies, proptest::bool::weighted(0.1)).prop_map(
        |(write, ranks, shift, copies, smaller)| Change { write, ranks, shift, copies, smaller },
    )
}

fn changed(case: &Case, change: &Change) -> Step {
    let mut next = case.clone();
    for (rank, part) in next.parts.iter_mut().enumerate() {
        part.position += 3 * u64::from(change.ranks >> rank & 1);
    }
    let (shift, windows) = change.shift;
    let whole = (case.hints.cb_buffer_size * case.facts.block_size).min(1 << 14);
    let next = shifted(next, if windows { shift * whole } else { shift });
    let mut next = later(next, change.copies);
    if change.smaller {
        next.hints.cb_buffer_size = next.hints.cb_buffer_size.div_ceil(2);
    }
    let next = if conflict(&next) { disjoint(next) } else { next };
    step(&next, if change.write { Way::Write } else { Way::Read })
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn whatever_repeats_and_whatever_changes_the_bytes_are_those_of_the_views(
        case in any_case(), changes in vec(any_change(), 1..5), order in vec(0..5usize, 2..12),
    ) {
        let steps: Vec<Step> =
            order.iter().map(|i| changed(&case, &changes[i % changes.len()])).collect();
        check(&steps)?;
    }
}
