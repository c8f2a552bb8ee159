//! Ranks that move their bytes before they meet the others.

use super::cases::NOBODYS;
use super::disk::{FakeDriver, FakeFile};
use super::{Habits, PlanCache, Request, Scene, Way};
use aggio_base::error::{Error, ErrorClass};
use aggio_base::report::Counters;
use aggio_comm::tags::Tags;
use aggio_comm::transport::threads::testing::run;
use aggio_comm::transport::{ThreadTransport, Transport};
use aggio_config::hints::Hints;
use aggio_store::driver::{Driver, Facts, Outcome};
use aggio_types::datatype::Datatype;
use aggio_types::memory::Memory;
use aggio_types::view::{Representation, View};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of a rank's part of each call.
const LEN: usize = 64;

/// One rank's calls on one file, and its prediction.
struct Session {
    transport: Arc<ThreadTransport>,
    access: FakeDriver,
    /// On tmpfs requests are prompt, and ranks do not collect separate pieces.
    file_system: &'static str,
    habits: Habits,
    counters: Counters,
    tags: Tags,
}

impl Session {
    fn new(transport: Arc<ThreadTransport>, disk: &Arc<FakeFile>) -> Self {
        let (access, tags) = (FakeDriver::new(disk), Tags::new(transport.max_tag()));
        let (habits, counters) = (Habits::default(), Counters::default());
        Self { transport, access, file_system: "tmpfs", habits, counters, tags }
    }

    fn facts(&self) -> Facts {
        Facts { file_system: self.file_system.into(), ..self.access.facts() }
    }

    /// A call of all ranks with pieces of `piece` bytes, those of the ranks in turn; from byte
    /// `start` of the file on. `None` brings wrong arguments.
    async fn call(&self, way: Way, start: usize, piece: Option<usize>) -> Outcome {
        let (facts, hints) = (self.facts(), Hints::default());
        let scene = Scene {
            logs: false,
            staged: false,
            elides: false,
            transport: &*self.transport,
            driver: &self.access,
            atomic: None,
            aggregators: &[0],
            facts: &facts,
            hints: &hints,
            counters: &self.counters,
            habits: &self.habits,
            plan_cache: &PlanCache::default(),
            map: None,
        };
        let rank = self.transport.rank();
        let mut data = [rank as u8 + 1; LEN];
        // SAFETY: the bytes live until the call has ended.
        let memory = unsafe { Memory::new(data.as_mut_ptr(), Datatype::bytes(LEN as u64), 1) };
        let wrong = Error::new(ErrorClass::Type, "no such type");
        let views = piece.map(|piece| in_turn(start, piece, rank, self.transport.size()));
        let view = views.as_ref();
        let request = view.map(|view| Request { view, position: 0, memory: &memory }).ok_or(wrong);
        let tags = self.tags.next();
        let outcome = way.call(scene, request, &tags).await;
        drop(memory);
        if way == Way::Read && piece.is_some() && outcome.bytes == LEN as u64 {
            assert_eq!(data, [NOBODYS; LEN]);
        }
        outcome
    }
}

/// Pieces of `piece` bytes of each rank in turn.
fn in_turn(start: usize, piece: usize, rank: usize, ranks: usize) -> View {
    let filetype = Datatype::bytes(piece as u64).resized(0, (piece * ranks) as i64);
    let (start, bytes) = ((start + rank * piece) as u64, Datatype::bytes(1));
    View::new(start, bytes, filetype.expect("a small type"), Representation::Native, false)
        .expect("an ascending filetype")
}

/// The file's contents after a write.
fn contents(piece: usize, ranks: usize) -> Vec<u8> {
    (0..LEN * ranks).map(|at| (at / piece % ranks) as u8 + 1).collect()
}

fn all_of_it() -> Outcome {
    Outcome { bytes: LEN as u64, result: Ok(()) }
}

#[test]
fn a_rank_goes_ahead_after_a_call_in_which_each_worked_alone_until_that_is_not_best() {
    let disk = FakeFile::new(vec![]);
    let expected = run(3, |transport| {
        let disk = Arc::clone(&disk);
        Box::pin(async move {
            let session = Session::new(transport, &disk);
            let mut expected = Vec::new();
            for (call, piece) in [LEN, LEN, 8, 8, LEN, LEN].into_iter().enumerate() {
                expected.push(session.habits.expected_of_writes());
                let outcome = session.call(Way::Write, 3 * LEN * call, Some(piece)).await;
                assert_eq!(outcome, all_of_it());
            }
            expected
        })
    });
    let piece = LEN as u64;
    assert_eq!(expected, vec![[0, piece, piece, 0, 0, piece]; 3]);
    let wanted = [LEN, LEN, 8, 8, LEN, LEN].map(|piece| contents(piece, 3)).concat();
    assert_eq!(*disk.bytes(), wanted);
}

