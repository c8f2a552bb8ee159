//! Random pairs of programs exchange a file in memory, with random extents, calls, orders of calls,
//! ways to begin a generation, keys of the rule, and order of start. Each byte that a reader gets
//! is compared with the bytes that the writer's calls would have left in a file.
//!
//! 15 pairs; 500 with `AGGIO_TEST_FACTOR` above 1 (`make check-long`). `AGGIO_TEST_PAIRS` sets the
//! number. A failure prints its seed; set `AGGIO_TEST_SEED` to it to repeat the pair.

use aggio_tests::coupling::Coupling;
use aggio_tests::{compile_plain, factor, library, told};
use std::time::{Duration, Instant, SystemTime};

/// Returns a number below `limit` that is derived from `seed`, independently for each `what`.
fn choice(seed: u64, what: u64, limit: u64) -> u64 {
    let mut word = seed.wrapping_mul(31).wrapping_add(what).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) % limit.max(1)
}

/// Returns a rule, and the generations that a reader gets under it.
fn rule(seed: u64) -> (String, &'static str) {
    let (keys, how) = [
        ("", "next"),
        ("", "next"),
        (":gen=latest", "latest"),
        (":keep=2", "late"),
        (":keep=9", "next"),
    ][choice(seed, 1, 5) as usize];
    let persist = ["", ":persist=yes", ":persist=after", ":persist=no"];
    (format!("out{keys}{}", persist[choice(seed, 2, 4) as usize]), how)
}

fn pair(seed: u64) {
    let (rule, how) = rule(seed);
    let generations = 1 + choice(seed, 3, 6);
    let largest = [500, 60_000, 300_000, 5_000_000][choice(seed, 4, 4) as usize];
    let reader_first = choice(seed, 5, 2) == 0;
    let work = format!("out {seed} {generations} {largest}");
    println!("seed {seed}: AGGIO_COUPLE={rule}, {work}, {how}, reader first: {reader_first}");
    let Some(coupling) = Coupling::of(&rule) else { return };
    let program = compile_plain("coupled_random.c", &[]).display().to_string();
    let writer = format!("exec {program} write {work}");
    let reader = format!("exec {program} read {work} {how}");
    let (first, second) = if reader_first { (&reader, &writer) } else { (&writer, &reader) };
    let first = coupling.start(first);
    std::thread::sleep(Duration::from_millis(choice(seed, 6, 60)));
    let second = coupling.start(second);
    let (first, second) = (first.succeeds(), second.succeeds());
    let read = if reader_first { first } else { second };
    assert_eq!(read.lines().last(), Some(&*generations.to_string()), "{read}");
    ends_with_what_the_rule_says(&coupling, &rule, &format!("{program} bytes {work}"));
}

/// Ends the agent, and checks that only a generation that the rule stores is on disk: the last.
fn ends_with_what_the_rule_says(coupling: &Coupling, rule: &str, compare: &str) {
    let began = Instant::now();
    while !coupling.processes("", "").is_empty() {
        coupling.end_agent();
        let left = coupling.processes("", "");
        assert!(began.elapsed() < Duration::from_secs(10), "left: {left:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    if rule.contains("persist=yes") || rule.contains("persist=after") {
        assert_eq!(coupling.on_disk(), ["out"]);
        let mut shell = std::process::Command::new("/bin/sh");
        let status = shell.args(["-c", compare]).current_dir(coupling.path()).status();
        let status = status.expect("a shell");
        assert!(status.success(), "the file on disk: {status}");
    } else {
        assert_eq!(coupling.on_disk(), [] as [&str; 0]);
    }
}

#[test]
fn random_pairs_exchange_every_byte() {
    if library().is_none() {
        return;
    }
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    let count = number("AGGIO_TEST_PAIRS").unwrap_or(if factor() > 1 { 500 } else { 15 });
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seed = number("AGGIO_TEST_SEED").unwrap_or(now.as_millis() as u64);
    let began = Instant::now();
    (0..count).for_each(|index| pair(seed + index));
    told("random pairs", "programs that exchange a file", count as usize, began);
}
