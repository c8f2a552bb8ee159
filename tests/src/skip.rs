//! Tests that cannot run here.
//!
//! Rust's test harness has no way to skip a test while it runs: such a test counts as passed. Here
//! it prints a message past the harness, which captures the output of passed tests, and at its end
//! the process prints how many there were. Where tests are [required], it fails.

use crate::required;
use std::io::Write;
use std::sync::Mutex;

/// The tests skipped in this process, with the reasons.
static SKIPPED: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Says that the test that calls this, or the part of it that follows, cannot run, and why; the
/// caller returns.
///
/// # Panics
///
/// If the tests are required to run (`AGGIO_TESTS=require`).
#[track_caller]
pub fn skip(why: &str) {
    assert!(!required(), "skipped, and AGGIO_TESTS=require: {why}");
    note(why);
}

fn note(why: &str) {
    let test = std::thread::current().name().unwrap_or("a thread").to_owned();
    say(&format!("skipped: {test}: {why}"));
    let mut skipped = SKIPPED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if skipped.is_empty() {
        // SAFETY: the function lives as long as the process.
        unsafe { libc::atexit(tell) };
    }
    skipped.push((test, why.to_owned()));
}

/// The same of a test that takes so long that it is run in `make check-long` only: there is no
/// failure if tests are required to run.
pub fn postpone(why: &str) {
    assert!(crate::factor() == 1, "postponed in make check-long: {why}");
    note(why);
}

/// The same for a test with needs that few machines meet, even those set up for tests: there is no
/// failure if tests are required to run.
pub(crate) fn not_here(why: &str) {
    note(why);
}

/// At the end of the process.
extern "C" fn tell() {
    let skipped = SKIPPED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut tests: Vec<&str> = skipped.iter().map(|(test, _)| test.as_str()).collect();
    tests.sort_unstable();
    tests.dedup();
    say(&format!(
        "{} skipped, which the harness counts as passed: {}",
        tests.len(),
        tests.join(", ")
    ));
}

/// Not by `eprintln!`, which the harness catches.
fn say(line: &str) {
    // Without standard error there is no place for the message.
    let _ = writeln!(std::io::stderr(), "{line}");
}
