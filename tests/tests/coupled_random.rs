//! Random programs of several hosts write a coupled file, and others read it: all find what the
//! program says. See `tests/programs/coupled_oracle.c`.

use aggio_tests::hosts::{CoupledHosts, LATE, Plan, end};
use aggio_tests::{Mpi, compile, factor, installed};
use std::path::Path;
use std::time::Duration;

const AGENT: &str = env!("CARGO_BIN_EXE_aggio-test-host");

/// Programs of each layout of hosts; `AGGIO_TEST_RANDOM` says how many, and `AGGIO_TEST_SEED` which
/// is the first.
fn programs(first: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    let count = number("AGGIO_TEST_RANDOM").unwrap_or(8 * factor() as u64);
    let first = number("AGGIO_TEST_SEED").unwrap_or(first);
    first..first + count
}

/// One program: the jobs of the first hosts write, those of the others read.
#[track_caller]
fn is_right(
    place: &CoupledHosts,
    seed: u64,
    bytes: u64,
    (one, other): (&Mpi, &Mpi),
    hosts: [u32; 2],
) {
    let [writers, readers] = hosts;
    let what =
        format!("seed {seed}, {bytes} bytes, {hosts:?} hosts, {} -> {}", one.name, other.name);
    // Files that end in `.sync` are read while they are written.
    let ending = if seed % 4 == 3 { "sync" } else { "dat" };
    let (file, seed) = (place.file(&format!("random{seed}.{ending}")), seed.to_string());
    let (bytes, ranks) = (bytes.to_string(), writers.to_string());
    let start = |mpi: &Mpi, what: &str, first, last| {
        let program = compile("coupled_oracle.c", mpi);
        let words = [what, &file[..], &seed, "4", &bytes, &ranks];
        place.spread(mpi, (first, last), &program, &words).spawn().expect("mpirun")
    };
    let writes = start(one, "write", 1, writers);
    let reads = start(other, "read", writers + 1, writers + readers);
    let wrote = place.succeeds(&what, writes);
    let read = place.succeeds(&what, reads);
    assert!(wrote.contains("right") && read.contains("right"), "{what}: {wrote}{read}");
}

/// Programs of so many hosts that write, and that read, of files of so many bytes at most.
#[track_caller]
fn are_right(hosts: [u32; 2], bytes: u64, first: u64) {
    let Some(place) = CoupledHosts::new(Plan::new(hosts[0] + hosts[1], 1), Path::new(AGENT)) else {
        return;
    };
    let all = installed();
    let pairs: Vec<(&Mpi, &Mpi)> =
        all.iter().flat_map(|one| all.iter().map(move |other| (one, other))).collect();
    for (seed, pair) in programs(first).zip(pairs.iter().cycle()) {
        is_right(&place, seed, bytes, *pair, hosts);
    }
    place.leaves_nothing();
}

#[test]
fn two_hosts_write_random_programs_for_one() {
    are_right([2, 1], 200_000, 1000);
}

#[test]
fn three_hosts_write_random_programs_for_two() {
    are_right([3, 2], 3_000_000, 2000);
}

#[test]
fn five_hosts_write_random_programs_for_one() {
    are_right([5, 1], 20_000, 3000);
}

#[test]
fn one_host_writes_random_programs_for_three() {
    are_right([1, 3], 1_000_000, 4000);
}

/// A process that is killed on some host at some moment: an agent, or all ranks of the host.
fn kill(place: &CoupledHosts, seed: u64) {
    let hosts = u64::from(HOSTS[0] + HOSTS[1]);
    let host = format!("node{}", 1 + seed % hosts);
    let is_agent = !(seed / hosts).is_multiple_of(3);
    let victim = if is_agent { "agent --foregroun[d]" } else { "coupled_oracl[e]" };
    std::thread::sleep(Duration::from_millis(1200 + seed * 7919 % 1500));
    // It may have ended.
    let command = format!("pkill -KILL -f '{victim}' || true");
    place.cluster.output(&host, &["sh", "-c", &command]);
}

/// Hosts that write and read when something dies.
const HOSTS: [u32; 2] = [2, 2];

#[test]
fn whoever_dies_no_host_reads_wrong_bytes_or_waits_for_ever_and_the_next_job_is_right() {
    let plan = Plan::new(HOSTS[0] + HOSTS[1], 1);
    let Some(place) = CoupledHosts::new(plan, Path::new(AGENT)) else { return };
    let all = installed();
    for (seed, mpi) in programs(5000).zip(all.iter().cycle()) {
        let program = compile("coupled_oracle.c", mpi);
        let file = place.file(&format!("dies{seed}.dat"));
        let start = |what, first, last| {
            let words = [what, &file[..], &seed.to_string(), "100", "500000", "2"];
            place.spread(mpi, (first, last), &program, &words).spawn().expect("mpirun")
        };
        let owned = place.owned();
        let writes = start("write", 1, 2);
        // Readers that come after the death of an agent wait for another writer.
        place.wait_for_more_than(owned);
        let jobs = [writes, start("read", 3, 4)];
        kill(&place, seed);
        for job in jobs {
            let (_, text) = end(job);
            let is_right = !text.contains(", not ") && !text.contains(LATE);
            assert!(is_right, "seed {seed}, {}: {text}\n{}", mpi.name, place.logs());
        }
        is_right(&place, seed, 20_000, (mpi, mpi), HOSTS);
    }
}
