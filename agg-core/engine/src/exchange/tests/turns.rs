//! How many ranks write to the file at a time.

use super::bounds::records;
use super::disk::{FakeDriver, FakeFile};
use super::{Fresh, Request, write};
use aggio_comm::tags::Tags;
use aggio_comm::transport::Transport;
use aggio_comm::transport::threads::testing::run;
use aggio_config::hints::Hints;
use aggio_store::driver::{Facts, Outcome};
use aggio_types::datatype::Datatype;
use aggio_types::memory::Memory;
use std::sync::Arc;
use std::time::Duration;

/// The most ranks that wrote at a time when four of them deal out records in turn.
fn most_writers(file_system: &'static str) -> usize {
    let disk = FakeFile::new(Vec::new());
    let shared = Arc::clone(&disk);
    run(4, move |transport| {
        let (facts, pause) = (Facts::of_bytes(file_system), Duration::from_millis(2));
        let driver = FakeDriver { facts, pause, ..FakeDriver::new(&shared) };
        Box::pin(async move {
            let rank = transport.rank();
            let mut hints = Hints::default();
            hints.cb_buffer_size = 4000;
            let mut data = vec![rank as u8; 20_000];
            // SAFETY: `data` outlives the call.
            let memory = unsafe { Memory::new(data.as_mut_ptr(), Datatype::bytes(20_000), 1) };
            let fresh = Fresh::new(&*transport, &driver, &[0], &hints);
            let scene = fresh.scene();
            let view = records(rank as u64, 100, 400);
            let request = Ok(Request { view: &view, position: 0, memory: &memory });
            let tags = Tags::new(transport.max_tag()).next();
            let Outcome { bytes, result } = write(scene, request, &tags).await;
            assert_eq!((bytes, result), (20_000, Ok(())));
        })
    });
    let wanted: Vec<u8> = (0..800).flat_map(|record| [record as u8 % 4; 100]).collect();
    assert!(*disk.bytes() == wanted, "the bytes of the file");
    disk.most_writing()
}

#[test]
fn where_writes_wait_for_each_other_one_rank_writes_at_a_time() {
    assert_eq!(most_writers("ext4"), 1);
    assert!(most_writers("lustre") > 1);
}
