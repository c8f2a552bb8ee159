//! Individual and shared file pointers.

use super::super::Whence;
use super::*;

#[test]
fn a_short_read_moves_the_pointer_by_what_was_asked_for() {
    let scratch = Scratch::holding(b"0123456789");
    on_file(1, scratch.name(), Amode::RDONLY, |rank| {
        rank.file.seek(6, Whence::Start).expect("a legal seek");
        let (buffer, outcome) = rank.read(Position::Individual, 8);
        assert_eq!((moved(outcome), &buffer[..]), (4, &b"6789\xEE\xEE\xEE\xEE"[..]));
        assert_eq!(rank.file.position(), Ok(14));
    });
}

#[test]
fn operations_in_progress_take_their_ranges_in_the_order_of_the_calls() {
    let scratch = Scratch::new();
    on_file(1, scratch.name(), CREATE, |rank| {
        let mut buffers = [*b"aaa", *b"bbb", *b"ccc"];
        let mut running: Vec<_> = buffers
            .iter_mut()
            .map(|buffer| rank.start(Direction::Write, Position::Individual, false, buffer))
            .collect();
        assert_eq!(rank.file.position(), Ok(9));
        while let Some(last) = running.pop() {
            assert_eq!(moved(rank.wait(last)), 3);
        }
    });
    assert_eq!(scratch.bytes(), b"aaabbbccc");
}

#[test]
fn an_operation_keeps_the_view_that_it_was_called_with() {
    let scratch = Scratch::new();
    on_file(1, scratch.name(), CREATE, |rank| {
        rank.set_view(every(1, 1, 2, 0)).expect("a legal view");
        let mut buffer = *b"abc";
        let running = rank.start(Direction::Write, Position::Individual, false, &mut buffer);
        rank.set_view(Ok(View::bytes())).expect("a legal view");
        assert_eq!(rank.file.position(), Ok(0));
        assert_eq!(moved(rank.wait(running)), 3);
    });
    assert_eq!(scratch.bytes(), b"a\0b\0c");
}

#[test]
fn a_seek_below_the_start_is_refused_and_moves_nothing() {
    let scratch = Scratch::holding(b"0123456789");
    on_file(1, scratch.name(), Amode::RDWR, |rank| {
        rank.file.seek(4, Whence::Start).expect("a legal seek");
        for (offset, whence) in [
            (-1, Whence::Start),
            (-5, Whence::Current),
            (-11, Whence::End),
            (i64::MAX, Whence::End),
        ] {
            assert_eq!(class(rank.file.seek(offset, whence)), ErrorClass::Arg);
            assert_eq!(rank.file.position(), Ok(4));
        }
        rank.file.seek(-10, Whence::End).expect("a legal seek");
        assert_eq!(rank.file.position(), Ok(0));
    });
}

#[test]
fn the_end_is_the_first_etype_of_the_view_behind_the_file() {
    // Etypes start at bytes 2, 14, 26, ...; each is 4 bytes long.
    for (size, etypes) in [(0, 0), (2, 0), (3, 1), (6, 1), (14, 1), (15, 2), (18, 2)] {
        let scratch = Scratch::holding(&vec![1; size]);
        on_file(1, scratch.name(), Amode::RDWR, move |rank| {
            rank.set_view(every(4, 1, 12, 2)).expect("a legal view");
            rank.file.seek(0, Whence::End).expect("a legal seek");
            assert_eq!(rank.file.position(), Ok(etypes), "{size} bytes");
        });
    }
}

#[test]
fn byte_offsets_are_those_of_the_etypes_in_the_file() {
    let scratch = Scratch::new();
    on_file(1, scratch.name(), CREATE, |rank| {
        rank.set_view(every(4, 2, 100, 7)).expect("a legal view");
        let offsets: Vec<_> = (0..5).map(|etype| rank.file.byte_offset(etype)).collect();
        assert_eq!(offsets, [Ok(7), Ok(11), Ok(107), Ok(111), Ok(207)]);
        assert_eq!(class(rank.file.byte_offset(-1)), ErrorClass::Arg);
        assert_eq!(class(rank.file.byte_offset(i64::MAX)), ErrorClass::Arg);
    });
}

#[test]
fn ranks_that_write_at_the_shared_pointer_at_once_get_ranges_of_their_own() {
    let scratch = Scratch::new();
    on_file(6, scratch.name(), CREATE, |rank| {
        rank.set_view(every(2, 3, 6, 0)).expect("a legal view");
        for _ in 0..50 {
            assert_eq!(moved(rank.write(Position::Shared, &[rank.number as u8 + 1; 6])), 6);
        }
        rank.barrier();
        assert_eq!(rank.file.position_shared(), Ok(6 * 50 * 3));
    });
    let bytes = scratch.bytes();
    assert_eq!(bytes.len(), 6 * 50 * 6);
    assert!(bytes.chunks(6).all(|record| record[0] > 0 && record.iter().all(|b| *b == record[0])));
    for number in 1..=6 {
        assert_eq!(bytes.iter().filter(|byte| **byte == number).count(), 300);
    }
}

#[test]
fn ordered_writes_lie_in_rank_order_whatever_their_sizes() {
    let scratch = Scratch::new();
    on_file(5, scratch.name(), CREATE, |rank| {
        for round in 0..3u8 {
            let data = vec![10 * round + rank.number as u8; rank.number * 3];
            assert_eq!(moved(rank.write_all(Position::Ordered, &data)), data.len() as u64);
        }
        assert_eq!(rank.file.position_shared(), Ok(90));
    });
    let wanted: Vec<u8> = (0..3u8)
        .flat_map(|round| (0..5u8).flat_map(move |r| vec![10 * round + r; 3 * usize::from(r)]))
        .collect();
    assert_eq!(scratch.bytes(), wanted);
}

