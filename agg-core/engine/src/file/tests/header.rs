//! Headers that the first rank writes alone wait with the data that they announce.

use super::*;
use aggio_plan::format::Recognised;
use aggio_plan::format::testing::{head_of, recognise};
use std::sync::Barrier;

const RANKS: usize = 3;
/// Bytes of the header, and of a record of each rank.
const HEADER: usize = 16;
const RECORD: usize = 10;

/// All ranks open the file, with its format set, and run `body`.
fn on_records(nodes: usize, body: impl Fn(&Rank, &Barrier) + Send + Sync + 'static) -> Vec<u8> {
    let scratch = Scratch::new();
    let (name, barrier) = (scratch.name(), Barrier::new(RANKS));
    ranks_on(on(nodes, RANKS), move |transport| {
        let request = OpenRequest::new(&name, CREATE, hints(&[DEFER]));
        let file = wait(&*transport, engine().open(transport.clone(), request)).expect("it opens");
        let rank = Rank { number: transport.rank(), file };
        let head = head_of(HEADER as u32, RECORD as u32);
        let Recognised::Map(map) = recognise(&head) else { panic!("a header") };
        rank.file.storage.format().set_map(map);
        body(&rank, &barrier);
        rank.wait(rank.file.clone().close()).expect("it closes");
    });
    scratch.bytes()
}

/// All ranks write record `number`, each its part.
fn write_record(rank: &Rank, number: usize) {
    let at = HEADER + (RANKS * number + rank.number) * RECORD;
    assert_eq!(moved(rank.write_all(Position::Explicit(at as i64), &[7; RECORD])), RECORD as u64);
}

/// The header with this number of records.
fn head(records: u8) -> Vec<u8> {
    let mut head = head_of(HEADER as u32, RECORD as u32);
    head[4] = records;
    head
}

fn write_head(rank: &Rank, records: u8) {
    assert_eq!(moved(rank.write(Position::Explicit(0), &head(records))), HEADER as u64);
}

/// A record, and the header with it, as a library writes them.
fn write_record_and_head(rank: &Rank, record: usize) {
    write_record(rank, record);
    if rank.number == 0 {
        write_head(rank, record as u8 + 1);
    }
}

fn file_of(records: u8) -> Vec<u8> {
    [head(records), vec![7; RANKS * RECORD * usize::from(records)]].concat()
}

#[test]
fn a_header_that_is_written_with_each_record_reaches_the_file_once() {
    for nodes in NODES {
        let found = on_records(nodes, |rank, barrier| {
            for record in 0..4 {
                write_record_and_head(rank, record);
            }
            barrier.wait();
            let totals = rank.file.counters().totals();
            let waited = 4 + 4 * u64::from(rank.number == 0);
            assert_eq!((totals.deferred, totals.writes_out), (waited, 0), "nothing was asked for");
            barrier.wait();
        });
        assert_eq!(found, file_of(4));
    }
}

#[test]
fn other_ranks_read_the_newest_header_and_what_it_announces() {
    for nodes in NODES {
        let found = on_records(nodes, |rank, barrier| {
            for record in 0..3 {
                write_record_and_head(rank, record);
                barrier.wait();
                if rank.number == 2 {
                    let wanted = file_of(record as u8 + 1);
                    assert_eq!(rank.read(Position::Explicit(0), HEADER).0, head(record as u8 + 1));
                    assert_eq!(rank.read(Position::Explicit(0), wanted.len()).0, wanted);
                }
                barrier.wait();
            }
        });
        assert_eq!(found, file_of(3));
    }
}

#[test]
fn of_headers_that_several_ranks_write_the_last_one_counts() {
    for nodes in NODES {
        let found = on_records(nodes, |rank, barrier| {
            for (turn, writer) in [0, 1, 0, 2].into_iter().enumerate() {
                write_record(rank, turn);
                barrier.wait();
                if rank.number == writer {
                    write_head(rank, turn as u8 + 1);
                }
                barrier.wait();
            }
        });
        assert_eq!(found, file_of(4));
    }
}

#[test]
fn a_header_that_all_write_together_comes_after_the_one_that_waits() {
    for nodes in NODES {
        let found = on_records(nodes, |rank, barrier| {
            write_record(rank, 0);
            if rank.number == 0 {
                write_head(rank, 9);
            }
            barrier.wait();
            let head = if rank.number == 1 { head(1) } else { Vec::new() };
            assert_eq!(moved(rank.write_all(Position::Explicit(0), &head)), head.len() as u64);
        });
        assert_eq!(found, file_of(1));
    }
}

#[test]
fn a_header_stays_where_it_is_while_a_rank_is_still_in_a_write_that_it_may_announce() {
    let found = on_records(1, |rank, barrier| {
        write_record(rank, 0);
        if rank.number == 0 {
            write_head(rank, 1);
            // As if it had done another write with the others, which they have not done yet.
            rank.file.write_behind.waiting().expect("it defers").done += 1;
        }
        barrier.wait();
        if rank.number == 1 {
            let holders = rank.file.write_behind.holders().expect("one node");
            let _ask = holders.ask(true);
            while holders.count() > 1 {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(holders.count(), 1, "the header is stored");
        }
        barrier.wait();
        if rank.number == 0 {
            rank.file.write_behind.waiting().expect("it defers").done -= 1;
        }
        barrier.wait();
    });
    assert_eq!(found, file_of(1));
}
