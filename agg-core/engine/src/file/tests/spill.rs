//! Bytes that wait in files when memory has no more room for them.

use super::write_behind::begin_reading;
use super::*;
use aggio_base::report::Totals;
use aggio_store::driver::fault::arrange;
use std::os::unix::process::CommandExt;
use std::process::Command;

const RANKS: usize = 4;
/// Pieces of a write, and bytes of each.
const PIECES: u64 = 30;
const PIECE: u64 = 20;

/// Each rank writes `writes` times strided pieces beside those of the others; returns the counts of
/// all. The memory has room for two writes, files for as many bytes as `storage` says.
fn checkpoint(name: &str, writes: u64, storage: &'static str) -> Vec<Totals> {
    let name = name.to_owned();
    ranks(RANKS, move |transport| {
        let rank = open(&transport, &name, storage);
        (0..writes).for_each(|number| write(&rank, number));
        rank.wait(rank.file.clone().close()).expect("it closes");
        rank.file.counters().totals()
    })
}

fn open(transport: &Arc<ThreadTransport>, name: &str, storage: &str) -> Rank {
    let room = format!("defer_buffer=1200 defer_spill={storage}");
    // Otherwise any free rank stores the bytes of all ranks.
    let each_its_own = ("romio_cb_write", "disable");
    let pairs = [DEFER, UNASKED, each_its_own, ("aggio_tune", &*room)];
    let request = OpenRequest::new(name, CREATE, hints(&pairs));
    let file = wait(&**transport, engine().open(transport.clone(), request)).expect("it opens");
    Rank { number: transport.rank(), file }
}

fn write(rank: &Rank, number: u64) {
    let place = (number * PIECES * RANKS as u64 + rank.number as u64) * PIECE;
    rank.set_view(every(1, PIECE, (PIECE * RANKS as u64) as i64, place)).expect("a view");
    let bytes = vec![byte(number, rank.number); (PIECES * PIECE) as usize];
    assert_eq!(moved(rank.write_all(Position::Explicit(0), &bytes)), PIECES * PIECE);
}

fn byte(write: u64, rank: usize) -> u8 {
    (write * RANKS as u64) as u8 + rank as u8 + 1
}

fn expected(writes: u64) -> Vec<u8> {
    let row = |write| (0..RANKS).flat_map(move |rank| [byte(write, rank); PIECE as usize]);
    (0..writes).flat_map(|write| (0..PIECES).flat_map(move |_| row(write))).collect()
}

#[test]
fn what_memory_has_no_room_for_waits_in_a_file_and_is_part_of_the_one_flush() {
    let scratch = Scratch::new();
    for totals in checkpoint(&scratch.name(), 20, "1M") {
        assert_eq!((totals.deferred, totals.spilled, totals.flushes), (20, 18, 1));
    }
    assert_eq!(scratch.bytes(), expected(20));
}

#[test]
fn where_files_may_not_grow_any_more_a_rank_writes_by_itself() {
    let scratch = Scratch::new();
    for totals in checkpoint(&scratch.name(), 20, "3000") {
        // Seven writes have room, the eighth one follows when they are in the file.
        assert_eq!((totals.spilled, totals.flushes), (5 + 5 + 4, 3));
    }
    assert_eq!(scratch.bytes(), expected(20));
}

#[test]
fn long_pieces_are_written_by_their_rank() {
    let scratch = Scratch::new();
    let name = scratch.name();
    let totals = ranks(2, move |transport| {
        let rank = open(&transport, &name, "1M");
        for number in 0..10 {
            let place = (2 * number + rank.number) * 10_000;
            let bytes = [number as u8 + 1; 10_000];
            assert_eq!(moved(rank.write_all(Position::Explicit(place as i64), &bytes)), 10_000);
        }
        rank.wait(rank.file.clone().close()).expect("it closes");
        rank.file.counters().totals()
    });
    for totals in totals {
        assert_eq!((totals.spilled, totals.flushes), (0, 10));
    }
    let expected: Vec<u8> = (1..=10).flat_map(|number| [number; 20_000]).collect();
    assert_eq!(scratch.bytes(), expected);
}

const VARIABLE: &str = "AGGIO_TEST_NO_STORAGE";

