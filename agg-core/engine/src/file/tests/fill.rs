//! Zeros that are written where the file has none of its own bytes are there, and are not written.

use super::*;
use aggio_base::report::Totals;
use aggio_store::driver::fault::arrange;
use proptest::prelude::*;
use std::os::unix::fs::MetadataExt;

/// Bytes of a rank's part that are worth reserving.
const LEN: usize = 128 << 10;

/// The counts of each rank when `body` was run with the hint.
fn counted(
    size: usize,
    name: &str,
    fill: &'static str,
    body: impl Fn(&Rank) + Send + Sync + 'static,
) -> Vec<Totals> {
    counted_on(1, size, name, fill, body)
}

/// As [`counted`], with the ranks on this number of nodes, in turn.
fn counted_on(
    nodes: usize,
    size: usize,
    name: &str,
    fill: &'static str,
    body: impl Fn(&Rank) + Send + Sync + 'static,
) -> Vec<Totals> {
    let name = name.to_owned();
    ranks_on(on(nodes, size), move |transport| {
        let hints = hints(&[("aggio_tune", &format!("fill_elision={fill}"))]);
        let request = OpenRequest::new(&name, CREATE, hints);
        let file = wait(&*transport, engine().open(transport.clone(), request));
        let rank = Rank { number: transport.rank(), file: file.expect("the file opens") };
        body(&rank);
        let totals = rank.file.counters().totals();
        rank.wait(rank.file.clone().close()).expect("the file closes");
        totals
    })
}

fn at(offset: usize) -> Position {
    Position::Explicit(offset as i64)
}

fn sum(all: &[Totals], count: impl Fn(&Totals) -> u64) -> u64 {
    all.iter().map(count).sum()
}

#[test]
fn zeros_of_all_ranks_behind_the_end_are_there_at_once_and_are_not_written() {
    let scratch = Scratch::holding(b"old");
    let totals = counted(3, &scratch.name(), "enable", |rank| {
        let place = 1000 + rank.number * LEN;
        assert_eq!(moved(rank.write_all(at(place), &[0; LEN])), LEN as u64);
        assert_eq!(rank.file.driver().size(), Ok(1000 + 3 * LEN as u64));
        assert_eq!(rank.read(at(0), 4).0, b"old\0");
        let other = 1000 + (rank.number + 1) % 3 * LEN;
        assert_eq!(rank.read(at(other), LEN).0, [0; LEN]);
        rank.barrier();
        let data = [b'a' + rank.number as u8; 500];
        assert_eq!(moved(rank.write_all(at(place + 100), &data)), 500);
    });
    let out = sum(&totals, |t| t.bytes_written_out);
    assert!(out <= 1500 + 2 * 4096, "the data, and blocks that are shared: {out}");
    let reserved = sum(&totals, |t| t.bytes_reserved);
    assert!(reserved >= 3 * LEN as u64 - 2 * 4096, "{reserved}");
    let mut wanted = vec![0; 1000 + 3 * LEN];
    wanted[..3].copy_from_slice(b"old");
    for rank in 0..3 {
        wanted[1100 + rank * LEN..][..500].fill(b'a' + rank as u8);
    }
    assert!(scratch.bytes() == wanted);
}

#[test]
fn zeros_over_stored_bytes_are_written() {
    let scratch = Scratch::holding(&vec![7; 3 * LEN]);
    let totals = counted(2, &scratch.name(), "enable", |rank| {
        assert_eq!(moved(rank.write(at(LEN * rank.number), &[0; LEN])), LEN as u64);
        assert_eq!(moved(rank.write_all(at(2 * LEN + rank.number * LEN), &[0; LEN])), LEN as u64);
    });
    assert_eq!(sum(&totals, |t| t.bytes_written_out), 3 * LEN as u64);
    assert!(scratch.bytes() == vec![0; 4 * LEN]);
}

#[test]
fn a_rank_without_zeros_writes_while_the_others_reserve() {
    let scratch = Scratch::new();
    let totals = counted(3, &scratch.name(), "enable", |rank| {
        let mut data = vec![0; LEN];
        data[LEN / 3] = rank.number as u8 / 2;
        assert_eq!(moved(rank.write_all(at(rank.number * LEN), &data)), LEN as u64);
    });
    let out: Vec<u64> = totals.iter().map(|totals| totals.bytes_written_out).collect();
    assert_eq!(out, [0, 0, LEN as u64]);
    let mut wanted = vec![0; 3 * LEN];
    wanted[2 * LEN + LEN / 3] = 1;
    assert!(scratch.bytes() == wanted);
}

