//! Reads and writes: checks, counts, representations.

use super::*;
use aggio_types::datatype::Order;

#[test]
fn reading_a_file_opened_for_writing_is_no_access() {
    let scratch = Scratch::new();
    on_file(2, scratch.name(), Amode::WRONLY.with(Amode::CREATE), |rank| {
        let (_, alone) = rank.read(Position::Explicit(0), 1);
        let (_, together) = rank.read_all(Position::Individual, 1);
        assert_eq!(failed(alone).class(), ErrorClass::Access);
        assert_eq!(failed(together).class(), ErrorClass::Access);
        assert_eq!(rank.file.position(), Ok(0));
    });
}

#[test]
fn writing_a_file_opened_for_reading_is_read_only() {
    let scratch = Scratch::holding(b"old");
    on_file(2, scratch.name(), Amode::RDONLY, |rank| {
        let alone = rank.write(Position::Shared, b"x");
        let together = rank.write_all(Position::Ordered, b"x");
        assert_eq!(failed(alone).class(), ErrorClass::ReadOnly);
        assert_eq!(failed(together).class(), ErrorClass::ReadOnly);
        assert_eq!(rank.file.position_shared(), Ok(0));
    });
    assert_eq!(scratch.bytes(), b"old");
}

#[test]
fn a_piece_of_an_etype_cannot_be_moved() {
    let scratch = Scratch::new();
    on_file(2, scratch.name(), CREATE, |rank| {
        rank.set_view(every(4, 1, 8, 0)).expect("a legal view");
        for position in [Position::Explicit(0), Position::Individual, Position::Shared] {
            assert_eq!(failed(rank.write(position, b"12345")).class(), ErrorClass::Io);
        }
        assert_eq!(failed(rank.write_all(Position::Individual, b"123")).class(), ErrorClass::Io);
        assert_eq!((rank.file.position(), rank.file.position_shared()), (Ok(0), Ok(0)));
    });
    assert_eq!(scratch.bytes(), b"");
}

#[test]
fn a_negative_offset_and_one_beyond_any_file_are_wrong_arguments() {
    let scratch = Scratch::new();
    on_file(2, scratch.name(), CREATE, |rank| {
        for offset in [-1, i64::MIN, i64::MAX] {
            let place = Position::Explicit(offset);
            assert_eq!(failed(rank.write(place, b"x")).class(), ErrorClass::Arg);
            assert_eq!(failed(rank.write_all(place, b"x")).class(), ErrorClass::Arg);
            assert_eq!(failed(rank.read(place, 1).1).class(), ErrorClass::Arg);
        }
    });
    assert_eq!(scratch.bytes(), b"");
}

#[test]
fn wrong_arguments_of_one_rank_fail_a_collective_call_on_all_before_anything_changes() {
    let scratch = Scratch::holding(b"old");
    on_file(4, scratch.name(), Amode::RDWR, |rank| {
        let place = Position::Explicit(if rank.number == 2 { -7 } else { 0 });
        let error = failed(rank.write_all(place, b"new"));
        assert_eq!((error.class(), error.rank()), (ErrorClass::Arg, Some(2)));
        assert!(error.to_string().contains("-7"), "{error}");
        let (buffer, outcome) = rank.read_all(Position::Explicit(0), 3);
        assert_eq!((moved(outcome), &buffer[..]), (3, &b"old"[..]));
    });
}

#[test]
fn ranks_in_different_collective_calls_get_an_error_each_and_go_on() {
    let scratch = Scratch::new();
    on_file(3, scratch.name(), CREATE, |rank| {
        let result = match rank.number {
            0 => rank.write_all(Position::Individual, b"x").result,
            1 => rank.read_all(Position::Individual, 1).1.result,
            _ => rank.wait(rank.file.sync()),
        };
        assert_eq!(class(result), ErrorClass::Other);
        let result = match rank.number {
            0 => rank.wait(rank.file.set_size(9)),
            1 => rank.set_view(Ok(View::bytes())),
            _ => rank.wait(rank.file.preallocate(9)),
        };
        assert_eq!(class(result), ErrorClass::Other);
        let place = Position::Explicit(rank.number as i64);
        assert_eq!(moved(rank.write_all(place, &[rank.number as u8])), 1);
    });
    assert_eq!(scratch.bytes(), [0, 1, 2]);
}