#[test]
fn where_storage_has_no_room_a_rank_writes_by_itself() {
    if let Some(name) = std::env::var_os(VARIABLE) {
        for totals in checkpoint(name.to_str().expect("text"), 20, "2M") {
            assert_eq!((totals.spilled, totals.flushes), (0, 10));
        }
        return;
    }
    let scratch = Scratch::new();
    let mut again = Command::new(std::env::current_exe().unwrap());
    let name = "file::tests::spill::where_storage_has_no_room_a_rank_writes_by_itself";
    again.args(["--exact", name, "--nocapture"]).env(VARIABLE, scratch.name());
    let limit = || {
        let most = libc::rlimit { rlim_cur: 1 << 20, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the call only changes this process, which has one thread.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        // SAFETY: the call only reads the numbers.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &most) };
        Ok(())
    };
    // SAFETY: the closure makes system calls only.
    let output = unsafe { again.pre_exec(limit) }.output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{out}{err}");
    assert_eq!(scratch.bytes(), expected(20));
}

#[test]
fn a_flush_that_finds_no_room_gives_back_that_of_the_files_and_finds_it() {
    for errno in ["ENOSPC", "EDQUOT"] {
        let scratch = Scratch::new();
        let plan = format!("op=write,rank=2,nth=1,errno={errno}");
        let _plan = arrange(&scratch.name(), &plan).expect("a plan");
        for totals in checkpoint(&format!("testfs:{}", scratch.name()), 20, "1M") {
            assert_eq!((totals.spilled, totals.flushes), (18, 2), "{errno}");
        }
        assert_eq!(scratch.bytes(), expected(20), "{errno}");
    }
    // No rank releases memory a second time.
    let scratch = Scratch::new();
    let _plan = arrange(&scratch.name(), "op=write,nth=1,times=1000,errno=ENOSPC").expect("a plan");
    let name = format!("testfs:{}", scratch.name());
    let errors = ranks(RANKS, move |transport| {
        let rank = open(&transport, &name, "1M");
        (0..5).for_each(|number| write(&rank, number));
        rank.wait(rank.file.clone().close()).expect_err("it is full")
    });
    for error in errors {
        assert_eq!(error.class(), ErrorClass::NoSpace);
        assert!(error.to_string().contains("3000 bytes that waited are not stored"), "{error}");
    }
}

#[test]
fn a_rank_alone_that_finds_no_room_does_so_too() {
    let scratch = Scratch::new();
    let _plan = arrange(&scratch.name(), "op=write,nth=1,errno=ENOSPC").expect("a plan");
    let name = format!("testfs:{}", scratch.name());
    ranks(RANKS, move |transport| {
        let rank = open(&transport, &name, "1M");
        (0..20).for_each(|number| write(&rank, number));
        let (own, _) = rank.read(Position::Explicit(0), PIECE as usize);
        assert_eq!(own, [byte(19, rank.number); PIECE as usize]);
        rank.wait(rank.file.clone().close()).expect("it closes");
    });
    assert_eq!(scratch.bytes(), expected(20));
}

#[test]
fn a_rank_that_alone_has_no_room_after_a_flush_does_not_try_again_without_the_others() {
    for number in 1..=8 {
        let scratch = Scratch::new();
        let plan = format!("op=write,rank=0,nth={number},errno=ENOSPC");
        let _plan = arrange(&scratch.name(), &plan).expect("a plan");
        let name = format!("testfs:{}", scratch.name());
        let late = Arc::new(std::sync::Barrier::new(2));
        ranks(2, move |transport| {
            let rank = open(&transport, &name, "1M");
            (0..5).for_each(|part| {
                let place = Position::Explicit(3000 * rank.number as i64 + 600 * part);
                assert_eq!(moved(rank.write(place, &[1; 600])), 600);
            });
            let mut buffer = vec![0; 6000];
            let reading = if rank.number == 0 {
                let reading = begin_reading(&rank, &mut buffer);
                rank.write(Position::Explicit(50), &[9; 10]);
                // Flushes both independently, if it can; the newer bytes once more when the flush
                // is over.
                rank.read(Position::Explicit(49), 12);
                late.wait();
                reading
            } else {
                late.wait();
                rank.start(Direction::Read, Position::Explicit(0), true, &mut buffer)
            };
            let _ = rank.wait(reading);
            // There is room again, at the latest when the rank has had its error.
            (0..3).for_each(|_| drop(rank.wait(rank.file.sync())));
            rank.wait(rank.file.sync()).expect("there is room");
            rank.wait(rank.file.clone().close()).expect("it closes");
        });
        let wanted = [&[1; 50][..], &[9; 10], &[1; 5940]].concat();
        assert_eq!(scratch.bytes(), wanted, "request {number} fails");
    }
}

#[test]
fn a_rank_reads_and_overwrites_what_waits_in_a_file() {
    let scratch = Scratch::new();
    let name = scratch.name();
    ranks(2, move |transport| {
        let room = [("aggio_tune", "defer_buffer=50"), ("aggio_tune", "defer_spill=1M")];
        let pairs = [DEFER, UNASKED, room[0], room[1]];
        let request = OpenRequest::new(&name, CREATE, hints(&pairs));
        let file = wait(&*transport, engine().open(transport.clone(), request)).expect("it opens");
        let rank = Rank { number: transport.rank(), file };
        let start = 1000 * rank.number as i64;
        (0..20).for_each(|k| drop(rank.write(Position::Explicit(start + 10 * k), &[1; 40])));
        rank.write(Position::Explicit(start + 100), &[2; 40]);
        let (read, _) = rank.read(Position::Explicit(start), 230);
        assert_eq!([&read[..100], &read[140..]], [&[1; 100][..], &[1; 90]]);
        assert_eq!(read[100..140], [2; 40]);
        rank.write(Position::Explicit(start + 110), &[3; 10]);
        rank.wait(rank.file.clone().close()).expect("it closes");
    });
    for start in [0, 1000] {
        let bytes = &scratch.bytes()[start..start + 230];
        assert_eq!([&bytes[..100], &bytes[140..]], [&[1; 100][..], &[1; 90]]);
        assert_eq!([&bytes[100..110], &bytes[110..120]], [[2; 10], [3; 10]]);
    }
}
