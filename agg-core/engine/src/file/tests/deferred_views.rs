//! Views of files with deferred writes: no rank waits for another, and shared file pointers still
//! begin at 0.

use super::write_behind::open_deferring;
use super::*;
use aggio_comm::transport::POINTERS;
use std::sync::Barrier;

const RANKS: usize = 3;

fn at(byte: u64) -> Result<View> {
    every(1, 1, 1, byte)
}

#[test]
fn a_rank_sets_views_and_writes_while_another_has_not_called_yet() {
    let scratch = Scratch::new();
    let name = scratch.name();
    let first_is_done = Arc::new(Barrier::new(2));
    let calls = u64::from(POINTERS) - 1;
    ranks(2, move |transport| {
        let rank = open_deferring(&transport, &name);
        if rank.number == 1 {
            first_is_done.wait();
        }
        for call in 0..calls {
            rank.set_view(at(10 * call + 5 * rank.number as u64)).unwrap();
            assert_eq!(moved(rank.write(Position::Individual, &[call as u8; 5])), 5);
        }
        if rank.number == 0 {
            first_is_done.wait();
        }
        rank.wait(rank.file.clone().close()).unwrap();
    });
    let bytes: Vec<u8> = (0..calls).flat_map(|call| [call as u8; 10]).collect();
    assert!(scratch.bytes() == bytes);
}

/// Checks the writes of all ranks at the shared pointer of `views` consecutive views; the ranks
/// never synchronise.
fn scattered(name: String, views: u64) {
    ranks(RANKS, move |transport| {
        let rank = open_deferring(&transport, &name);
        let mut seed = 7 + rank.number as u64;
        for view in 0..views {
            rank.set_view(at(100 * view)).unwrap();
            for _ in 0..4 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if seed >> 60 < 3 {
                    std::thread::sleep(Duration::from_micros(300));
                }
                let written = rank.write(Position::Shared, &[rank.number as u8 + 1; 2]);
                assert_eq!(moved(written), 2);
            }
        }
        rank.wait(rank.file.clone().close()).unwrap();
    });
}

