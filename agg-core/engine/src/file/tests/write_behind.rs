//! Deferred writes: when bytes reach the file, which ranks see them, and which get an error.

use super::*;
use aggio_store::driver::fault::arrange;

const RANKS: usize = 4;

pub(super) fn open_deferring(transport: &Arc<ThreadTransport>, name: &str) -> Rank {
    let request = OpenRequest::new(name, CREATE, hints(&[DEFER, UNASKED]));
    let file = wait(&**transport, engine().open(transport.clone(), request)).expect("it opens");
    Rank { number: transport.rank(), file }
}

fn close(rank: &Rank) -> Result<()> {
    rank.wait(rank.file.clone().close())
}

/// A variable of a checkpoint: each rank has 8 bytes of each of 10 rows.
fn write_variable(rank: &Rank, number: u64) {
    let view = every(1, 8, 8 * RANKS as i64, number * 1000 + 8 * rank.number as u64);
    rank.set_view(view).expect("a legal view");
    assert_eq!(moved(rank.write_all(Position::Explicit(0), &[number as u8 + 1; 80])), 80);
}

#[test]
fn many_collective_writes_reach_the_file_together_at_the_close() {
    let scratch = Scratch::new();
    let name = scratch.name();
    let counts = ranks(RANKS, move |transport| {
        let rank = open_deferring(&transport, &name);
        (0..20).for_each(|number| write_variable(&rank, number));
        rank.wait(rank.file.sync()).unwrap();
        (0..20).for_each(|number| write_variable(&rank, 20 + number));
        close(&rank).unwrap();
        rank.file.counters().totals()
    });
    for totals in counts {
        let done = (totals.deferred, totals.flushes);
        assert_eq!(done, (40, 2), "one flush at the sync, one at the end");
    }
    let file = scratch.bytes();
    for number in 0..40 {
        let variable = &file[number * 1000..number * 1000 + 320];
        assert!(variable.iter().all(|byte| *byte == number as u8 + 1), "variable {number}");
    }
}

#[test]
fn a_rank_reads_what_it_wrote_and_all_read_what_anybody_wrote() {
    let scratch = Scratch::new();
    let name = scratch.name();
    ranks(RANKS, move |transport| {
        let rank = open_deferring(&transport, &name);
        let (own, next) = (rank.number as i64 * 10, (rank.number as i64 + 1) % RANKS as i64 * 10);
        let mut data = [rank.number as u8; 10];
        let started = rank.start(Direction::Write, Position::Explicit(own), false, &mut data);
        data.fill(0xEE);
        assert_eq!(moved(rank.wait(started)), 10, "the bytes are those at the call");
        let (read, _) = rank.read(Position::Explicit(own), 10);
        assert_eq!(read, [rank.number as u8; 10]);
        rank.write(Position::Explicit(own), &[100 + rank.number as u8; 5]);
        let (read, outcome) = rank.read_all(Position::Explicit(next), 10);
        let other = (rank.number as u8 + 1) % RANKS as u8;
        assert_eq!((moved(outcome), &read[..5], read[9]), (10, &[100 + other; 5][..], other));
        assert_eq!(rank.file.size().unwrap(), 10 * RANKS as u64);
        close(&rank).unwrap();
    });
}

#[test]
fn another_handle_of_the_process_sees_them() {
    let scratch = Scratch::new();
    let name = scratch.name();
    let [transport] = &ThreadTransport::group(1)[..] else { panic!("one rank") };
    let (one, other) = (open_deferring(transport, &name), open_deferring(transport, &name));
    one.write(Position::Explicit(0), b"first");
    assert_eq!(other.read(Position::Explicit(0), 5).0, b"first");
    other.write(Position::Explicit(5), b" second");
    assert_eq!(one.file.size().unwrap(), 12);
    one.write(Position::Explicit(0), b"FIRST");
    let third = open_deferring(transport, &name);
    assert_eq!(third.read(Position::Explicit(0), 12).0, b"FIRST second");
    [one, other, third].iter().for_each(|rank| close(rank).unwrap());
}

#[test]
fn of_two_handles_the_later_write_counts_whichever_is_closed_first() {
    let scratch = Scratch::new();
    let name = scratch.name();
    let [transport] = &ThreadTransport::group(1)[..] else { panic!("one rank") };
    let (one, other) = (open_deferring(transport, &name), open_deferring(transport, &name));
    let request = OpenRequest::new(&name, CREATE, hints(&[]));
    let file = wait(&**transport, engine().open(transport.clone(), request)).expect("it opens");
    let without = Rank { number: 0, file };
    one.write(Position::Explicit(0), b"one one one one");
    other.write(Position::Explicit(4), b"TWO");
    other.write_all(Position::Explicit(40), b"apart");
    one.write_all(Position::Explicit(4), b"3");
    without.write(Position::Explicit(8), b"alone");
    without.write_all(Position::Explicit(14), b".");
    [other, one, without].iter().for_each(|rank| close(rank).unwrap());
    assert_eq!(scratch.bytes()[..15], *b"one 3WO alonen.");
    assert_eq!(scratch.bytes()[40..], *b"apart");
}