#[test]
fn nobody_goes_ahead_where_requests_take_long() {
    let requests = run(3, |transport| {
        let disk = FakeFile::new(vec![]);
        Box::pin(async move {
            let mut session = Session::new(transport, &disk);
            session.file_system = "nfs";
            session.habits = Habits::of_pieces(8);
            assert_eq!(session.call(Way::Write, 0, Some(8)).await, all_of_it());
            session.access.requests().len()
        })
    });
    assert_eq!(requests.iter().sum::<usize>(), 1, "{requests:?}");
}

#[test]
fn who_went_ahead_does_not_keep_others_from_working_together() {
    let disk = FakeFile::new(vec![]);
    let requests = run(3, |transport| {
        let disk = Arc::clone(&disk);
        Box::pin(async move {
            let mut session = Session::new(transport, &disk);
            let first = session.transport.rank() == 0;
            // The first rank has one piece before the others' pieces, which interleave.
            session.habits = Habits::of_pieces(LEN as u64);
            let piece = if first { LEN } else { 8 };
            let start = if first { 0 } else { LEN };
            let outcome = session.call(Way::Write, start, Some(piece)).await;
            assert_eq!(outcome, all_of_it());
            assert_eq!(session.habits.expected_of_writes(), 0);
            session.access.requests().len()
        })
    });
    // One of its own, and one for each pair of neighbouring pieces of the others.
    assert_eq!(requests.iter().sum::<usize>(), 1 + LEN / 8, "{requests:?}");
}

#[test]
fn wrong_arguments_of_one_rank_are_everybodys_error_and_counts_of_who_went_ahead_are_true() {
    let disk = FakeFile::new(vec![NOBODYS; 3 * LEN]);
    let results = run(3, |transport| {
        let disk = Arc::clone(&disk);
        Box::pin(async move {
            let mut session = Session::new(transport, &disk);
            session.habits = Habits::of_pieces(1);
            let piece = (session.transport.rank() != 1).then_some(LEN);
            session.call(Way::Write, 0, piece).await
        })
    });
    let wanted = Error::new(ErrorClass::Type, "no such type").with_rank(1);
    let bytes = results.iter().map(|outcome| outcome.bytes);
    assert_eq!(bytes.collect::<Vec<_>>(), [LEN as u64, 0, LEN as u64]);
    assert!(results.iter().all(|outcome| outcome.result == Err(wanted.clone())), "{results:?}");
    assert_eq!(*disk.bytes(), [[1; LEN], [NOBODYS; LEN], [3; LEN]].concat());
}

#[test]
fn who_went_ahead_counts_its_bytes_although_another_rank_is_in_another_operation() {
    let disk = FakeFile::new(vec![NOBODYS; 3 * LEN]);
    let results = run(3, |transport| {
        let disk = Arc::clone(&disk);
        Box::pin(async move {
            let mut session = Session::new(transport, &disk);
            let reads = session.transport.rank() == 1;
            session.habits = Habits::of_pieces(u64::from(!reads));
            session.call(if reads { Way::Read } else { Way::Write }, 0, Some(LEN)).await
        })
    });
    let bytes: Vec<u64> = results.iter().map(|outcome| outcome.bytes).collect();
    assert_eq!(bytes, [LEN as u64, 0, LEN as u64]);
    assert!(results.iter().all(|outcome| outcome.result.is_err()), "{results:?}");
    assert_eq!(*disk.bytes(), [[1; LEN], [NOBODYS; LEN], [3; LEN]].concat());
}

#[test]
fn an_error_of_a_rank_that_goes_ahead_is_everybodys() {
    let disk = FakeFile::new(vec![NOBODYS; 3 * LEN]);
    for ahead in [[1, 1, 1], [0, 1, 0], [1, 1, 0]] {
        let results = run(3, |transport| {
            let disk = Arc::clone(&disk);
            Box::pin(async move {
                let mut session = Session::new(transport, &disk);
                let rank = session.transport.rank();
                session.habits = Habits::of_pieces(ahead[rank]);
                session.access.good.store(if rank == 1 { 0 } else { -1 }, Ordering::Relaxed);
                session.call(Way::Read, 0, Some(LEN)).await
            })
        });
        for (rank, outcome) in results.iter().enumerate() {
            let error = outcome.result.as_ref().expect_err("rank 1 cannot read");
            assert_eq!((error.class(), error.rank()), (ErrorClass::NoSpace, Some(1)));
            let bytes = if rank != 1 { LEN as u64 * ahead[rank] } else { 0 };
            assert_eq!(outcome.bytes, bytes, "rank {rank} of {ahead:?}");
        }
    }
}

#[test]
fn ranks_that_stay_without_data_end_with_those_that_went_ahead() {
    let disk = FakeFile::new(vec![]);
    run(4, |transport| {
        let disk = Arc::clone(&disk);
        Box::pin(async move {
            let mut session = Session::new(transport, &disk);
            session.habits = Habits::of_pieces(1);
            for _ in 0..1000 {
                assert_eq!(session.call(Way::Write, 0, Some(LEN)).await, all_of_it());
            }
        })
    });
    assert_eq!(*disk.bytes(), contents(LEN, 4));
}