#[test]
fn every_view_has_a_shared_pointer_that_begins_at_0() {
    let scratch = Scratch::new();
    let views = 3 * u64::from(POINTERS) + 5;
    scattered(scratch.name(), views);
    let bytes = scratch.bytes();
    assert_eq!(bytes.len() as u64, 100 * (views - 1) + 8 * RANKS as u64);
    for view in bytes.chunks(100) {
        for rank in 1..=RANKS as u8 {
            assert_eq!(view.iter().filter(|byte| **byte == rank).count(), 8);
        }
        assert!(view[8 * RANKS..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn another_file_finds_no_pointer_that_was_moved() {
    let (one, other) = (Scratch::new(), Scratch::holding(b"0123"));
    let names = [one.name(), other.name()];
    ranks(RANKS, move |transport| {
        let rank = open_deferring(&transport, &names[0]);
        for view in 0..5 {
            rank.set_view(at(100 * view)).unwrap();
            rank.write(Position::Shared, b"x");
        }
        rank.wait(rank.file.clone().close()).unwrap();
        let deferring = hints(&[DEFER]);
        let request = OpenRequest::new(&names[1], Amode::RDWR.with(Amode::APPEND), deferring);
        let file = wait(&*transport, engine().open(transport.clone(), request)).unwrap();
        let rank = Rank { number: transport.rank(), file };
        assert_eq!(rank.file.position_shared(), Ok(4));
        rank.barrier();
        for _ in 0..6 {
            rank.set_view(at(0)).unwrap();
            assert_eq!(rank.file.position_shared(), Ok(0));
        }
        rank.wait(rank.file.seek_shared(9, Whence::Start)).unwrap();
        assert_eq!(rank.file.position_shared(), Ok(9));
        rank.barrier();
        rank.set_view(at(0)).unwrap();
        assert_eq!(rank.file.position_shared(), Ok(0));
        rank.wait(rank.file.clone().close()).unwrap();
    });
}

/// Opens a file without deferred writes. Ranks set its views alone once there are many.
fn open_viewing(transport: &Arc<ThreadTransport>, name: &str) -> Rank {
    let request = OpenRequest::new(name, CREATE, hints(&[("aggio_tune", "views_alone=enable")]));
    let file = wait(&**transport, engine().open(transport.clone(), request));
    Rank { number: transport.rank(), file: file.expect("the file opens") }
}

#[test]
fn where_views_may_be_set_alone_a_rank_sets_many_and_writes_while_another_sleeps() {
    let scratch = Scratch::new();
    let name = scratch.name();
    let first_is_done = Arc::new(Barrier::new(2));
    ranks(2, move |transport| {
        let rank = open_viewing(&transport, &name);
        for call in 0..8 + u64::from(POINTERS) - 1 {
            if rank.number == 1 && call == 8 {
                first_is_done.wait();
            }
            rank.set_view(at(10 * call + 5 * rank.number as u64)).unwrap();
            assert_eq!(moved(rank.write(Position::Individual, &[call as u8; 5])), 5);
        }
        if rank.number == 0 {
            first_is_done.wait();
        }
        let alone = rank.file.counters().totals().views_alone;
        assert_eq!(alone, u64::from(POINTERS) - 1);
        rank.wait(rank.file.clone().close()).unwrap();
    });
    let calls = 8 + POINTERS as u8 - 1;
    let bytes: Vec<u8> = (0..calls).flat_map(|call| [call; 10]).collect();
    assert!(scratch.bytes() == bytes);
}

#[test]
fn what_is_wrong_with_a_view_set_alone_is_heard_of_by_all_in_the_next_collective_access() {
    let scratch = Scratch::new();
    let name = scratch.name();
    ranks(RANKS, move |transport| {
        let rank = open_viewing(&transport, &name);
        for _ in 0..10 {
            rank.set_view(at(0)).unwrap();
        }
        let wrong = rank.number == 1;
        let error = Error::new(ErrorClass::Arg, "wrong");
        assert_eq!(rank.set_view(if wrong { Err(error) } else { at(50) }).is_err(), wrong);
        let place = Position::Explicit(rank.number as i64);
        for _ in 0..2 {
            assert_eq!(failed(rank.write_all(place, b"x")).rank(), Some(1));
        }
        if wrong {
            failed(rank.write(place, b"y"));
            let at_once = rank.fast_path(Direction::Write, 1, &mut b"y".to_vec());
            assert!(at_once.is_none_or(|outcome| outcome.result.is_err()));
        }
        // A call that is begun with a wrong view stays wrong.
        let mut data = b"z".to_vec();
        let begun = rank.start(Direction::Write, place, true, &mut data);
        rank.set_view(at(0)).unwrap();
        assert_eq!(failed(rank.wait(begun)).rank(), Some(1));
        assert_eq!(moved(rank.write_all(place, b"x")), 1);
        rank.wait(rank.file.clone().close()).unwrap();
    });
    assert_eq!(scratch.bytes(), b"xxx");
}

#[test]
fn views_that_begin_where_the_shared_pointer_is_are_never_set_alone() {
    let scratch = Scratch::new();
    let name = scratch.name();
    ranks(RANKS, move |transport| {
        let amode = Amode::WRONLY.with(Amode::CREATE).with(Amode::SEQUENTIAL);
        let request =
            OpenRequest::new(&name, amode, hints(&[("aggio_tune", "views_alone=enable")]));
        let file = wait(&*transport, engine().open(transport.clone(), request));
        let rank = Rank { number: transport.rank(), file: file.expect("the file opens") };
        for _ in 0..12 {
            rank.set_view_at(Ok(View::bytes()), Displacement::Current).unwrap();
            assert_eq!(moved(rank.write_all(Position::Ordered, &[b'0' + rank.number as u8])), 1);
        }
        rank.wait(rank.file.clone().close()).unwrap();
    });
    assert_eq!(scratch.bytes(), b"012".repeat(12));
}

#[test]
fn a_wrong_view_is_the_error_of_its_rank_alone_and_the_others_go_on() {
    let scratch = Scratch::new();
    let name = scratch.name();
    ranks(RANKS, move |transport| {
        let rank = open_deferring(&transport, &name);
        for call in 0..40_u64 {
            let wrong = call % 7 == rank.number as u64 && !is_met(call);
            let error = Error::new(ErrorClass::Arg, "wrong");
            let set = rank.set_view(if wrong { Err(error) } else { at(0) });
            assert_eq!(set.is_err(), wrong, "{call}");
        }
        let place = Position::Explicit(rank.number as i64);
        assert_eq!(moved(rank.write_all(place, b"x")), 1);
        rank.wait(rank.file.clone().close()).unwrap();
    });
    assert_eq!(scratch.bytes(), b"xxx");
}

#[test]
fn a_place_that_goes_with_another_mode_is_the_error_of_its_rank_alone() {
    let scratch = Scratch::new();
    let name = scratch.name();
    ranks(RANKS, move |transport| {
        let rank = open_deferring(&transport, &name);
        let place = [Displacement::OfView, Displacement::Current][usize::from(rank.number == 1)];
        assert_eq!(rank.set_view_at(at(0), place).is_err(), rank.number == 1);
        rank.wait(rank.file.clone().close()).unwrap();
    });
}

/// Whether the ranks meet in this one of many calls.
fn is_met(call: u64) -> bool {
    call % u64::from(POINTERS) == u64::from(POINTERS) - 1
}

#[test]
fn in_a_call_in_which_ranks_meet_a_wrong_view_is_the_error_of_all() {
    let scratch = Scratch::new();
    let name = scratch.name();
    ranks(RANKS, move |transport| {
        let rank = open_deferring(&transport, &name);
        let met = (0..40_u64).find(|call| is_met(*call)).unwrap();
        (0..met).for_each(|_| rank.set_view(at(0)).unwrap());
        for _ in 0..2 {
            let wrong = Err(Error::new(ErrorClass::Arg, "wrong"));
            let view = if rank.number == 1 { wrong } else { at(7) };
            assert_eq!(class(rank.set_view(view)), ErrorClass::Arg);
        }
        rank.set_view(at(1)).unwrap();
        assert_eq!(moved(rank.write_all(Position::Explicit(rank.number as i64), b"x")), 1);
        rank.wait(rank.file.clone().close()).unwrap();
    });
    assert_eq!(scratch.bytes(), b"\0xxx");
}

#[test]
fn hints_that_all_must_share_hold_from_the_next_flush_on_and_those_of_rank_0_win() {
    let scratch = Scratch::new();
    let name = scratch.name();
    let values = ranks(RANKS, move |transport| {
        let rank = open_deferring(&transport, &name);
        let set = |size: usize, limit: usize| {
            let room = format!("defer_buffer={limit}");
            let info = [("cb_buffer_size", size.to_string()), ("aggio_tune", room)]
                .map(|(name, value)| (name.to_owned(), value));
            let mut complaints = Diagnostics::default();
            rank.wait(rank.file.set_view(at(0), Displacement::OfView, &info, &mut complaints))
                .unwrap();
            (rank.file.hints().cb_buffer_size, rank.file.hints().aggio_defer_buffer)
        };
        let before = set(4096 * (1 + rank.number), 1 << 20);
        rank.write_all(Position::Explicit(8 * rank.number as i64), b"01234567");
        rank.wait(rank.file.sync()).unwrap();
        let after = rank.file.hints().cb_buffer_size;
        // The last request counts, also if it equals the value in force.
        set(8192, 1 << 20);
        set(4096, 1 << 20);
        rank.wait(rank.file.sync()).unwrap();
        assert_eq!(rank.file.hints().cb_buffer_size, 4096);
        // Nothing is left to settle.
        rank.wait(rank.file.sync()).unwrap();
        rank.wait(rank.file.clone().close()).unwrap();
        (before, after)
    });
    let before = (Hints::default().cb_buffer_size, 1 << 20);
    assert_eq!(values, [(before, 4096); RANKS]);
    assert_eq!(scratch.bytes(), b"012345670123456701234567");
}
