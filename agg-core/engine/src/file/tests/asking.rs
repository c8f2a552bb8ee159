//! Flush on demand: deferred writes are stored for another rank, independent of the writer's calls.

use super::*;
use aggio_comm::transport::Holders;
use aggio_comm::workers::Running;
use aggio_comm::workers::testing::THREADLESS;
use aggio_plan::format::Recognised;
use aggio_plan::format::testing::{head_of, recognise};
use aggio_store::driver::fault::arrange;
use std::sync::Barrier;

const RANKS: usize = 3;

fn open_with(transport: &Arc<ThreadTransport>, name: &str, pairs: &[(&str, &str)]) -> Rank {
    let request = OpenRequest::new(name, CREATE, hints(pairs));
    let file = wait(&**transport, engine().open(transport.clone(), request)).expect("it opens");
    Rank { number: transport.rank(), file }
}

fn close(rank: &Rank) -> Result<()> {
    rank.wait(rank.file.clone().close())
}

/// Writes each rank's part of 10 bytes, deferred.
fn write_parts(rank: &Rank, start: i64, byte: u8) {
    let place = Position::Explicit(start + 10 * rank.number as i64);
    assert_eq!(moved(rank.write_all(place, &[byte + rank.number as u8; 10])), 10);
}

/// The bytes stored by `write_parts`.
fn parts(byte: u8) -> Vec<u8> {
    (0..RANKS as u8).flat_map(|rank| [byte + rank; 10]).collect()
}

#[test]
fn a_rank_that_reads_alone_sees_what_others_have_written_whatever_they_are_at() {
    for nodes in NODES {
        let scratch = Scratch::new();
        let name = scratch.name();
        let (written, read) = (Arc::new(Barrier::new(RANKS)), Arc::new(Barrier::new(RANKS)));
        let totals = ranks_on(on(nodes, RANKS), move |transport| {
            let rank = open_with(&transport, &name, &[DEFER]);
            write_parts(&rank, 0, 1);
            write_parts(&rank, 30, 4);
            // The others are in no call of this file until it has been read.
            written.wait();
            if rank.number == 1 {
                assert_eq!(rank.wait(rank.file.settled()), Ok(()));
                assert_eq!(rank.file.size(), Ok(60));
                assert_eq!(rank.read(Position::Explicit(0), 60).0, [parts(1), parts(4)].concat());
            }
            read.wait();
            let deferred = rank.file.counters().totals().deferred;
            close(&rank).unwrap();
            deferred
        });
        assert_eq!(totals, [2; RANKS], "they waited");
    }
}

#[test]
fn what_a_rank_writes_alone_over_what_waits_elsewhere_stays() {
    for nodes in NODES {
        let scratch = Scratch::new();
        let name = scratch.name();
        let barrier = Arc::new(Barrier::new(RANKS));
        ranks_on(on(nodes, RANKS), move |transport| {
            let rank = open_with(&transport, &name, &[DEFER]);
            write_parts(&rank, 0, 1);
            barrier.wait();
            if rank.number == 2 {
                rank.write(Position::Explicit(5), &[9; 10]);
            }
            barrier.wait();
            write_parts(&rank, 30, 4);
            close(&rank).unwrap();
        });
        let wanted = [&[1; 5][..], &[9; 10], &[2; 5], &[3; 10], &parts(4)].concat();
        assert_eq!(scratch.bytes(), wanted);
    }
}

/// A rank may still be buffering its part of a collective write when others have returned.
#[test]
fn what_a_rank_writes_alone_comes_after_a_collective_write_in_which_others_still_are() {
    const LEN: usize = 64 << 20;
    for (nodes, by_another_handle) in [(1, false), (1, true), (3, false), (2, true)] {
        let scratch = Scratch::new();
        let name = scratch.name();
        ranks_on(on(nodes, RANKS), move |transport| {
            let rank = open_with(&transport, &name, &[DEFER]);
            let mine = vec![1; if rank.number == 1 { LEN } else { 0 }];
            assert_eq!(moved(rank.write_all(Position::Explicit(0), &mine)), mine.len() as u64);
            let end = Position::Explicit(LEN as i64 - 4);
            if rank.number == 0 && by_another_handle {
                let alone = open_with(&ThreadTransport::group(1)[0], &name, &[DEFER]);
                assert_eq!(moved(alone.write(end, &[7; 4])), 4);
                close(&alone).unwrap();
            } else if rank.number == 0 {
                assert_eq!(moved(rank.write(end, &[7; 4])), 4);
            } else if rank.number == 2 {
                assert_eq!(rank.read(Position::Explicit(5), 9).0, [1; 9]);
            }
            close(&rank).unwrap();
        });
        let bytes = scratch.bytes();
        assert_eq!(bytes.len(), LEN);
        assert_eq!(bytes[LEN - 5..], [1, 7, 7, 7, 7], "{by_another_handle}");
    }
}

