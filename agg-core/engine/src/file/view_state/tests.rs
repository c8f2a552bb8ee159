//! Views and file pointers without a file.

use super::*;
use crate::Direction;
use crate::file::call::{Call, Position};
use aggio_base::error::ErrorClass;
use aggio_comm::transport::ThreadTransport;
use aggio_config::hints::Sources;
use aggio_types::datatype::{Basic, Datatype};
use aggio_types::memory::Memory;
use aggio_types::view::Representation;

fn views(ranks: usize, amode: Amode, start: u64) -> ViewState {
    let mut complaints = Diagnostics::default();
    let hints = Hints::resolve(&Sources::default(), "/x", &[], &mut complaints);
    let transport = ThreadTransport::group(ranks).remove(0);
    let shared = transport.lanes().choose().and_then(|lane| transport.pointer(&lane));
    let hints = AgreedHints::new(hints, ranks);
    ViewState::new(amode, transport, shared, start, hints)
}

/// A view in etypes of 8 bytes from byte 16 on.
fn words() -> View {
    let etype = Datatype::basic(Basic::unsigned(8));
    View::new(16, etype.clone(), etype, Representation::Native, true).expect("a view")
}

/// A read or write of `bytes`, which are not touched.
fn call(direction: Direction, position: Position, bytes: &mut [u8]) -> Call {
    let datatype = Datatype::bytes(bytes.len() as u64);
    // SAFETY: nothing reads or writes the memory.
    let memory = Ok(unsafe { Memory::new(bytes.as_mut_ptr(), datatype, 1) });
    Call { operation: "MPI_File_test", direction, position, collective: false, memory }
}

#[test]
fn calls_take_disjoint_ranges_at_both_pointers() {
    let views = views(1, Amode::RDWR, 100);
    let mut bytes = [0; 24];
    let mut place = |position| {
        let claimed = views.claim(call(Direction::Write, position, &mut bytes), false, None);
        claimed.expect("a range").position
    };
    assert_eq!([(); 2].map(|()| place(Position::Individual)), [100, 124]);
    assert_eq!([(); 2].map(|()| place(Position::Shared)), [0, 24]);
    assert_eq!(place(Position::Ordered), 48, "one rank needs no order");
    views.set(words(), views.requested_hints());
    assert_eq!([(); 2].map(|()| place(Position::Individual)), [0, 24]);
    assert_eq!((views.position(), views.byte_offset(3)), (Ok(6), Ok(40)));
    views.seek(-1, Whence::End, 17).expect("a place");
    assert_eq!(views.position(), Ok(0), "an etype begins in the file");
    views.seek(-1, Whence::Current, 0).expect_err("before the view");
}

#[test]
fn a_call_in_pieces_takes_the_range_of_a_whole_one_or_moves_no_pointer() {
    let views = views(1, Amode::RDWR, 0);
    views.set(words(), views.requested_hints());
    let take = |position, len| views.claim_range(Direction::Write, position, len);
    assert_eq!([(); 2].map(|()| take(Position::Individual, 24)), [Ok(0), Ok(3)]);
    assert_eq!(take(Position::Explicit(100), 16), Ok(100));
    let wrong = [
        (Position::Individual, 20),
        (Position::Individual, !7),
        (Position::Explicit(-1), 8),
        (Position::Explicit(i64::MAX / 8), 800),
        (Position::Shared, 8),
    ];
    for (position, len) in wrong {
        take(position, len).expect_err("a wrong range");
    }
    assert_eq!(views.position(), Ok(6));
    let readable = self::views(1, Amode::RDONLY, 0);
    readable.claim_range(Direction::Write, Position::Individual, 8).expect_err("a file to read");
    assert_eq!(readable.claim_range(Direction::Read, Position::Individual, 8), Ok(0));
}

#[test]
fn a_call_needs_no_plan_if_it_is_one_run_that_nobody_locks() {
    let (plain, mut bytes) = (views(2, Amode::RDWR, 0), [0; 24]);
    plain.set(words(), plain.requested_hints());
    let mut run = |position, atomic| {
        plain.claim_run(&call(Direction::Read, position, &mut bytes), atomic).map(|run| run.offset)
    };
    assert_eq!([(); 2].map(|()| run(Position::Individual, false)), [Some(16), Some(40)]);
    assert_eq!(run(Position::Explicit(1), false), Some(24));
    assert_eq!(run(Position::Explicit(1), true), None, "a lock");
    assert_eq!([Position::Explicit(-1), Position::Shared].map(|at| run(at, false)), [None; 2]);
    let write = call(Direction::Write, Position::Individual, &mut bytes);
    assert!(views(1, Amode::RDONLY, 0).claim_run(&write, false).is_none());
    assert!(views(1, Amode::RDWR, 0).claim_run(&write, true).is_some(), "nobody else");
}

#[test]
fn wrong_calls_move_no_pointer() {
    let (views, mut bytes) = (views(1, Amode::WRONLY, 0), [0; 24]);
    let mut class = |direction, position| {
        let claimed = views.claim(call(direction, position, &mut bytes), false, None);
        claimed.err().map(|error| error.class())
    };
    assert_eq!(class(Direction::Read, Position::Individual), Some(ErrorClass::Access));
    assert_eq!(class(Direction::Write, Position::Explicit(-1)), Some(ErrorClass::Arg));
    assert_eq!(views.position(), Ok(0));
    let wrong = aggio_base::error::Error::new(ErrorClass::Arg, "no view");
    let hints = views.requested_hints();
    views.set_alone(Err(wrong), hints, true, "/x").expect_err("no view");
    assert_eq!(class(Direction::Write, Position::Individual), Some(ErrorClass::Arg), "kept");
    views.set_alone(Ok(words()), views.requested_hints(), true, "/x").expect("a view");
    assert_eq!(class(Direction::Write, Position::Individual), None);
    assert_eq!(views.position(), Ok(3));
}
