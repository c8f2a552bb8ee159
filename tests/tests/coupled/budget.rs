//! Programs that exchange more bytes than fit in memory: the budget of a rule, and the spill
//! directory.

use aggio_tests::coupling::Coupling;
use aggio_tests::{Directory, SmallFileSystem, compile_plain, names_in, skip};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(20);

/// Bytes of a generation.
const SIZE: u64 = 1 << 20;

fn program() -> String {
    compile_plain("coupled.c", &[]).display().to_string()
}

fn write(generations: u32) -> String {
    format!("{} write plain ck.1 {generations} {SIZE}", program())
}

/// Reads `generations` generations, one process after the other, with pauses of `rest` seconds.
fn read_slowly(generations: u32, rest: f64) -> String {
    let read = format!("{} read plain ck.1 1 {SIZE}", program());
    format!("for i in $(seq {generations}); do {read} $i || exit; sleep {rest}; done")
}

fn generations(first: u32, last: u32) -> String {
    (first..=last).map(|number| format!("generation {number}: {SIZE} bytes\n")).collect()
}

fn rule(directory: &Path, full: &str) -> String {
    format!("ck.*:budget=2560K:full={full}:spill={}", directory.display())
}

fn status(coupling: &Coupling) -> Value {
    serde_json::from_str(&coupling.status()).unwrap_or_default()
}

fn number(status: &Value, key: &str) -> u64 {
    status[key].as_u64().unwrap_or_else(|| panic!("{key}: {status:#}"))
}