#[test]
fn a_handle_of_one_rank_sees_and_overwrites_what_waits_with_all_ranks_by_any_name() {
    for nodes in NODES {
        for by_link in [false, true] {
            let (scratch, link) = (Scratch::new(), Scratch::new());
            let (name, other) =
                (scratch.name(), if by_link { link.name() } else { scratch.name() });
            let barrier = Arc::new(Barrier::new(RANKS));
            ranks_on(on(nodes, RANKS), move |transport| {
                let rank = open_with(&transport, &name, &[DEFER]);
                write_parts(&rank, 0, 1);
                barrier.wait();
                if rank.number == 0 {
                    if by_link {
                        std::os::unix::fs::symlink(&name, &other).unwrap();
                    }
                    let alone = ThreadTransport::group(1).remove(0);
                    let alone = open_with(&alone, &other, &[DEFER]);
                    assert_eq!(alone.read(Position::Explicit(0), 30).0, parts(1));
                    alone.write(Position::Explicit(8), &[7; 4]);
                    close(&alone).unwrap();
                }
                barrier.wait();
                rank.wait(rank.file.sync()).unwrap();
                close(&rank).unwrap();
            });
            let wanted = [&[1; 8][..], &[7; 4], &[2; 8], &[3; 10]].concat();
            assert_eq!(scratch.bytes(), wanted, "{by_link}");
        }
    }
}

#[test]
fn nothing_waits_while_a_rank_has_another_handle() {
    for nodes in NODES {
        let scratch = Scratch::new();
        let name = scratch.name();
        let deferred = ranks_on(on(nodes, RANKS), move |transport| {
            let rank = open_with(&transport, &name, &[DEFER]);
            let alone = (rank.number == 0).then(|| ThreadTransport::group(1).remove(0));
            let alone = alone.map(|alone| open_with(&alone, &name, &[DEFER]));
            write_parts(&rank, 0, 1);
            alone.iter().for_each(|alone| close(alone).unwrap());
            drop(alone);
            write_parts(&rank, 30, 4);
            let deferred = rank.file.counters().totals().deferred;
            close(&rank).unwrap();
            deferred
        });
        assert_eq!(deferred, [1; RANKS]);
        assert_eq!(scratch.bytes(), [parts(1), parts(4)].concat());
    }
}

#[test]
fn of_two_collective_calls_the_later_one_counts_when_each_rank_stores_its_part_alone() {
    for nodes in NODES {
        let scratch = Scratch::new();
        let name = scratch.name();
        let barrier = Arc::new(Barrier::new(RANKS));
        ranks_on(on(nodes, RANKS), move |transport| {
            let rank = open_with(&transport, &name, &[DEFER]);
            write_parts(&rank, 0, 1);
            // Shifted by a rank: each writes a range that another rank wrote before.
            let place = 10 * ((rank.number + 1) % RANKS) as i64;
            rank.write_all(Position::Explicit(place), &[20 + rank.number as u8; 10]);
            barrier.wait();
            if rank.number == 1 {
                let wanted = [[22; 10], [20; 10], [21; 10]].concat();
                assert_eq!(rank.read(Position::Explicit(0), 30).0, wanted);
            }
            barrier.wait();
            close(&rank).unwrap();
        });
    }
}

/// Rank 1 reads bytes that cannot be stored the first time; a synchronisation stores them.
fn fails_once(rank: &Rank, barrier: &Barrier, len: usize) {
    barrier.wait();
    if rank.number == 1 {
        let (_, outcome) = rank.read(Position::Explicit(0), len);
        assert_eq!(class(outcome.result), ErrorClass::Io);
    }
    barrier.wait();
    rank.wait(rank.file.sync()).unwrap();
    close(rank).unwrap();
}

#[test]
fn a_rank_that_asks_for_what_cannot_be_stored_hears_of_it_and_nobody_waits() {
    for nodes in NODES {
        let scratch = Scratch::new();
        let _plan = arrange(&scratch.name(), "op=write,nth=1,errno=ENOSPC").expect("a plan");
        let name = format!("testfs:{}", scratch.name());
        let barrier = Arc::new(Barrier::new(2));
        ranks_on(on(nodes, 2), move |transport| {
            let rank = open_with(&transport, &name, &[DEFER]);
            // The other one takes part without a byte.
            let data = vec![5; if rank.number == 0 { 10 } else { 0 }];
            rank.write_all(Position::Explicit(0), &data);
            fails_once(&rank, &barrier, 10);
        });
        assert_eq!(scratch.bytes(), [5; 10]);
    }
}

