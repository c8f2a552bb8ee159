//! Collective calls among threads against a byte-by-byte model.

mod bounds;
mod cases;
mod chunks;
mod death;
mod disk;
mod faults;
mod full_nodes;
mod hints;
mod ingredients;
mod keepers;
mod neighbours;
mod nodes;
mod repeats;
mod room;
mod speculative;
mod turns;

use super::{Habits, PlanCache, Request, Scene, read, write};
use aggio_base::error::Result;
use aggio_base::report::Counters;
use aggio_comm::tags::{TagBlock, Tags};
use aggio_comm::transport::threads::testing::run_on;
use aggio_comm::transport::{SharedLocks, ThreadTransport, Transport};
use aggio_config::hints::{Hints, Switch};
use aggio_store::driver::{Driver, Facts, Outcome};
use cases::{Case, Part, any_case, byte, cases, conflict, written};
use disk::{FakeDriver, FakeFile};
use proptest::prelude::*;
use std::sync::Arc;

/// The byte that a buffer holds where nothing was read.
const UNTOUCHED: u8 = 0xEE;

/// Number of guard bytes before the first and behind the last byte of each rank's memory.
const MARGIN: usize = 64;

/// A rank's memory between margins: its data, in order, `data(i)` each, and nothing else.
fn canvas(part: &Part, data: impl Fn(usize) -> Option<u8>) -> Vec<u8> {
    let mut canvas = vec![UNTOUCHED; part.room() + 2 * MARGIN];
    for (i, place) in part.places().into_iter().enumerate() {
        canvas[MARGIN + place] = data(i).unwrap_or(UNTOUCHED);
    }
    canvas
}

/// The memory of a rank that writes.
fn own_data(case: &Case, rank: usize) -> Vec<u8> {
    canvas(&case.parts[rank], |i| Some(byte(rank, i)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Read,
    Write,
}

impl Way {
    async fn call(
        self,
        scene: Scene<'_>,
        request: Result<Request<'_>>,
        tags: &TagBlock,
    ) -> Outcome {
        match self {
            Way::Read => read(scene, request, tags).await,
            Way::Write => write(scene, request, tags).await,
        }
    }
}

/// State of a rank that has just opened a file, in tests of costs.
struct Fresh<'a> {
    transport: &'a dyn Transport,
    driver: &'a dyn Driver,
    aggregators: &'a [usize],
    hints: &'a Hints,
    facts: Facts,
    counters: Counters,
    habits: Habits,
    plan_cache: PlanCache,
}

impl<'a> Fresh<'a> {
    fn new(
        transport: &'a dyn Transport,
        driver: &'a dyn Driver,
        aggregators: &'a [usize],
        hints: &'a Hints,
    ) -> Self {
        let (counters, habits) = (Counters::default(), Habits::default());
        let (facts, plan_cache) = (driver.facts(), PlanCache::default());
        Fresh { transport, driver, aggregators, hints, facts, counters, habits, plan_cache }
    }

    /// With other facts about its file system.
    fn with(self, facts: Facts) -> Self {
        Fresh { facts, ..self }
    }

    fn scene(&self) -> Scene<'_> {
        Scene {
            logs: false,
            staged: false,
            elides: false,
            transport: self.transport,
            driver: self.driver,
            atomic: None,
            aggregators: self.aggregators,
            facts: &self.facts,
            hints: self.hints,
            counters: &self.counters,
            habits: &self.habits,
            plan_cache: &self.plan_cache,
            map: None,
        }
    }
}

/// State of an open file on a rank between calls.
struct Opened {
    tags: Tags,
    counters: Counters,
    plan_cache: PlanCache,
}

impl Opened {
    fn new(transport: &ThreadTransport) -> Self {
        let tags = Tags::new(transport.max_tag());
        Self { tags, counters: Counters::default(), plan_cache: PlanCache::default() }
    }
}

/// One rank's first call: the outcome and its memory, with margins, afterwards.
async fn call(
    case: Arc<Case>,
    access: Arc<FakeDriver>,
    transport: Arc<ThreadTransport>,
    atomic: Option<Arc<dyn SharedLocks>>,
    way: Way,
) -> (u64, Result<()>, Vec<u8>) {
    let opened = Opened::new(&transport);
    let tags = opened.tags.next();
    call_next(&case, &access, &transport, atomic, way, (&opened, &tags)).await
}

