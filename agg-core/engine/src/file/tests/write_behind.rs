//! Deferred writes: when bytes reach the file, which ranks see them, and which get an error.

use super::*;
use aggio_store::driver::fault::arrange;

const RANKS: usize = 4;

pub(super) fn open_deferring(transport: &Arc<ThreadTransport>, name: &str) -> Rank {
    let request = OpenRequest::new(name, CREATE, hints(&[DEFER]));
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
        let data = [rank.number as u8; 10];
        assert_eq!(moved(rank.write_all(Position::Explicit(own), &data)), 10);
        let (read, _) = rank.read(Position::Explicit(own), 10);
        assert_eq!(read, [rank.number as u8; 10]);
        rank.write_all(Position::Explicit(own), &[100 + rank.number as u8; 5]);
        let (read, outcome) = rank.read_all(Position::Explicit(next), 10);
        let other = (rank.number as u8 + 1) % RANKS as u8;
        assert_eq!((moved(outcome), &read[..5], read[9]), (10, &[100 + other; 5][..], other));
        assert_eq!(rank.file.size().unwrap(), 10 * RANKS as u64);
        close(&rank).unwrap();
    });
}

#[test]
fn a_write_fails_where_the_older_one_of_another_handle_cannot_be_stored_before_it() {
    let scratch = Scratch::new();
    let _plan = arrange(&scratch.name(), "op=write,nth=1,times=6,errno=ENOSPC").expect("a plan");
    let (name, plain) = (format!("testfs:{}", scratch.name()), scratch.name());
    ranks(2, move |transport| {
        let one = open_deferring(&transport, &name);
        let bytes: &[u8] = if one.number == 0 { b"older bytes" } else { b"" };
        assert_eq!(moved(one.write_all(Position::Explicit(0), bytes)), bytes.len() as u64);
        if one.number == 0 {
            // The open cannot store them: it tries, and so may the worker that it wakes, whose
            // error is that of another rank.
            let other = open_deferring(&ThreadTransport::group(1).remove(0), &plain);
            let newer = || other.write(Position::Explicit(0), b"newer");
            let refused = newer();
            assert_eq!(refused.bytes, 0);
            assert!(matches!(class(refused.result), ErrorClass::NoSpace | ErrorClass::Io));
            // Until the worker tries again, its error stands.
            let later = || {
                std::thread::sleep(Duration::from_millis(1));
                newer()
            };
            let mut tries = std::iter::repeat_with(later).take(10_000);
            let stored = tries.find(|newer| newer.result.is_ok());
            assert_eq!(stored.expect("there is room again").bytes, 5);
            close(&other).unwrap();
        }
        close(&one).unwrap();
    });
    assert_eq!(scratch.bytes(), b"newer bytes");
}

#[test]
fn a_handle_that_does_not_defer_sees_what_others_of_the_process_hold_back() {
    let scratch = Scratch::new();
    let name = scratch.name();
    ranks(2, move |transport| {
        let one = open_deferring(&transport, &name);
        let alone = ThreadTransport::group(1).remove(0);
        let request = OpenRequest::new(&name, CREATE, hints(&[]));
        let without = || wait(&*alone, engine().open(alone.clone(), request.clone()));
        for text in [b"first", b"later"] {
            one.write_all(Position::Explicit(0), if one.number == 0 { text } else { b"" });
            if one.number == 0 {
                let without = Rank { number: 0, file: without().expect("it opens") };
                assert_eq!(without.read(Position::Explicit(0), 5).0, text);
                assert_eq!(without.read_all(Position::Explicit(0), 5).0, text);
                close(&without).unwrap();
            }
        }
        close(&one).unwrap();
    });
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
        rank.write_all(Position::Explicit(3 * rank.number as i64), b"abc");
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
        rank.write_all(Position::Explicit(10 * rank.number as i64), &[5; 10]);
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
        rank.write_all(place, &[1 + rank.number as u8; 100]);
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
fn a_flush_that_never_ends_leaves_everything_waiting() {
    let scratch = Scratch::new();
    let name = scratch.name();
    ranks(2, move |transport| {
        let rank = open_deferring(&transport, &name);
        let place = Position::Explicit(10 * rank.number as i64);
        rank.write_all(place, &[1 + rank.number as u8; 10]);
        if rank.number == 0 {
            drop(begin_reading(&rank, &mut [0; 20]));
        }
        rank.file.abandon().unwrap();
    });
    assert_eq!(scratch.bytes(), [[1; 10], [2; 10]].concat());
}