#[test]
fn what_finds_no_room_makes_all_write_together() {
    for nodes in NODES {
        let scratch = Scratch::new();
        let name = scratch.name();
        let small = [DEFER, ("aggio_tune", "defer_buffer=35")];
        let totals = ranks_on(on(nodes, RANKS), move |transport| {
            let rank = open_with(&transport, &name, &small);
            (0..10).for_each(|call| write_parts(&rank, 30 * call, 1));
            close(&rank).unwrap();
            rank.file.counters().totals()
        });
        assert!(
            totals.iter().all(|totals| (totals.deferred, totals.flushes) == (10, 4)),
            "{totals:?}"
        );
        assert_eq!(scratch.bytes(), parts(1).repeat(10));
    }
}

/// Begins to read into `buffer`, and returns when this rank's buffered writes are being flushed.
fn launch_read_all(rank: &Rank, buffer: &mut [u8]) -> Running<Outcome> {
    let running = rank.file.launch(Call {
        operation: "MPI_File_iread_at_all",
        direction: Direction::Read,
        position: Position::Explicit(0),
        collective: true,
        memory: Ok(bytes(buffer)),
    });
    let flies = || rank.file.write_behind.waiting().is_some_and(|waiting| waiting.flying.is_some());
    while !flies() {
        assert!(running.poll().is_none());
    }
    running
}