/// As [`call`], after others.
async fn call_next(
    case: &Case,
    access: &FakeDriver,
    transport: &ThreadTransport,
    atomic: Option<Arc<dyn SharedLocks>>,
    way: Way,
    (opened, tags): (&Opened, &TagBlock),
) -> (u64, Result<()>, Vec<u8>) {
    let rank = transport.rank();
    let part = &case.parts[rank];
    let mut buffer = match way {
        Way::Read => canvas(part, |_| None),
        Way::Write => own_data(case, rank),
    };
    let memory = part.memory(&mut buffer[MARGIN..][..part.room()]);
    let map = aggio_plan::format::map_of(case.hints.aggio_format);
    let scene = Scene {
        logs: false,
        staged: false,
        elides: false,
        transport,
        driver: access,
        atomic: atomic.as_deref(),
        aggregators: &case.aggregators,
        facts: &case.facts,
        hints: &case.hints,
        counters: &opened.counters,
        plan_cache: &opened.plan_cache,
        map: map.as_deref(),
        habits: &Habits::of_pieces(case.habits[rank]),
    };
    let request = Ok(Request { view: &part.view, position: part.position, memory: &memory });
    let Outcome { bytes, result } = way.call(scene, request, tags).await;
    drop(memory);
    (bytes, result, buffer)
}

fn call_all(case: &Arc<Case>, disk: &Arc<FakeFile>, way: Way) -> Vec<(u64, Result<()>, Vec<u8>)> {
    run_on(case.ranks(), |transport| {
        let access = Arc::new(FakeDriver::new(disk));
        Box::pin(call(Arc::clone(case), access, transport, None, way))
    })
}

/// The expected count and memory of a rank.
fn expected(part: &Part, file: &[u8]) -> (u64, Vec<u8>) {
    let offsets = part.offsets();
    let got = offsets.iter().take_while(|offset| **offset < file.len()).count();
    (got as u64, canvas(part, |i| (i < got).then(|| file[offsets[i]])))
}

fn check_write(mut case: Case) -> std::result::Result<(), TestCaseError> {
    let ordered = !conflict(&case) || !case.memory;
    if conflict(&case) {
        // Without aggregators the order of overlapping writes is open; in shared memory too.
        case.hints.romio_cb_write = Switch::Enable;
    }
    let (case, disk) = (Arc::new(case.clone()), FakeFile::far(case.before, case.base));
    for (rank, (bytes, result, buffer)) in
        call_all(&case, &disk, Way::Write).into_iter().enumerate()
    {
        prop_assert_eq!(result, Ok(()));
        prop_assert_eq!(bytes, case.parts[rank].len() as u64);
        prop_assert_eq!(buffer, own_data(&case, rank));
    }
    nothing_else_is_stored(&case, &disk)?;
    if ordered {
        prop_assert_eq!(&*disk.bytes(), &written(&case));
    } else {
        each_byte_is_somebodys(&case, &disk.bytes())?;
    }
    Ok(())
}

/// No write touched a byte that no rank asked for, not even to leave it as it was.
fn nothing_else_is_stored(case: &Case, disk: &FakeFile) -> std::result::Result<(), TestCaseError> {
    let mut wanted = vec![false; disk.bytes().len()];
    for offset in case.parts.iter().flat_map(Part::offsets) {
        wanted[offset] = true;
    }
    for extent in disk.stored() {
        let outside = (extent.offset..extent.end()).find(|at| !wanted[*at as usize]);
        prop_assert_eq!(outside, None, "stored by {:?}", extent);
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
    let (case, disk) = (Arc::new(case.clone()), FakeFile::far(case.before, case.base));
    for (rank, (bytes, result, buffer)) in call_all(&case, &disk, Way::Read).into_iter().enumerate()
    {
        prop_assert_eq!(result, Ok(()));
        let (wanted_bytes, wanted) = expected(&case.parts[rank], &case.before);
        prop_assert_eq!(buffer, wanted);
        prop_assert_eq!(bytes, wanted_bytes);
    }
    prop_assert_eq!(&*disk.bytes(), &case.before);
    prop_assert_eq!(disk.stored(), vec![]);
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
