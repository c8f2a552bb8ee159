//! Single cases: combs of pieces, sieving, writers in each other's gaps, and rejected arguments.

use super::*;

/// A view of `len` bytes each `stride`, from `start` on.
fn comb(start: usize, len: usize, stride: usize) -> View {
    Layout { start, blocks: vec![(0, len)], tail: stride - len }.view()
}

fn plain(bytes: &mut [u8]) -> Memory {
    let len = bytes.len() as u64;
    // SAFETY: the slice outlives the uses in these tests.
    unsafe { Memory::new(bytes.as_mut_ptr(), Datatype::bytes(1), len) }
}

fn enable() -> Strategy {
    Strategy { read: Switch::Enable, write: Switch::Enable, ..Strategy::default() }
}

#[test]
fn a_strided_write_into_an_empty_file_leaves_zeros_in_the_gaps_and_ends_with_its_last_byte() {
    for strategy in [Strategy::default(), enable()] {
        let bench = Bench::new(&[], "");
        let outcome = bench.write(&comb(2, 3, 8), 0, &plain(&mut [1; 9]), &strategy);
        assert_eq!((outcome.bytes, outcome.result), (9, Ok(())));
        let expected = b"\0\0\x01\x01\x01\0\0\0\0\0\x01\x01\x01\0\0\0\0\0\x01\x01\x01";
        assert_eq!(bench.content(), expected);
    }
}

#[test]
fn a_write_only_file_is_written_piece_by_piece_also_where_sieving_is_asked_for() {
    let bench = Bench::new(&[9; 20], "");
    let path = bench.scratch.file("f");
    let driver = open(&OpenHow { path, write: true, ..OpenHow::default() }).unwrap();
    let (view, mut data) = (comb(0, 1, 4), [1; 6]);
    let counters = Counters::default();
    let outcome = driver.write_strided(&view, 0, &plain(&mut data), &enable(), &counters);
    assert_eq!((outcome.bytes, outcome.result), (6, Ok(())));
    assert_eq!(
        bench.content(),
        b"\x01\x09\x09\x09".repeat(5).iter().chain(&[1]).copied().collect::<Vec<_>>()
    );
}

#[test]
fn sieving_moves_dense_pieces_by_few_calls() {
    let bench = Bench::new(&[9; 80_000], "");
    let (view, mut data) = (comb(0, 1, 8), vec![0; 10_000]);
    let counters = Counters::default();
    let memory = plain(&mut data);
    let outcome = bench.driver.read_strided(&view, 0, &memory, &Strategy::default(), &counters);
    assert_eq!(outcome.bytes, 10_000);
    assert!(counters.totals().reads_out <= 10, "{:?}", counters.totals());
    let outcome = bench.driver.write_strided(&view, 0, &memory, &enable(), &counters);
    assert_eq!(outcome.bytes, 10_000);
    assert!(counters.totals().writes_out <= 10, "{:?}", counters.totals());
    let outcome = bench.driver.write_strided(&view, 0, &memory, &Strategy::default(), &counters);
    assert_eq!(outcome.bytes, 10_000);
    if matches!(bench.driver.facts().file_system.as_str(), "ext4" | "xfs" | "tmpfs") {
        assert!(counters.totals().writes_out <= 20, "{:?}", counters.totals());
    }
}

#[test]
fn long_pieces_of_memory_reach_the_file_without_a_copy_and_in_few_calls() {
    let bench = Bench::new(&[], "");
    let mut bytes = vec![0u8; 3000 * 2048];
    for (n, piece) in bytes.chunks_mut(2048).enumerate() {
        piece[..1024].fill(n as u8);
    }
    let datatype = Datatype::bytes(1024).resized(0, 2048).unwrap();
    // SAFETY: the vector holds 3000 copies of 2048 bytes.
    let memory = unsafe { Memory::new(bytes.as_mut_ptr(), datatype, 3000) };
    let counters = Counters::default();
    let strategy = Strategy { write_buffer: 8192, ..Strategy::default() };
    let outcome = bench.driver.write_strided(&View::bytes(), 5, &memory, &strategy, &counters);
    assert_eq!((outcome.bytes, outcome.result), (3000 * 1024, Ok(())));
    assert_eq!(counters.totals().writes_out, 3);
    let content = bench.content();
    assert!(content[5..].chunks(1024).enumerate().all(|(n, piece)| piece == [n as u8; 1024]));
}

/// A writer in the gaps of a strided write must find all of its bytes afterwards.
///
/// Each write starts a little late, so that a writer that read first finds the file changed.
fn nothing_is_lost_between_two_combs(prefix: &str, strategy: &Strategy) {
    let bench = Bench::new(&[], "op=write,every=5,delay=1");
    let path = format!("{prefix}{}", bench.scratch.file("f"));
    let writer = |start: usize, value: u8| {
        let how = OpenHow { path: path.clone(), read: true, write: true, ..OpenHow::default() };
        let driver = open(&how).unwrap();
        for round in 0..2 {
            let mut data = vec![value + round; 1000];
            let counters = Counters::default();
            let memory = plain(&mut data);
            let outcome = driver.write_strided(&comb(start, 2, 4), 0, &memory, strategy, &counters);
            assert_eq!((outcome.bytes, outcome.result), (1000, Ok(())));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| writer(0, 1));
        scope.spawn(|| writer(2, 101));
    });
    assert_eq!(bench.content(), [2, 2, 102, 102].repeat(500));
}

#[test]
fn another_writer_in_the_gaps_loses_nothing() {
    nothing_is_lost_between_two_combs("testfs:", &Strategy::default());
    nothing_is_lost_between_two_combs("", &Strategy::default());
}

#[test]
fn two_sieving_writers_in_each_others_gaps_lose_nothing() {
    nothing_is_lost_between_two_combs("testfs:", &Strategy { write_buffer: 64, ..enable() });
}

#[test]
fn a_view_beyond_the_largest_offset_is_an_argument_error() {
    let bench = Bench::new(&[1; 8], "");
    let bytes = Datatype::bytes(1);
    let view = |start: u64| -> Result<View> {
        View::new(start, bytes.clone(), bytes.clone(), Representation::Native, true)
    };
    let view = view(i64::MAX as u64 - 3).unwrap();
    let mut data = [2; 9];
    for strategy in [Strategy::default(), enable()] {
        let outcome = bench.write(&view, 0, &plain(&mut data), &strategy);
        assert_eq!((outcome.bytes, outcome.result.unwrap_err().class()), (0, ErrorClass::Arg));
    }
    assert_eq!(bench.content(), [1; 8]);
}

#[test]
fn an_empty_transfer_asks_the_system_for_nothing() {
    let bench = Bench::new(&[], "op=read,errno=EIO;op=write,errno=EIO;op=lock,errno=EIO");
    for strategy in [Strategy::default(), enable()] {
        let memory = plain(&mut []);
        assert_eq!(bench.write(&comb(0, 1, 4), 7, &memory, &strategy).result, Ok(()));
        assert_eq!(bench.read(&comb(0, 1, 4), 7, &memory, &strategy).result, Ok(()));
    }
}
