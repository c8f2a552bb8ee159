//! A rank's process ends in the middle of a call: the others end with an error that names it and
//! report the correct number of bytes.

use super::bounds::records;
use super::cases::{NOBODYS, byte};
use super::disk::{FakeDriver, FakeFile};
use super::{Fresh, Request, UNTOUCHED, Way};
use crate::exchange::{Heard, hear};
use aggio_base::Extent;
use aggio_base::error::ErrorClass;
use aggio_comm::tags::{TagBlock, Tags};
use aggio_comm::transport::threads::testing::{run, run_on};
use aggio_comm::transport::{ThreadTransport, Transport};
use aggio_config::hints::{Hints, Switch};
use aggio_plan::plan::Summary;
use aggio_store::driver::{Driver, Facts, Outcome};
use aggio_types::datatype::Datatype;
use aggio_types::memory::Memory;
use std::sync::Arc;

const WINDOW: u64 = 1000;
const FILE: u64 = 8 * WINDOW;

/// The rank that dies would take part from here on.
const SHARED: u64 = 3 * WINDOW;

/// Bytes of each record of rank 0; every second one is its own.
const RECORD: u64 = 100;

/// The rank that dies: meets the others for a call of this kind and then is no more.
async fn die(transport: &dyn Transport, tags: &TagBlock, way: Way) {
    let kind = if way == Way::Write { 2 } else { 1 };
    let span = Extent::between(SHARED, FILE);
    let mine = Summary { span, bytes: 100, pieces: 10, kind, ..Summary::default() };
    let Heard { meeting, .. } = hear(transport, tags, mine, None).await.expect("all live");
    transport.node().expect("memory").pretend_to_have_ended();
    // A process that has ended leaves nothing ready for the next call.
    std::mem::forget(meeting);
}

/// Another rank, which has every `ranks`-th record: its outcome and its buffer.
async fn survive(
    transport: &dyn Transport,
    tags: &TagBlock,
    way: Way,
    disk: &Arc<FakeFile>,
    (ranks, aggregators): (u64, &[usize]),
) -> (Outcome, Vec<u8>) {
    let rank = transport.rank();
    let mut buffer = vec![UNTOUCHED; (FILE / ranks) as usize];
    if way == Way::Write {
        buffer.iter_mut().enumerate().for_each(|(i, place)| *place = byte(rank, i));
    }
    // SAFETY: `buffer` outlives the memory.
    let memory =
        unsafe { Memory::new(buffer.as_mut_ptr(), Datatype::bytes(buffer.len() as u64), 1) };
    let (access, view) = (FakeDriver::new(disk), records(rank as u64, RECORD, ranks * RECORD));
    let mut hints = Hints::default();
    hints.cb_buffer_size = WINDOW;
    (hints.romio_cb_write, hints.romio_cb_read) = (Switch::Enable, Switch::Enable);
    // Requests are prompt there: no window waits for a keeper that has ended.
    let facts = Facts { file_system: "overlay".into(), ..access.facts() };
    let fresh = Fresh::new(transport, &access, aggregators, &hints).with(facts);
    let scene = fresh.scene();
    let request = Ok(Request { view: &view, position: 0, memory: &memory });
    let outcome = way.call(scene, request, tags).await;
    drop(memory);
    (outcome, buffer)
}

/// The result of rank 0 when rank 1 dies in the call.
fn outlive(way: Way, disk: &Arc<FakeFile>) -> (Outcome, Vec<u8>) {
    let mut results = run(2, |transport: Arc<ThreadTransport>| {
        let disk = Arc::clone(disk);
        Box::pin(async move {
            let tags = Tags::new(transport.max_tag()).next();
            match transport.rank() {
                0 => Some(survive(&*transport, &tags, way, &disk, (2, &[0, 1])).await),
                _ => {
                    die(&*transport, &tags, way).await;
                    None
                }
            }
        })
    });
    let (outcome, buffer) = results.remove(0).expect("rank 0 has an outcome");
    let error = outcome.result.as_ref().expect_err("rank 1 is gone");
    assert_eq!((error.class(), error.rank()), (ErrorClass::Other, Some(1)), "{error}");
    (outcome, buffer)
}

#[test]
fn a_write_counts_what_reached_the_file_before_a_peer_ended() {
    let disk = FakeFile::new(vec![NOBODYS; FILE as usize]);
    let (outcome, buffer) = outlive(Way::Write, &disk);
    assert_eq!(outcome.bytes, SHARED / 2);
    for (i, found) in disk.bytes().iter().enumerate() {
        let (record, inside) = (i as u64 / RECORD, i % RECORD as usize);
        let mine = record % 2 == 0 && (i as u64) < SHARED;
        let place = record as usize / 2 * RECORD as usize + inside;
        assert_eq!(*found, if mine { buffer[place] } else { NOBODYS }, "byte {i}");
    }
}

