//! Random programs on one file, threads as ranks, against a single-threaded oracle that knows
//! every byte.
//!
//! `AGGIO_DIFF_CASES` sets the number of cases. A failing case is shrunk and shown as a program.

mod choices;
mod oracle;
mod program;
mod run;
mod types;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const CASES: u32 = 2000;

#[test]
fn random_programs_do_what_the_oracle_says() {
    let cases = std::env::var("AGGIO_DIFF_CASES").ok().and_then(|n| n.parse().ok());
    let config = Config {
        cases: cases.unwrap_or(CASES),
        failure_persistence: None,
        max_shrink_iters: 4000,
        max_shrink_time: 300_000,
        ..Config::default()
    };
    let numbers = |n| prop::collection::vec(any::<u16>(), 0..n);
    let strategy = (numbers(24), prop::collection::vec(numbers(120), 1..8));
    let outcome = TestRunner::new(config).run(&strategy, |(frame, steps)| {
        let program = program::decode(&frame, &steps);
        run::run(&program).map_err(|text| TestCaseError::fail(format!("{text}\n{program:?}")))
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
