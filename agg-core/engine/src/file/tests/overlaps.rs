//! If several ranks write the same bytes one after the other, the last write is stored although all
//! are deferred.

use super::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::sync::Barrier;

const RANKS: usize = 4;

fn open(transport: &Arc<ThreadTransport>, name: &str, more: &[(&str, &str)]) -> Rank {
    let pairs = [&[DEFER, UNASKED], more].concat();
    let request = OpenRequest::new(name, CREATE, hints(&pairs));
    let file = wait(&**transport, engine().open(transport.clone(), request)).expect("it opens");
    Rank { number: transport.rank(), file }
}

fn close(rank: &Rank) {
    rank.wait(rank.file.clone().close()).unwrap();
}

#[test]
fn data_written_over_a_fill_of_another_rank_stays_whoever_filled() {
    let scratch = Scratch::new();
    let name = scratch.name();
    ranks(RANKS, move |transport| {
        let rank = open(&transport, &name, &[]);
        // Each fills the place of the rank on its left, and then that one writes there.
        let (left, own) = ((rank.number + RANKS - 1) % RANKS * 1000, rank.number * 1000);
        rank.write_all(Position::Explicit(left as i64), &[0xFF; 1000]);
        rank.write_all(Position::Explicit(own as i64 + 10), &[rank.number as u8 + 1; 900]);
        close(&rank);
    });
    for (rank, place) in scratch.bytes().chunks(1000).enumerate() {
        assert_eq!(place, [&[0xFF; 10][..], &[rank as u8 + 1; 900], &[0xFF; 90]].concat());
    }
}

#[test]
fn metadata_that_one_rank_after_the_other_writes_by_itself_are_those_of_the_last() {
    let scratch = Scratch::new();
    let (name, meeting) = (scratch.name(), Arc::new(Barrier::new(RANKS)));
    ranks(RANKS, move |transport| {
        let rank = open(&transport, &name, &[]);
        for turn in [3, 0, 2, 1] {
            meeting.wait();
            if rank.number == turn {
                rank.write(Position::Explicit(turn as i64), &[turn as u8 + 1; 100]);
            }
        }
        meeting.wait();
        close(&rank);
    });
    let wanted = [&[1][..], &[2; 100], &[3], &[4]].concat();
    assert_eq!(scratch.bytes(), wanted);
}

#[test]
fn a_rank_that_writes_older_bytes_by_itself_does_not_undo_newer_ones() {
    let scratch = Scratch::new();
    let (name, meeting) = (scratch.name(), Arc::new(Barrier::new(2)));
    ranks(2, move |transport| {
        let rank = open(&transport, &name, &[]);
        let mine = |bytes: u8| rank.write_all(Position::Explicit(0), &[bytes; 100]);
        // Rank 0 in the first call, rank 1 in the second one; the other has nothing to write.
        for (writer, bytes) in [(0, 7), (1, 8)] {
            if rank.number == writer {
                mine(bytes);
            } else {
                rank.write_all(Position::Explicit(0), &[]);
            }
        }
        // The newer ones reach the file first, because their rank reads them.
        for reader in [1, 0] {
            meeting.wait();
            if rank.number == reader {
                rank.read(Position::Explicit(50), 10);
            }
        }
        meeting.wait();
        close(&rank);
    });
    assert_eq!(scratch.bytes(), [8; 100]);
}

#[test]
fn bytes_that_did_not_fit_into_the_buffer_are_newer_than_those_that_did() {
    let scratch = Scratch::new();
    let (name, meeting) = (scratch.name(), Arc::new(Barrier::new(2)));
    ranks(2, move |transport| {
        let buffer = [("aggio_tune", "defer_buffer=300"), ("aggio_tune", "defer_spill=0")];
        let rank = open(&transport, &name, &buffer);
        if rank.number == 0 {
            rank.write(Position::Explicit(0), &[1; 200]);
        }
        meeting.wait();
        if rank.number == 1 {
            (0..10).for_each(|k| drop(rank.write(Position::Explicit(20 * k), &[2; 100])));
        }
        meeting.wait();
        close(&rank);
    });
    assert_eq!(scratch.bytes(), [2; 280]);
}

