//! Tests wait for what they need, not for a time: a sleep is too short on a slow machine, and too
//! long on all others.

use super::{none, root, sources};

/// The shortest sleep that counts, in milliseconds.
const SHORTEST: u64 = 100;

/// Files with the number of their sleeps, for which time itself is the subject. The list may only
/// become shorter.
const SLEEPS: &[(&str, usize)] = &[
    // A file that has changed within two seconds is not cached; a rank that is late must find bytes
    // that another one has read.
    ("agg-core/engine/src/file/tests/data.rs", 1),
    ("agg-core/engine/src/file/tests/small.rs", 2),
    // An agent that is stopped, and one that is slow to answer.
    ("tests/tests/coupled/deaths.rs", 1),
    // A link that is down for 10 s; an agent that is stopped for 5 s.
    ("tests/tests/coupled/nodes.rs", 2),
    // Outages of random lengths, and of a length at which nodes give each other up.
    ("tests/tests/coupled/random.rs", 3),
    // A file that has changed within two seconds is not cached.
    ("tests/slowfs/tests/slowfs/requests.rs", 1),
    ("tests/tests/formats/hdf5_chunks.rs", 1),
    ("tests/tests/formats/hdf5_filters.rs", 1),
    // The client of GlusterFS keeps names and bytes for a second.
    ("tests/tests/mpi/stale.rs", 1),
];

/// Whether a line sleeps for a fixed time that counts, or for seconds.
fn is_long_sleep(line: &str) -> bool {
    let Some((_, how)) = line.split_once("thread::sleep(") else { return false };
    let number = |unit: &str| {
        let (_, rest) = how.split_once(unit)?;
        let digits: String = rest.chars().filter(|c| *c != '_').collect();
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
    };
    number("from_millis(").is_some_and(|time| time >= SHORTEST) || how.contains("from_secs")
}

/// The files with more sleeps than they are known to have.
fn sleepers(files: &[(String, String)], known: &[(&str, usize)]) -> Vec<String> {
    let is_of_tests = |name: &str| name.contains("/tests/") || name.ends_with("tests.rs");
    let count = |(name, text): &(String, String)| {
        let sleeps = text.lines().filter(|line| is_long_sleep(line)).count();
        let most = known.iter().find(|known| known.0 == name).map_or(0, |known| known.1);
        (is_of_tests(name) && sleeps > most).then(|| format!("{name} sleeps {sleeps} times"))
    };
    files.iter().filter_map(count).collect()
}

#[test]
fn tests_do_not_sleep_for_a_fixed_time() {
    none(sleepers(&sources(&root()), SLEEPS));
}

#[test]
fn a_planted_sleep_is_found() {
    let sleep = |time| format!("    std::thread::sleep(Duration::{time});\n");
    let text = [
        sleep("from_millis(99)"),
        sleep("from_millis(1_000)"),
        sleep("from_secs(2)"),
        sleep("from_millis(2 * 60)"),
    ]
    .concat();
    let files = [("tests/tests/a.rs".to_owned(), text.clone()), ("a/src/b.rs".to_owned(), text)];
    assert_eq!(sleepers(&files, &[]), ["tests/tests/a.rs sleeps 2 times"]);
    assert_eq!(sleepers(&files, &[("tests/tests/a.rs", 2)]), [] as [&str; 0]);
}