fn end(running: &Running<Outcome>) -> Outcome {
    loop {
        match running.poll() {
            Some(outcome) => return outcome,
            None => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_rank_that_waits_for_others_in_a_flush_does_not_write_over_what_they_wrote_since() {
    for nodes in NODES {
        let scratch = Scratch::new();
        let name = scratch.name();
        let barrier = Arc::new(Barrier::new(2));
        ranks_on(on(nodes, 2), move |transport| {
            let rank = open_with(&transport, &name, &[DEFER]);
            write_parts(&rank, 0, 1);
            let mut buffer = [0; 20];
            let first = (rank.number == 0).then(|| launch_read_all(&rank, &mut buffer));
            barrier.wait();
            if rank.number == 1 {
                rank.write(Position::Explicit(0), &[9; 10]);
            }
            barrier.wait();
            if rank.number == 0 {
                assert_eq!(rank.read(Position::Explicit(0), 10).0, [9; 10], "alone");
            }
            barrier.wait();
            let running = first.unwrap_or_else(|| launch_read_all(&rank, &mut buffer));
            assert_eq!(moved(end(&running)), 20);
            assert_eq!(buffer, [[9; 10], [2; 10]].concat()[..], "together");
            close(&rank).unwrap();
        });
        assert_eq!(scratch.bytes(), [[9; 10], [2; 10]].concat());
    }
}

#[test]
fn a_rank_that_asks_for_a_header_that_cannot_be_stored_hears_of_it() {
    for nodes in NODES {
        let scratch = Scratch::new();
        let _plan = arrange(&scratch.name(), "op=write,rank=0,nth=1,errno=EIO").expect("a plan");
        let name = format!("testfs:{}", scratch.name());
        let barrier = Arc::new(Barrier::new(2));
        let head = head_of(16, 10);
        let wanted = [&head[..], &[7; 10]].concat();
        ranks_on(on(nodes, 2), move |transport| {
            let rank = open_with(&transport, &name, &[DEFER]);
            let Recognised::Map(map) = recognise(&head) else { panic!("a header") };
            rank.file.storage.format().set_map(map);
            let part = [&head[..], &[7; 10]][rank.number];
            rank.write_all(Position::Explicit(16 * rank.number as i64), part);
            fails_once(&rank, &barrier, 26);
        });
        assert_eq!(scratch.bytes(), wanted);
    }
}

#[test]
fn without_threads_that_could_answer_nothing_waits() {
    let scratch = Scratch::new();
    let _plan = arrange(&scratch.name(), "op=write,rank=0,nth=2,errno=ENOSPC").expect("a plan");
    let name = format!("testfs:{}", scratch.name());
    let barrier = Arc::new(Barrier::new(2));
    ranks(2, move |transport| {
        THREADLESS.set(true);
        let rank = open_with(&transport, &name, &[DEFER]);
        for (call, is_stored) in [true, false, true].into_iter().enumerate() {
            rank.write_all(
                Position::Explicit(20 * call as i64 + 10 * rank.number as i64),
                &[5; 10],
            );
            barrier.wait();
            if rank.number == 1 {
                let (bytes, outcome) = rank.read(Position::Explicit(0), 20 * (call + 1));
                let found = outcome.result.map(|()| bytes == vec![5; 20 * (call + 1)]);
                let found = found.map_err(|error| error.class());
                assert_eq!(found, if is_stored { Ok(true) } else { Err(ErrorClass::Io) }, "{call}");
            }
            barrier.wait();
        }
        close(&rank).unwrap();
    });
    assert_eq!(scratch.bytes(), [5; 60]);
}

#[test]
fn a_rank_that_asks_one_whose_process_has_ended_does_not_wait() {
    for nodes in NODES {
        let scratch = Scratch::new();
        let name = scratch.name();
        let barrier = Arc::new(Barrier::new(2));
        ranks_on(on(nodes, 2), move |transport| {
            let rank = open_with(&transport, &name, &[DEFER]);
            write_parts(&rank, 0, 1);
            // Writes still buffered when a process ends are never stored.
            let hold =
                rank.file.write_behind.holders().filter(|_| rank.number == 0).map(Holders::hold);
            if rank.number == 0 {
                transport.node().expect("memory of the node").pretend_to_have_ended();
            }
            barrier.wait();
            if rank.number == 1 {
                let (_, outcome) = rank.read(Position::Explicit(0), 10);
                let class = if nodes == 1 { ErrorClass::Other } else { ErrorClass::Io };
                assert_eq!(failed(outcome).class(), class, "{nodes} nodes");
            }
            barrier.wait();
            drop(hold);
            rank.file.abandon().unwrap();
        });
    }
}

#[test]
fn before_a_job_ends_by_force_all_that_waits_is_stored_but_for_what_fails_which_is_told() {
    for nodes in NODES {
        for fails in [false, true] {
            let scratch = Scratch::new();
            let plan = "op=write,rank=1,nth=1,times=100,errno=EIO";
            let _plan = fails.then(|| arrange(&scratch.name(), plan).expect("a plan"));
            let name = format!("testfs:{}", scratch.name());
            let barrier = Arc::new(Barrier::new(RANKS));
            ranks_on(on(nodes, RANKS), move |transport| {
                let rank = open_with(&transport, &name, &[DEFER]);
                assert_eq!(rank.file.rescue(), Ok(()), "nothing waits");
                write_parts(&rank, 0, 1);
                barrier.wait();
                if rank.number == 0 {
                    let told = rank.file.rescue().map_err(|error| error.class());
                    assert_eq!(told, if fails { Err(ErrorClass::Io) } else { Ok(()) });
                }
                barrier.wait();
            });
            let found = scratch.bytes();
            let wanted = [[1; 10], [if fails { 0 } else { 2 }; 10], [3; 10]].concat();
            assert_eq!(found, wanted, "{fails}");
        }
    }
}

#[test]
fn ranks_that_could_not_write_together_before_they_close_write_alone() {
    let scratch = Scratch::new();
    let _plan = arrange(&scratch.name(), "op=write,nth=1,errno=EIO").expect("a plan");
    let name = format!("testfs:{}", scratch.name());
    ranks(RANKS, move |transport| {
        let rank = open_with(&transport, &name, &[DEFER]);
        write_parts(&rank, 0, 1);
        assert_eq!(class(close(&rank)), ErrorClass::Io);
    });
    assert_eq!(scratch.bytes(), parts(1));
}

#[test]
fn where_nodes_cannot_ask_each_other_nothing_waits_and_nobody_tries_again() {
    let engine = Arc::new(Engine::new(Drivers::new(&Settings::default().blobs, true)));
    let scratch = Scratch::new();
    let name = scratch.name();
    let deferred = ranks_on(on(2, RANKS), move |transport| {
        let mut deferred = [0; 2];
        for (turn, deferred) in deferred.iter_mut().enumerate() {
            // The second time there would be threads.
            THREADLESS.set(turn == 0);
            let request = OpenRequest::new(&name, CREATE, hints(&[DEFER]));
            let file = wait(&*transport, engine.open(transport.clone(), request)).unwrap();
            let rank = Rank { number: transport.rank(), file };
            write_parts(&rank, 30 * turn as i64, 1);
            *deferred = rank.file.counters().totals().deferred;
            close(&rank).unwrap();
        }
        deferred
    });
    assert_eq!(deferred, [[0; 2]; RANKS]);
    assert_eq!(scratch.bytes(), [parts(1), parts(1)].concat());
}
