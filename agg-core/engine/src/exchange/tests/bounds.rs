//! Cost of a call: bytes under way, and time for stretches without data.

use super::cases::NOBODYS;
use super::disk::{FakeDriver, FakeFile};
use super::{Fresh, Request};
use aggio_base::error::{ErrorClass, Result};
use aggio_comm::lanes::{Lane, Lanes};
use aggio_comm::tags::Tags;
use aggio_comm::task::BoxFuture;
use aggio_comm::transport::threads::testing::run;
use aggio_comm::transport::{
    NodeTable, Nodes, SharedLocks, SharedPointer, ThreadTransport, Transport,
};
use aggio_config::hints::{Hints, Switch};
use aggio_store::driver::{self, Driver, Facts, OpenHow, Outcome};
use aggio_types::datatype::Datatype;
use aggio_types::memory::Memory;
use aggio_types::view::{Representation, View};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const WINDOW: usize = 4096;

/// A transport that counts the bytes of sends under way.
struct Watched {
    ranks: Arc<ThreadTransport>,
    now: Arc<AtomicUsize>,
    most: AtomicUsize,
}

impl Transport for Watched {
    fn rank(&self) -> usize {
        self.ranks.rank()
    }

    fn size(&self) -> usize {
        self.ranks.size()
    }

    fn hosts(&self) -> &[String] {
        self.ranks.hosts()
    }

    fn send(&self, to: usize, tag: u32, bytes: Vec<u8>) -> BoxFuture<'static, Result<()>> {
        let len = bytes.len();
        let now = self.now.fetch_add(len, Ordering::Relaxed) + len;
        self.most.fetch_max(now, Ordering::Relaxed);
        let (sent, now) = (self.ranks.send(to, tag, bytes), Arc::clone(&self.now));
        Box::pin(async move {
            let result = sent.await;
            now.fetch_sub(len, Ordering::Relaxed);
            result
        })
    }

    fn recv(&self, from: usize, tag: u32, capacity: usize) -> BoxFuture<'static, Result<Vec<u8>>> {
        self.ranks.recv(from, tag, capacity)
    }

    fn max_tag(&self) -> u32 {
        self.ranks.max_tag()
    }

    fn idle(&self, waits: u32) {
        self.ranks.idle(waits);
    }

    fn lanes(&self) -> &Arc<Lanes> {
        self.ranks.lanes()
    }

    fn next(&self) -> Option<Arc<dyn Transport>> {
        self.ranks.next()
    }

    fn extend(&self) -> BoxFuture<'_, Result<Arc<dyn Transport>>> {
        self.ranks.extend()
    }

    fn pointer(&self, lane: &Lane) -> Option<Arc<dyn SharedPointer>> {
        self.ranks.pointer(lane)
    }

    fn nodes(&self) -> &Nodes {
        self.ranks.nodes()
    }

    fn table(&self) -> Option<Arc<NodeTable>> {
        self.ranks.table()
    }

    fn share_locks(&self, tag: u32) -> BoxFuture<'_, Result<Arc<dyn SharedLocks>>> {
        self.ranks.share_locks(tag)
    }
}

/// Moves `data` in small windows through aggregators 0 and 1.
async fn transfer(
    transport: &dyn Transport,
    driver: &dyn Driver,
    view: &View,
    data: &mut [u8],
    tags: &Tags,
    write: bool,
) -> Outcome {
    let mut hints = Hints::default();
    hints.cb_buffer_size = WINDOW as u64;
    (hints.romio_cb_write, hints.romio_cb_read) = (Switch::Enable, Switch::Enable);
    let facts = Facts { block_size: 512, ..driver.facts() };
    let fresh = Fresh::new(transport, driver, &[0, 1], &hints).with(facts);
    let scene = fresh.scene();
    // SAFETY: `data` is borrowed for the whole call.
    let memory = unsafe { Memory::new(data.as_mut_ptr(), Datatype::bytes(data.len() as u64), 1) };
    let tags = tags.next();
    let request = Ok(Request { view, position: 0, memory: &memory });
    match write {
        true => super::write(scene, request, &tags).await,
        false => super::read(scene, request, &tags).await,
    }
}