/// The next step; all ranks synchronise between steps.
#[derive(Clone, Debug)]
enum Step {
    /// An independent write of a rank: offset and length.
    Alone(usize, u64, u64),
    /// All write, each at its own place of this range from a rank on, with gaps.
    Together(u64, u64, usize),
    /// An independent read of a rank.
    Read(usize, u64),
    Sync,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..RANKS, 0..900_u64, 1..120_u64)
            .prop_map(|(rank, at, len)| Step::Alone(rank, at, len)),
        4 => (0..900_u64, 1..40_u64, 0..RANKS)
            .prop_map(|(at, len, first)| Step::Together(at, len, first)),
        2 => (0..RANKS, 0..900_u64).prop_map(|(rank, at)| Step::Read(rank, at)),
        1 => Just(Step::Sync),
    ];
    proptest::collection::vec(step, 1..25)
}

/// Where a rank writes in a collective step: two pieces with a gap.
fn view(at: u64, len: u64, first: usize, rank: usize) -> (View, [u64; 2]) {
    let place = at + ((rank + first) % RANKS) as u64 * len;
    let apart = len * RANKS as u64 + 3;
    let view = every(1, len, apart as i64, place).expect("a legal view");
    (view, [place, place + apart])
}

/// Carries the steps out on all ranks, each step after the one before.
fn carry_out(steps: &[Step], name: &str, buffer: [&'static str; 2]) {
    let (steps, name, meeting) = (steps.to_vec(), name.to_owned(), Arc::new(Barrier::new(RANKS)));
    ranks(RANKS, move |transport| {
        let [memory, storage] = buffer;
        let buffer = format!("defer_buffer={memory} defer_spill={storage}");
        let rank = open(&transport, &name, &[("aggio_tune", &buffer)]);
        for (number, step) in steps.iter().enumerate() {
            meeting.wait();
            let bytes = |len: u64| vec![number as u8 + 1; len as usize];
            match *step {
                Step::Alone(writer, at, len) if rank.number == writer => {
                    moved(rank.write(Position::Explicit(at as i64), &bytes(len)));
                }
                Step::Together(at, len, first) => {
                    let (view, _) = view(at, len, first, rank.number);
                    rank.set_view(Ok(view)).unwrap();
                    moved(rank.write_all(Position::Explicit(0), &bytes(2 * len)));
                    rank.set_view(Ok(View::bytes())).unwrap();
                }
                Step::Read(reader, at) if rank.number == reader => {
                    rank.read(Position::Explicit(at as i64), 100);
                }
                Step::Sync => rank.wait(rank.file.sync()).unwrap(),
                _ => {}
            }
        }
        meeting.wait();
        close(&rank);
    });
}

/// The contents of the file without deferred writes.
fn wanted(steps: &[Step]) -> Vec<u8> {
    let mut file: Vec<u8> = Vec::new();
    let mut write = |at: u64, len: u64, byte: u8| {
        let (at, end) = (at as usize, (at + len) as usize);
        file.resize(file.len().max(end), 0);
        file[at..end].fill(byte);
    };
    for (number, step) in steps.iter().enumerate() {
        let byte = number as u8 + 1;
        match *step {
            Step::Alone(_, at, len) => write(at, len, byte),
            Step::Together(at, len, first) => (0..RANKS)
                .flat_map(|rank| view(at, len, first, rank).1)
                .for_each(|place| write(place, len, byte)),
            Step::Read(..) | Step::Sync => {}
        }
    }
    file
}

fn compare(cases: u32, buffer: [&'static str; 2]) {
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let result = runner.run(&steps(), |steps| {
        let scratch = Scratch::new();
        carry_out(&steps, &scratch.name(), buffer);
        let (wanted, found) = (wanted(&steps), scratch.bytes());
        let other = wanted.iter().zip(&found).position(|(one, other)| one != other);
        prop_assert_eq!((other, found.len()), (None, wanted.len()));
        Ok(())
    });
    result.unwrap();
}

#[test]
fn after_any_program_whose_ranks_write_in_turns_the_last_write_counts() {
    compare(150, ["1000000", "0"]);
}

#[test]
fn the_same_holds_where_bytes_wait_in_files() {
    compare(50, ["100", "1000000"]);
}

#[test]
fn a_rank_without_others_keeps_nothing_in_mind() {
    let scratch = Scratch::new();
    let [transport] = &ThreadTransport::group(1)[..] else { panic!("one rank") };
    let rank = open(transport, &scratch.name(), &[("aggio_tune", "defer_buffer=300")]);
    for k in 0..50 {
        rank.write(Position::Explicit(30 * k), &[1; 20]);
        rank.read(Position::Explicit(0), 1);
        let waiting = rank.file.write_behind.waiting().expect("it defers");
        assert!(waiting.claims.is_empty() && waiting.pending.is_empty());
    }
    close(&rank);
}
