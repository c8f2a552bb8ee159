//! Small reads of a file that is opened for reading only.

use super::*;
use crate::file::small::FRESH;
use aggio_base::report::Totals;
use aggio_store::driver::fault::arrange;
use std::fs::{FileTimes, OpenOptions};
use std::os::unix::fs::FileExt;

const MIB: usize = 1 << 20;

/// A file of bytes that tell their places, which nobody has changed for two seconds.
fn old_file(len: usize) -> Scratch {
    let bytes: Vec<u8> = (0..len).map(byte).collect();
    let scratch = Scratch::holding(&bytes);
    std::thread::sleep(Duration::from_millis(2100));
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

#[test]
fn a_change_whose_time_was_put_back_is_seen() {
    let scratch = old_file(MIB);
    let path = scratch.0.clone();
    reading(&scratch, Amode::RDONLY, "enable", move |rank| {
        (0..3).for_each(|_| assert_eq!(rank.read(at(7), 1).0, [byte(7)]));
        let other = OpenOptions::new().write(true).open(&path).expect("the file opens");
        let before = other.metadata().and_then(|facts| facts.modified()).expect("its time");
        other.write_all_at(&[99], 7).expect("a write");
        other.set_times(FileTimes::new().set_modified(before)).expect("its time can be set");
        assert_eq!(rank.read(at(7), 1).0, [99]);
    });
}

#[test]
fn stores_to_memory_that_change_no_time_are_seen_after_a_second() {
    let scratch = old_file(MIB);
    let (_, totals) = reading(&scratch, Amode::RDONLY, "enable", |rank| {
        for _ in 0..2 {
            (0..10).for_each(|place| assert_eq!(rank.read(at(place), 1).0, [byte(place)]));
            std::thread::sleep(FRESH + Duration::from_millis(50));
        }
    });
    assert_eq!(totals.reads_out, 4, "the second time it is fetched again");
}

#[test]
fn where_a_mib_cannot_be_fetched_the_read_is_made_as_it_is() {
    // The second request is the one that fetches; then the third is the read itself.
    for (plan, error) in
        [("op=read,nth=2,errno=EIO", false), ("op=read,nth=2,times=2,errno=EIO", true)]
    {
        let scratch = old_file(MIB);
        let _plan = arrange(&scratch.name(), plan).expect("a plan");
        let faulty = format!("testfs:{}", scratch.name());
        ranks(1, move |transport| {
            let hints = hints(&[("aggio_small_reads", "enable")]);
            let request = OpenRequest::new(&faulty, Amode::RDONLY, hints);
            let file = wait(&*transport, engine().open(transport.clone(), request));
            let rank = Rank { number: 0, file: file.expect("the file opens") };
            assert_eq!(rank.read(at(7), 1).0, [byte(7)]);
            let (bytes, outcome) = rank.read(at(8), 1);
            match error {
                true => assert_eq!(failed(outcome).errno(), libc::EIO),
                false => assert_eq!((moved(outcome), bytes), (1, vec![byte(8)])),
            }
            rank.wait(rank.file.clone().close()).expect("the file closes");
        });
    }
}
