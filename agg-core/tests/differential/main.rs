//! Random programs on one file, threads as ranks, against a single-threaded oracle that computes
//! every byte.
//!
//! `AGGIO_DIFF_CASES` sets the number of cases. A failing case is shrunk and shown as a program.

mod choices;
mod oracle;
mod program;
mod run;
mod store;
mod types;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use store::Store;

const CASES: u32 = 2000;

#[test]
fn random_programs_do_what_the_oracle_says() {
    check(CASES, Store::Ordinary);
}

#[test]
fn random_programs_on_a_blob_container_do_what_the_oracle_says() {
    check(CASES / 4, Store::Container);
}

#[test]
fn random_programs_do_the_same_if_their_writes_wait_until_somebody_asks() {
    check(CASES / 2, Store::Deferred);
}

#[test]
fn random_programs_whose_writes_are_staged_do_the_same() {
    check(CASES / 8, Store::Staged);
}

#[test]
fn so_do_programs_whose_writes_are_staged_in_memory() {
    check(CASES / 8, Store::InMemory);
}

fn check(cases: u32, store: Store) {
    let asked: Option<u32> =
        std::env::var("AGGIO_DIFF_CASES").ok().and_then(|text| text.parse().ok());
    let config = Config {
        cases: match (asked, store) {
            (None, _) => cases,
            (Some(asked), Store::Staged | Store::InMemory) => asked / 2,
            (Some(asked), _) => asked / (CASES / cases),
        },
        failure_persistence: None,
        max_shrink_iters: 4000,
        max_shrink_time: 300_000,
        ..Config::default()
    };
    let numbers = |n| prop::collection::vec(any::<u16>(), 0..n);
    let strategy = (numbers(24), prop::collection::vec(numbers(120), 1..8));
    let outcome = TestRunner::new(config).run(&strategy, |(frame, steps)| {
        let program = store.suit(program::decode(&frame, &steps));
        let result = run::run(&program, store);
        result.map_err(|text| TestCaseError::fail(format!("{text}\n{program:?}")))
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