#[test]
fn a_write_fails_where_the_older_one_of_another_handle_cannot_be_stored_before_it() {
    let scratch = Scratch::new();
    let _plan = arrange(&scratch.name(), "op=write,nth=1,errno=ENOSPC").expect("a plan");
    let name = format!("testfs:{}", scratch.name());
    let [transport] = &ThreadTransport::group(1)[..] else { panic!("one rank") };
    let (one, other) = (open_deferring(transport, &name), open_deferring(transport, &name));
    assert_eq!(moved(one.write(Position::Explicit(0), b"older bytes")), 11);
    let refused = other.write(Position::Explicit(6), b"newer");
    assert_eq!((refused.bytes, class(refused.result)), (0, ErrorClass::NoSpace));
    // There is room again.
    assert_eq!(moved(other.write(Position::Explicit(0), b"newer")), 5);
    // Each handle has its own first write.
    assert_eq!(class(other.wait(other.file.sync())), ErrorClass::NoSpace);
    [other, one].iter().for_each(|rank| close(rank).unwrap());
    assert_eq!(scratch.bytes(), b"newer bytes");
}

#[test]
fn a_handle_that_does_not_defer_sees_what_others_of_the_process_hold_back() {
    let scratch = Scratch::new();
    let name = scratch.name();
    let [transport] = &ThreadTransport::group(1)[..] else { panic!("one rank") };
    let request = OpenRequest::new(&name, CREATE, hints(&[]));
    let file = wait(&**transport, engine().open(transport.clone(), request)).expect("it opens");
    let (one, without) = (open_deferring(transport, &name), Rank { number: 0, file });
    one.write(Position::Explicit(0), b"first");
    assert_eq!(without.read(Position::Explicit(0), 5).0, b"first");
    one.write(Position::Explicit(0), b"later");
    assert_eq!(without.read_all(Position::Explicit(0), 5).0, b"later");
    [one, without].iter().for_each(|rank| close(rank).unwrap());
}

#[test]
fn more_than_the_buffer_is_written_by_the_rank_alone() {
    let scratch = Scratch::new();
    let name = scratch.name();
    let buffer = [("aggio_tune", "defer_buffer=100"), ("aggio_tune", "defer_spill=0")];
    let pairs = [DEFER, UNASKED, buffer[0], buffer[1]];
    let totals = ranks(2, move |transport| {
        let request = OpenRequest::new(&name, CREATE, hints(&pairs));
        let file = wait(&*transport, engine().open(transport.clone(), request)).expect("it opens");
        let rank = Rank { number: transport.rank(), file };
        // Different numbers of independent writes: no rank may wait for another.
        for index in 0..20 + 5 * rank.number {
            let place = (2 * index + rank.number) as i64 * 40;
            rank.write(Position::Explicit(place), &[1 + rank.number as u8; 40]);
        }
        close(&rank).unwrap();
        rank.file.counters().totals()
    });
    assert_eq!((totals[0].flushes, totals[1].flushes), (10, 13));
    let file = scratch.bytes();
    let right = |(place, byte): (usize, &u8)| *byte == if place / 40 % 2 == 0 { 1 } else { 2 };
    assert!(file[..1600].iter().enumerate().all(right));
}

#[test]
fn an_error_is_everybodys_at_the_next_sync_or_close_and_nothing_is_forgotten_before() {
    let scratch = Scratch::new();
    let _plan = arrange(&scratch.name(), "op=write,nth=1,errno=ENOSPC").expect("a plan");
    let name = format!("testfs:{}", scratch.name());
    let errors = ranks(RANKS, move |transport| {
        let rank = open_deferring(&transport, &name);
        let place = Position::Explicit(rank.number as i64 * 5000);
        assert_eq!(moved(rank.write_all(place, &[7; 5000])), 5000, "it waits");
        let error = class(rank.wait(rank.file.sync()));
        // There is room again.
        rank.wait(rank.file.sync()).expect("what waited is stored now");
        close(&rank).unwrap();
        error
    });
    assert_eq!(errors, [ErrorClass::NoSpace; RANKS]);
    assert_eq!(scratch.bytes(), [7; 5000 * RANKS]);
}

#[test]
fn what_a_program_leaves_open_is_stored() {
    let scratch = Scratch::new();
    let name = scratch.name();
    ranks(2, move |transport| {
        let rank = open_deferring(&transport, &name);
        rank.write(Position::Explicit(3 * rank.number as i64), b"abc");
        rank.file.abandon().unwrap();
    });
    assert_eq!(scratch.bytes(), b"abcabc");
}