#[test]
fn a_view_without_any_byte_reads_nothing_and_holds_no_data() {
    let scratch = Scratch::holding(b"old");
    on_file(2, scratch.name(), Amode::RDWR, |rank| {
        let (byte, nothing) = (Datatype::bytes(1), Datatype::bytes(0));
        let view = View::new(0, byte, nothing, Representation::Native, true);
        rank.set_view(view).expect("a legal view");
        assert_eq!(moved(rank.read(Position::Individual, 3).1), 0);
        assert_eq!(moved(rank.read_all(Position::Individual, 3).1), 0);
        assert!(rank.write(Position::Explicit(0), b"new").result.is_err());
        assert!(rank.write_all(Position::Explicit(0), b"new").result.is_err());
        assert_eq!(moved(rank.write(Position::Explicit(0), b"")), 0);
        rank.file.seek(0, super::super::Whence::End).expect("a legal seek");
        assert_eq!(rank.file.position(), Ok(0));
    });
    assert_eq!(scratch.bytes(), b"old");
}

#[test]
fn a_view_that_shows_bytes_twice_can_be_read() {
    let scratch = Scratch::holding(b"abcd");
    on_file(2, scratch.name(), Amode::RDONLY, |rank| {
        let byte = Datatype::bytes(1);
        let twice = Datatype::hindexed(&[(2, 0), (2, 1)], &byte).expect("a legal type");
        let view = View::new(0, byte, twice, Representation::Native, false);
        rank.set_view(view).expect("legal for reading");
        assert_eq!(rank.read(Position::Explicit(0), 4).0, b"abbc");
        assert_eq!(rank.read_all(Position::Explicit(0), 4).0, b"abbc");
    });
}

/// Integers of 4 bytes in external32 from byte 2 on.
fn external() -> Result<View> {
    let int = Datatype::basic(Basic::signed(4));
    View::new(2, int.clone(), int, Representation::External32, true)
}

fn ints(rank: &Rank, direction: Direction, position: Position, values: &mut [i32]) -> Outcome {
    let int = Datatype::basic(Basic::signed(4));
    // SAFETY: the values outlive the operation, which ends here.
    let memory = unsafe { Memory::new(values.as_mut_ptr().cast(), int, values.len() as u64) };
    rank.wait(rank.file.start(Call {
        operation: "MPI_File_test",
        direction,
        position,
        collective: position == Position::Individual,
        memory: Ok(memory),
    }))
}

#[test]
fn external32_is_big_endian_in_every_kind_of_call() {
    let scratch = Scratch::new();
    on_file(2, scratch.name(), CREATE, |rank| {
        rank.set_view(external()).expect("a legal view");
        let first = 3 * rank.number as i64;
        let mut values = [1, -2, 0x01020304].map(|value| value + 1000 * rank.number as i32);
        rank.file.seek(first, super::super::Whence::Start).expect("a legal seek");
        assert_eq!(moved(ints(rank, Direction::Write, Position::Individual, &mut values)), 12);
        rank.barrier();
        for position in [Position::Explicit(first), Position::Ordered] {
            let mut back = [0; 3];
            assert_eq!(moved(ints(rank, Direction::Read, position, &mut back)), 12);
            assert_eq!(back, values);
        }
        assert_eq!(rank.file.position_shared(), Ok(6));
    });
    let bytes = scratch.bytes();
    assert_eq!(&bytes[2..14], [0, 0, 0, 1, 255, 255, 255, 254, 1, 2, 3, 4]);
    assert_eq!(bytes.len(), 26);
}

#[test]
fn external32_at_the_end_of_the_file_delivers_whole_elements_and_touches_nothing_else() {
    let scratch = Scratch::holding(&[9, 9, 0, 0, 0, 5, 0, 0, 7]);
    on_file(1, scratch.name(), Amode::RDWR, |rank| {
        rank.set_view(external()).expect("a legal view");
        let mut values = [-1; 3];
        assert_eq!(moved(ints(rank, Direction::Read, Position::Explicit(0), &mut values)), 4);
        assert_eq!(values, [5, -1, -1]);
    });
}

#[test]
fn nonblocking_collective_calls_in_progress_together_do_not_mix() {
    let scratch = Scratch::new();
    on_file(4, scratch.name(), CREATE, |rank| {
        let mut buffers: Vec<Vec<u8>> =
            (0..20u8).map(|call| vec![4 * call + rank.number as u8; 100]).collect();
        let calls: Vec<_> = buffers
            .iter_mut()
            .enumerate()
            .map(|(call, buffer)| {
                let place = Position::Explicit(((4 * call + rank.number) * 100) as i64);
                rank.start(Direction::Write, place, true, buffer)
            })
            .collect();
        let outcomes = rank.wait(aggio_comm::task::join_all(calls));
        assert!(outcomes.into_iter().all(|outcome| moved(outcome) == 100));
    });
    let wanted: Vec<u8> = (0..80).flat_map(|value| [value; 100]).collect();
    assert_eq!(scratch.bytes(), wanted);
}

