//! Reads through views, against a plain vector of bytes.

use crate::driver::scratch::Scratch;
use crate::driver::{Closing, Driver, OpenHow, open};
use crate::independent::Strategy;
use aggio_base::report::Counters;
use aggio_config::hints::Switch;
use aggio_types::datatype::Datatype;
use aggio_types::memory::Memory;
use aggio_types::view::{Representation, View};
use proptest::prelude::*;
use std::sync::atomic::Ordering::Relaxed;

fn opened(scratch: &Scratch) -> Box<dyn Driver> {
    let path = format!("blob:{}", scratch.file("f"));
    let how = OpenHow { path, create: true, read: true, write: true, ..OpenHow::default() };
    let drivers = crate::driver::Drivers::default();
    drivers.open(&how).unwrap()
}

/// `length` bytes of each `stride`, from byte `first` on.
fn view(first: u64, length: u64, stride: u64) -> View {
    let piece = Datatype::bytes(length).resized(0, stride as i64).unwrap();
    View::new(first, Datatype::bytes(1), piece, Representation::Native, true).unwrap()
}

fn memory(bytes: &mut [u8]) -> Memory {
    // SAFETY: the bytes outlive the calls of these tests.
    unsafe { Memory::new(bytes.as_mut_ptr(), Datatype::bytes(1), bytes.len() as u64) }
}

fn write(driver: &dyn Driver, view: &View, bytes: &mut [u8]) {
    let (strategy, counters) = (Strategy::default(), Counters::default());
    let outcome = driver.write_strided(view, 0, &memory(bytes), &strategy, &counters);
    assert_eq!((outcome.bytes, outcome.result), (bytes.len() as u64, Ok(())));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_read_through_a_view_gives_the_newest_bytes_up_to_the_end_of_the_file(
        writes in prop::collection::vec(
            (0_u64..3000, 1_u64..300, 0_u64..9000, 1_usize..40), 1..6,
        ),
        first in 0_u64..3000, length in 1_u64..300, gap in 0_u64..9000, pieces in 1_u64..40,
        position in 0_u64..500, sieving in 0_usize..3, cut in prop::option::of(0_u64..100_000),
    ) {
        let scratch = Scratch::new();
        let driver = opened(&scratch);
        let mut model = Vec::new();
        for (number, (first, length, gap, pieces)) in writes.iter().enumerate() {
            let mut bytes: Vec<u8> =
                (0..*length as usize * pieces).map(|n| (n * 7 + number * 31 + 1) as u8).collect();
            write(&*driver, &view(*first, *length, length + gap), &mut bytes);
            for (k, piece) in bytes.chunks(*length as usize).enumerate() {
                let at = (first + (length + gap) * k as u64) as usize;
                model.resize(model.len().max(at + piece.len()), 0);
                model[at..at + piece.len()].copy_from_slice(piece);
            }
        }
        if let Some(size) = cut {
            driver.set_size(size).unwrap();
            model.resize(size as usize, 0);
        }
        let offset = |n: u64| first + (length + gap) * (n / length) + n % length;
        let offsets = (position..position + length * pieces).map(|n| offset(n) as usize);
        let expected: Vec<u8> =
            offsets.take_while(|at| *at < model.len()).map(|at| model[at]).collect();
        let mut found = vec![0xEE; (length * pieces) as usize];
        let read = [Switch::Automatic, Switch::Enable, Switch::Disable][sieving];
        let (strategy, counters) =
            (Strategy { read, ..Strategy::default() }, Counters::default());
        let view = view(first, length, length + gap);
        let outcome =
            driver.read_strided(&view, position, &memory(&mut found), &strategy, &counters);
        prop_assert_eq!((outcome.bytes, outcome.result), (expected.len() as u64, Ok(())));
        prop_assert_eq!(&found[..expected.len()], &expected[..]);
        prop_assert!(found[expected.len()..].iter().all(|byte| *byte == 0xEE));
        driver.close(Closing::Complete).unwrap();
    }
}

#[test]
fn pieces_far_apart_in_the_file_take_one_request_and_no_byte_between_them_is_read() {
    let scratch = Scratch::new();
    let driver = opened(&scratch);
    let view = view(5, 47_008, 1 << 20);
    let mut bytes: Vec<u8> = (0..20 * 47_008).map(|n| (n / 13) as u8).collect();
    write(&*driver, &view, &mut bytes);
    let mut found = vec![0; bytes.len()];
    let (strategy, counters) = (Strategy::default(), Counters::default());
    let outcome = driver.read_strided(&view, 0, &memory(&mut found), &strategy, &counters);
    assert_eq!((outcome.bytes, outcome.result), (bytes.len() as u64, Ok(())));
    assert!(found == bytes);
    assert_eq!(counters.reads_out.load(Relaxed), 1);
    assert_eq!(counters.bytes_read_out.load(Relaxed), bytes.len() as u64);
    driver.close(Closing::Complete).unwrap();
}

#[test]
fn requests_cost_what_they_cost_on_the_file_system_of_the_logs() {
    let scratch = Scratch::new();
    let driver = opened(&scratch);
    std::fs::write(scratch.file("plain"), b"").unwrap();
    let path = scratch.file("plain");
    let plain = open(&OpenHow { path, read: true, ..OpenHow::default() }).unwrap();
    assert_eq!(driver.facts().file_system, plain.facts().file_system);
    let [logs, file] = [&driver, &plain].map(|driver| driver.meter().unwrap());
    assert_eq!(logs.is_local(), file.is_local());
    let before = file.reads.figures();
    for _ in 0..100 {
        logs.reads.learn(4096, std::time::Duration::from_millis(3));
    }
    assert!(logs.reads.figures().is_slow(), "what is measured counts");
    assert_eq!(file.reads.figures(), before, "and only for containers");
    driver.close(Closing::Complete).unwrap();
}

#[test]
fn a_log_that_is_too_short_is_an_error_with_the_bytes_that_were_asked_for() {
    let scratch = Scratch::new();
    let driver = opened(&scratch);
    let view = view(0, 1000, 100_000);
    write(&*driver, &view, &mut vec![1; 5000]);
    let mut found = vec![0; 5000];
    let (strategy, counters) = (Strategy::default(), Counters::default());
    let outcome = driver.read_strided(&view, 0, &memory(&mut found), &strategy, &counters);
    assert_eq!((outcome.bytes, outcome.result), (5000, Ok(())));
    cut_logs(&scratch);
    let outcome = driver.read_strided(&view, 0, &memory(&mut found), &strategy, &counters);
    let error = outcome.result.unwrap_err();
    assert_eq!((outcome.bytes, error.errno()), (0, libc::EIO), "{error}");
    assert!(error.to_string().contains("the log ends before"), "{error}");
}

/// Cuts all logs off in their last piece.
fn cut_logs(scratch: &Scratch) {
    for entry in std::fs::read_dir(scratch.file("f")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let log = std::fs::File::options().write(true).open(path).unwrap();
            log.set_len(log.metadata().unwrap().len() - 10).unwrap();
        }
    }
}
