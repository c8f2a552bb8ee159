//! Which rank stores which window where requests take long.

use super::bounds::records;
use super::disk::{FakeDriver, FakeFile, Seen};
use super::{Fresh, Request, write};
use aggio_comm::tags::Tags;
use aggio_comm::transport::Transport;
use aggio_comm::transport::threads::testing::run;
use aggio_config::hints::Hints;
use aggio_store::driver::{Driver, Facts};
use aggio_types::datatype::Datatype;
use aggio_types::memory::Memory;
use std::sync::Arc;

const RANKS: usize = 4;
const WINDOW: u64 = 4096;
const CALLS: u64 = 10;
/// Bytes of a rank's record, and how many it writes in a call.
const RECORD: u64 = 100;
const RECORDS: u64 = 50;

/// The requests of each rank when all deal out records in turn, call after call, on a file that
/// only the ranks `with_the_file` have.
fn requests(file_system: &'static str, with_the_file: &'static [usize]) -> Vec<Vec<Seen>> {
    let disk = FakeFile::new(Vec::new());
    let shared = Arc::clone(&disk);
    let seen = run(RANKS, move |transport| {
        let mut access = FakeDriver::new(&shared);
        access.available = with_the_file.contains(&transport.rank());
        Box::pin(async move {
            let (rank, mut hints) = (transport.rank(), Hints::default());
            hints.cb_buffer_size = WINDOW;
            let view = records(rank as u64, RECORD, RANKS as u64 * RECORD);
            let tags = Tags::new(transport.max_tag());
            for call in 0..CALLS {
                let len = RECORD * RECORDS;
                let mut data = vec![rank as u8; len as usize];
                // SAFETY: `data` outlives the call.
                let memory = unsafe { Memory::new(data.as_mut_ptr(), Datatype::bytes(len), 1) };
                let facts = Facts { file_system: file_system.into(), ..access.facts() };
                let fresh = Fresh::new(&*transport, &access, &[0, 2], &hints).with(facts);
                let scene = fresh.scene();
                let request = Ok(Request { view: &view, position: call * len, memory: &memory });
                let outcome = write(scene, request, &tags.next()).await;
                assert_eq!((outcome.bytes, outcome.result), (len, Ok(())));
            }
            access.requests()
        })
    });
    let records = (0..RANKS as u64 * RECORDS * CALLS).map(|record| record as u8 % RANKS as u8);
    let wanted: Vec<u8> = records.flat_map(|rank| [rank; RECORD as usize]).collect();
    assert!(*disk.bytes() == wanted, "the bytes of the file");
    seen
}

/// The ranks that wrote into each window of the file.
fn writers(seen: &[Vec<Seen>]) -> Vec<Vec<usize>> {
    let windows = (RANKS as u64 * RECORD * RECORDS * CALLS).div_ceil(WINDOW);
    let touches = |window: u64| move |request: &Seen| request.offset / WINDOW == window;
    let of = |window| {
        let ranks = 0..RANKS;
        ranks.filter(move |rank| seen[*rank].iter().any(touches(window))).collect()
    };
    (0..windows).map(of).collect()
}

#[test]
fn each_window_of_the_file_has_one_writer_in_all_calls_and_all_ranks_take_part() {
    let seen = requests("lustre", &[0, 1, 2, 3]);
    for (window, writers) in writers(&seen).iter().enumerate() {
        assert_eq!(*writers, [window % RANKS], "window {window}");
    }
    // No call needs more requests than it has windows.
    let calls = CALLS as usize * (RANKS as u64 * RECORD * RECORDS).div_ceil(WINDOW) as usize;
    let requests = seen.iter().map(Vec::len).sum::<usize>();
    assert!(requests <= calls + CALLS as usize, "{requests} requests");
}

#[test]
fn windows_of_a_rank_without_the_file_are_stored_by_the_others() {
    let seen = requests("lustre", &[0, 3]);
    assert!(seen[1].is_empty() && seen[2].is_empty());
    let writers = writers(&seen);
    assert!(writers.iter().step_by(RANKS).all(|writers| *writers == [0]));
    assert!(writers.iter().all(|writers| !writers.is_empty()));
}