/// Waits until the status of the agent meets a condition.
#[track_caller]
fn until(coupling: &Coupling, what: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let now = status(coupling);
        if what(&now) {
            return now;
        }
        assert!(began.elapsed() < SOON, "{now:#}\n{}", coupling.log());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_exceeds_the_budget_is_in_the_directory_and_readers_get_all_of_it() {
    let place = Directory::new();
    let Some(coupling) = Coupling::of(&rule(place.path(), "wait")) else { return };
    coupling.run(&write(9));
    let now = status(&coupling);
    let (memory, moved) = (number(&now, "memory"), number(&now, "moved"));
    assert!(memory <= 5 * SIZE / 2 && moved >= 7 * SIZE && memory + moved >= 9 * SIZE, "{now:#}");
    assert!(names_in(place.path()).is_empty(), "its files have no names");
    let table = coupling.run("$AGGIO_TEST_AGENT couple --dir $AGGIO_COUPLE_DIR");
    assert!(table.contains(&place.path().display().to_string()), "{table}");
    assert!(table.contains("1.0 MiB in memory, 8.0 MiB in directories"), "{table}");
    assert_eq!(coupling.run(&read_slowly(9, 0.0)), generations(1, 9));
    assert_eq!(coupling.log(), "");
}

#[test]
fn descriptors_of_the_directory_are_followed_into_other_programs() {
    let place = Directory::new();
    let Some(coupling) = Coupling::of(&rule(place.path(), "wait")) else { return };
    coupling.run("for i in $(seq 9); do head -c 1000000 /dev/zero | tr '\\0' $i > ck.1; done");
    until(&coupling, |now| number(now, "moved") > 5_000_000);
    // The shell opens each generation, and another program reads it: the agent counts it as read
    // when that program ends.
    let reads = "for i in $(seq 9); do head -c 100000 < ck.1 | tail -c 1; done";
    assert_eq!(coupling.run(reads), "123456789");
}

#[test]
fn a_writer_waits_for_its_reader_when_the_directory_is_full_too() {
    let Some(small) = SmallFileSystem::mount_if_possible(2 * SIZE + SIZE / 2) else { return };
    let Some(coupling) = Coupling::of(&rule(small.path(), "wait")) else { return };
    let coupling = coupling.with_small(&small);
    let reader = coupling.start(&format!("exec 5< ck.0; sleep 1; {}", read_slowly(9, 0.05)));
    coupling.run("echo > ck.0");
    let mut writer = coupling.start(&write(9));
    let full = until(&coupling, |now| now["full"][0]["error"].is_string());
    assert_eq!(full["full"][0]["directory"], small.path().display().to_string());
    until(&coupling, |now| now["waits"].to_string().contains("is full: No space left"));
    assert!(writer.runs());
    assert_eq!(reader.succeeds(), generations(1, 9));
    writer.succeeds();
    let log = coupling.log();
    let line = format!("cannot move to {}: No space left", small.path().display());
    assert!(log.contains(&line) && log.contains("writers wait"), "{log}");
    let now = until(&coupling, |now| number(now, "moved") <= SIZE);
    assert!(number(&now, "peak") <= 5 * SIZE / 2, "{now:#}");
}

#[test]
fn the_oldest_goes_unread_when_the_directory_is_full_if_the_rule_says_so() {
    let Some(small) = SmallFileSystem::mount_if_possible(2 * SIZE + SIZE / 2) else { return };
    let Some(coupling) = Coupling::of(&rule(small.path(), "drop")) else { return };
    let coupling = coupling.with_small(&small);
    coupling.run(&write(9));
    let log = coupling.log();
    assert!(log.contains("the oldest ones that nobody has read are given up"), "{log}");
    assert!(log.contains("generation 1 was given up unread"), "{log}");
    let numbers: Vec<u64> = status(&coupling)["files"][0]["generations"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["number"].as_u64())
        .collect();
    assert!(numbers.len() >= 4 && numbers.len() < 9 && numbers.ends_with(&[9]), "{numbers:?}");
    for number in numbers {
        let read = format!("{} read plain ck.1 1 {SIZE} {number}", program());
        assert_eq!(coupling.run(&read), format!("generation {number}: {SIZE} bytes\n"));
    }
}

#[test]
fn a_writer_fails_if_the_directory_is_full_and_nobody_is_there_who_reads() {
    let Some(small) = SmallFileSystem::mount_if_possible(2 * SIZE + SIZE / 2) else { return };
    let Some(coupling) = Coupling::of(&rule(small.path(), "wait")) else { return };
    let coupling = coupling.with_small(&small);
    let ended = coupling.start(&write(9)).ends_within(SOON);
    assert!(!ended.status.success() && ended.stderr.contains("No space left"), "{ended:?}");
    assert!(ended.stderr.contains(&format!("{} takes no more", small.path().display())));
    // The generations written before are complete.
    assert_eq!(coupling.run(&read_slowly(4, 0.0)), generations(1, 4));
}

#[test]
fn a_directory_that_cannot_be_used_is_an_error_of_the_first_writer() {
    let place = Directory::new();
    let path = |name: &str| place.path().join(name);
    std::fs::write(path("file"), "").expect("a file");
    std::fs::create_dir(path("real")).expect("a directory");
    std::os::unix::fs::symlink("real", path("link")).expect("a link");
    std::fs::create_dir(path("theirs")).expect("a directory");
    let mut bad = vec![("missing", "No such file"), ("file", "Not a dir"), ("link", "Not a dir")];
    if std::os::unix::fs::chown(path("theirs"), Some(1234), None).is_ok() {
        bad.push(("theirs", "it belongs to user 1234"));
    } else {
        skip("only root can give a directory away");
    }
    for (name, why) in bad {
        let Some(coupling) = Coupling::of(&rule(&path(name), "wait")) else { return };
        let ended = coupling.start("echo text > ck.1").ends_within(SOON);
        assert!(!ended.status.success(), "{name}: {ended:?}");
        let named = ended.stderr.contains(&path(name).display().to_string());
        assert!(named && ended.stderr.contains(why), "{name}: {ended:?}");
        assert!(coupling.on_disk().is_empty(), "nothing came onto the disk instead");
    }
}

#[test]
fn nothing_is_left_in_the_directory_whoever_is_killed() {
    let Some(small) = SmallFileSystem::mount_if_possible(64 * SIZE) else { return };
    let free = small.free();
    for round in 0..12 {
        let Some(coupling) = Coupling::of(&rule(small.path(), "wait")) else { return };
        let coupling = coupling.with_small(&small);
        let mut writer = coupling.start(&write(40));
        let mut reader = coupling.start(&read_slowly(40, 0.01));
        until(&coupling, |now| now["moved"].as_u64().is_some_and(|moved| moved > 0));
        std::thread::sleep(Duration::from_millis(7 * round));
        match round % 3 {
            0 => coupling.kill_agent(),
            1 => writer.kill(),
            _ => {
                writer.kill();
                coupling.kill_agent();
            }
        }
        let _ = writer.ends_within(SOON);
        // The reader may wait for another writer.
        reader.kill();
        let _ = reader.ends_within(SOON);
        drop(coupling);
        assert!(names_in(&small.seen()).is_empty());
        let began = Instant::now();
        while small.free() < free {
            assert!(began.elapsed() < SOON, "round {round}: {} of {free}", small.free());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Checks the memory in use while a writer is ten times as fast as its reader.
fn measured(rule: &str) {
    let Some(coupling) = Coupling::of(rule) else { return };
    let reader = coupling.start(&read_slowly(25, 0.05));
    let mut writer = coupling.start(&write(25));
    let (mut most, mut waited) = (0, false);
    while writer.runs() {
        let now = status(&coupling);
        most = most.max(now["memory"].as_u64().unwrap_or(0));
        waited |= now["waits"].to_string().contains("for memory");
        std::thread::sleep(Duration::from_millis(1));
    }
    writer.succeeds();
    assert_eq!(reader.succeeds(), generations(1, 25), "nothing is lost");
    let now = status(&coupling);
    assert!(waited || now["full"].is_null() || rule.contains("spill"), "the writer is faster");
    let peak = number(&now, "peak");
    assert!(most > SIZE && most <= peak && peak <= 5 * SIZE / 2, "{most} {peak}");
}

#[test]
fn memory_is_within_the_budget_while_a_writer_is_faster_than_its_reader() {
    measured("ck.*:budget=2560K:full=wait");
    let place = Directory::new();
    measured(&rule(place.path(), "wait"));
}