pub(super) fn records(rank: u64, len: u64, stride: u64) -> View {
    let record = Datatype::bytes(len).resized(0, stride as i64).expect("a small extent");
    View::new(rank * len, Datatype::bytes(1), record, Representation::Native, true)
        .expect("an ascending filetype")
}

#[test]
fn messages_under_way_take_two_windows_at_most_on_each_rank() {
    let disk = FakeFile::new(vec![]);
    // Interleaved records, then contiguous parts that each fill whole windows.
    for record in [64, 100_000] {
        let most = run(4, |ranks| {
            let disk = Arc::clone(&disk);
            Box::pin(async move {
                let tags = Tags::new(ranks.max_tag());
                let watched = Watched { ranks, now: Arc::default(), most: AtomicUsize::new(0) };
                let rank = watched.rank();
                let view = records(rank as u64, record, 4 * record);
                let mut data = vec![rank as u8; 200_000];
                let access = FakeDriver::new(&disk);
                let wrote = transfer(&watched, &access, &view, &mut data, &tags, true).await;
                assert_eq!((wrote.bytes, wrote.result), (200_000, Ok(())));
                data.fill(NOBODYS);
                let got = transfer(&watched, &access, &view, &mut data, &tags, false).await;
                assert_eq!((got.bytes, got.result), (200_000, Ok(())));
                assert!(data.iter().all(|byte| *byte == rank as u8));
                watched.most.load(Ordering::Relaxed)
            })
        });
        // On top of the data only messages of a few hundred bytes: summaries, headers, the end.
        assert!(most.iter().all(|most| *most <= 2 * WINDOW + 1024), "{most:?}");
    }
}

#[test]
fn stretches_of_the_file_without_data_cost_nothing() {
    let path = std::env::temp_dir().join(format!("aggio-sparse-{}", std::process::id()));
    let name = path.to_string_lossy().into_owned();
    let how = OpenHow { path: name, create: true, read: true, write: true, ..OpenHow::default() };
    let file: Arc<dyn Driver> = Arc::from(driver::open(&how).expect("a new file"));
    std::fs::remove_file(&path).expect("the file just made");
    // 500 records, a GiB from one to the next: a hundred million windows.
    let outcomes = run(3, |transport| {
        let file = Arc::clone(&file);
        Box::pin(async move {
            let tags = Tags::new(transport.max_tag());
            let view = records(transport.rank() as u64, 8, 1 << 30);
            let mut data = vec![transport.rank() as u8 + 1; 4000];
            let wrote = transfer(&*transport, &*file, &view, &mut data, &tags, true).await;
            data.fill(NOBODYS);
            let got = transfer(&*transport, &*file, &view, &mut data, &tags, false).await;
            let right = data.iter().all(|byte| *byte == transport.rank() as u8 + 1);
            (wrote.result, wrote.bytes, got.result, got.bytes, right)
        })
    });
    assert_eq!(outcomes, vec![(Ok(()), 4000, Ok(()), 4000, true); 3]);
}

#[test]
fn a_view_without_data_bytes_takes_none_and_delivers_none() {
    let disk = FakeFile::new(vec![3; 100]);
    let outcomes = run(3, |transport| {
        let disk = Arc::clone(&disk);
        Box::pin(async move {
            let view = match transport.rank() {
                1 => View::new(
                    0,
                    Datatype::bytes(1),
                    Datatype::bytes(0),
                    Representation::Native,
                    true,
                )
                .expect("an empty filetype"),
                _ => View::bytes(),
            };
            let (access, tags) = (FakeDriver::new(&disk), Tags::new(transport.max_tag()));
            let mut data = [NOBODYS; 10];
            let got = transfer(&*transport, &access, &view, &mut data, &tags, false).await;
            let wrote = transfer(&*transport, &access, &view, &mut data, &tags, true).await;
            (got.bytes, got.result, data, wrote.bytes, wrote.result.map_err(|e| e.class()))
        })
    });
    for (rank, outcome) in outcomes.into_iter().enumerate() {
        let (bytes, data) = if rank == 1 { (0, [NOBODYS; 10]) } else { (10, [3; 10]) };
        assert_eq!(outcome, (bytes, Ok(()), data, 0, Err(ErrorClass::Arg)), "rank {rank}");
    }
}
