//! Windows of a node with too many ranks for marks of single bytes, which would take too much
//! memory.

use super::bounds::records;
use super::disk::{FakeDriver, FakeFile};
use super::{Fresh, Request, read, write};
use aggio_comm::tags::Tags;
use aggio_comm::transport::Transport;
use aggio_comm::transport::threads::testing::run;
use aggio_config::hints::{Hints, Switch};
use aggio_types::datatype::Datatype;
use aggio_types::memory::Memory;
use std::sync::Arc;

const RANKS: u64 = 33;

/// The lengths of the requests when all ranks write `count` records of `len` bytes in turn and read
/// them again.
fn requests(len: u64, count: u64) -> Vec<u64> {
    let disk = FakeFile::new(Vec::new());
    let shared = Arc::clone(&disk);
    let seen = run(RANKS as usize, move |transport| {
        let access = FakeDriver::new(&shared);
        Box::pin(async move {
            let rank = transport.rank();
            let mut hints = Hints::default();
            (hints.romio_cb_write, hints.romio_cb_read) = (Switch::Enable, Switch::Enable);
            let mut data = vec![rank as u8 + 1; (len * count) as usize];
            let bytes = Datatype::bytes(len * count);
            // SAFETY: `data` outlives both calls.
            let memory = unsafe { Memory::new(data.as_mut_ptr(), bytes, 1) };
            let fresh = Fresh::new(&*transport, &access, &[0], &hints);
            let scene = fresh.scene();
            let view = records(rank as u64, len, RANKS * len);
            let request = Request { view: &view, position: 0, memory: &memory };
            let tags = Tags::new(transport.max_tag());
            let written = write(scene, Ok(request), &tags.next()).await;
            assert_eq!((written.bytes, written.result), (len * count, Ok(())));
            let got = read(scene, Ok(request), &tags.next()).await;
            assert_eq!((got.bytes, got.result), (len * count, Ok(())));
            drop(memory);
            assert!(data.iter().all(|byte| *byte == rank as u8 + 1), "what rank {rank} reads");
            access.requests()
        })
    });
    let content = disk.bytes();
    assert_eq!(content.len() as u64, RANKS * len * count);
    let record = |number: u64| vec![(number % RANKS) as u8 + 1; len as usize];
    assert!(content.chunks(len as usize).zip(0..).all(|(found, number)| found == record(number)));
    seen.concat().iter().map(|request| request.len).collect()
}

#[test]
fn windows_are_as_large_as_the_places_of_pieces_allow() {
    const MIB: u64 = 1 << 20;
    let even = requests(1000, 64);
    assert_eq!(even.len() as u64, 2 * (RANKS * 64_000).div_ceil(MIB), "{even:?}");
    let odd = requests(1001, 64);
    assert_eq!(odd.len() as u64, 2 * (RANKS * 64_064).div_ceil(MIB / 2), "{odd:?}");
}