#[test]
fn a_write_that_needs_no_plan_reserves_alike() {
    let scratch = Scratch::holding(&[5; 10]);
    let totals = counted(1, &scratch.name(), "enable", |rank| {
        let outcome = rank.fast_path(Direction::Write, 8192, &mut [0; LEN]);
        assert_eq!(moved(outcome.expect("it needs no plan")), LEN as u64);
        let outcome = rank.fast_path(Direction::Write, 0, &mut [0; LEN]);
        assert_eq!(moved(outcome.expect("it needs no plan")), LEN as u64);
    });
    assert_eq!((totals[0].bytes_reserved, totals[0].bytes_written_out), (LEN as u64, LEN as u64));
    assert!(scratch.bytes() == vec![0; 8192 + LEN]);
}

#[test]
fn small_pieces_and_files_whose_hint_forbids_it_are_written() {
    for (fill, len) in [("disable", LEN), ("enable", 4096)] {
        let scratch = Scratch::new();
        let totals = counted(1, &scratch.name(), fill, move |rank| {
            assert_eq!(moved(rank.write(at(0), &vec![0; len])), len as u64);
        });
        assert_eq!((totals[0].bytes_reserved, totals[0].bytes_written_out), (0, len as u64));
        assert!(scratch.bytes() == vec![0; len]);
    }
}

/// A file system that cannot reserve storage, as most behind a network.
fn holes_only(scratch: &Scratch) -> (String, impl Sized + use<>) {
    let plan = arrange(&scratch.name(), "op=preallocate,errno=EOPNOTSUPP").expect("a plan");
    (format!("testfs:{}", scratch.name()), plan)
}

#[test]
fn where_no_storage_can_be_reserved_zeros_of_all_ranks_behind_the_end_are_a_hole() {
    const WRITTEN: u64 = 2 * LEN as u64;
    let cases =
        [(1, "automatic", 1), (3, "automatic", 1), (2, "enable", 1), (1, "disable", WRITTEN)];
    for (nodes, fill, stored) in cases {
        let scratch = Scratch::holding(b"old");
        let (name, _plan) = holes_only(&scratch);
        let totals = counted_on(nodes, 3, &name, fill, |rank| {
            // The last rank has no data.
            let part = if rank.number < 2 { LEN } else { 0 };
            let outcome = rank.write_all(at(1000 + rank.number * LEN), &vec![0; part]);
            assert_eq!(moved(outcome), part as u64);
            assert_eq!(rank.file.driver().size(), Ok(1000 + 2 * LEN as u64));
            assert_eq!(rank.read(at(0), 4).0, b"old\0");
        });
        assert_eq!(sum(&totals, |t| t.bytes_written_out), stored, "{fill}");
        let kept = if fill == "disable" { 0 } else { WRITTEN };
        assert_eq!(sum(&totals, |t| t.bytes_reserved), kept, "{fill}");
        let mut wanted = vec![0; 1000 + 2 * LEN];
        wanted[..3].copy_from_slice(b"old");
        assert!(scratch.bytes() == wanted, "{fill}");
    }
}

#[test]
fn zeros_of_a_rank_alone_behind_the_end_are_a_hole_too() {
    let scratch = Scratch::new();
    let (name, _plan) = holes_only(&scratch);
    let totals = counted(1, &name, "automatic", |rank| {
        assert_eq!(moved(rank.write(at(10), &[0; LEN])), LEN as u64);
        // Behind the end that was, and in front of the one that is.
        assert_eq!(moved(rank.write(at(0), &[0; LEN])), LEN as u64);
        assert_eq!(moved(rank.write(at(LEN), &[7; 20])), 20);
        assert_eq!(moved(rank.write(at(LEN + 20), &[0; LEN])), LEN as u64);
    });
    assert_eq!(totals[0].bytes_written_out, 1 + LEN as u64 + 20 + 1);
    let mut wanted = vec![0; 2 * LEN + 20];
    wanted[LEN..LEN + 20].fill(7);
    assert!(scratch.bytes() == wanted);
}

#[test]
fn zeros_that_begin_before_the_end_are_written() {
    for nodes in [1, 2] {
        let scratch = Scratch::holding(&[9; 100]);
        let (name, _plan) = holes_only(&scratch);
        let totals = counted_on(nodes, 2, &name, "automatic", |rank| {
            assert_eq!(moved(rank.write_all(at(99 + rank.number * LEN), &[0; LEN])), LEN as u64);
        });
        assert_eq!(sum(&totals, |t| t.bytes_written_out), 2 * LEN as u64);
        let mut wanted = vec![0; 99 + 2 * LEN];
        wanted[..99].fill(9);
        assert!(scratch.bytes() == wanted);
    }
}

