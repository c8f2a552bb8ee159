//! Jobs of any size, served in any way, killed anywhere.

use super::writers::{Kill, NOBODY, Records, Writers, engine, ordinary};
use super::{Mend, kill};
use aggio_tests::{Directory, factor};
use proptest::prelude::*;

/// How many jobs are killed.
const JOBS: u32 = 80;

/// The program of each job; `None` if there is no library to serve it.
fn writers(how: usize) -> Option<Writers> {
    match how {
        0 => Some(engine()),
        1 => ordinary("AGGIO_BLOB", ""),
        2 => ordinary("AGGIO_BLOB", ":nocrc"),
        3 => ordinary("AGGIO_POSIX", ":close"),
        4 => ordinary("AGGIO_POSIX", ":causal"),
        5 => ordinary("AGGIO_BLOB", ":close"),
        6 => ordinary("AGGIO_BLOB", ":nocrc:causal"),
        _ => ordinary("AGGIO_POSIX", ":posix"),
    }
}

/// Numbers of records and of their bytes.
fn records() -> impl Strategy<Value = Records> {
    let of_any_size = |most: u32| (0..=most).prop_flat_map(|bits| 1..=1_u64 << bits);
    (of_any_size(5), of_any_size(15)).prop_map(|(count, length)| Records { count, length })
}

/// A number among the calls that the whole job makes.
fn call(writers: &Writers, records: Records, part: f64) -> u64 {
    let whole = Directory::new();
    let said = writers.run(whole.path(), records, NOBODY);
    let calls: Option<u64> = said.split(' ').find_map(|word| word.parse().ok());
    1 + (calls.expect("a number of calls") as f64 * part) as u64
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: JOBS * factor() as u32,
        max_shrink_iters: 30,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_job_killed_anywhere_leaves_what_was_acknowledged(
        how in 0..8_usize,
        records in records(),
        part in 0.0..1.0,
        all: bool,
        repair: bool,
    ) {
        if let Some(writers) = writers(how) {
            let number = call(&writers, records, part);
            let mend = if repair { Mend::Repair } else { Mend::Recover };
            kill(&writers, records, Kill { number, all }, mend);
        }
    }
}
