//! Split collective operations.

use super::super::{SplitKind, SplitPointer};
use super::*;

const WRITE_ALL: SplitKind =
    SplitKind { direction: Direction::Write, pointer: SplitPointer::Individual };
const READ_ALL: SplitKind =
    SplitKind { direction: Direction::Read, pointer: SplitPointer::Individual };

impl Rank {
    fn begin(&self, kind: SplitKind, buffer: &mut [u8]) -> Result<()> {
        let position = match kind.pointer {
            SplitPointer::Explicit => Position::Explicit(0),
            SplitPointer::Individual => Position::Individual,
            SplitPointer::Ordered => Position::Ordered,
        };
        self.file.begin_split(Call {
            operation: "MPI_File_begin",
            direction: kind.direction,
            position,
            collective: true,
            memory: Ok(bytes(buffer)),
        })
    }

    fn end(&self, kind: SplitKind) -> Outcome {
        self.wait(self.file.end_split(kind, "MPI_File_end"))
    }
}

#[test]
fn all_kinds_of_split_operations_move_their_bytes() {
    let scratch = Scratch::new();
    on_file(3, scratch.name(), CREATE, |rank| {
        for pointer in [SplitPointer::Explicit, SplitPointer::Individual, SplitPointer::Ordered] {
            let offset = if pointer == SplitPointer::Ordered { 0 } else { 4 * rank.number as u64 };
            rank.set_view(every(1, 4, 12, offset)).expect("a legal view");
            let mut data = [rank.number as u8 + 65; 4];
            let write = SplitKind { direction: Direction::Write, pointer };
            rank.begin(write, &mut data).expect("nothing is active");
            assert_eq!(rank.file.split().active(), Some(write));
            assert_eq!(moved(rank.end(write)), 4);
            assert_eq!(rank.file.split().active(), None);
            rank.set_view(every(1, 4, 12, offset)).expect("a legal view");
            let mut back = [0; 4];
            let read = SplitKind { direction: Direction::Read, pointer };
            rank.begin(read, &mut back).expect("nothing is active");
            assert_eq!(moved(rank.end(read)), 4);
            assert_eq!(back, data);
        }
    });
    assert_eq!(&scratch.bytes()[..12], b"AAAABBBBCCCC");
}

#[test]
fn the_pointer_moves_when_a_split_operation_begins() {
    let scratch = Scratch::new();
    on_file(2, scratch.name(), CREATE, |rank| {
        let mut data = [1; 10];
        rank.begin(WRITE_ALL, &mut data).expect("nothing is active");
        assert_eq!(rank.file.position(), Ok(10));
        rank.end(WRITE_ALL);
    });
}

#[test]
fn a_second_begin_and_a_wrong_end_are_errors_and_leave_the_first_in_force() {
    let scratch = Scratch::new();
    on_file(2, scratch.name(), CREATE, |rank| {
        assert_eq!(failed(rank.end(WRITE_ALL)).class(), ErrorClass::Io);
        let (mut data, mut other) = (*b"good", *b"evil");
        rank.begin(WRITE_ALL, &mut data).expect("nothing is active");
        assert_eq!(class(rank.begin(WRITE_ALL, &mut other)), ErrorClass::Io);
        assert_eq!(failed(rank.end(READ_ALL)).class(), ErrorClass::Io);
        assert_eq!(moved(rank.end(WRITE_ALL)), 4);
        assert_eq!(failed(rank.end(WRITE_ALL)).class(), ErrorClass::Io);
    });
    assert_eq!(scratch.bytes(), b"good");
}

#[test]
fn independent_operations_go_on_while_a_split_one_is_active() {
    let scratch = Scratch::new();
    on_file(2, scratch.name(), CREATE, |rank| {
        let mut data = *b"split";
        rank.begin(WRITE_ALL, &mut data).expect("nothing is active");
        let place = Position::Explicit(10 + 5 * rank.number as i64);
        assert_eq!(moved(rank.write(place, b"alone")), 5);
        assert_eq!(moved(rank.end(WRITE_ALL)), 5);
    });
    assert_eq!(scratch.bytes(), b"split\0\0\0\0\0alonealone");
}

#[test]
fn closing_with_an_active_split_operation_completes_it_and_is_an_error() {
    let scratch = Scratch::new();
    let name = scratch.name();
    ranks(2, move |transport| {
        let file = open(&transport, &name, CREATE).expect("the file opens");
        let rank = Rank { number: transport.rank(), file };
        let mut data = *b"split";
        rank.begin(WRITE_ALL, &mut data).expect("nothing is active");
        assert_eq!(class(rank.wait(rank.file.clone().close())), ErrorClass::Io);
        assert_eq!(class(rank.file.size()), ErrorClass::File);
    });
    assert_eq!(scratch.bytes(), b"split");
}

#[test]
fn an_error_of_one_rank_reaches_all_ends() {
    let scratch = Scratch::new();
    on_file(3, scratch.name(), CREATE, |rank| {
        let mut data = *b"data";
        let call = Call {
            operation: "MPI_File_write_at_all_begin",
            direction: Direction::Write,
            position: Position::Explicit(if rank.number == 2 { -1 } else { 0 }),
            collective: true,
            memory: Ok(bytes(&mut data)),
        };
        let kind = SplitKind::of(&call).expect("a split form");
        rank.file.begin_split(call).expect("nothing is active");
        let error = failed(rank.end(kind));
        assert_eq!((error.class(), error.rank()), (ErrorClass::Arg, Some(2)));
    });
    assert_eq!(scratch.bytes(), b"");
}

#[test]
fn in_atomic_mode_a_rank_may_write_alone_while_its_split_operation_waits_for_it() {
    let scratch = Scratch::new();
    on_file(2, scratch.name(), CREATE, |rank| {
        rank.wait(rank.file.set_atomicity(true)).expect("all ranks agree");
        let mut data = [1; 100];
        rank.begin(WRITE_ALL, &mut data).expect("nothing is active");
        if rank.number == 1 {
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(moved(rank.write(Position::Explicit(50), &[2; 100])), 100);
        }
        assert_eq!(moved(rank.end(WRITE_ALL)), 100);
    });
    assert_eq!(scratch.bytes().len(), 150);
}