#[test]
fn zeros_far_apart_are_written_and_gaps_get_no_storage() {
    const FAR: usize = 1 << 30;
    for reserves in [false, true] {
        let scratch = Scratch::new();
        let plan = if reserves { "op=sync,errno=EIO" } else { "op=preallocate,errno=EOPNOTSUPP" };
        let _plan = arrange(&scratch.name(), plan).expect("a plan");
        let totals = counted(2, &format!("testfs:{}", scratch.name()), "automatic", |rank| {
            assert_eq!(moved(rank.write_all(at(10 + rank.number * FAR), &[0; LEN])), LEN as u64);
        });
        let all = |t: &Totals| t.bytes_written_out + t.bytes_reserved;
        assert_eq!(sum(&totals, all), 2 * LEN as u64);
        let facts = std::fs::metadata(scratch.name()).expect("a file");
        assert_eq!(facts.len(), (10 + FAR + LEN) as u64);
        assert!(facts.blocks() * 512 < 4 * LEN as u64, "{} blocks", facts.blocks());
    }
}

#[test]
fn zeros_of_some_ranks_and_data_of_others_are_written() {
    let scratch = Scratch::new();
    let (name, _plan) = holes_only(&scratch);
    let totals = counted(2, &name, "automatic", |rank| {
        let data = vec![rank.number as u8; LEN];
        assert_eq!(moved(rank.write_all(at(rank.number * LEN), &data)), LEN as u64);
    });
    assert_eq!(sum(&totals, |t| t.bytes_written_out), 2 * LEN as u64);
    assert!(scratch.bytes() == [vec![0; LEN], vec![1; LEN]].concat());
}

#[test]
fn a_file_that_was_cut_off_has_zeros_behind_its_new_end() {
    let scratch = Scratch::holding(&[9; 3 * LEN]);
    let (name, _plan) = holes_only(&scratch);
    counted(2, &name, "automatic", |rank| {
        rank.wait(rank.file.clone().set_size(5)).expect("the file is cut off");
        assert_eq!(moved(rank.write_all(at(5 + rank.number * LEN), &[0; LEN])), LEN as u64);
    });
    let mut wanted = vec![0; 5 + 2 * LEN];
    wanted[..5].fill(9);
    assert!(scratch.bytes() == wanted);
}

#[test]
fn a_hole_whose_last_byte_cannot_be_written_is_told_on_every_rank() {
    let scratch = Scratch::new();
    let plan = "op=preallocate,errno=EOPNOTSUPP;op=write,errno=ENOSPC";
    let _plan = arrange(&scratch.name(), plan).expect("a plan");
    counted(3, &format!("testfs:{}", scratch.name()), "automatic", |rank| {
        let outcome = rank.write_all(at(rank.number * LEN), &[0; LEN]);
        assert_eq!(failed(outcome).class(), ErrorClass::NoSpace);
    });
}

#[test]
fn a_full_file_system_is_told_by_the_write_itself_on_every_rank() {
    let scratch = Scratch::new();
    let plan = "op=preallocate,errno=ENOSPC,rank=1;op=write,errno=ENOSPC,rank=1";
    let _plan = arrange(&scratch.name(), plan).expect("a plan");
    counted(3, &format!("testfs:{}", scratch.name()), "enable", |rank| {
        let outcome = rank.write_all(at(rank.number * LEN), &[0; LEN]);
        assert_eq!(failed(outcome).class(), ErrorClass::NoSpace);
    });
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, ..ProptestConfig::with_cases(24)
    })]

    #[test]
    fn any_order_of_zeros_and_data_leaves_the_same_bytes(
        writes in prop::collection::vec((0..6usize, 1..4usize, 0..3u8, any::<bool>()), 1..10),
    ) {
        let run = |fill, reserves: bool, nodes| {
            let (scratch, writes) = (Scratch::new(), writes.clone());
            let (holes, _plan) = holes_only(&scratch);
            let name = if reserves { scratch.name() } else { holes };
            counted_on(nodes, 2, &name, fill, move |rank| {
                for (place, parts, value, collective) in &writes {
                    let part = (place * 2 + rank.number) * LEN;
                    let data = vec![*value; *parts * LEN / 3];
                    let outcome = match *collective {
                        true => rank.write_all(at(part), &data),
                        false => rank.write(at(part), &data),
                    };
                    assert_eq!(moved(outcome), data.len() as u64);
                }
            });
            scratch.bytes()
        };
        let wanted = run("disable", true, 1);
        prop_assert!(run("enable", true, 1) == wanted);
        prop_assert!(run("automatic", false, 1) == wanted);
        prop_assert!(run("automatic", false, 2) == wanted);
    }
}
