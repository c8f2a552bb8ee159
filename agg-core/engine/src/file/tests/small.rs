//! Small reads, which one rank of a node fetches for all.

use super::*;
use aggio_base::report::Totals;
use aggio_comm::pieces::FRESH;
use aggio_store::driver::fault::arrange;
use std::fs::{FileTimes, OpenOptions};
use std::os::unix::fs::FileExt;

pub(super) const MIB: usize = 1 << 20;

/// A file in which each byte encodes its place, unchanged for two seconds.
pub(super) fn old_file(len: usize) -> Scratch {
    let period: Vec<u8> = (0..251).map(byte).collect();
    let scratch = Scratch::holding(&period.repeat(len.div_ceil(251))[..len]);
    std::thread::sleep(Duration::from_millis(2100));
    scratch
}

pub(super) fn byte(place: usize) -> u8 {
    (place % 251) as u8
}

fn reading<T: Send + 'static>(
    scratch: &Scratch,
    amode: Amode,
    setting: &'static str,
    body: impl Fn(&Rank) -> T + Send + Sync + 'static,
) -> (T, Totals) {
    let name = scratch.name();
    let (mut values, totals) = all_reading(1, name, amode, setting, body);
    (values.remove(0), totals)
}

/// As [`reading`] on several ranks of one node; returns the sum of their counts.
pub(super) fn all_reading<T: Send + 'static>(
    size: usize,
    name: String,
    amode: Amode,
    setting: &'static str,
    body: impl Fn(&Rank) -> T + Send + Sync + 'static,
) -> (Vec<T>, Totals) {
    let all = ranks(size, move |transport| {
        let hints = hints(&[("aggio_tune", &format!("small_reads={setting}"))]);
        let request = OpenRequest::new(&name, amode, hints);
        let file = wait(&*transport, engine().open(transport.clone(), request));
        let rank = Rank { number: transport.rank(), file: file.expect("the file opens") };
        let value = body(&rank);
        let totals = rank.file.counters().totals();
        rank.wait(rank.file.clone().close()).expect("the file closes");
        (value, totals)
    });
    let mut sum = Totals::default();
    all.iter().for_each(|(_, totals)| sum.add(totals));
    (all.into_iter().map(|(value, _)| value).collect(), sum)
}

pub(super) fn at(offset: usize) -> Position {
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
    assert!(totals.reads_out <= 6 + 3, "two for each MiB, and ends: {}", totals.reads_out);
    assert!(totals.remembered > 500, "{}", totals.remembered);
}

#[test]
fn reads_that_need_no_plan_are_served_alike() {
    let scratch = old_file(MIB + 100);
    let (_, totals) = reading(&scratch, Amode::RDONLY, "enable", |rank| {
        for place in (0..MIB + 100).step_by(3001) {
            let (bytes, outcome) = rank.read_on_fast_path(place, 50).expect("it needs no plan");
            let wanted: Vec<u8> = (place..(place + 50).min(MIB + 100)).map(byte).collect();
            let is_inside = place / MIB == (place + 49) / MIB;
            assert!(moved(outcome) == wanted.len() as u64 || !is_inside, "{place}");
            assert_eq!(bytes[..wanted.len()], wanted, "{place}");
        }
    });
    assert!(totals.reads_out <= 6, "{}", totals.reads_out);
}

#[test]
fn where_the_hint_forbids_it_reads_are_made_as_they_are() {
    let scratch = old_file(MIB);
    let (_, totals) = reading(&scratch, Amode::RDONLY, "disable", |rank| {
        for place in 0..10 {
            assert_eq!(rank.read(at(place), 1).0, [byte(place)]);
        }
    });
    assert_eq!((totals.reads_out, totals.bytes_read_out, totals.remembered), (10, 10, 0));
}

