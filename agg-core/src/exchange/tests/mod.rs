//! Collective calls among threads against a byte-by-byte model.

mod ahead;
mod bounds;
mod cases;
mod death;
mod disk;
mod faults;
mod full_nodes;
mod hints;
mod keepers;
mod neighbours;
mod nodes;
mod turns;

use super::{Habits, Request, Scene, read, write};
use crate::driver::Outcome;
use crate::error::Result;
use crate::hints::Switch;
use crate::report::Counters;
use crate::tags::Tags;
use crate::transport::threads::tests::run_on;
use crate::transport::{SharedLocks, ThreadTransport, Transport};
use cases::{Case, Part, any_case, byte, cases, conflict, written};
use disk::{Access, Disk};
use proptest::prelude::*;
use std::sync::Arc;

/// The byte that a buffer holds where nothing was read.
const UNTOUCHED: u8 = 0xEE;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Read,
    Write,
}

/// One rank's call: the outcome and its buffer afterwards.
async fn call(
    case: Arc<Case>,
    access: Arc<Access>,
    transport: Arc<ThreadTransport>,
    atomic: Option<Arc<dyn SharedLocks>>,
    way: Way,
) -> (u64, Result<()>, Vec<u8>) {
    let rank = transport.rank();
    let part = &case.parts[rank];
    let mut buffer = vec![UNTOUCHED; part.room()];
    if way == Way::Write {
        for (i, place) in part.places().into_iter().enumerate() {
            buffer[place] = byte(rank, i);
        }
    }
    let memory = part.memory(&mut buffer);
    let counters = Counters::default();
    let scene = Scene {
        transport: &*transport,
        driver: &*access,
        atomic: atomic.as_deref(),
        aggregators: &case.aggregators,
        facts: &case.facts,
        hints: &case.hints,
        counters: &counters,
        habits: &Habits::of_pieces(case.habits[rank]),
    };
    let request = Ok(Request { view: &part.view, position: part.position, memory: &memory });
    let tags = Tags::new(transport.max_tag()).next();
    let Outcome { bytes, result } = match way {
        Way::Read => read(scene, request, &tags).await,
        Way::Write => write(scene, request, &tags).await,
    };
    drop(memory);
    (bytes, result, buffer)
}

fn call_all(case: &Arc<Case>, disk: &Arc<Disk>, way: Way) -> Vec<(u64, Result<()>, Vec<u8>)> {
    run_on(case.ranks(), |transport| {
        let access = Arc::new(Access::new(disk));
        Box::pin(call(Arc::clone(case), access, transport, None, way))
    })
}

/// What a rank must get: count and buffer.
fn expected(part: &Part, file: &[u8]) -> (u64, Vec<u8>) {
    let mut buffer = vec![UNTOUCHED; part.room()];
    let mut got = 0;
    for (offset, place) in part.offsets().into_iter().zip(part.places()) {
        let Some(byte) = file.get(offset) else { break };
        buffer[place] = *byte;
        got += 1;
    }
    (got, buffer)
}

fn check_write(mut case: Case) -> std::result::Result<(), TestCaseError> {
    let ordered = !conflict(&case) || !case.memory;
    if conflict(&case) {
        // Without aggregators the order of overlapping writes is open; in shared memory too.
        case.hints.romio_cb_write = Switch::Enable;
    }
    let (case, disk) = (Arc::new(case.clone()), Disk::far(case.before, case.base));
    for (rank, (bytes, result, _)) in call_all(&case, &disk, Way::Write).into_iter().enumerate() {
        prop_assert_eq!(result, Ok(()));
        prop_assert_eq!(bytes, case.parts[rank].len() as u64);
    }
    if ordered {
        prop_assert_eq!(&*disk.bytes(), &written(&case));
    } else {
        each_byte_is_somebodys(&case, &disk.bytes())?;
    }
    Ok(())
}

/// Every byte that ranks wrote is the one of a rank that wrote it, every other is as before.
fn each_byte_is_somebodys(case: &Case, file: &[u8]) -> std::result::Result<(), TestCaseError> {
    let len = written(case).len();
    prop_assert_eq!(file.len(), len);
    let mut allowed: Vec<Vec<u8>> = vec![vec![]; len];
    for (rank, part) in case.parts.iter().enumerate() {
        for (i, offset) in part.offsets().into_iter().enumerate() {
            allowed[offset].push(byte(rank, i));
        }
    }
    for (at, allowed) in allowed.into_iter().enumerate() {
        let before = case.before.get(at).copied().unwrap_or(0);
        let right =
            if allowed.is_empty() { file[at] == before } else { allowed.contains(&file[at]) };
        prop_assert!(right, "byte {} is {}", at, file[at]);
    }
    Ok(())
}

fn check_read(case: Case) -> std::result::Result<(), TestCaseError> {
    let (case, disk) = (Arc::new(case.clone()), Disk::far(case.before, case.base));
    for (rank, (bytes, result, buffer)) in call_all(&case, &disk, Way::Read).into_iter().enumerate()
    {
        prop_assert_eq!(result, Ok(()));
        let (wanted_bytes, wanted) = expected(&case.parts[rank], &case.before);
        prop_assert_eq!(buffer, wanted);
        prop_assert_eq!(bytes, wanted_bytes);
    }
    prop_assert_eq!(&*disk.bytes(), &case.before);
    Ok(())
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn a_collective_write_changes_exactly_the_bytes_of_the_views(case in any_case()) {
        check_write(case)?;
    }

    #[test]
    fn a_collective_read_delivers_the_bytes_before_the_end_of_the_file(case in any_case()) {
        check_read(case)?;
    }
}