#[test]
fn an_error_in_an_ordered_call_moves_the_shared_pointer_nowhere() {
    let scratch = Scratch::new();
    on_file(3, scratch.name(), CREATE, |rank| {
        let mut data = *b"data";
        let wrong = Err(Error::new(ErrorClass::Type, "not committed"));
        let outcome = rank.wait(rank.file.start(Call {
            operation: "MPI_File_write_ordered",
            direction: Direction::Write,
            position: Position::Ordered,
            collective: true,
            memory: if rank.number == 1 { wrong } else { Ok(bytes(&mut data)) },
        }));
        let error = failed(outcome);
        assert_eq!((error.class(), error.rank()), (ErrorClass::Type, Some(1)));
        assert_eq!(rank.file.position_shared(), Ok(0));
        rank.barrier();
        assert_eq!(moved(rank.write_all(Position::Ordered, b"x")), 1);
    });
    assert_eq!(scratch.bytes(), b"xxx");
}

#[test]
fn seek_shared_wants_equal_arguments_and_moves_nothing_otherwise() {
    let scratch = Scratch::holding(b"0123456789");
    on_file(3, scratch.name(), Amode::RDWR, |rank| {
        rank.wait(rank.file.seek_shared(3, Whence::Start)).expect("a legal seek");
        assert_eq!(rank.file.position_shared(), Ok(3));
        let unequal = rank.file.seek_shared(rank.number as i64 / 2, Whence::Current);
        assert_eq!(class(rank.wait(unequal)), ErrorClass::Arg);
        let whence = if rank.number == 0 { Whence::Start } else { Whence::End };
        assert_eq!(class(rank.wait(rank.file.seek_shared(0, whence))), ErrorClass::Arg);
        let negative = rank.file.seek_shared(-4, Whence::Current);
        assert_eq!(class(rank.wait(negative)), ErrorClass::Arg);
        assert_eq!(rank.file.position_shared(), Ok(3));
        rank.wait(rank.file.seek_shared(-2, Whence::End)).expect("a legal seek");
        assert_eq!(rank.file.position_shared(), Ok(8));
    });
}

#[test]
fn a_new_view_sets_both_pointers_to_0_also_after_shared_writes_of_one_rank() {
    let scratch = Scratch::new();
    on_file(3, scratch.name(), CREATE, |rank| {
        if rank.number == 2 {
            rank.write(Position::Shared, b"shared");
        }
        rank.file.seek(9, Whence::Start).expect("a legal seek");
        rank.set_view(every(1, 1, 3, rank.number as u64)).expect("a legal view");
        assert_eq!((rank.file.position(), rank.file.position_shared()), (Ok(0), Ok(0)));
    });
}

#[test]
fn a_sequential_file_is_accessed_at_the_shared_pointer_only() {
    let scratch = Scratch::new();
    on_file(2, scratch.name(), Amode::WRONLY.with(Amode::CREATE).with(Amode::SEQUENTIAL), |rank| {
        let unsupported = ErrorClass::UnsupportedOperation;
        assert_eq!(failed(rank.write(Position::Explicit(0), b"x")).class(), unsupported);
        assert_eq!(failed(rank.write(Position::Individual, b"x")).class(), unsupported);
        assert_eq!(failed(rank.write_all(Position::Individual, b"x")).class(), unsupported);
        assert_eq!(class(rank.file.seek(0, Whence::Start)), unsupported);
        assert_eq!(class(rank.file.position()), unsupported);
        assert_eq!(class(rank.file.position_shared()), unsupported);
        assert_eq!(class(rank.file.byte_offset(0)), unsupported);
        assert_eq!(class(rank.wait(rank.file.seek_shared(0, Whence::Start))), unsupported);
        assert_eq!(class(rank.wait(rank.file.set_size(0))), unsupported);
        assert_eq!(class(rank.wait(rank.file.preallocate(1))), unsupported);
        assert_eq!(moved(rank.write_all(Position::Ordered, b"ab")), 2);
        assert_eq!(class(rank.set_view(every(1, 1, 2, 0))), ErrorClass::Arg);
        rank.set_view_at(every(1, 1, 2, 0), Displacement::Current).expect("a legal view");
        assert_eq!(rank.file.view().displacement(), 4);
        assert_eq!(moved(rank.write_all(Position::Ordered, b"c")), 1);
    });
    assert_eq!(scratch.bytes(), b"ababc\0c");
}

#[test]
fn only_sequential_files_have_views_at_the_current_place() {
    let scratch = Scratch::new();
    on_file(2, scratch.name(), CREATE, |rank| {
        let set = rank.set_view_at(Ok(View::bytes()), Displacement::Current);
        assert_eq!(class(set), ErrorClass::Arg);
    });
}

#[test]
fn one_rank_alone_writes_in_order_behind_what_it_wrote_before() {
    let scratch = Scratch::new();
    on_file(1, scratch.name(), CREATE, |rank| {
        for bytes in [b"ab", b"cd"] {
            assert_eq!(moved(rank.write_all(Position::Ordered, bytes)), 2);
        }
        assert_eq!(rank.file.position_shared(), Ok(4));
    });
    assert_eq!(scratch.bytes(), b"abcd");
}
