//! Small reads of a file that is opened for reading only.

use super::*;
use aggio_base::report::Totals;
use std::fs::{FileTimes, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::SystemTime;

const MIB: usize = 1 << 20;

/// A file of bytes that tell their places, which nobody has changed for an hour.
fn old_file(len: usize) -> Scratch {
    let bytes: Vec<u8> = (0..len).map(byte).collect();
    let scratch = Scratch::holding(&bytes);
    let an_hour_ago = SystemTime::now() - Duration::from_secs(3600);
    let times = FileTimes::new().set_modified(an_hour_ago);
    let file = OpenOptions::new().write(true).open(&scratch.0).expect("the file opens");
    file.set_times(times).expect("its time can be set");
    scratch
}

fn byte(place: usize) -> u8 {
    (place % 251) as u8
}

fn reading<T: Send + 'static>(
    scratch: &Scratch,
    amode: Amode,
    setting: &'static str,
    body: impl Fn(&Rank) -> T + Send + Sync + 'static,
) -> (T, Totals) {
    let name = scratch.name();
    let mut all = ranks(1, move |transport| {
        let request = OpenRequest::new(&name, amode, hints(&[("aggio_small_reads", setting)]));
        let file = wait(&*transport, engine().open(transport.clone(), request));
        let rank = Rank { number: 0, file: file.expect("the file opens") };
        let value = body(&rank);
        let totals = rank.file.counters().totals();
        rank.wait(rank.file.clone().close()).expect("the file closes");
        (value, totals)
    });
    all.remove(0)
}

fn at(offset: usize) -> Position {
    Position::Explicit(offset as i64)
}

#[test]
fn two_requests_serve_all_small_reads_of_a_mib() {
    let scratch = old_file(2 * MIB + 1000);
    let (_, totals) = reading(&scratch, Amode::RDONLY, "enable", |rank| {
        for place in (0..2 * MIB + 1000).step_by(4099) {
            let (bytes, outcome) = rank.read(at(place), 8);
            let wanted: Vec<u8> = (place..(place + 8).min(2 * MIB + 1000)).map(byte).collect();
            assert_eq!(moved(outcome), wanted.len() as u64);
            assert_eq!(bytes[..wanted.len()], wanted, "{place}");
        }
        let (bytes, outcome) = rank.read(at(2 * MIB + 995), 20);
        assert_eq!((moved(outcome), bytes[5]), (5, 0xEE), "what is behind the end stays");
        assert_eq!(moved(rank.read(at(2 * MIB + 2000), 20).1), 0);
    });
    assert!(totals.reads_out <= 6 + 2, "two for each MiB, and ends: {}", totals.reads_out);
    assert!(totals.remembered > 500, "{}", totals.remembered);
}

#[test]
fn reads_that_need_no_plan_are_served_alike() {
    let scratch = old_file(MIB + 100);
    let (_, totals) = reading(&scratch, Amode::RDONLY, "enable", |rank| {
        for place in (0..MIB + 100).step_by(3001) {
            let (bytes, outcome) = rank.read_at_once(place, 50).expect("it needs no plan");
            let wanted: Vec<u8> = (place..(place + 50).min(MIB + 100)).map(byte).collect();
            let is_inside = place / MIB == (place + 49) / MIB;
            assert!(moved(outcome) == wanted.len() as u64 || !is_inside, "{place}");
            assert_eq!(bytes[..wanted.len()], wanted, "{place}");
        }
    });
    assert!(totals.reads_out <= 6, "{}", totals.reads_out);
}

#[test]
fn who_may_write_and_whose_hint_forbids_it_reads_as_it_is_asked_to() {
    let cases = [(Amode::RDWR, "enable"), (Amode::RDONLY, "disable")];
    for (amode, setting) in cases {
        let scratch = old_file(MIB);
        let (_, totals) = reading(&scratch, amode, setting, |rank| {
            for place in 0..10 {
                assert_eq!(rank.read(at(place), 1).0, [byte(place)]);
            }
        });
        assert_eq!((totals.reads_out, totals.bytes_read_out, totals.remembered), (10, 10, 0));
    }
}

#[test]
fn what_another_program_changes_is_seen_by_the_next_read() {
    let scratch = old_file(MIB);
    let path = scratch.0.clone();
    reading(&scratch, Amode::RDONLY, "enable", move |rank| {
        let other = OpenOptions::new().write(true).open(&path).expect("the file opens");
        for round in 1..20 {
            assert_eq!(rank.read(at(7), 1).0[0], if round == 1 { byte(7) } else { round - 1 });
            assert_eq!(rank.read(at(8), 1).0, [byte(8)]);
            other.write_all_at(&[round], 7).expect("a write");
        }
    });
}

#[test]
fn a_file_that_was_changed_just_now_is_not_kept() {
    let scratch = Scratch::holding(&[1; 100]);
    let (_, totals) = reading(&scratch, Amode::RDONLY, "enable", |rank| {
        (0..10).for_each(|place| assert_eq!(rank.read(at(place), 1).0, [1]));
    });
    assert_eq!((totals.reads_out, totals.remembered), (10, 0));
}

#[test]
fn after_a_synchronisation_the_file_is_read_again() {
    let scratch = old_file(MIB);
    let (_, totals) = reading(&scratch, Amode::RDONLY, "enable", |rank| {
        for _ in 0..3 {
            (0..10).for_each(|place| assert_eq!(rank.read(at(place), 1).0, [byte(place)]));
            rank.wait(rank.file.sync()).expect("the file is synchronised");
        }
    });
    assert_eq!(totals.reads_out, 6);
}
