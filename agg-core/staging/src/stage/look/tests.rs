//! The content of a staged file as system calls see it.

use super::super::tests::{Bench, TERMS, kill, read, write};
use super::*;
use aggio_store::driver::{Closing, Staging};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

#[test]
fn who_looks_at_the_file_itself_sees_what_was_staged_and_what_is_written_later() {
    let bench = Bench::new();
    let home = bench.home();
    let one = bench.open(Some(TERMS));
    let other = bench.open(Some(Staging { first: false, ..TERMS }));
    let look = |stays| show(&home, File::open(bench.path()).unwrap(), stays).unwrap();
    look(true);
    assert_eq!(bench.on_disk(), b"", "nothing was staged");
    write(&*one, b"abc", 0);
    assert_eq!(bench.on_disk(), b"abc", "he looks at it now");
    one.close(Closing::Complete).unwrap();
    other.close(Closing::Complete).unwrap();
    let one = bench.open(Some(TERMS));
    let other = bench.open(Some(Staging { first: false, ..TERMS }));
    write(&*one, b"xy", 1);
    look(false);
    assert_eq!(bench.on_disk(), b"axy");
    write(&*other, b"!", 3);
    assert_eq!(bench.on_disk(), b"axy", "he has gone");
    look(true);
    write(&*other, b"?", 0);
    write(&*one, b"...", 2);
    assert_eq!(bench.on_disk(), b"?x...");
    assert_eq!(read(&*other, 0, 9), b"?x...");
    one.close(Closing::Complete).unwrap();
    other.close(Closing::Complete).unwrap();
    assert_eq!((bench.on_disk(), bench.stages().len()), (b"?x...".to_vec(), 0));
}

#[test]
fn what_a_killed_program_left_is_there_for_who_looks_at_the_file() {
    let bench = Bench::new();
    let home = bench.home();
    let file = bench.open(Some(TERMS));
    write(&*file, b"left", 0);
    kill(file);
    show(&home, File::open(bench.path()).unwrap(), true).unwrap();
    assert_eq!((bench.on_disk(), bench.stages().len()), (b"left".to_vec(), 0));
}

#[test]
fn whoever_was_about_to_stage_when_somebody_looked_writes_to_the_file() {
    let bench = Bench::new();
    let file = bench.open(Some(TERMS));
    write(&*file, b"before", 0);
    let target = File::open(bench.path()).unwrap();
    let stage = Stage::join(&bench.home(), target, Path::new(&bench.path()), false).unwrap();
    let stage = stage.unwrap();
    assert_eq!(stage.write(&[(0, b"staged")]), Ok(()));
    show(&bench.home(), File::open(bench.path()).unwrap(), true).unwrap();
    let refused = stage.write(&[(0, b"missed")]).map_err(|error| error.class());
    assert_eq!(refused, Err(aggio_base::ErrorClass::NoSpace));
    write(&*file, b"later!", 0);
    assert_eq!(bench.on_disk(), b"later!");
    stage.leave();
    file.close(Closing::Complete).unwrap();
}

#[test]
fn who_looks_while_others_stage_misses_nothing_that_was_written_before() {
    let bench = Bench::new();
    let home = bench.home();
    for round in 0..100 {
        let file = bench.open(Some(TERMS));
        let written = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for at in 0..200 {
                    write(&*file, &[round + 1], at as u64);
                    written.store(at + 1, Release);
                }
            });
            std::thread::sleep(Duration::from_micros(20 * u64::from(round)));
            show(&home, File::open(bench.path()).unwrap(), true).unwrap();
            for _ in 0..20 {
                let known = written.load(Acquire);
                let seen = bench.on_disk();
                let right = seen.iter().take(known).filter(|byte| **byte == round + 1).count();
                assert_eq!(right, known, "round {round}: written before the look, and not there");
            }
        });
        file.close(Closing::Complete).unwrap();
    }
}
