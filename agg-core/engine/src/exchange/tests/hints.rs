//! Hints that act: the requests that reach the file, rank by rank, with data in shared memory.

use super::bounds::records;
use super::cases::NOBODYS;
use super::disk::{FakeDriver, FakeFile, Seen};
use super::{Fresh, Request, Way};
use aggio_base::diagnostics::Diagnostics;
use aggio_comm::tags::Tags;
use aggio_comm::transport::threads::testing::run_on;
use aggio_comm::transport::{ThreadTransport, Transport};
use aggio_config::hints::{Hints, Sources};
use aggio_types::datatype::Datatype;
use aggio_types::memory::Memory;
use std::sync::Arc;

/// Bytes of a record, and how many records each of four ranks has.
const RECORD: usize = 100;
const RECORDS: usize = 200;
const FILE: u64 = (4 * RECORD * RECORDS) as u64;

/// The requests that each of four ranks makes when they move records in turn; the aggregators are
/// ranks 1 and 3.
fn requests(way: Way, hints: &[(&str, &str)]) -> Vec<Vec<Seen>> {
    let pairs: Vec<_> = hints.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let hints = Hints::resolve(&Sources::default(), "/x", &pairs, &mut Diagnostics::default());
    let (hints, disk) = (Arc::new(hints), FakeFile::new(vec![NOBODYS; FILE as usize]));
    run_on(ThreadTransport::group(4), |transport| {
        let (hints, access) = (Arc::clone(&hints), FakeDriver::new(&disk));
        Box::pin(async move {
            let rank = transport.rank() as u64;
            let view = records(rank, RECORD as u64, 4 * RECORD as u64);
            let mut data = vec![rank as u8; RECORD * RECORDS];
            // SAFETY: `data` outlives the call.
            let memory =
                unsafe { Memory::new(data.as_mut_ptr(), Datatype::bytes(data.len() as u64), 1) };
            let aggregators: &[usize] = if hints.cb_nodes == 1 { &[1] } else { &[1, 3] };
            let fresh = Fresh::new(&*transport, &access, aggregators, &hints);
            let scene = fresh.scene();
            let request = Ok(Request { view: &view, position: 0, memory: &memory });
            let tags = Tags::new(transport.max_tag()).next();
            let outcome = way.call(scene, request, &tags).await;
            assert_eq!((outcome.bytes, outcome.result), ((RECORD * RECORDS) as u64, Ok(())));
            access.requests()
        })
    })
}

const WAYS: [Way; 2] = [Way::Read, Way::Write];

fn bytes(seen: &[Seen]) -> u64 {
    seen.iter().map(|request| request.len).sum()
}

#[test]
fn cb_buffer_size_bounds_the_length_of_requests() {
    for way in WAYS {
        let all = requests(way, &[("cb_buffer_size", "5000")]).concat();
        assert!(all.iter().all(|request| request.len <= 5000), "{all:?}");
        assert_eq!((all.len(), bytes(&all)), (16, FILE));
        assert_eq!(requests(way, &[]).concat().len(), 1);
    }
}

#[test]
fn cb_nodes_says_how_many_ranks_make_requests() {
    for way in WAYS {
        let all = requests(way, &[("cb_nodes", "1"), ("cb_buffer_size", "5000")]);
        let moved: Vec<u64> = all.iter().map(|seen| bytes(seen)).collect();
        assert_eq!(moved, [0, FILE, 0, 0]);
        let all = requests(way, &[("cb_nodes", "2"), ("cb_buffer_size", "5000")]);
        let moved: Vec<u64> = all.iter().map(|seen| bytes(seen)).collect();
        assert_eq!(moved, [0, FILE / 2, 0, FILE / 2]);
    }
}

#[test]
fn striping_unit_places_the_borders_of_file_domains() {
    for way in WAYS {
        let hints = [("cb_nodes", "2"), ("striping_unit", "30000"), ("cb_buffer_size", "7000")];
        let all = requests(way, &hints);
        // Half the file is 40,000 bytes: the next border between stripes is at 60,000.
        assert_eq!((bytes(&all[1]), bytes(&all[3])), (60_000, FILE - 60_000));
        assert!(all[1].iter().all(|request| request.end() <= 60_000), "{:?}", all[1]);
        assert!(all[3].iter().all(|request| request.offset >= 60_000), "{:?}", all[3]);
    }
}

#[test]
fn romio_min_fdomain_size_leaves_small_files_to_fewer_ranks() {
    for way in WAYS {
        let all = requests(way, &[("cb_nodes", "2"), ("romio_min_fdomain_size", "80000")]);
        assert_eq!((bytes(&all[1]), bytes(&all[3])), (FILE, 0));
    }
}

#[test]
fn ranks_serve_themselves_where_hints_switch_collective_buffering_off() {
    for seen in requests(Way::Write, &[("romio_cb_write", "disable")]) {
        assert_eq!((seen.len(), bytes(&seen)), (RECORDS, FILE / 4));
    }
    let pieces = [("romio_cb_read", "disable"), ("romio_ds_read", "disable")];
    for seen in requests(Way::Read, &pieces) {
        assert_eq!((seen.len(), bytes(&seen)), (RECORDS, FILE / 4));
    }
    let sieved =
        [("romio_cb_read", "disable"), ("romio_ds_read", "enable"), ("ind_rd_buffer_size", "2000")];
    for seen in requests(Way::Read, &sieved) {
        // 5 records and the gaps between them make 1700 bytes, 6 would be 2100.
        assert_eq!(seen.len(), RECORDS / 5);
        assert!(seen.iter().all(|request| request.len == 1700), "{seen:?}");
    }
}

#[test]
fn a_promise_of_collective_calls_makes_all_of_them_go_through_aggregators() {
    for way in WAYS {
        let hints =
            [("romio_no_indep_rw", "true"), ("romio_cb_write", "disable"), ("cb_nodes", "1")];
        let all = requests(way, &hints);
        assert_eq!((bytes(&all[1]), bytes(&all[0])), (FILE, 0));
    }
}