#[test]
fn sizes_and_atomic_mode_come_after_what_was_written_before() {
    let scratch = Scratch::new();
    let name = scratch.name();
    ranks(2, move |transport| {
        let rank = open_deferring(&transport, &name);
        rank.write(Position::Explicit(10 * rank.number as i64), &[5; 10]);
        rank.wait(rank.file.set_size(12)).unwrap();
        assert_eq!(rank.file.size().unwrap(), 12);
        rank.wait(rank.file.set_atomicity(true)).unwrap();
        rank.write(Position::Explicit(12 + rank.number as i64), b"x");
        assert_eq!(rank.file.counters().totals().deferred, 1, "nothing waits in atomic mode");
        close(&rank).unwrap();
    });
    assert_eq!(scratch.bytes(), [&[5; 12][..], b"xx"].concat());
}

/// Begins a collective read, which must flush buffered writes first; other ranks are not there yet.
pub(super) fn begin_reading(rank: &Rank, buffer: &mut [u8]) -> BoxFuture<'static, Outcome> {
    let mut reading = rank.start(Direction::Read, Position::Explicit(0), true, buffer);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(reading.as_mut().poll(&mut context).is_pending());
    reading
}

#[test]
fn while_a_flush_waits_for_others_a_rank_sees_its_own_bytes_and_newer_ones_stay() {
    let scratch = Scratch::new();
    let name = scratch.name();
    let late = Arc::new(std::sync::Barrier::new(2));
    ranks(2, move |transport| {
        let rank = open_deferring(&transport, &name);
        let place = Position::Explicit(100 * rank.number as i64);
        rank.write(place, &[1 + rank.number as u8; 100]);
        let mut buffer = vec![0xEE; 200];
        let reading = if rank.number == 0 {
            let reading = begin_reading(&rank, &mut buffer);
            assert_eq!(rank.read(place, 100).0, [1; 100], "the flush is not over");
            rank.write(Position::Explicit(50), &[9; 10]);
            assert_eq!(
                rank.read(Position::Explicit(49), 12).0,
                [1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 1]
            );
            late.wait();
            reading
        } else {
            late.wait();
            rank.start(Direction::Read, Position::Explicit(0), true, &mut buffer)
        };
        assert_eq!(moved(rank.wait(reading)), 200);
        assert_eq!(buffer[100..], [2; 100]);
        close(&rank).unwrap();
    });
    let wanted = [&[1; 50][..], &[9; 10], &[1; 40], &[2; 100]].concat();
    assert_eq!(scratch.bytes(), wanted, "the older bytes of the flush do not come last");
}

#[test]
fn newer_bytes_that_cannot_be_stored_after_a_flush_wait_and_older_ones_do_not_come_again() {
    for number in 1..=5 {
        let scratch = Scratch::new();
        let _plan =
            arrange(&scratch.name(), &format!("op=write,nth={number},errno=ENOSPC")).unwrap();
        let name = format!("testfs:{}", scratch.name());
        let late = Arc::new(std::sync::Barrier::new(2));
        ranks(2, move |transport| {
            let rank = open_deferring(&transport, &name);
            rank.write(Position::Explicit(100 * rank.number as i64), &[1; 100]);
            let mut buffer = vec![0; 200];
            let reading = if rank.number == 0 {
                let reading = begin_reading(&rank, &mut buffer);
                rank.write(Position::Explicit(50), &[9; 10]);
                // Flushes both independently, if it can.
                rank.read(Position::Explicit(49), 12);
                late.wait();
                reading
            } else {
                late.wait();
                rank.start(Direction::Read, Position::Explicit(0), true, &mut buffer)
            };
            let _ = rank.wait(reading);
            // There is room again, at the latest when each rank has had its error.
            (0..3).for_each(|_| drop(rank.wait(rank.file.sync())));
            rank.wait(rank.file.sync()).expect("there is room");
            close(&rank).unwrap();
        });
        let wanted = [&[1; 50][..], &[9; 10], &[1; 140]].concat();
        assert_eq!(scratch.bytes(), wanted, "request {number} fails");
    }
}

#[test]
fn a_flush_that_never_ends_leaves_everything_waiting() {
    let scratch = Scratch::new();
    let name = scratch.name();
    ranks(2, move |transport| {
        let rank = open_deferring(&transport, &name);
        let place = Position::Explicit(10 * rank.number as i64);
        rank.write(place, &[1 + rank.number as u8; 10]);
        if rank.number == 0 {
            drop(begin_reading(&rank, &mut [0; 20]));
        }
        rank.file.abandon().unwrap();
    });
    assert_eq!(scratch.bytes(), [[1; 10], [2; 10]].concat());
}
