//! Ranks that fail: no rank hangs, all return the same result, and counts are right.

use super::cases::{Case, NOBODYS, any_case, byte, cases, disjoint};
use super::disk::{FakeDriver, FakeFile};
use super::{Habits, MARGIN, Way, call, expected};
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_base::report::Counters;
use aggio_comm::tags::Tags;
use aggio_comm::transport::Transport;
use aggio_comm::transport::threads::testing::{run, run_on};
use aggio_config::hints::Switch;
use aggio_types::memory::Memory;
use aggio_types::view::View;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Runs a call in which the accesses of rank `victim % ranks` fail after `good` attempts.
fn with_fault(
    case: &Arc<Case>,
    disk: &Arc<FakeFile>,
    way: Way,
    (victim, good, most): (usize, i64, usize),
) -> Vec<(u64, Result<()>, Vec<u8>)> {
    let victim = victim % case.parts.len();
    run_on(case.ranks(), |transport| {
        let mut access = FakeDriver::new(disk);
        if transport.rank() == victim {
            access.good.store(good, Ordering::Relaxed);
            access.most = most;
        }
        Box::pin(call(Arc::clone(case), Arc::new(access), transport, None, way))
    })
}

fn any_fault() -> impl Strategy<Value = (usize, i64, usize)> {
    (0..8usize, prop_oneof![Just(0i64), 0..12i64], prop_oneof![1..9usize, Just(usize::MAX)])
}

/// All ranks have the same result: success, or "no space" with the failing rank's name.
fn same_result(
    results: &[(u64, Result<()>, Vec<u8>)],
    victim: usize,
) -> std::result::Result<bool, TestCaseError> {
    let victim = victim % results.len();
    for (_, result, _) in results {
        prop_assert_eq!(result, &results[0].1);
        if let Err(error) = result {
            prop_assert_eq!(error.class(), ErrorClass::NoSpace);
            prop_assert_eq!(error.rank(), Some(victim));
        }
    }
    Ok(results[0].1.is_err())
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn after_a_failed_write_every_rank_knows_what_is_stored(
        case in any_case(), fault in any_fault(),
    ) {
        let mut case = disjoint(case);
        case.before = vec![NOBODYS; 300];
        let (case, disk) = (Arc::new(case.clone()), FakeFile::far(case.before, case.base));
        let results = with_fault(&case, &disk, Way::Write, fault);
        same_result(&results, fault.0)?;
        let disk = disk.bytes();
        for (rank, (bytes, _, _)) in results.iter().enumerate() {
            let offsets = case.parts[rank].offsets();
            let wrote = |(i, offset): &(usize, usize)| disk.get(*offset) == Some(&byte(rank, *i));
            // Zeros may stand where another rank's bytes extended the file.
            let zero = |(i, offset): &(usize, usize)| {
                byte(rank, *i) == 0 && disk.get(*offset) == Some(&0)
            };
            let stored = offsets.iter().copied().enumerate().filter(wrote).count() as u64;
            let unsure = offsets.iter().copied().enumerate().filter(zero).count() as u64;
            prop_assert!(stored - unsure <= *bytes && *bytes <= stored);
        }
    }

    #[test]
    fn after_a_failed_read_the_bytes_that_count_are_right(
        case in any_case(),
        fault in any_fault(),
    ) {
        let (case, disk) = (Arc::new(case.clone()), FakeFile::far(case.before, case.base));
        let results = with_fault(&case, &disk, Way::Read, fault);
        let failed = same_result(&results, fault.0)?;
        for (part, (bytes, _, buffer)) in case.parts.iter().zip(&results) {
            let (most, wanted) = expected(part, &case.before);
            prop_assert!(*bytes <= most && (failed || *bytes == most));
            for place in part.places().into_iter().take(*bytes as usize) {
                prop_assert_eq!(buffer[MARGIN + place], wanted[MARGIN + place]);
            }
        }
    }
}

/// One rank's write with an error in its arguments on the ranks that `wrong` names.
fn with_wrong_arguments(ranks: usize, wrong: fn(usize) -> bool, mode: Switch) -> Vec<Result<()>> {
    let disk = FakeFile::new(vec![NOBODYS; 10]);
    let results = run(ranks, |transport| {
        let disk = Arc::clone(&disk);
        Box::pin(async move {
            let mut hints = aggio_config::hints::Hints::default();
            hints.romio_cb_write = mode;
            let access = FakeDriver::new(&disk);
            let facts = aggio_store::driver::Driver::facts(&access);
            let counters = Counters::default();
            let scene = super::Scene {
                logs: false,
                staged: false,
                elides: false,
                transport: &*transport,
                driver: &access,
                atomic: None,
                aggregators: &[0, 1],
                facts: &facts,
                hints: &hints,
                counters: &counters,
                habits: &Habits::default(),
                plan_cache: &crate::exchange::PlanCache::default(),
                map: None,
            };
            let (rank, view, mut data) = (transport.rank(), View::bytes(), [7u8; 4]);
            // SAFETY: the bytes live until the call has ended.
            let memory = unsafe {
                Memory::new(data.as_mut_ptr(), aggio_types::datatype::Datatype::bytes(4), 1)
            };
            let request = match wrong(rank) {
                true => Err(Error::new(ErrorClass::Type, format!("type of rank {rank}"))),
                false => {
                    Ok(super::Request { view: &view, position: 4 * rank as u64, memory: &memory })
                }
            };
            let tags = Tags::new(transport.max_tag()).next();
            let outcome = super::write(scene, request, &tags).await;
            assert!(outcome.bytes == 0 || outcome.result.is_ok());
            outcome.result
        })
    });
    let unchanged = *disk.bytes() == [NOBODYS; 10];
    assert_eq!(unchanged, results[0].is_err());
    results
}

#[test]
fn wrong_arguments_of_one_rank_are_everybodys_error_and_nothing_is_written() {
    for mode in [Switch::Automatic, Switch::Enable, Switch::Disable] {
        let wanted = Error::new(ErrorClass::Type, "type of rank 2").with_rank(2);
        let results = with_wrong_arguments(5, |rank| rank >= 2, mode);
        assert_eq!(results, vec![Err(wanted); 5]);
        assert_eq!(with_wrong_arguments(5, |_| false, mode), vec![Ok(()); 5]);
    }
}