#[test]
fn a_read_counts_what_it_delivered_before_a_peer_ended() {
    let bytes: Vec<u8> = (0..FILE).map(|i| (i % 251) as u8).collect();
    let disk = FakeFile::new(bytes.clone());
    let (outcome, buffer) = outlive(Way::Read, &disk);
    // Windows that were loaded before count, also some that rank 1 never took its data from.
    assert!((SHARED / 2..FILE / 2).contains(&outcome.bytes), "{} bytes", outcome.bytes);
    for (i, found) in buffer.iter().enumerate().take(outcome.bytes as usize) {
        let record = i / RECORD as usize;
        assert_eq!(*found, bytes[i + record * RECORD as usize], "byte {i} of the data");
    }
}

/// The node of each rank. There are two file domains, of ranks 0 and 3; rank 1 is the courier of
/// its node.
const NODES: [&str; 5] = ["a", "a", "a", "b", "b"];
const VICTIM: usize = 2;

/// The results of the others when a rank that neither stores nor sends dies in a call of two nodes.
fn outlive_on_two_nodes(way: Way, disk: &Arc<FakeFile>) -> Vec<(usize, Outcome, Vec<u8>)> {
    let ranks = ThreadTransport::group_on(NODES.map(String::from).to_vec());
    let results = run_on(ranks, |transport| {
        let disk = Arc::clone(disk);
        Box::pin(async move {
            let tags = Tags::new(transport.max_tag()).next();
            if transport.rank() == VICTIM {
                die(&*transport, &tags, way).await;
                return None;
            }
            let ranks = (NODES.len() as u64, &[0, 3][..]);
            let (outcome, buffer) = survive(&*transport, &tags, way, &disk, ranks).await;
            Some((transport.rank(), outcome, buffer))
        })
    });
    let survivors: Vec<_> = results.into_iter().flatten().collect();
    for (rank, outcome, _) in &survivors {
        let error = outcome.result.as_ref().expect_err("a rank is gone");
        assert_eq!((error.class(), error.rank()), (ErrorClass::Other, Some(VICTIM)), "rank {rank}");
    }
    survivors
}

/// The place in the file of a byte of a rank's data.
fn place(rank: usize, at: usize) -> usize {
    let (record, inside) = (at / RECORD as usize, at % RECORD as usize);
    (record * NODES.len() + rank) * RECORD as usize + inside
}

#[test]
fn ranks_of_all_nodes_hear_that_a_writer_ended_and_count_what_is_stored() {
    let disk = FakeFile::new(vec![NOBODYS; FILE as usize]);
    let survivors = outlive_on_two_nodes(Way::Write, &disk);
    let file = disk.bytes();
    for (rank, outcome, buffer) in survivors {
        // The first window; on the other node the whole second file domain, too.
        let share = |bytes: u64| bytes / NODES.len() as u64;
        let sure = share(WINDOW) + if rank < 3 { 0 } else { share(FILE / 2) };
        assert_eq!(outcome.bytes, sure, "rank {rank}");
        let mut stored = 0;
        for (i, byte) in buffer.iter().enumerate() {
            let found = file[place(rank, i)];
            assert!(found == *byte || found == NOBODYS, "byte {i} of rank {rank}");
            stored += u64::from(found == *byte && *byte != NOBODYS);
        }
        let unsure = buffer.iter().filter(|byte| **byte == NOBODYS).count() as u64;
        assert!(sure <= stored + unsure, "rank {rank}: {stored} bytes are stored");
    }
}

#[test]
fn ranks_of_all_nodes_hear_that_a_reader_ended_and_count_what_they_have() {
    let bytes: Vec<u8> = (0..FILE).map(|i| (i % 251) as u8).collect();
    let disk = FakeFile::new(bytes.clone());
    for (rank, outcome, buffer) in outlive_on_two_nodes(Way::Read, &disk) {
        let share = |bytes: u64| bytes / NODES.len() as u64;
        assert!((share(WINDOW)..share(FILE)).contains(&outcome.bytes), "{} bytes", outcome.bytes);
        for (i, found) in buffer.iter().enumerate().take(outcome.bytes as usize) {
            assert_eq!(*found, bytes[place(rank, i)], "byte {i} of rank {rank}");
        }
    }
}
