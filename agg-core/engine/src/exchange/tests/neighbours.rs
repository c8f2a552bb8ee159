//! Other accesses at the same time: in the gaps, in atomic mode, and by pending operations.

use super::cases::{Case, NOBODYS, Part};
use super::disk::{FakeDriver, FakeFile, facts};
use super::{Fresh, Way, call};
use aggio_base::Extent;
use aggio_base::report::Counters;
use aggio_comm::tags::Tags;
use aggio_comm::task::{BoxFuture, join_all};
use aggio_comm::transport::threads::testing::{run, run_on};
use aggio_comm::transport::{SharedLocks, ThreadLocks, ThreadTransport, Transport, lock};
use aggio_config::hints::{Hints, Switch};
use aggio_store::driver::Driver;
use aggio_types::datatype::Datatype;
use aggio_types::memory::Memory;
use aggio_types::view::{Representation, View};
use std::sync::Arc;

fn small_windows() -> Hints {
    let mut hints = Hints::default();
    hints.cb_buffer_size = 64;
    hints.romio_cb_write = Switch::Enable;
    hints.romio_cb_read = Switch::Enable;
    hints
}

/// A view of records of `len` bytes, one in `every`, from record `first` on.
fn records(first: u64, len: u64, every: u64) -> View {
    let record = Datatype::bytes(len).resized(0, (len * every) as i64).expect("a small extent");
    View::new(first * len, Datatype::bytes(1), record, Representation::Native, true)
        .expect("an ascending filetype")
}

fn case(parts: Vec<Part>, before: Vec<u8>) -> Arc<Case> {
    let hints = small_windows();
    let (aggregators, hosts) = (vec![1, 0], vec![0; parts.len()]);
    let (facts, memory, base) = (facts(8), false, 0);
    let habits = vec![0; parts.len()];
    Arc::new(Case { aggregators, parts, facts, hints, before, memory, base, hosts, habits })
}

#[test]
fn two_programs_that_write_in_each_others_gaps_lose_nothing() {
    let disk = FakeFile::new(vec![NOBODYS; 6000]);
    // Two groups of three ranks; together they own five of every six records.
    std::thread::scope(|scope| {
        for program in 0..2 {
            let disk = &disk;
            scope.spawn(move || {
                let parts = (0..3u64)
                    .map(|rank| Part {
                        view: records(rank * 2 + program, 3, 6),
                        position: 0,
                        blocks: if rank * 2 + program == 5 { vec![] } else { vec![(0, 999)] },
                        base: 0,
                    })
                    .collect();
                let case = case(parts, vec![]);
                for _ in 0..20 {
                    let results = run_on(ThreadTransport::group(3), |transport| {
                        let access = Arc::new(FakeDriver::new(disk));
                        Box::pin(call(Arc::clone(&case), access, transport, None, Way::Write))
                    });
                    assert!(results.iter().all(|result| result.1.is_ok()));
                }
            });
        }
    });
    let disk = disk.bytes();
    for (at, found) in disk.iter().enumerate() {
        let (record, turn) = (at / 3 % 6, at / 18);
        let wanted = match record {
            5 => NOBODYS,
            _ if turn >= 333 => NOBODYS,
            _ => super::byte(record / 2, turn * 3 + at % 3),
        };
        assert_eq!(*found, wanted, "byte {at}");
    }
}

#[test]
fn in_atomic_mode_overlapping_writes_end_in_rank_order_and_are_seen_whole() {
    const SIZE: usize = 1000;
    let disk = FakeFile::new(vec![NOBODYS; SIZE]);
    let shared: Arc<dyn SharedLocks> = Arc::new(ThreadLocks::default());
    let part = || Part { view: View::bytes(), position: 0, blocks: vec![(0, SIZE)], base: 0 };
    let case = case((0..4).map(|_| part()).collect(), vec![]);
    std::thread::scope(|scope| {
        // An independent reader that takes the same locks sees all of the write or nothing of it.
        let (disk, shared) = (&disk, &shared);
        let reader = scope.spawn(move || {
            let (mut seen, mut new) = (vec![0; SIZE], false);
            while !new {
                let whole = lock(&**shared, Extent::new(0, SIZE as u64), false);
                let guard = aggio_comm::task::block_on(whole, |_| std::thread::yield_now());
                let access = FakeDriver::new(disk);
                access.read_contig(&mut seen, 0, &Counters::default());
                drop(guard);
                new = seen[0] != NOBODYS;
                assert!(seen.iter().all(|byte| (*byte != NOBODYS) == new), "half of a write");
            }
        });
        let results = run(4, |transport| {
            let access = Arc::new(FakeDriver::new(disk));
            let locks = Some(Arc::clone(shared));
            Box::pin(call(Arc::clone(&case), access, transport, locks, Way::Write))
        });
        assert!(results.iter().all(|result| result.1.is_ok()));
        reader.join().expect("the reader saw whole writes");
    });
    let wanted: Vec<u8> = (0..SIZE).map(|i| super::byte(3, i)).collect();
    assert_eq!(*disk.bytes(), wanted);
}

#[test]
fn many_pending_operations_of_one_file_do_not_mix_up_their_messages() {
    const PENDING: usize = 40;
    let disk = FakeFile::new(vec![]);
    let counts = run(3, |transport| {
        let disk = Arc::clone(&disk);
        Box::pin(async move {
            let (rank, tags) = (transport.rank(), Tags::new(200));
            let (access, hints) = (FakeDriver::new(&disk), small_windows());
            let fresh = Fresh::new(&*transport, &access, &[2, 0], &hints).with(facts(8));
            let scene = fresh.scene();
            let view = records(rank as u64, 2, 3);
            let mut data: Vec<Vec<u8>> =
                (0..PENDING).map(|i| vec![(i * 3 + rank) as u8; 100]).collect();
            let mut calls: Vec<BoxFuture<'_, u64>> = Vec::new();
            for (i, data) in data.iter_mut().enumerate() {
                // SAFETY: `data` outlives the calls, which are all awaited below.
                let memory = unsafe { Memory::new(data.as_mut_ptr(), Datatype::bytes(100), 1) };
                let (tags, view, position) = (tags.next(), &view, i as u64 * 100);
                calls.push(Box::pin(async move {
                    let request = super::Request { view, position, memory: &memory };
                    super::write(scene, Ok(request), &tags).await.bytes
                }));
            }
            // Ranks poll their pending operations in different orders.
            calls.rotate_left(rank * PENDING / 3);
            join_all(calls).await.into_iter().sum::<u64>()
        })
    });
    assert_eq!(counts, [PENDING as u64 * 100; 3]);
    for (at, byte) in disk.bytes().iter().enumerate() {
        let (rank, position) = (at / 2 % 3, at / 6 * 2 + at % 2);
        assert_eq!(*byte, (position / 100 * 3 + rank) as u8, "byte {at}");
    }
}
