//! Ranks on several nodes: the number of messages, and freedom from deadlock.

use super::cases::Part;
use super::disk::{FakeDriver, FakeFile, facts};
use super::{Fresh, Request};
use crate::exchange::{Heard, hear, step};
use aggio_base::report::Totals;
use aggio_comm::tags::Tags;
use aggio_comm::task::{BoxFuture, join_all};
use aggio_comm::transport::threads::testing::run_on;
use aggio_comm::transport::{ThreadTransport, Transport};
use aggio_config::hints::{Hints, Switch};
use aggio_plan::plan::Summary;
use aggio_types::datatype::Datatype;
use aggio_types::memory::Memory;
use aggio_types::view::{Representation, View};
use std::sync::Arc;

const WINDOW: u64 = 4096;

fn on(hosts: &[usize]) -> Vec<Arc<ThreadTransport>> {
    ThreadTransport::group_on(hosts.iter().map(|host| format!("host{host}")).collect())
}

fn hints() -> Hints {
    let mut hints = Hints::default();
    hints.cb_buffer_size = WINDOW;
    (hints.romio_cb_write, hints.romio_cb_read) = (Switch::Enable, Switch::Enable);
    hints
}

/// Records of `len` bytes of all ranks in turn.
fn in_turn(rank: usize, ranks: usize, len: u64) -> View {
    let record = Datatype::bytes(len).resized(0, (len * ranks as u64) as i64);
    let record = record.expect("a small extent");
    View::new(rank as u64 * len, Datatype::bytes(1), record, Representation::Native, true)
        .expect("an ascending filetype")
}

fn byte(rank: usize, at: usize) -> u8 {
    (at * 7 + rank * 31 + 1) as u8
}

/// All ranks write, or read, this number of bytes in turn; returns the totals of each.
fn transfer(hosts: &[usize], bytes: usize, disk: &Arc<FakeFile>, write: bool) -> Vec<Totals> {
    let ranks = hosts.len();
    run_on(on(hosts), |transport| {
        let disk = Arc::clone(disk);
        Box::pin(async move {
            let (rank, hints) = (transport.rank(), hints());
            let aggregators: Vec<usize> = (0..ranks).collect();
            let access = FakeDriver::new(&disk);
            let fresh = Fresh::new(&*transport, &access, &aggregators, &hints).with(facts(512));
            let scene = fresh.scene();
            let view = in_turn(rank, ranks, 8);
            let wanted: Vec<u8> = (0..bytes).map(|at| byte(rank, at)).collect();
            let mut buffer = if write { wanted.clone() } else { vec![0; bytes] };
            let part = Part { view: view.clone(), position: 0, base: 0, blocks: vec![(0, bytes)] };
            let memory = part.memory(&mut buffer);
            let request = Ok(Request { view: &view, position: 0, memory: &memory });
            let tags = Tags::new(transport.max_tag()).next();
            let outcome = match write {
                true => super::write(scene, request, &tags).await,
                false => super::read(scene, request, &tags).await,
            };
            drop(memory);
            assert_eq!((outcome.bytes, outcome.result), (bytes as u64, Ok(())));
            assert!(buffer == wanted, "rank {rank} has other bytes");
            fresh.counters.totals()
        })
    })
}

#[test]
fn a_node_sends_one_message_for_each_window_of_another_node() {
    for (hosts, nodes) in [(vec![0, 0, 0, 1, 1, 1], 2), (vec![0, 1, 2, 0, 1, 2, 0, 1], 3)] {
        let disk = FakeFile::new(vec![]);
        let bytes = 20_000;
        let costs = transfer(&hosts, bytes, &disk, true);
        let data = (bytes * hosts.len()) as u64;
        let windows = data.div_ceil(WINDOW) + nodes;
        let messages: u64 = costs.iter().map(|cost| cost.messages).sum();
        assert!(messages > 0 && messages <= (nodes - 1) * windows, "{messages}, {windows} windows");
        // Each byte travels at most once, with a few words about where it belongs.
        let sent: u64 = costs.iter().map(|cost| cost.message_bytes).sum();
        assert!(sent <= data * (nodes - 1) / nodes + 64 * messages + data / 10, "{sent} of {data}");
        let wrote: u64 = costs.iter().map(|cost| cost.writes_out).sum();
        assert!(wrote <= windows, "{wrote} writes of {windows} windows");
    }
}

