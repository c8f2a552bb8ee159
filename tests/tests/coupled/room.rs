//! Nodes that keep the bytes of their programs stay within the budget.

use aggio_tests::hosts::{CoupledHosts, Plan};
use aggio_tests::{Directory, Mpi, compile, installed};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

const AGENT: &str = env!("CARGO_BIN_EXE_aggio-test-host");

/// Generations that two hosts write, and the size of each in KiB: 4 MiB a host.
const GENERATIONS: u64 = 6;
const KIBIBYTES: &str = "8192";

/// Memory that a generation may have beyond its bytes, for pages that are partly used.
const SLACK: u64 = 2 << 20;

/// Starts a job that writes or reads all generations under a rule, in parts that are `even` or not.
fn job(
    place: &CoupledHosts,
    mpi: &Mpi,
    what: &str,
    hosts: (u32, u32),
    (even, rule): (bool, &str),
) -> Child {
    let (program, file) = (compile("coupled_parts.c", mpi), place.file("room.dat"));
    let layout = if even { "contiguous" } else { "uneven" };
    let words = [what, layout, "random", &file, &GENERATIONS.to_string(), KIBIBYTES];
    let mut command = place.spread(mpi, hosts, &program, &words);
    command.env("AGGIO_COUPLE", rule).spawn().expect("mpirun")
}

/// Returns the peak memory of generations on either of the first two hosts until `is_over`.
fn most(place: &CoupledHosts, mut is_over: impl FnMut() -> bool) -> u64 {
    let mut most = 0;
    while !is_over() {
        for host in ["node1", "node2"] {
            let memory = place.status(host, "memory") + place.status(host, "kept");
            most = most.max(memory);
        }
    }
    most
}

fn has_ended(child: &mut Child) -> bool {
    child.try_wait().expect("it can be waited for").is_some()
}

/// Checks that a writing job on two hosts waits for its reader when a host has no room for more
/// than two generations, because each generation begins as a copy of the one before.
#[track_caller]
fn waits_for_readers(even: bool, mebibytes: u64) {
    let Some(place) = CoupledHosts::new(Plan::new(3, 1), Path::new(AGENT)) else { return };
    let rule = format!("*.dat:budget={mebibytes}M");
    let (rule, limit) = ((even, &rule[..]), (mebibytes << 20) + SLACK);
    for mpi in installed() {
        let mut writes = job(&place, &mpi, "write", (1, 2), rule);
        place.until_waiting(1);
        let began = Instant::now();
        let waited = most(&place, || has_ended(&mut writes) || began.elapsed() > WAITS);
        assert!(!has_ended(&mut writes), "{}: it does not wait for its readers", mpi.name);
        let mut reads = job(&place, &mpi, "read", (3, 3), rule);
        let used = most(&place, || has_ended(&mut reads));
        let what = format!("budget, {}", mpi.name);
        place.succeeds(&what, writes);
        let text = place.succeeds(&what, reads);
        for used in [waited, used] {
            assert!(0 < used && used <= limit, "{what}: {used} bytes on one host");
        }
        assert!(text.contains(&format!("generation {GENERATIONS}: right")), "{what}: {text}");
        place.leaves_nothing();
    }
}

#[test]
fn a_writer_of_two_hosts_waits_for_readers_when_both_have_no_room_left() {
    waits_for_readers(true, 10);
}

#[test]
fn a_writer_of_two_hosts_waits_for_readers_when_one_has_no_room_left() {
    waits_for_readers(false, 18);
}

/// How long the test checks that a writer keeps waiting for its readers.
const WAITS: Duration = Duration::from_secs(3);

#[test]
fn generations_of_two_hosts_move_to_the_directory_of_the_rule_on_both() {
    let Some(place) = CoupledHosts::new(Plan::new(3, 1), Path::new(AGENT)) else { return };
    let spill = Directory::new();
    let rule = format!("*.dat:budget=10M:spill={}", spill.path().display());
    let rule = (true, &rule[..]);
    for mpi in installed() {
        let mut writes = job(&place, &mpi, "write", (1, 2), rule);
        let used = most(&place, || has_ended(&mut writes));
        let what = format!("spill, {}", mpi.name);
        place.succeeds(&what, writes);
        assert!(0 < used && used <= (10 << 20) + SLACK, "{what}: {used} bytes on one host");
        let reads = job(&place, &mpi, "read", (3, 3), rule);
        let text = place.succeeds(&what, reads);
        for generation in 1..=GENERATIONS {
            let line = format!("generation {generation}: right");
            assert!(text.contains(&line), "{what}: {text}");
        }
        place.leaves_nothing();
    }
}