#[test]
fn what_a_file_did_is_counted() {
    let scratch = Scratch::holding(&[7; 10]);
    on_file(2, scratch.name(), Amode::RDWR, |rank| {
        rank.write(Position::Explicit(0), b"abc");
        rank.read_all(Position::Explicit(8), 5);
        rank.read(Position::Explicit(-1), 5);
        let totals = rank.file.counters().totals();
        assert_eq!((totals.calls, totals.collective_calls, totals.errors), (3, 1, 1));
        assert_eq!((totals.bytes_written, totals.bytes_read), (3, 2));
    });
}

/// A view as PnetCDF makes it: 16 bytes of header on rank 0, and columns of a matrix with bounds.
fn header_and_columns(rank: usize) -> Result<View> {
    let cell = Datatype::bytes(CELL);
    let column = Datatype::subarray(&[ROWS, 4], &[ROWS, 1], &[0, rank as u64], Order::C, &cell)?;
    let header = Datatype::bytes(if rank == 0 { 16 } else { 0 });
    let filetype = Datatype::structure(&[(1, 0, header), (1, 10_000, column)])?;
    View::new(0, Datatype::bytes(1), filetype, Representation::Native, true)
}

const ROWS: u64 = 50;
const CELL: u64 = 1000;

#[test]
fn a_filetype_whose_copies_would_interleave_goes_through_aggregators_if_one_copy_is_enough() {
    let scratch = Scratch::new();
    let writes = on_file(4, scratch.name(), CREATE, |rank| {
        rank.set_view(header_and_columns(rank.number)).expect("a legal view");
        let first = if rank.number == 0 { 16 } else { 0 };
        let data = vec![rank.number as u8 + 1; (CELL * ROWS) as usize];
        assert_eq!(moved(rank.write_all(Position::Explicit(first), &data)), CELL * ROWS);
        let (read, outcome) = rank.read_all(Position::Explicit(first), data.len());
        assert_eq!((moved(outcome), &read[..]), (CELL * ROWS, &data[..]));
        assert_eq!(rank.file.view().is_aggregatable(), rank.number > 0);
        rank.file.counters().totals().writes_out
    });
    let row: Vec<u8> = (1..=4).flat_map(|byte| [byte; CELL as usize]).collect();
    assert_eq!(scratch.bytes(), [vec![0; 10_000], row.repeat(ROWS as usize)].concat());
    let writes: u64 = writes.into_iter().sum();
    assert!(writes < ROWS, "{writes} writes");
}

/// Two ranks that sieve when they write alone write a part of the file each, together.
fn write_together(hosts: [&str; 2], name: String) {
    let hosts = hosts.map(String::from).to_vec();
    ranks_on(ThreadTransport::group_on(hosts), move |transport| {
        let hints = hints(&[("romio_ds_write", "enable"), ("romio_cb_write", "enable")]);
        let request = OpenRequest::new(&name, Amode::RDWR, hints);
        let file = wait(&*transport, engine().open(transport.clone(), request)).expect("it opens");
        let rank = Rank { number: transport.rank(), file };
        let place = Position::Explicit(20_000 * rank.number as i64);
        assert_eq!(moved(rank.write_all(place, &[b'n'; 10_000])), 10_000);
        rank.wait(rank.file.clone().close()).expect("it closes");
    });
}

#[test]
fn what_is_written_together_waits_for_a_rank_that_has_read_it_as_a_gap_to_write_it_back() {
    use aggio_base::extent::Extent;
    use aggio_store::driver::{OpenHow, open};
    for hosts in [["a", "a"], ["a", "b"]] {
        let scratch = Scratch::holding(&[b'o'; 30_000]);
        let how = OpenHow { path: scratch.name(), read: true, write: true, ..OpenHow::default() };
        let sieving = open(&how).expect("it opens");
        let lock = sieving.lock(Extent::new(0, 30_000), true).expect("a lock");
        let old = scratch.bytes();
        let name = scratch.name();
        let writers = std::thread::spawn(move || write_together(hosts, name));
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(sieving.pwrite(&old, 0).expect("a write"), 30_000);
        drop(lock);
        writers.join().expect("all ranks write");
        let new = [[b'n'; 10_000], [b'o'; 10_000], [b'n'; 10_000]].concat();
        assert!(scratch.bytes() == new, "{hosts:?}");
    }
}