#[test]
fn two_requests_for_each_mib_serve_all_ranks_of_a_node() {
    for amode in [Amode::RDONLY, Amode::RDWR] {
        let scratch = old_file(3 * MIB + 1000);
        let (_, totals) = all_reading(4, scratch.name(), amode, "enable", |rank| {
            for place in (0..3 * MIB + 990).step_by(997) {
                assert_eq!(
                    rank.read(at(place), 8).0,
                    [0, 1, 2, 3, 4, 5, 6, 7].map(|n| byte(place + n))
                );
            }
        });
        assert_eq!((totals.reads_out, totals.remembered), (8, totals.calls - 4));
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
            let hints = hints(&[("aggio_tune", "small_reads=enable")]);
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

/// A file that does not update its times on changes, with additional faults.
pub(super) fn timeless(
    scratch: &Scratch,
    faults: &str,
) -> (String, aggio_store::driver::fault::Arrangement) {
    let plan = arrange(&scratch.name(), &format!("fs=timeless{faults}")).expect("a plan");
    (format!("testfs:{}", scratch.name()), plan)
}

#[test]
fn a_rank_sees_at_once_what_it_wrote_itself_and_after_a_synchronisation_what_others_wrote() {
    let scratch = Scratch::holding(&[1; 1000]);
    let (name, _plan) = timeless(&scratch, "");
    all_reading(3, name, Amode::RDWR, "enable", |rank| {
        let own = 100 * rank.number;
        for round in 2..20 {
            (0..3).for_each(|_| assert_eq!(rank.read(at(own), 1).0, [round - 1]));
            assert_eq!(moved(rank.write(at(own), &[round; 100])), 100);
            (0..3).for_each(|_| assert_eq!(rank.read(at(own), 1).0, [round]));
            rank.wait(rank.file.sync()).expect("the file is synchronised");
            for other in [0, 100, 200] {
                assert_eq!(rank.read(at(other), 1).0, [round]);
            }
            rank.wait(rank.file.sync()).expect("all have read");
        }
    });
}

#[test]
fn after_a_collective_write_and_a_change_of_size_nothing_is_used_that_was_fetched_before() {
    let scratch = Scratch::holding(&[1; 1000]);
    let (name, _plan) = timeless(&scratch, "");
    all_reading(2, name, Amode::RDWR, "enable", |rank| {
        (0..3).for_each(|_| assert_eq!(rank.read(at(0), 1).0, [1]));
        // Rank 0 writes for both, or each for itself.
        assert_eq!(moved(rank.write_all(at(500 * rank.number), &[2; 500])), 500);
        (0..3).for_each(|_| assert_eq!(rank.read(at(500 * rank.number), 1).0, [2]));
        rank.wait(rank.file.set_size(10)).expect("a shorter file");
        rank.wait(rank.file.set_size(1000)).expect("as long as before");
        (0..3).for_each(|_| assert_eq!(rank.read(at(500), 1).0, [0]));
    });
}

#[test]
fn in_atomic_mode_nothing_is_kept() {
    let scratch = Scratch::holding(&[1; 1000]);
    let (name, plan) = timeless(&scratch, "");
    let (_, totals) = all_reading(2, name, Amode::RDWR, "enable", |rank| {
        rank.wait(rank.file.set_atomicity(true)).expect("atomic mode");
        (0..5).for_each(|_| assert_eq!(rank.read(at(7), 1).0, [1]));
    });
    assert_eq!((totals.reads_out, totals.remembered), (10, 0));
    drop(plan);
    // The same for a single rank, where calls need no plan.
    let (name, _plan) = timeless(&scratch, "");
    let (_, totals) = all_reading(1, name, Amode::RDWR, "enable", |rank| {
        rank.wait(rank.file.set_atomicity(true)).expect("atomic mode");
        (0..5).for_each(|_| assert_eq!(rank.read_on_fast_path(7, 1).expect("no plan").0, [1]));
    });
    assert_eq!((totals.reads_out, totals.remembered), (5, 0));
}

#[test]
fn where_a_mib_cannot_be_fetched_only_the_ranks_whose_bytes_cannot_be_read_hear_of_it() {
    let scratch = Scratch::holding(&[1; 1000]);
    // The second request of rank 0 fetches for both.
    let (name, _plan) = timeless(&scratch, ";op=read,rank=0,nth=2,times=2,errno=EIO");
    let (_, totals) = all_reading(2, name, Amode::RDONLY, "enable", |rank| {
        if rank.number == 0 {
            assert_eq!(rank.read(at(0), 1).0, [1]);
            assert_eq!(failed(rank.read(at(1), 1).1).errno(), libc::EIO);
        }
        rank.barrier();
        (0..5).for_each(|place| assert_eq!(rank.read(at(place), 1).0, [1]));
    });
    assert_eq!(totals.remembered, 0, "nobody tries again within a second");
}

#[test]
fn a_rank_that_comes_when_the_others_close_the_file_finds_what_they_have_fetched() {
    let scratch = Scratch::holding(&[1; 1000]);
    let (name, _plan) = timeless(&scratch, "");
    let (_, totals) = all_reading(2, name, Amode::RDONLY, "enable", |rank| {
        if rank.number == 0 {
            (0..3).for_each(|place| assert_eq!(rank.read(at(place), 1).0, [1]));
        } else {
            std::thread::sleep(Duration::from_millis(200));
            assert_eq!(rank.read(at(9), 1).0, [1]);
        }
    });
    assert_eq!(totals.reads_out, 2);
}

/// Random programs access bytes from here on, in two pieces.
const FIRST: usize = MIB - 3000;

/// A step of a random program.
enum Step {
    /// Each rank writes a value in its own part: from where, how many bytes, which.
    Write {
        collective: bool,
        parts: Vec<(usize, usize, u8)>,
    },
    Read {
        start: usize,
        len: usize,
    },
    Sync,
}

fn random_steps(seed: u64, ranks: usize, count: usize, bytes: usize) -> Vec<Step> {
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut below = |limit: usize| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as usize % limit
    };
    let part = bytes / ranks;
    let mut step = |_| match below(8) {
        kind @ 0..2 => {
            let of_rank = |rank: usize| {
                let start = rank * part + below(part);
                (start, 1 + below((rank + 1) * part - start), below(256) as u8)
            };
            Step::Write { collective: kind == 0, parts: (0..ranks).map(of_rank).collect() }
        }
        2 => Step::Sync,
        _ => {
            let start = below(bytes);
            Step::Read { start, len: 1 + below((bytes - start).min(500)) }
        }
    };
    (0..count).map(&mut step).collect()
}

/// Carries out the steps. A rank reads its own last write; of the bytes written by others it reads
/// the state at the last synchronisation or any write before the next one.
fn carry_out(rank: &Rank, steps: &[Step], bytes: usize) {
    let mut settled = vec![1; bytes];
    for epoch in steps.split_inclusive(|step| matches!(step, Step::Sync)) {
        let mut may_be: Vec<Vec<u8>> = settled.iter().map(|byte| vec![*byte]).collect();
        for step in epoch {
            let Step::Write { parts, .. } = step else { continue };
            for (writer, (start, len, value)) in parts.iter().enumerate() {
                settled[*start..start + len].fill(*value);
                if writer != rank.number {
                    may_be[*start..start + len].iter_mut().for_each(|byte| byte.push(*value));
                }
            }
        }
        for step in epoch {
            match step {
                Step::Sync => rank.wait(rank.file.sync()).expect("the file is synchronised"),
                Step::Write { collective, parts } => {
                    let (start, len, value) = parts[rank.number];
                    let data = vec![value; len];
                    let outcome = match collective {
                        true => rank.write_all(at(FIRST + start), &data),
                        false => rank.write(at(FIRST + start), &data),
                    };
                    assert_eq!(moved(outcome), len as u64);
                    may_be[start..start + len].fill(vec![value]);
                }
                Step::Read { start, len } => {
                    let (found, outcome) = rank.read(at(FIRST + *start), *len);
                    assert_eq!(moved(outcome), *len as u64);
                    for (place, byte) in (*start..).zip(found) {
                        assert!(may_be[place].contains(&byte), "{place}: {byte}");
                    }
                }
            }
        }
    }
}

#[test]
fn random_writes_reads_and_synchronisations_of_several_ranks_show_what_they_must() {
    const BYTES: usize = 6000;
    let mut remembered = 0;
    for seed in 0..30 {
        let scratch = Scratch::holding(&vec![1; FIRST + BYTES]);
        let (name, _plan) = timeless(&scratch, "");
        let ranks = 1 + seed as usize % 5;
        let steps = random_steps(seed, ranks, 100, BYTES);
        let body = move |rank: &Rank| carry_out(rank, &steps, BYTES);
        println!("seed {seed}, {ranks} ranks");
        remembered += all_reading(ranks, name, Amode::RDWR, "enable", body).1.remembered;
    }
    assert!(remembered > 100, "{remembered} reads were served from pieces");
}