#[test]
fn a_node_asks_once_for_each_window_of_another_node_and_gets_what_it_wants() {
    for (hosts, nodes) in [(vec![0, 0, 1, 1], 2), (vec![0, 1, 2, 0, 1, 2, 0, 1], 3)] {
        let disk = FakeFile::new(vec![]);
        let bytes = 20_000;
        transfer(&hosts, bytes, &disk, true);
        let costs = transfer(&hosts, bytes, &disk, false);
        let data = (bytes * hosts.len()) as u64;
        let windows = data.div_ceil(WINDOW) + nodes;
        let messages: u64 = costs.iter().map(|cost| cost.messages).sum();
        assert!(messages > 0 && messages <= 2 * (nodes - 1) * windows, "{messages}, {windows}");
        let sent: u64 = costs.iter().map(|cost| cost.message_bytes).sum();
        assert!(sent <= data * (nodes - 1) / nodes + 64 * messages + data / 10, "{sent} of {data}");
        let read: u64 = costs.iter().map(|cost| cost.bytes_read_out).sum();
        assert!(read <= data, "{read} bytes read of {data}");
    }
}

/// The messages to other nodes that each rank sends in a call that moves no data in messages.
fn meetings_of(nodes: usize, ranks: usize) -> Vec<Vec<usize>> {
    let hosts: Vec<usize> = (0..ranks).map(|rank| rank % nodes).collect();
    run_on(on(&hosts), |transport| {
        Box::pin(async move {
            let tags = Tags::new(transport.max_tag()).next();
            let mine = Summary { kind: 2, ..Summary::default() };
            let heard =
                hear(&*transport, &tags, mine, None).await.expect("all are in one operation");
            let Heard { meeting, members, nodes, .. } = heard;
            let own = transport.nodes().beside(transport.rank()).count();
            assert_eq!((members.len(), nodes.len()), (own, transport.nodes().count()));
            meeting.agree(step::AGREE, Ok(())).await.expect("nobody fails");
            transport.sent_abroad()
        })
    })
}

#[test]
fn ranks_meet_in_a_logarithm_of_messages_of_a_few_words_for_each_node() {
    for nodes in [2, 3, 8] {
        let (few, many) = (meetings_of(nodes, 2 * nodes), meetings_of(nodes, 5 * nodes));
        assert_eq!(
            few[..nodes],
            many[..nodes],
            "the number of ranks of a node makes no difference"
        );
        for (rank, sent) in many.iter().enumerate() {
            // Summaries of all nodes; the next rank; the result.
            let rounds = nodes.next_power_of_two().ilog2() as usize;
            let most = if rank < nodes { 3 * rounds } else { 0 };
            let (count, bytes) = (sent.len(), sent.iter().sum::<usize>());
            assert!(count <= most, "{count} messages of rank {rank}, {nodes} nodes");
            assert!(bytes <= 64 * nodes + 32 * count, "{bytes} bytes of rank {rank}");
        }
    }
}

#[test]
fn pending_operations_get_on_whatever_their_order_on_each_node() {
    const PENDING: usize = 20;
    let hosts = [0, 1, 0, 1, 2];
    let disk = FakeFile::new(vec![]);
    let counts = run_on(on(&hosts), |transport| {
        let disk = Arc::clone(&disk);
        Box::pin(async move {
            let (rank, tags) = (transport.rank(), Tags::new(400));
            let (access, hints) = (FakeDriver::new(&disk), hints());
            let fresh = Fresh::new(&*transport, &access, &[2, 1], &hints).with(facts(512));
            let scene = fresh.scene();
            let view = in_turn(rank, hosts.len(), 2);
            let mut data: Vec<Vec<u8>> =
                (0..PENDING).map(|i| vec![(i * 5 + rank) as u8; 100]).collect();
            let mut calls: Vec<BoxFuture<'_, u64>> = Vec::new();
            for (i, data) in data.iter_mut().enumerate() {
                // SAFETY: `data` outlives the calls, which are all awaited below.
                let memory = unsafe { Memory::new(data.as_mut_ptr(), Datatype::bytes(100), 1) };
                let (tags, view, position) = (tags.next(), &view, i as u64 * 100);
                calls.push(Box::pin(async move {
                    let request = Request { view, position, memory: &memory };
                    super::write(scene, Ok(request), &tags).await.bytes
                }));
            }
            calls.rotate_left(rank * PENDING / hosts.len());
            join_all(calls).await.into_iter().sum::<u64>()
        })
    });
    assert_eq!(counts, [PENDING as u64 * 100; 5]);
    for (at, byte) in disk.bytes().iter().enumerate() {
        let (rank, position) = (at / 2 % 5, at / 10 * 2 + at % 2);
        assert_eq!(*byte, (position / 100 * 5 + rank) as u8, "byte {at}");
    }
}
