//! Random programs on several nodes against an oracle: the agents, their protocol and the framing
//! of their messages are real; the network is in memory, and the clients are small ones.
//!
//! `AGGIO_TEST_RANDOM` sets the number of programs, `AGGIO_TEST_SEED` the first one.

mod chance;
mod group;
mod model;
mod network;
mod open_file;
mod plan;
mod program;
mod reader;
mod records;
mod rest_tests;
mod world;
mod writer;

use crate::tests::apart;

/// Prints the seed of a program that fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let seed = self.0;
            eprintln!("seed {seed}: AGGIO_TEST_SEED={seed} AGGIO_TEST_RANDOM=1 repeats it");
        }
    }
}

#[test]
fn random_programs_on_several_nodes_agree_with_the_oracle() {
    let path = "agent::simulation::random_programs_on_several_nodes_agree_with_the_oracle";
    apart::alone(path, run_programs);
}

fn run_programs() {
    apart::begin();
    // SAFETY: the disposition of one signal changes as it does in an agent; no handler is
    // installed.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    let many = if number("AGGIO_TEST_FACTOR").unwrap_or(1) > 1 { 10_000 } else { 100 };
    let first = number("AGGIO_TEST_SEED").unwrap_or(1);
    for seed in first..first + number("AGGIO_TEST_RANDOM").unwrap_or(many) {
        let _seed = Seed(seed);
        plan::run(seed);
    }
}
